//! Secrets planted on members and in what is imported: none is in a log, the audit log, a figure, a list or a refusal of `muster up`.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::io::Write;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::{Compression, write::GzEncoder};
use muster_tests::peer::{free_port, peers_folder};
use muster_tests_up::{Other, Up, request, until};
use serde_json::json;

const VALUE: &str = "canary-of-a-secret-value";
const HELM: &str = "canary-of-helm-values";
const REFUSED: &str = "canary-of-a-refused-kubeconfig";

/// What Helm keeps of a release: the values are in it.
fn release() -> String {
    let release = json!({"name": "till", "version": 1, "config": {"password": HELM}, "info": {"status": "deployed"},
        "chart": {"metadata": {"name": "till", "version": "1.0.0"}, "values": {"password": HELM}}, "manifest": HELM});
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(release.to_string().as_bytes()).unwrap();
    let data = BASE64_STANDARD.encode(BASE64_STANDARD.encode(gzip.finish().unwrap()));
    let labels = json!({"owner": "helm", "name": "till", "status": "deployed", "version": "1"});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sh.helm.release.v1.till.v1", "namespace": "default", "labels": labels},
        "type": "helm.sh/release.v1", "data": {"release": data}})
    .to_string()
}

#[test]
fn no_planted_secret_is_found_where_it_must_not_be() {
    // B-17
    let metrics = free_port();
    let up = Up::start(&["--v=4", &format!("--set=managers.*.metricsBindAddress=127.0.0.1:{metrics}")]);
    let other = Other::start(up.folder());
    let kubectl_on = |kubeconfig: &str, words: &[&str], input: &str| {
        let file = up.folder().join("input");
        fs::write(&file, input).unwrap();
        let mut kubectl = Command::new(peers_folder().unwrap().join("kubectl"));
        kubectl.arg("--kubeconfig").arg(kubeconfig).args(words).env("HOME", up.folder());
        let ended = kubectl.stdin(fs::File::open(&file).unwrap()).output().unwrap();
        assert!(ended.status.success(), "{words:?}: {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let kubectl = |words: &[&str], input: &str| kubectl_on(&other.kubeconfig, words, input);
    kubectl(&["create", "secret", "generic", "planted", &format!("--from-literal=password={VALUE}")], "");
    kubectl(&["apply", "-f", "-"], &release());
    // The second member is the meta API itself, which knows tokens and holds the first one's credentials.
    let admin = up.data().join("admin.kubeconfig").display().to_string();
    kubectl_on(&admin, &["create", "serviceaccount", "muster"], "");
    let bind =
        ["create", "clusterrolebinding", "muster", "--clusterrole=cluster-admin", "--serviceaccount=default:muster"];
    kubectl_on(&admin, &bind, "");
    let token = kubectl_on(&admin, &["create", "token", "muster"], "").trim().to_owned();

    // By a kubeconfig and by a token; and one that is refused.
    up.ok(&format!("cluster import keyed --kubeconfig {} --wait", other.kubeconfig));
    let kubeconfig = fs::read_to_string(&other.kubeconfig).unwrap();
    let after_in = |text: &str, key: &str| {
        let rest = text.split(key).nth(1).unwrap_or_else(|| panic!("no {key} in {text}"));
        rest.trim_start_matches([':', ' ', '"', '\n']).split(['"', '\n', ',', '}']).next().unwrap().to_owned()
    };
    let after = |key: &str| after_in(&kubeconfig, key);
    let authority = after_in(&fs::read_to_string(&admin).unwrap(), "certificate-authority-data");
    let authority = BASE64_STANDARD.decode(authority).unwrap();
    let (ca, token_file) = (up.folder().join("ca.crt"), up.folder().join("member-token"));
    fs::write(&ca, authority).unwrap();
    fs::write(&token_file, &token).unwrap();
    let server = format!("https://127.0.0.1:{}", up.secure_port);
    up.ok(&format!(
        "cluster import tokened --server-url {server} --ca {} --service-account-token {} --wait",
        ca.display(),
        token_file.display()
    ));
    let refused = kubeconfig.replace("client-key-data", "password").replace(&after("client-key-data"), REFUSED);
    let import = ["cluster", "import", "evil", "--kubeconfig", "-"];
    let (code, out, err) = up.fed(&import, &refused);
    assert!(code == 1 && !format!("{out}{err}").contains(REFUSED), "{code} {out}{err}");
    let (_, out, err) = up.fed(&[&import[..], &["--dry-run"]].concat(), &refused);
    assert!(!format!("{out}{err}").contains(REFUSED), "{out}{err}");

    let key = String::from_utf8(BASE64_STANDARD.decode(after("client-key-data")).unwrap()).unwrap();
    let line = key.lines().find(|line| line.len() > 40 && !line.starts_with('-')).unwrap().to_owned();
    let mut canaries = vec![after("client-key-data"), line, token];
    for plain in [VALUE, HELM, REFUSED] {
        canaries.extend([plain.to_owned(), BASE64_STANDARD.encode(plain)]);
    }
    let search = |place: &str, text: &str| {
        for canary in &canaries {
            assert!(!text.contains(canary.as_str()), "{} is in {place}", &canary[..canary.len().min(40)]);
        }
    };

    // Everything that shows something of them without being asked for the secret itself.
    until("the release is seen", || up.seen("releases till --cluster keyed").contains("till"));
    for path in [
        "/api/cluster/all",
        "/api/cluster/keyed",
        "/api/cluster/all/appPod/all/helm",
        "/api/cluster/all/appPod/till/helm",
        "/api/cluster/all/resources/core/v1/secrets?pageSize=500",
        "/api/cluster/all/resources/core/v1/secrets?q=planted",
        "/api/cluster/all/resources/core/v1/secrets?filter=data.password%20eq%20'x'",
        "/api/cluster/all/resources/core/v1/secrets?sort=data.password&fields=name,data",
        "/api/cluster/meta/resources/core/v1/secrets?pageSize=500",
        "/apiext/v1/core/v1/secrets?pageSize=500",
        "/apis/zcloud.cn/v1/clusters",
        "/apis/zcloud.cn/v1/clusters/tokened/secrets",
        "/api/cluster/all/cleanups",
        "/wapi/v1/overview",
        "/wapi/v1/events",
        "/wapi/v1/search?q=planted",
        "/wapi/v1/audit?pageSize=500",
        "/wapi/v1/openapi.json",
    ] {
        let (code, answer) = up.rest("GET", path, "");
        assert!(matches!(code, 200 | 400), "{path}: {code} {answer}");
        search(path, &answer.to_string());
    }
    for line in ["cluster list -o yaml", "cluster get keyed -o yaml", "releases -o json", "events -o json"] {
        search(line, &up.ok(line));
    }
    // A write whose value is wrong is refused; whatever is said of it is said to who sent it alone.
    let path = "/api/cluster/keyed/resources/core/v1/namespaces/default/secrets/planted";
    let wrong = format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"planted"}},"data":{{"password":["{VALUE}"]}}}}"#
    );
    assert!(up.rest("PUT", path, &wrong).0 >= 400);
    // Whoever asks for it has it: the canary is where it should be, so a search that finds nothing means something.
    let (_, answer) = up.rest("GET", &format!("{path}?raw=true"), "");
    assert!(answer.to_string().contains(&BASE64_STANDARD.encode(VALUE)), "{answer}");
    let (_, answer) = up.rest("POST", "/apis/zcloud.cn/v1/clusters/keyed?action=getkubeconfig&longLived=true", "");
    assert!(answer["kubeconfig"].as_str().is_some_and(|text| text.contains(&after("client-key-data"))));

    let (code, figures) = request(metrics, "GET", "/metrics", &[], "");
    assert!(code == 200 && figures.contains("muster_members"), "{figures}");
    search("the metrics", &figures);
    search("the log", &up.log());
    until("the audit log has it all", || {
        fs::read_to_string(up.data().join("audit/audit.log")).unwrap_or_default().contains("\"verb\":\"kubeconfig\"")
    });
    search("the audit log", &fs::read_to_string(up.data().join("audit/audit.log")).unwrap());
}
