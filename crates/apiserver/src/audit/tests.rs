use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::mpsc,
    time::{Duration, Instant},
};

use super::*;

fn entry<'a>(user: &'a User, verb: &'a str, name: &'a str) -> Entry<'a> {
    Entry {
        request_id: "r-1",
        user,
        acting_as: None,
        reason: "",
        source: Some(SocketAddr::from(([127, 0, 0, 1], 4000))),
        verb,
        group: "",
        resource: "secrets",
        subresource: "",
        namespace: "default",
        name,
        path: "/api/v1/namespaces/default/secrets?token=canary-query&fieldManager=x",
        user_agent: "kubectl/v1.34",
        code: 201,
        latency: Duration::from_micros(1234),
    }
}

fn to_file(path: &std::path::Path) -> Options {
    Options { destination: Destination::File(path.to_owned()), ..Options::default() }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "never came true: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_line_says_who_what_when_and_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit/audit.log");
    let user = User::authenticated("alice", "1", ["dev".to_owned()]);
    let log = AuditLog::open(&to_file(&path)).unwrap();
    let audit = log.audit();
    audit.record(&entry(&user, "create", "db\n{\"x\""));
    drop(log);
    assert_eq!((audit.written(), audit.dropped()), (1, 0));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches('\n').count(), 1, "hostile names cannot break the line: {text}");
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(time).as_secs() < 60);
    let mut rest = line.clone();
    rest.as_object_mut().unwrap().remove("time");
    let expected = serde_json::json!({
        "requestId": "r-1", "user": "alice", "groups": ["dev", "system:authenticated"], "source": "127.0.0.1:4000",
        "verb": "create", "resource": "secrets", "namespace": "default", "name": "db\n{\"x\"",
        "path": "/api/v1/namespaces/default/secrets", "userAgent": "kubectl/v1.34", "code": 201, "latencyMicros": 1234,
    });
    assert_eq!(rest, expected);
    // B-17: the query is not there, however it is spelled.
    assert!(!text.contains("canary"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    // After the end nothing is written, and nothing breaks.
    audit.record(&entry(&user, "create", "late"));
    assert_eq!(audit.dropped(), 1);
}

#[test]
fn writes_and_denials_are_logged_and_reads_when_asked() {
    let (lines, _seen) = mpsc::channel::<Vec<u8>>();
    let sink = move |line: &[u8]| lines.send(line.to_vec()).map_err(io::Error::other);
    let log = AuditLog::start(&Options::default(), Sink::Test(Box::new(sink))).unwrap();
    for (verb, code, wanted) in [
        ("get", 200, false),
        ("list", 200, false),
        ("watch", 200, false),
        ("get", 404, false),
        ("get", 403, true),
        ("list", 401, true),
        ("create", 201, true),
        ("update", 409, true),
        ("patch", 200, true),
        ("delete", 200, true),
        ("deletecollection", 200, true),
        ("post", 404, true),
    ] {
        assert_eq!(log.audit().wants(verb, code), wanted, "{verb} {code}");
        assert!(!Audit::off().wants(verb, code));
    }
    let reading =
        AuditLog::start(&Options { reads: true, ..Options::default() }, Sink::Test(Box::new(|_| Ok(())))).unwrap();
    assert!(reading.audit().wants("get", 200));
}

#[test]
fn the_file_rotates_and_the_oldest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let user = User::anonymous();
    for n in 0..5 {
        // Each round opens the file anew: what is there counts towards the size.
        let log = AuditLog::open(&Options { max_bytes: 1000, backups: 2, ..to_file(&path) }).unwrap();
        for m in 0..3 {
            log.audit().record(&entry(&user, "create", &format!("object-{n}-{m}")));
        }
    }
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2"]);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read("audit.log").contains("object-4-2") && read("audit.log.1").contains("object-3-"));
    for name in ["audit.log", "audit.log.1", "audit.log.2"] {
        assert!(read(name).len() <= 1000);
        assert!(read(name).lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
        assert_eq!(fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_full_buffer_drops_lines_and_never_blocks() {
    let user = User::anonymous();
    let (release, held) = mpsc::channel::<()>();
    // The disk hangs until released.
    let sink = move |_: &[u8]| {
        let _ = held.recv();
        Ok(())
    };
    let options = Options { buffer: 4096, ..Options::default() };
    let log = AuditLog::start(&options, Sink::Test(Box::new(sink))).unwrap();
    let audit = log.audit();
    for _ in 0..1000 {
        audit.record(&entry(&user, "create", "x"));
    }
    assert!(audit.dropped() > 900, "{}", audit.dropped());
    drop(release);
    drop(log);
    assert_eq!(audit.written() + audit.dropped(), 1000);
}

#[test]
fn a_failing_disk_is_counted_and_recovered_from() {
    let user = User::anonymous();
    let full = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = Arc::clone(&full);
    let sink = move |_: &[u8]| match state.load(Relaxed) {
        true => Err(io::Error::from(io::ErrorKind::StorageFull)),
        false => Ok(()),
    };
    let log = AuditLog::start(&Options::default(), Sink::Test(Box::new(sink))).unwrap();
    let audit = log.audit();
    audit.record(&entry(&user, "create", "x"));
    until("the loss is counted", || audit.dropped() == 1);
    full.store(false, Relaxed);
    audit.record(&entry(&user, "create", "y"));
    until("the next line is written", || audit.written() == 1);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "é".repeat(5000);
    let user = User::authenticated(long.clone(), "", []);
    let line =
        serde_json::to_string(&Line::of(&Entry { path: &long, user_agent: &long, ..entry(&user, "create", &long) }));
    assert!(line.unwrap().len() < 5000);
}

#[test]
fn a_log_that_cannot_be_opened_says_what_to_do() {
    let error =
        AuditLog::open(&to_file(std::path::Path::new("/dev/null/audit.log"))).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("/dev/null/audit.log") && error.contains("--audit-log-path"), "{error}");
    assert_eq!(Destination::parse(""), Destination::Off);
    assert_eq!(Destination::parse("-"), Destination::Stdout);
    assert_eq!(Destination::parse("a/b"), Destination::File("a/b".into()));
}

/// What is logged of a request: `own` carries the mark of a part of this process.
async fn logged(reads: bool, own: bool, path: &str, body: serde_json::Value, known: bool) -> (u16, String) {
    let (lines, seen) = mpsc::channel::<Vec<u8>>();
    let sink = move |line: &[u8]| lines.send(line.to_vec()).map_err(io::Error::other);
    let log = AuditLog::start(&Options { reads, ..Options::default() }, Sink::Test(Box::new(sink))).unwrap();
    let authenticator = auth::Authenticator::new(auth::Options::default()).unwrap();
    let options = crate::Options { audit: log.audit(), ..crate::Options::new(authenticator, auth::Authorizer::new()) };
    let store = store::Store::memory(store::Options { describe: crate::describe(), ..store::Options::default() });
    let api = crate::Api::new(store, options);
    let peer = match known {
        true => auth::Peer::in_process(User::authenticated("part", "", [auth::MASTERS.to_owned()])),
        false => auth::Peer::plain(SocketAddr::from(([127, 0, 0, 1], 1))),
    };
    let request = http::Request::post(path).header("content-type", "application/json").extension(peer);
    let request = if own { request.extension(OwnQuestion) } else { request };
    let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string()));
    let code = api.handle(request.body(body).unwrap()).await.status().as_u16();
    drop(api);
    drop(log);
    (code, String::from_utf8(seen.try_iter().flatten().collect()).unwrap())
}

#[tokio::test]
async fn what_this_process_asks_about_rights_is_a_read_and_what_people_ask_is_not() {
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = serde_json::json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let (code, lines) = logged(false, true, reviews, review.clone(), true).await;
    assert_eq!((code, lines.as_str()), (201, ""));
    // People's, and everything when reads are wanted.
    for (reads, own) in [(false, false), (true, true)] {
        let (_, lines) = logged(reads, own, reviews, review.clone(), true).await;
        assert!(lines.contains("selfsubjectaccessreviews"), "{reads} {own}: {lines}");
    }
    // Whom nobody knows is logged, however they come.
    let (code, lines) = logged(false, true, reviews, review, false).await;
    assert!(matches!(code, 401 | 403) && lines.contains("selfsubjectaccessreviews"), "{code} {lines}");
    // The mark hides nothing else.
    let space = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let (code, lines) = logged(false, true, "/api/v1/namespaces", space, true).await;
    assert!(code == 201 && lines.contains("\"resource\":\"namespaces\""), "{code} {lines}");
}
