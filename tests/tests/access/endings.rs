//! A watch ends with what it was opened with (B-20): within half a minute, whether anything happens or not.
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_tests::peer::{Settings, TOKEN, WORKER};
use muster_tests::runner::Case;
use muster_tests::{Call, Kind, Peer, Watch, cases, within};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use crate::tokens::printed;
use crate::{RBAC, bind, namespace, user};

pub fn cases() -> Vec<Case> {
    cases![
        muster endings: a_watch_ends_when_its_certificate_expires,
        a_watch_ends_when_its_token_is_taken_out_of_the_file,
        a_watch_ends_when_its_signed_token_expires,
        a_watch_ends_with_its_account,
        a_watch_ends_with_its_right_although_nothing_happens,
    ]
}

/// B-20.
const LIMIT: Duration = Duration::from_secs(30);
/// Clocks differ: a signed token is believed for so long after it has expired, as in Kubernetes.
const LEEWAY: Duration = Duration::from_secs(60);

/// Of a certificate: long enough for everything that is opened with it.
const LIFE: Duration = Duration::from_secs(25);

const QUIET: &str = "/api/v1/namespaces/quiet/configmaps";
const BUSY: &str = "/api/v1/namespaces/busy/configmaps";

async fn own(arguments: Vec<String>) -> Peer {
    let peer = Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    for name in ["quiet", "busy"] {
        namespace(&peer, name).await;
        peer.post(&format!("/api/v1/namespaces/{name}/configmaps"), json!({"metadata": {"name": "m"}})).await.ok(201);
    }
    peer
}

/// Two watches of somebody, one where nothing happens and one where a lot does.
async fn opened<'a>(call: impl Fn(&str) -> Call<'a>) -> [Watch; 2] {
    let mut watches =
        [QUIET, BUSY].map(|path| call(&format!("{path}?watch=true"))).map(|call| Box::pin(Watch::by(call)));
    let [quiet, busy] = &mut watches;
    let (mut quiet, mut busy) = tokio::join!(quiet, busy);
    quiet.expect("ADDED", "m").await;
    busy.expect("ADDED", "m").await;
    [quiet, busy]
}

/// Both end in time. `admin` makes things happen.
async fn both_end<'a>(limit: Duration, admin: impl Fn(&'static str, &str) -> Call<'a>, [quiet, busy]: [Watch; 2]) {
    let news = async {
        for n in 0.. {
            let change = json!({"data": {"n": n.to_string()}});
            let call = admin("PATCH", &format!("{BUSY}/m")).body(change).media("application/merge-patch+json");
            call.send().await.ok(200);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let ended =
        async |mut watch: Watch| within(limit, async { while watch.advance().await.is_some() {} }).await.is_some();
    tokio::select! {
        () = news => {}
        (quiet, busy) = async { tokio::join!(ended(quiet), ended(busy)) } => {
            assert!(quiet, "the watch on which nothing happens goes on");
            assert!(busy, "the watch on which a lot happens goes on");
        }
    }
}

async fn a_watch_ends_when_its_certificate_expires(_: &Peer) {
    let folder = tempfile::tempdir().unwrap();
    let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "endings-ca");
    let ca_key = KeyPair::generate().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let mut peer = own(vec![format!("--client-ca-file={}", file.display())]).await;
    bind(&peer, "", "ending", "system:aggregate-to-view", user("brief")).await;

    let mut leaf = CertificateParams::new(Vec::<String>::new()).unwrap();
    leaf.distinguished_name.push(DnType::CommonName, "brief");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    leaf.not_after = (SystemTime::now() + LIFE).into();
    let key = KeyPair::generate().unwrap();
    let certificate = leaf.signed_by(&key, &issuer).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(peer.ca_file()).unwrap()).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = Arc::new(config.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap());
    let anybody = std::mem::replace(&mut peer.tls, config);
    // One connection is kept, and outlives the certificate it was opened with.
    let watches = opened(|path| peer.call("GET", path).token(None)).await;
    let mut kept = peer.h2().await.unwrap();
    let port = peer.port;
    let ask = || {
        let ask = http::Request::get(format!("https://127.0.0.1:{port}{QUIET}"));
        ask.body(http_body_util::BodyExt::boxed(http_body_util::Full::<bytes::Bytes>::default())).unwrap()
    };
    // One on which nothing was ever asked is soon closed.
    assert_eq!(kept.send_request(ask()).await.unwrap().status(), 200);
    peer.tls = anybody;
    both_end(LIFE + LIMIT, |method, path| peer.call(method, path).token(Some(TOKEN)).fresh(), watches).await;
    assert_eq!(kept.send_request(ask()).await.unwrap().status(), 401);
}

async fn a_watch_ends_when_its_token_is_taken_out_of_the_file(_: &Peer) {
    let peer = &own(Vec::new()).await;
    bind(peer, "", "ending", "system:aggregate-to-view", user("suite-worker")).await;
    let watches = opened(|path| peer.call("GET", path).token(Some(WORKER))).await;
    let file = peer.dir.join("tokens.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    let rest: Vec<&str> = text.lines().filter(|line| !line.starts_with(WORKER)).collect();
    std::fs::write(&file, rest.join("\n") + "\n").unwrap();
    both_end(LIMIT, |method, path| peer.call(method, path), watches).await;
    peer.call("GET", QUIET).token(Some(WORKER)).fresh().send().await.fails(401, "Unauthorized");
}

async fn a_watch_ends_when_its_signed_token_expires(_: &Peer) {
    let peer = &own(Vec::new()).await;
    let token = printed(peer, &["create", "--user=brief", "--group=system:masters", "--ttl=2s"]).unwrap();
    let watches = opened(|path| peer.call("GET", path).token(Some(&token))).await;
    both_end(LEEWAY + LIMIT, |method, path| peer.call(method, path), watches).await;
    peer.call("GET", QUIET).token(Some(&token)).fresh().send().await.fails(401, "Unauthorized");
}

async fn a_watch_ends_with_its_account(_: &Peer) {
    let peer = &own(Vec::new()).await;
    let account = "/api/v1/namespaces/quiet/serviceaccounts";
    peer.post(account, json!({"metadata": {"name": "bot"}})).await.ok(201);
    let subject = json!({"kind": "ServiceAccount", "namespace": "quiet", "name": "bot"});
    bind(peer, "", "ending", "system:aggregate-to-view", subject).await;
    let made = peer.post(&format!("{account}/bot/token"), json!({})).await.ok(201);
    let token = made["status"]["token"].as_str().unwrap();
    let watches = opened(|path| peer.call("GET", path).token(Some(token))).await;
    peer.delete(&format!("{account}/bot")).await.ok(200);
    both_end(LIMIT, |method, path| peer.call(method, path), watches).await;
    peer.call("GET", QUIET).token(Some(token)).fresh().send().await.fails(401, "Unauthorized");
}

async fn a_watch_ends_with_its_right_although_nothing_happens(_: &Peer) {
    let peer = &own(Vec::new()).await;
    bind(peer, "", "ending", "system:aggregate-to-view", user("suite-worker")).await;
    let watches = opened(|path| peer.call("GET", path).token(Some(WORKER))).await;
    let allowed = opened(|path| peer.call("GET", path)).await;
    peer.delete(&format!("{RBAC}/clusterrolebindings/ending")).await.ok(200);
    both_end(LIMIT, |method, path| peer.call(method, path), watches).await;
    // Who still may is not disturbed.
    let [mut quiet, _] = allowed;
    quiet.quiet(Duration::from_millis(100)).await;
    peer.patch(&format!("{QUIET}/m"), "merge", json!({"data": {"k": "v"}})).await.ok(200);
    quiet.expect("MODIFIED", "m").await;
}
