//! TLS, login, and what an etcd administrator can read.

use std::sync::Arc;

use store::etcd::{Config, Login, Tls};
use store::testing::key;
use store::{Collection, Error, KeyRing, Options, Store};

use super::peer::Cluster;
use super::{config, items, open, write};

#[tokio::test(flavor = "multi_thread")]
async fn sealed_values_are_not_readable_in_etcd() {
    let Some(etcd) = Cluster::start(1) else { return };
    let ring = Arc::new(KeyRing::ephemeral().unwrap());
    let secrets = Collection::new("core/secrets");
    let options =
        |ring: &Arc<KeyRing>| Options { sealed: vec![secrets.clone()], keys: Some(ring.clone()), ..Options::default() };
    let store = open(config(etcd.urls()), options(&ring)).await;
    let (secret, plain) = (key("core/secrets", "ns/a"), key("core/configmaps", "ns/a"));
    write(&store, &secret, "canary-Ja9vKq").await;
    write(&store, &plain, "public-Zu3xWm").await;
    let raw = etcd.members[0].ctl(&["get", "--prefix", "", "--write-out=fields"]);
    assert!(raw.contains("public-Zu3xWm") && !raw.contains("canary") && !raw.contains("Ja9vKq"));
    assert_eq!(store.get(&secret).unwrap().value, "canary-Ja9vKq");
    // Another server with the ring reads it, one without it refuses to open.
    let other = open(config(etcd.urls()), options(&ring)).await;
    assert_eq!(other.get(&secret).unwrap().value, "canary-Ja9vKq");
    let strange = Arc::new(KeyRing::ephemeral().unwrap());
    ring.rotate().unwrap();
    write(&store, &key("core/secrets", "ns/b"), "newer").await;
    other.sync().await.unwrap();
    assert_eq!(items(&other, &secrets), ["ns/a=canary-Ja9vKq", "ns/b=newer"]);
    let refused = Store::etcd(config(etcd.urls()), options(&strange)).await;
    assert!(matches!(refused, Err(Error::Seal(_))));

    // Resealed, the old key is needed no more.
    let needed = store.reseal().await.unwrap();
    assert_eq!(needed, ring.ids()[0]);
    ring.prune(needed).unwrap();
    assert_eq!(ring.ids().len(), 1);
    let third = open(config(etcd.urls()), options(&ring)).await;
    assert_eq!(items(&third, &secrets), ["ns/a=canary-Ja9vKq", "ns/b=newer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_rotated_by_one_server_is_read_again_by_the_others() {
    let Some(etcd) = Cluster::start(1) else { return };
    let dir = tempfile::tempdir().unwrap();
    let ring = || Arc::new(KeyRing::open_or_create(&dir.path().join("ring")).unwrap());
    let secrets = Collection::new("core/secrets");
    let options = |ring| Options { sealed: vec![secrets.clone()], keys: Some(ring), ..Options::default() };
    let (rotated, behind) = (ring(), ring());
    let a = open(config(etcd.urls()), options(rotated.clone())).await;
    let b = open(config(etcd.urls()), options(behind.clone())).await;
    rotated.rotate().unwrap();
    let revision = write(&a, &key("core/secrets", "a"), "under the new key").await;
    super::eventually("the new key is known", || b.revision() >= revision).await;
    assert_eq!(items(&b, &secrets), ["a=under the new key"]);
    assert_eq!(behind.ids(), rotated.ids());
    write(&b, &key("core/secrets", "b"), "too").await;
    super::eventually("healthy", || b.health() == store::Health::Ok).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_login_work_and_their_lack_is_refused() {
    if super::peer::binaries().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let text = |name: &str| file(name).display().to_string();
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_cert = ca.self_signed(&ca_key).unwrap();
    std::fs::write(file("ca.pem"), ca_cert.pem()).unwrap();
    let issuer = rcgen::Issuer::from_params(&ca, &ca_key);
    for (name, hosts) in [("server", vec!["127.0.0.1".to_string()]), ("client", vec![])] {
        let own = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(hosts).unwrap().signed_by(&own, &issuer).unwrap();
        std::fs::write(file(&format!("{name}.pem")), leaf.pem()).unwrap();
        std::fs::write(file(&format!("{name}.key")), own.serialize_pem()).unwrap();
    }
    let server = [
        format!("--cert-file={}", text("server.pem")),
        format!("--key-file={}", text("server.key")),
        format!("--trusted-ca-file={}", text("ca.pem")),
        "--client-cert-auth=true".into(),
    ];
    let client = [
        format!("--cacert={}", text("ca.pem")),
        format!("--cert={}", text("client.pem")),
        format!("--key={}", text("client.key")),
    ];
    let server: Vec<_> = server.iter().map(String::as_str).collect();
    let client: Vec<_> = client.iter().map(String::as_str).collect();
    let Some(mut etcd) = Cluster::with(1, &server, &client) else { return };
    let tls = Tls { ca: file("ca.pem"), identity: Some((file("client.pem"), file("client.key"))), server_name: None };
    let with_tls = Config { tls: Some(tls.clone()), ..config(etcd.urls()) };
    let store = open(with_tls.clone(), Options::default()).await;
    let k = key("core/things", "a");
    write(&store, &k, "1").await;
    store.shutdown().await;

    let short = |config: Config| Config { deadline: std::time::Duration::from_secs(1), ..config };
    let plain = short(config(vec![etcd.urls()[0].replace("https", "http")]));
    assert!(matches!(Store::etcd(plain, Options::default()).await, Err(Error::Unavailable(_))));
    let nameless = short(Config { tls: Some(Tls { identity: None, ..tls }), ..config(etcd.urls()) });
    assert!(matches!(Store::etcd(nameless, Options::default()).await, Err(Error::Unavailable(_))));
    assert!(matches!(Store::etcd(config(etcd.urls()), Options::default()).await, Err(Error::Unavailable(_))));

    // A user who may do nothing but ours.
    let ctl = |args: &[&str]| etcd.members[0].ctl(args);
    ctl(&["user", "add", "root:top"]);
    ctl(&["user", "grant-role", "root", "root"]);
    ctl(&["role", "add", "muster"]);
    ctl(&["role", "grant-permission", "--prefix=true", "muster", "readwrite", "/muster/"]);
    ctl(&["user", "add", "muster:pa55"]);
    ctl(&["user", "grant-role", "muster", "muster"]);
    ctl(&["auth", "enable"]);
    let refused = Store::etcd(short(with_tls.clone()), Options::default()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))));
    let login = |password: &str| Some(Login { user: "muster".into(), password: password.to_string().into() });
    let wrong = Store::etcd(short(Config { login: login("wrong"), ..with_tls.clone() }), Options::default()).await;
    let Err(Error::Unavailable(why)) = wrong else { panic!("a wrong password was taken") };
    assert!(!why.contains("wrong"), "{why}");
    let config = Config { login: login("pa55"), ..with_tls };
    assert!(!format!("{config:?}").contains("pa55"));
    let store = open(config, Options::default()).await;
    assert_eq!(store.get(&k).unwrap().value, "1");
    write(&store, &k, "2").await;
    store.sync().await.unwrap();

    // A restarted etcd has forgotten the token.
    etcd.members[0].kill();
    etcd.members[0].start();
    let again = super::SOON;
    let end = std::time::Instant::now() + again;
    while store.write(store::testing::put(&k, store::Expect::Anything, "3")).await.is_err() {
        assert!(std::time::Instant::now() < end, "the login is renewed");
    }
    assert_eq!(store.get(&k).unwrap().value, "3");
}
