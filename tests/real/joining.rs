//! Clusters join by kubeconfig and by the account that muster describes for them, and leave without a trace.
use std::collections::HashSet;
use std::fs;

use base64::{Engine, prelude::BASE64_STANDARD};
use muster_tests_up::until;

use crate::stage::{Stage, group, web};

// SYM-9, SC-10
pub fn by_kubeconfig(stage: &mut Stage) {
    stage.join(stage.cluster("one"));
    let row = &stage.get("/api/cluster/one")["items"][0];
    assert_eq!((row["state"].as_str(), row["simulated"].as_bool()), (Some("Running"), Some(false)), "{row}");
    assert!(row["version"].as_str().unwrap().starts_with("v1.34.") && row["labels"]["zone"] == "one", "{row}");
    until("its nodes are counted", || stage.get("/api/cluster/one")["items"][0]["nodesReady"] == 3);
    // What is given out again is a kubeconfig for the same cluster, of an account that may read there.
    let given = stage.up.folder().join("given.kubeconfig");
    stage.up.ok(&format!("cluster kubeconfig one --create-account read -f {}", given.display()));
    // Kubernetes knows the rights of a new account a moment later.
    let line = format!("--kubeconfig {} get nodes -o name", given.display());
    let nodes = || stage.cluster("one").kubectl(&line).unwrap_or_default();
    until("the nodes are listed with it", || nodes().lines().count() == 3);
    // It stays until somebody deletes it.
    stage.kubectl(
        "one",
        "delete clusterrolebinding/muster-kubeconfig clusterrole/muster-kubeconfig namespace/muster-system",
    );
}

/// Makes the account that muster describes.
fn account(stage: &Stage, cluster: &str, access: &str) {
    let (code, role) = stage.request("GET", &format!("/wapi/v1/member-role?access={access}"));
    assert_eq!(code, 200, "{role}");
    stage.apply(cluster, &role);
}

/// The flags that import a cluster by the token and the authority of its account.
fn by_token(stage: &Stage, cluster: &str) -> String {
    let secret = |field: &str| {
        let line = format!("-n muster-system get secret muster-token -o jsonpath={{.data.{field}}}");
        String::from_utf8(BASE64_STANDARD.decode(stage.kubectl(cluster, &line)).unwrap()).unwrap()
    };
    until("the account has its token", || !secret("token").is_empty());
    let token = stage.file(&format!("{cluster}.token"), &secret("token"));
    let authority = stage.file(&format!("{cluster}.crt"), &secret("ca\\.crt"));
    let port = stage.cluster(cluster).peer.port;
    format!(
        "--server-url https://127.0.0.1:{port} --ca {} --member-token-file {}",
        authority.display(),
        token.display()
    )
}

// MAE-7, SC-10
pub fn by_an_account_that_reads(stage: &mut Stage) {
    web(stage);
    for (cluster, access) in [("two", "operate"), ("three", "read")] {
        account(stage, cluster, access);
        let flags = by_token(stage, cluster);
        stage.up.ok(&format!("cluster import {cluster} {flags} --label zone={cluster} --wait"));
    }
    for cluster in ["two", "three"] {
        until("its pods are seen", || stage.running(&format!("web --cluster {cluster}")).len() == 3);
        until("its nodes are seen", || stage.get(&format!("/api/cluster/{cluster}"))["items"][0]["nodesReady"] == 3);
        assert_eq!(stage.get(&format!("/api/cluster/{cluster}"))["items"][0].get("error"), None);
    }
    // A reader changes nothing and sees no secret, and what is missing is told.
    for line in ["restart web --cluster three -n shop", "releases --cluster three"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (code, out, err) = stage.up.command(&words);
        assert!(code != 0 && err.contains("three") && err.contains("forbidden"), "{line}: {code} {out}{err}");
    }
    let generation = "-n shop get deployment web-blue -o jsonpath={.metadata.generation}";
    assert_eq!(stage.kubectl("three", generation), "1");
    // The token of one cluster opens no other, and none is shown.
    let token = fs::read_to_string(stage.up.folder().join("two.token")).unwrap();
    assert!(!stage.up.log().contains(&token) && !stage.up.ok("cluster get two -o json").contains(&token));
}

// MAE-7, SYM-9
pub fn an_account_is_given_more_while_it_is_a_member(stage: &mut Stage) {
    stage.join_all();
    account(stage, "three", "operate");
    until("what was refused is had", || stage.up.command(&["releases", "--cluster", "three"]).0 == 0);
    assert_eq!(stage.state("three"), "Running");
}

// SC-10, MAE-7, B-13
pub fn what_is_wrong_with_an_import_is_told(stage: &mut Stage) {
    account(stage, "two", "operate");
    let right = by_token(stage, "two");
    let import = |name: &str, flags: &str| {
        let line = format!("cluster import {name} {flags} --wait=8s");
        let words: Vec<&str> = line.split_whitespace().collect();
        stage.up.command(&words)
    };
    // A certificate of somebody else's authority, and a token that nobody gave out.
    let authority = fs::read_to_string(stage.cluster("one").peer.ca_file()).unwrap();
    stage.file("wrong.crt", &authority);
    stage.file("wrong.token", "nobody-gave-this-token");
    for (name, right_file, wrong_file) in
        [("stranger", "two.crt", "wrong.crt"), ("guesser", "two.token", "wrong.token")]
    {
        let (code, out, err) = import(name, &right.replace(right_file, wrong_file));
        assert!(code != 0 && !stage.state(name).contains("Running"), "{name}: {code} {out}{err}");
        until("why is told", || stage.get(&format!("/api/cluster/{name}"))["items"][0]["error"].is_string());
        let row = &stage.get(&format!("/api/cluster/{name}"))["items"][0];
        assert!(!row.to_string().contains("nobody-gave-this-token"), "{row}");
        stage.up.ok(&format!("cluster delete {name} --yes"));
        until("it is gone", || stage.state(name).is_empty());
    }
}

/// The connections the muster process has to a port of this machine.
fn connections(process: u32, port: u16) -> usize {
    let sockets: HashSet<String> = fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let to = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|file| fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 9 && words[2].ends_with(&to) && sockets.contains(words[9])
        })
        .count()
}

// SYM-9, SC-10
pub fn who_is_taken_out_leaves_nothing_behind(stage: &mut Stage) {
    stage.join_all();
    web(stage);
    until("all pods are seen", || stage.running("web").len() == 9);
    let (pid, port) = (stage.up.id(), stage.cluster("one").peer.port);
    assert!(connections(pid, port) > 0, "the member is talked to");
    assert_eq!(stage.up.ok("cluster delete one --yes"), "cluster/one deleted\n");
    until("it is gone", || stage.state("one").is_empty());
    let (code, body) = stage.request("GET", "/api/cluster/one/appPod/web");
    assert_eq!(code, 404, "{body}");
    let pods = stage.up.json("pods web");
    assert!(pods["count"] == 6 && !pods.to_string().contains("\"one\""), "{pods}");
    until("nobody talks to it any more", || connections(pid, port) == 0);
    // Its credentials are gone from the meta API, and it has what it had.
    let admin = stage.up.data().join("admin.kubeconfig");
    let secrets = format!("--kubeconfig {} -n muster-system get secrets -o name", admin.display());
    let left = stage.kubectl("one", &secrets);
    assert!(!left.contains("secret/one\n") && left.contains("secret/two\n"), "{left}");
    assert_eq!(stage.kubectl("one", "-n shop get pods -o name").lines().count(), 3);
    let namespaces = stage.kubectl("one", "get namespaces -o name");
    assert!(!namespaces.contains("muster-system"), "{namespaces}");
    // What happens there is no longer heard of; elsewhere it is.
    for cluster in ["one", "two"] {
        stage.apply(cluster, &group("late", "blue", 1));
    }
    until("the change on two is seen", || stage.running("late").len() == 1);
    assert!(stage.running("late")[0].starts_with("two/shop/late-blue-"));
    // It may come back under its name.
    stage.join(stage.cluster("one"));
    until("its pods are there again", || stage.running("web").len() == 9 && stage.running("late").len() == 2);
}
