//! What pages of strangers, thieves and guessers try. // B-5, B-9, B-16, B-17
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gateway::Options;
use muster_tests::client::read_head;
use muster_tests::peer::TOKEN;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases};
use muster_tests_gateway::browser::{Browser, Tab};
use muster_tests_gateway::{Face, generous, refused};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

pub fn all() -> Vec<Case> {
    cases![attacks: a_strangers_page_cannot_write, hosts_that_are_not_meant, a_strangers_page_cannot_open_a_socket,
        a_socket_without_a_good_ticket_is_closed, a_session_id_is_never_the_one_that_was_brought, the_hash_is_not_the_password,
        guessing_is_slowed_and_tells_nothing, paths_that_try_to_be_another, headers_that_pose_as_somebody,
        pages_run_only_what_is_ours, secrets_stay_secret, nonsense_is_refused_in_words, over_tls_the_cookie_is_locked,
        behind_a_proxy_the_public_address_counts]
}

const PASSWORD: &str = "correct horse battery";

async fn admins(peer: &Peer) -> Face {
    Face::console(peer, |face| face.first_admin(fleet::Secret::new(PASSWORD))).await
}

async fn a_strangers_page_cannot_write(peer: &Peer) {
    // B-9
    let (face, ns) = (admins(peer).await, peer.namespace().await);
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    let write = || browser.bare("POST", &place).json(json!({"name": "x"}));
    let own = browser.origin();
    // The cookie alone: a form, an image, a script of somebody else.
    refused(&write().send().await, 403);
    refused(&write().header("origin", &own).send().await, 403);
    refused(&write().header("x-muster-csrf", "guess").header("origin", &own).send().await, 403);
    refused(&write().header("x-muster-csrf", "").send().await, 403);
    // Even with the value, not from another origin, another port, another scheme, or a page without one.
    let port = format!("http://{}:{}", face.address.ip(), face.address.port() ^ 1);
    for origin in ["https://evil.example", &port, &own.replace("http:", "https:"), "null", "file://"] {
        refused(&write().header("x-muster-csrf", &browser.csrf).header("origin", origin).send().await, 403);
    }
    for site in ["cross-site", "same-site", "nonsense"] {
        let call = write().header("x-muster-csrf", &browser.csrf).header("sec-fetch-site", site);
        refused(&call.send().await, 403);
        // Nor does a stranger's page read with the cookie, whatever the browser would show it.
        refused(&browser.bare("GET", &place).header("sec-fetch-site", site).send().await, 403);
    }
    let two = write().header("origin", &own).header("origin", "https://evil.example");
    refused(&two.header("x-muster-csrf", &browser.csrf).send().await, 403);
    refused(&browser.get(&format!("{place}/x")).await, 404);
    browser.post(&place, json!({"name": "x"})).await.ok(201);
    // A login as somebody else's user is no trick either: it needs our page and a body no form sends.
    let login = json!({"user": "admin", "password": PASSWORD});
    let call = Browser::new(&face).bare("POST", "/wapi/v1/login");
    refused(&call.json(login.clone()).header("origin", "https://evil.example").send().await, 403);
    let call = Browser::new(&face).bare("POST", "/wapi/v1/login");
    refused(&call.raw("text/plain", login.to_string()).send().await, 415);
}

async fn hosts_that_are_not_meant(peer: &Peer) {
    // B-9: a name of the attacker's that leads to us (DNS rebinding).
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    for path in ["/", "/wapi/v1/session", "/apiext/v1", "/assets/x.js"] {
        let call = browser.bare("GET", path).header("host", "evil.example:8088").header("accept", "text/html");
        refused(&call.send().await, 421);
    }
    let port = face.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        assert_eq!(browser.bare("GET", "/").header("host", &host).send().await.status, 200);
    }
    let stream = Tab::open(face.address, "/wapi/v1/stream", &[("host", "evil.example")]).await;
    assert_eq!(stream.err(), Some(421));
}

async fn a_strangers_page_cannot_open_a_socket(peer: &Peer) {
    // B-9: cross-site WebSocket hijacking.
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let port = format!("http://{}:{}", face.address.ip(), face.address.port() ^ 1);
    for origin in ["https://evil.example", &port, "null"] {
        let headers = [("origin", origin), ("cookie", browser.cookie.as_str())];
        assert_eq!(Tab::open(face.address, "/wapi/v1/stream", &headers).await.err(), Some(403), "{origin}");
    }
    let headers = [("origin", browser.origin()), ("sec-fetch-site", "same-site".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(Tab::open(face.address, "/wapi/v1/stream", &headers).await.err(), Some(403));
    // The cookie does not open it either: without a ticket nothing is said.
    let headers = [("origin", browser.origin()), ("cookie", browser.cookie.clone())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut tab = Tab::open(face.address, "/wapi/v1/stream", &headers).await.unwrap();
    tab.say(json!({"subscribe": {"id": "a", "path": "/apiext/v1/core/v1/namespaces"}})).await;
    assert_eq!(tab.hear(PATIENCE).await, Some(json!(4400)));
}

async fn a_socket_without_a_good_ticket_is_closed(peer: &Peer) {
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let ticket = browser.ticket().await;
    let open = async || Tab::open(face.address, "/wapi/v1/stream", &[]).await.unwrap();
    let mut tab = open().await;
    tab.say(json!({"ticket": ticket})).await;
    tab.say(json!({"subscribe": {"id": "a", "path": "/nowhere"}})).await;
    assert_eq!(tab.hear(PATIENCE).await.unwrap()["event"], "gone");
    for (frame, code) in [
        (Message::Text(json!({"ticket": ticket}).to_string().into()), 4401),
        (Message::Text(json!({"ticket": "guess"}).to_string().into()), 4401),
        (Message::Text("".into()), 4400),
        (Message::Text("{\"ticket\":1}".into()), 4400),
        (Message::Binary(vec![0; 10].into()), 4400),
        (Message::Binary(vec![0; 300 << 10].into()), 1009),
    ] {
        let mut tab = open().await;
        tab.send(frame).await;
        if code == 1009 {
            // The rest of it may still be under way when the server hangs up.
            let heard = tab.hear(PATIENCE).await.unwrap();
            assert!(heard == json!(1009) || heard == json!("gone"), "{heard}");
            continue;
        }
        assert_eq!(tab.hear(PATIENCE).await, Some(json!(code)));
    }
    // A ticket of a session that ended since is worth nothing.
    let ticket = browser.ticket().await;
    assert_eq!(browser.call("POST", "/wapi/v1/logout").send().await.status, 204);
    let mut tab = open().await;
    tab.say(json!({"ticket": ticket})).await;
    assert_eq!(tab.hear(PATIENCE).await, Some(json!(4401)));
}

async fn a_session_id_is_never_the_one_that_was_brought(peer: &Peer) {
    let face = admins(peer).await;
    let mut browser = Browser::new(&face);
    browser.cookie = format!("muster_session={}", "A".repeat(43));
    assert_eq!(browser.status().await, 401);
    let answer = browser.try_login("admin", PASSWORD).await;
    assert!(!answer.header("set-cookie").contains("AAAA"), "fixation");
    let fixed = browser.clone();
    browser.take(&answer);
    assert_eq!((fixed.status().await, browser.status().await), (401, 200));
    // Logging in again ends the session before, and two cookies are none.
    let before = browser.clone();
    let again = browser.try_login("admin", PASSWORD).await;
    browser.take(&again);
    assert_eq!((before.status().await, browser.status().await), (401, 200));
    let both = browser.bare("GET", "/wapi/v1/session").header("cookie", "muster_session=planted");
    refused(&both.send().await, 401);
}

async fn the_hash_is_not_the_password(peer: &Peer) {
    let face = admins(peer).await;
    let data = peer.get(&face.secret("admin")).await.ok(200)["data"].clone();
    let hash = String::from_utf8(BASE64_STANDARD.decode(data["hash"].as_str().unwrap()).unwrap()).unwrap();
    assert!(hash.starts_with("pbkdf2-sha256$600000$"), "{hash}");
    for stolen in [hash.as_str(), hash.rsplit('$').next().unwrap(), data["hash"].as_str().unwrap()] {
        refused(&Browser::new(&face).try_login("admin", stolen).await, 401);
    }
}

async fn guessing_is_slowed_and_tells_nothing(peer: &Peer) {
    let face = admins(peer).await;
    let browser = Browser::new(&face);
    let wrong = refused(&browser.try_login("admin", "wrong wrong wrong").await, 401);
    let unknown = refused(&browser.try_login("nobody", "wrong wrong wrong").await, 401);
    assert_eq!(wrong, unknown, "the same words");
    let mut slowed = 0;
    // Judging takes so long on a slow machine that the first pauses are over by then.
    for _ in 0..20 {
        let answer = browser.try_login("admin", "wrong wrong wrong").await;
        if answer.status == 429 {
            slowed += 1;
            assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
        }
    }
    assert!(slowed >= 4, "{slowed}");
    // Many at once are no way around.
    let begun = Instant::now();
    let tries = (0..40).map(|_| browser.try_login("other", "wrong wrong wrong"));
    let answers = futures_util::future::join_all(tries).await;
    let judged = answers.iter().filter(|answer| answer.status == 401).count();
    // Five, and one more after one second, after two more, after four more.
    let late = (1 + begun.elapsed().as_secs()).ilog2() as usize;
    assert!(judged <= 6 + late, "{judged} guesses at once");
}

async fn paths_that_try_to_be_another(peer: &Peer) {
    // B-5
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    for path in [
        "/wapi/v1/session/",
        "/wapi/v1//session",
        "/wapi/v1/./session",
        "/wapi/v1/%73ession",
        "/wapi/v1/sessions/../session",
        "/wapi/v1/login%00",
        "/wapi/v2/session",
        "/wapi",
        "//wapi/v1/session",
        "/api/v1/secrets",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apiext/v1/core/v1/%2e%2e/secrets",
        "/wapi/v1/controllers/..%2f..%2faudit/enable",
    ] {
        let answer = browser.get(path).await;
        assert!((400..500).contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        assert!(!answer.text().contains(&browser.csrf), "{path}");
    }
    for path in ["/assets/../../Cargo.toml", "/assets/%2e%2e/%2e%2e/etc/passwd", "/..%2fetc/passwd", "/assets//x"] {
        let answer = browser.bare("GET", path).send().await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
        let answer = browser.call(method, "/wapi/v1/session").send().await;
        assert!((400..500).contains(&answer.status), "{method}: {}", answer.status);
        let answer = browser.call(method, "/").send().await;
        assert!((400..500).contains(&answer.status), "{method}: {}", answer.status);
    }
}

async fn headers_that_pose_as_somebody(peer: &Peer) {
    // B-5
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let list = "/apiext/v1/core/v1/namespaces";
    for (name, value) in [
        ("impersonate-user", "eve"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-x", "y"),
    ] {
        refused(&browser.call("GET", list).header(name, value).send().await, 400);
        refused(&face.call("GET", list).header(name, value).send().await, 400);
        let hop = browser.call("GET", list).header("connection", name).header(name, value);
        refused(&hop.send().await, 400);
    }
    // Hop-by-hop tricks do not take the cookie's proofs away.
    let call = browser.bare("POST", "/wapi/v1/ticket").header("connection", "x-muster-csrf, origin");
    refused(&call.send().await, 403);
    // A token counts before the cookie: a wrong one is not mended by it.
    refused(&browser.call("GET", list).token(Some("wrong")).send().await, 401);
    browser.call("GET", list).token(Some(TOKEN)).send().await.ok(200);
}

async fn pages_run_only_what_is_ours(peer: &Peer) {
    // B-16
    let face = admins(peer).await;
    let browser = Browser::new(&face);
    for path in ["/", "/clusters/prod", "/setup"] {
        let call = browser.bare("GET", path).header("accept", "text/html").header("sec-fetch-site", "cross-site");
        let page = call.send().await;
        assert_eq!(page.status, 200, "a link to the console may stand anywhere");
        let policy = page.header("content-security-policy");
        assert!(policy.contains("script-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        let scripts = policy.split(';').find(|part| part.contains("script-src")).unwrap();
        assert!(!scripts.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("referrer-policy"), "same-origin");
        assert_eq!(page.header("set-cookie"), "");
    }
    // Whatever is put into a request does not come back as a page.
    for path in ["/wapi/v1/<script>alert(1)</script>", "/apiext/v1/core/v1/<img%20src=x>", "/wapi/v1/audit?q=<script>"]
    {
        let answer = face.call("GET", &path.replace('<', "%3C").replace('>', "%3E")).send().await;
        assert!(answer.header("content-type").starts_with("application/json"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(answer.header("access-control-allow-origin"), "");
        assert!(!answer.header("x-request-id").is_empty());
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn secrets_stay_secret(peer: &Peer) {
    // B-17: a canary in the password, and what the server itself made secret.
    let log = Log::default();
    let writer = log.clone();
    // One log for the process: whichever peer comes first has it.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("trace")
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let whole = tracing_subscriber::util::SubscriberInitExt::try_init(subscriber).is_ok();
    let canary = "canary-4711-horse";
    let face = Face::console(peer, |face| face.first_admin(fleet::Secret::new(canary))).await;
    let mut said = Vec::new();
    let browser = Browser::login(&face, "admin", canary).await;
    said.push(Browser::new(&face).try_login("admin", &format!("{canary}!")).await);
    said.push(Browser::new(&face).try_login(canary, canary).await);
    said.push(browser.post("/wapi/v1/login", json!({"user": "admin", "password": canary, "more": canary})).await);
    said.push(browser.post("/wapi/v1/setup", json!({"token": canary, "user": "x", "password": canary})).await);
    said.push(browser.post("/wapi/v1/password", json!({"old": canary, "new": "canary"})).await);
    said.push(browser.post("/wapi/v1/password", json!({"old": "wrong", "new": canary})).await);
    said.push(browser.get("/wapi/v1/session").await);
    said.push(browser.get("/wapi/v1/sessions").await);
    said.push(browser.get(&format!("/apiext/v1/core/v1/namespaces/{}/secrets", face.namespace)).await);
    for answer in &said {
        let text = format!("{} {:?}", answer.text(), answer.headers);
        assert!(!text.contains(canary), "{}: {text}", answer.what);
        assert!(!text.contains("pbkdf2") && !text.contains("cGJrZGYy"), "{}: {text}", answer.what);
    }
    let cookie = browser.cookie.split_once('=').unwrap().1.to_owned();
    let ticket = browser.ticket().await;
    let written = peer.get(&face.secret("admin")).await.ok(200).to_string();
    assert!(!written.contains(canary) && !written.contains(&BASE64_STANDARD.encode(canary)));
    if whole {
        let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
        assert!(text.contains("logged in"), "the log is read");
        for secret in [canary, &cookie, &browser.csrf, &ticket] {
            // What the tests' own client says is not the server's log.
            let line = text.lines().find(|line| line.contains(secret) && line.contains("muster_gateway"));
            assert_eq!(line, None);
        }
    }
}

async fn nonsense_is_refused_in_words(peer: &Peer) {
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    for body in ["", "{", "[]", "null", "\"x\"", "{\"user\":1,\"password\":2}", "{\"user\":\"a\"}"] {
        let call = Browser::new(&face).bare("POST", "/wapi/v1/login");
        refused(&call.raw("application/json", body.to_owned()).send().await, 400);
        refused(&browser.call("POST", "/wapi/v1/password").raw("application/json", body.to_owned()).send().await, 400);
    }
    let long = "x".repeat(100_000);
    let answer = Browser::new(&face).try_login(&long, &long).await;
    refused(&answer, 401);
    let huge =
        Browser::new(&face).bare("POST", "/wapi/v1/login").raw("application/json", vec![b' '; 4 << 20]).send().await;
    refused(&huge, 413);
    refused(&Browser::new(&face).bare("GET", "/wapi/v1/login").send().await, 405);
    refused(&browser.bare("GET", "/wapi/v1/stream").send().await, 426);
    // A handshake that is none.
    for head in [
        "GET /wapi/v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "GET /wapi/v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "POST /wapi/v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 0\r\n\r\n",
        "GET /wapi/v1/stream HTTP/1.0\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(face.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4"), "{head}{answer}");
    }
}

async fn over_tls_the_cookie_is_locked(peer: &Peer) {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (cert_file, key_file) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&cert_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let tls = gateway::Tls { certificate: cert_file, key: key_file, client_ca: None };
    let options = Options { limits: generous(), tls: Some(tls), ..Options::new(([127, 0, 0, 1], 0).into()) };
    let face = Face::console_with(peer, options, |face| face.first_admin(fleet::Secret::new(PASSWORD))).await;
    let connect = async || {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(face.address).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    };
    let mut browser = Browser::new(&face);
    let login = browser.bare("POST", "/wapi/v1/login").json(json!({"user": "admin", "password": PASSWORD}));
    let login = login.header("origin", &format!("https://{}", face.address));
    let answer = login.over(connect().await).await;
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.starts_with("__Host-muster_session=") && cookie.contains("; Secure"), "{cookie}");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/"), "{cookie}");
    browser.take(&answer);
    assert_eq!(browser.call("GET", "/wapi/v1/session").over(connect().await).await.status, 200);
    // Without the prefix somebody else could have set it.
    browser.cookie = browser.cookie.replace("__Host-", "");
    assert_eq!(browser.call("GET", "/wapi/v1/session").over(connect().await).await.status, 401);
}

async fn behind_a_proxy_the_public_address_counts(peer: &Peer) {
    // B-9, B-16
    let public = "https://muster.example";
    let options = || Options {
        limits: generous(),
        public: Some(public.parse().unwrap()),
        ..Options::new(([127, 0, 0, 1], 0).into())
    };
    let face = Face::console_with(peer, options(), |face| face.first_admin(fleet::Secret::new(PASSWORD))).await;
    let login = |host: &str, origin: &str| {
        let call = Browser::new(&face).bare("POST", "/wapi/v1/login").header("host", host).header("origin", origin);
        call.json(json!({"user": "admin", "password": PASSWORD})).send()
    };
    let answer = login("muster.example", public).await;
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.starts_with("__Host-muster_session=") && cookie.contains("; Secure"), "{cookie}");
    let mut browser = Browser::new(&face);
    browser.take(&answer);
    let at = |method: &'static str, path: &str, host: &str| browser.bare(method, path).header("host", host);
    assert_eq!(at("GET", "/wapi/v1/session", "muster.example").send().await.status, 200);
    let logout = at("POST", "/wapi/v1/logout", "muster.example").header("x-muster-csrf", &browser.csrf);
    refused(&logout.header("origin", "http://muster.example").send().await, 403);
    // Nobody else's name, and the public one only as it is said: with TLS.
    for host in ["evil.example", "muster.example.evil.example", "xmuster.example"] {
        refused(&login(host, public).await, 421);
        refused(&at("GET", "/", host).send().await, 421);
    }
    for origin in ["http://muster.example", "https://evil.example", "null"] {
        refused(&login("muster.example", origin).await, 403);
    }
    let headers = [("host", "muster.example"), ("origin", public)];
    assert!(Tab::open(face.address, "/wapi/v1/stream", &headers).await.is_ok());
    let headers = [("host", "muster.example"), ("origin", "http://muster.example")];
    assert_eq!(Tab::open(face.address, "/wapi/v1/stream", &headers).await.err(), Some(403));
    // Everybody comes from the proxy's address: a password that everybody knows is not made, and one that was is no way in.
    let demo = gateway::Face::new(options(), muster_tests_gateway::upstream(peer).await).console().demo_admin();
    assert!(matches!(demo.bind().await, Err(gateway::ServeError::DemoInTheOpen(_))));
}
