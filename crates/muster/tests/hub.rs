//! The hub as an operator meets it: started from a file, watched, steered, stopped; wrong configurations; a trace from request to reconcile.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

mod ports;

use ports::free_port;
use rustix::process::{Pid, Signal, kill_process};

fn muster(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    let ours =
        std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("MUSTER_") || name.starts_with("OTEL_"));
    for name in ours {
        command.env_remove(name);
    }
    command.args(arguments).env_remove("KUBECONFIG");
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = muster(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn http(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn get(port: u16, path: &str) -> Option<String> {
    http(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn start(mut command: Command, log: &Path) -> Running {
        let log = fs::File::create(log).unwrap();
        Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        eventually("it stops", || self.0.try_wait().unwrap().is_some());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    folder: tempfile::TempDir,
    api: u16,
    metrics: u16,
    health: u16,
    server: Running,
}

impl World {
    /// An API server with our definitions.
    fn new(flags: &[&str]) -> World {
        let folder = tempfile::tempdir().unwrap();
        let (api, secure) = (free_port(), free_port());
        let mut command = muster(&["apiserver", "--authn-allow-localhost"]);
        command.arg(format!("--data-dir={}", folder.path().join("data").display())).args(flags);
        command.arg(format!("--insecure-port={api}")).arg(format!("--secure-port={secure}"));
        let server = Running::start(command, &folder.path().join("api.log"));
        eventually("the API is ready", || get(api, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")));
        let url = format!("http://127.0.0.1:{api}");
        let (code, said, complained) = run(&["crds", "apply", "-s", &url]);
        assert_eq!(code, 0, "{complained}");
        assert!(
            said.contains("customresourcedefinition.apiextensions.k8s.io/ats.demo.wukong.com serverside-applied\n"),
            "{said}"
        );
        World { folder, api, metrics: free_port(), health: free_port(), server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn config(&self, more: &str) -> PathBuf {
        let text = format!(
            "managers:\n  default:\n    metricsBindAddress: {}\n    healthBindAddress: {}\n    api: {{server: 'http://127.0.0.1:{}'}}\n    \
             profiling: true\n    reconcilers:\n      at:\n        options: {{runner: process, allowProcess: true}}\n{more}",
            self.metrics, self.health, self.api
        );
        let file = self.path("hub.yaml");
        fs::write(&file, text).unwrap();
        file
    }

    fn ready(&self) {
        eventually("the hub is ready", || {
            get(self.health, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
                && get(self.metrics, "/metrics").is_some_and(|answer| {
                    answer.contains("leader_election_master_status{name=") && answer.contains("} 1\n")
                })
        });
    }

    fn controller(&self, arguments: &[&str]) -> (i32, String, String) {
        let (hub, data) =
            (format!("--hub=http://127.0.0.1:{}", self.health), format!("--data-dir={}", self.path("data").display()));
        let mut all = vec!["controller"];
        all.extend(arguments);
        all.extend([hub.as_str(), data.as_str()]);
        run(&all)
    }

    /// Makes an `At` that is due, with an annotation.
    fn make_at(&self, name: &str, headers: &str, annotation: &str) {
        let body = format!(
            r#"{{"apiVersion":"demo.wukong.com/v1","kind":"At","metadata":{{"name":"{name}","annotations":{{"muster.dev/traceparent":"{annotation}"}}}},"spec":{{"schedule":"2020-01-01T00:00:00Z","command":"true"}}}}"#
        );
        let request = format!(
            "POST /apis/demo.wukong.com/v1/namespaces/default/ats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = http(self.api, &request).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    fn phase_of(&self, name: &str) -> String {
        get(self.api, &format!("/apis/demo.wukong.com/v1/namespaces/default/ats/{name}")).unwrap_or_default()
    }
}

#[test]
fn a_hub_follows_the_members_its_configuration_speaks_of() {
    // SYM-9 SYM-11
    let world = World::new(&[]);
    let config = world.config("fleet: {namespace: default, probePeriod: 1s}\n");
    let hub = Running::start(muster(&["hub", "-c", config.to_str().unwrap()]), &world.path("hub.log"));
    world.ready();
    let figure = |state: &str| get(world.metrics, "/metrics").unwrap_or_default().contains(state);
    assert!(figure("muster_members{state=\"Running\"} 0"));
    let body = format!(
        r#"{{"metadata":{{"name":"self","labels":{{"muster.dev/member":"true"}}}},"stringData":{{"server":"http://127.0.0.1:{}","token":"x"}}}}"#,
        world.api
    );
    let request = format!(
        "POST /api/v1/namespaces/default/secrets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(http(world.api, &request).unwrap().starts_with("HTTP/1.1 201"));
    // It is known and asked; that its token is none is the member's to say.
    eventually("the member is known", || figure("muster_member_up{member=\"self\"} 0"));
    hub.stop();
    let log = fs::read_to_string(world.path("hub.log")).unwrap();
    assert!(log.contains("a member joined the fleet"), "{log}");
}

#[test]
fn a_hub_is_started_watched_steered_and_stopped() {
    // KC-1 KC-5 SYM-10 SYM-11
    let world = World::new(&[]);
    let rest = free_port();
    let config = world.config(&format!("apiExt: {{bindAddress: {rest}}}\n"));
    let hub = Running::start(muster(&["hub", "-c", config.to_str().unwrap(), "-v=4"]), &world.path("hub.log"));
    world.ready();
    let (code, said, complained) = world.controller(&["list"]);
    assert_eq!(code, 0, "{complained}");
    assert!(said.lines().next().unwrap().starts_with("NAME ") && said.contains("\nat "), "{said}");
    assert!(world.controller(&["list", "-o", "name"]).1.contains("controller/redismigration\n"));
    world.make_at("first", "", "");
    eventually("the command ran", || world.phase_of("first").contains("\"DONE\""));

    assert_eq!(world.controller(&["disable", "at"]).1, "controller/at disabled\n");
    world.make_at("second", "", "");
    let (code, _, complained) = world.controller(&["requeue", "at", "default/second"]);
    assert!(code == 1 && complained.contains("disabled"), "{complained}");
    assert!(!world.phase_of("second").contains("\"DONE\""));
    assert_eq!(world.controller(&["enable", "at"]).1, "controller/at enabled\n");
    eventually("the second command ran", || world.phase_of("second").contains("\"DONE\""));
    assert_eq!(world.controller(&["requeue", "at", "--all"]).1, "2 of controller/at requeued\n");
    let (code, _, complained) = world.controller(&["enable", "nonsense"]);
    assert!(code == 1 && complained.contains("there are: at, redismigration"), "{complained}");

    // The REST face beside it asks the same API, in the name of its caller.
    assert!(get(rest, "/apiext/v1/demo.wukong.com/v1/ats").unwrap().starts_with("HTTP/1.1 401"));
    let data = format!("--data-dir={}", world.path("data").display());
    let admin = run(&["token", "create", &data]).1;
    let rows = http(
        rest,
        &format!(
            "GET /apiext/v1/demo.wukong.com/v1/ats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
            admin.trim()
        ),
    );
    assert!(
        rows.as_ref().is_some_and(|rows| rows.starts_with("HTTP/1.1 200") && rows.contains("\"first\"")),
        "{rows:?}"
    );

    // Whoever has no token, or one of somebody without rights, sees nothing of the inside.
    let ask = |token: &str| {
        http(
            world.health,
            &format!(
                "GET /debug/pprof/heap HTTP/1.1\r\nHost: l\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
            ),
        )
    };
    assert!(ask("nonsense").unwrap().starts_with("HTTP/1.1 401"));
    let weak = run(&["token", "create", "--user", "weak", &data]).1;
    assert!(ask(weak.trim()).unwrap().starts_with("HTTP/1.1 403"));
    // A second hub waits, and says so; the address of the first is in use.
    let (code, _, complained) = run(&["hub", "-c", config.to_str().unwrap()]);
    assert!(
        code == 7 && complained.contains("cannot listen") && complained.contains("managers.default"),
        "{complained}"
    );
    hub.stop();
    let log = fs::read_to_string(world.path("hub.log")).unwrap();
    assert!(log.contains("gave the lease back") && !log.contains("panicked"), "{log}");

    // One alone, from the same file.
    let one = Running::start(muster(&["reconciler", "at", "-c", config.to_str().unwrap()]), &world.path("one.log"));
    world.ready();
    let said = world.controller(&["list"]).1;
    let enabled = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap().contains("true");
    assert!(enabled("at ") && !enabled("redismigration"), "{said}");
    assert!(get(world.metrics, "/metrics").unwrap().contains("{name=\"muster-default-at\"} 1"));
    one.stop();
    world.server.stop();
}

#[test]
fn wrong_configurations_are_refused_with_every_reason() {
    // KC-2
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hub.yaml");
    fs::write(&file, "managers:\n  default:\n    concurency: 2\n    metricsBindAddress: nowhere\n").unwrap();
    let file = file.to_str().unwrap();
    let (code, _, said) = run(&["hub", "--config", file, "--set", "logging.verbosty=1"]);
    assert_eq!(code, 2, "{said}");
    for expected in [
        "hub.yaml:3: managers.default.concurency: unknown key; did you mean concurrency?",
        "hub.yaml:4: managers.default.metricsBindAddress: it must be an address",
        "--set logging.verbosty: unknown key; did you mean logging.verbosity?",
    ] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
    let nowhere = "--set=managers.default.api.server=http://127.0.0.1:1";
    let (code, _, said) = run(&["reconciler", "nonsense", nowhere]);
    assert!(code == 6 && said.contains("there are at, redismigration"), "{said}");
    let (code, _, said) =
        run(&["hub", nowhere, "--controllers=at,nonsense", "--metrics-bind-address=0", "--health-bind-address=0"]);
    assert!(code == 2 && said.contains("nonsense"), "{said}");
    let (code, _, said) = run(&["hub", "--kubeconfig=/nowhere/config"]);
    assert!(code == 2 && said.contains("/nowhere/config"), "{said}");
    assert_eq!(run(&["crds", "print", "nonsense"]).0, 6);
    assert_eq!(run(&["phase", "graph", "At"]).0, 6);
    assert!(run(&["phase", "graph", "RedisMigration", "-o", "dot"]).1.starts_with("digraph"));
    assert!(run(&["crds"]).1.contains("\nkind: CustomResourceDefinition\n"));
}

/// Takes what is sent to it, as a collector would. The first bytes of every span's name are in the clear.
fn collector() -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut all, mut part) = (Vec::new(), [0; 4096]);
            let body = loop {
                let read = stream.read(&mut part).unwrap();
                all.extend_from_slice(&part[..read]);
                let Some(head) = all.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let text = String::from_utf8_lossy(&all[..head]).to_ascii_lowercase();
                let length: usize =
                    text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap();
                if all.len() >= head + 4 + length {
                    break all[head + 4..].to_vec();
                }
            };
            // Kept before it is answered: whoever sent it may be gone the next moment, and what came is counted then.
            if to.send(body).is_err() {
                break;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    (port, from)
}

#[test]
fn a_trace_leads_from_the_request_to_the_reconcile_and_on_to_its_requests() {
    // SYM-11
    let (port, received) = collector();
    let endpoint = format!("http://127.0.0.1:{port}");
    let world = World::new(&["--tracing-endpoint", &endpoint]);
    let config = world.config(&format!("tracing: {{endpoint: '{endpoint}'}}\n"));
    let hub = Running::start(muster(&["hub", "-c", config.to_str().unwrap()]), &world.path("hub.log"));
    world.ready();
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let context = format!("00-{trace}-{span}-01");
    world.make_at("traced", &format!("traceparent: {context}\r\n"), &context);
    eventually("the command ran", || world.phase_of("traced").contains("\"DONE\""));
    hub.stop();
    world.server.stop();
    let bytes = |hex: &str| {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect::<Vec<u8>>()
    };
    let has = |body: &[u8], part: &[u8]| body.windows(part.len()).any(|window| window == part);
    let bodies: Vec<Vec<u8>> = received.try_iter().collect();
    let of = |service: &str| {
        bodies.iter().filter(|body| has(body, service.as_bytes())).cloned().collect::<Vec<_>>().concat()
    };
    let (server, hub) = (of("muster-apiserver"), of("muster-hub"));
    // The API server continued the caller's trace below the caller's span.
    let continued = [&[10, 16][..], &bytes(trace)].concat();
    let below = [&[34, 8][..], &bytes(span)].concat();
    assert!(has(&server, &continued) && has(&server, &below) && has(&server, b"request"));
    // The reconcile is linked to the caller's span...
    let linked = [&[10, 16][..], &bytes(trace), &[18, 8], &bytes(span)].concat();
    assert!(has(&hub, b"reconcile") && has(&hub, &linked));
    // ...and what it asked the API server for is part of the reconcile's own trace.
    let reconcile = hub.windows(9).position(|window| window == b"reconcile").unwrap();
    let own = hub[..reconcile].windows(2).rposition(|window| window == [10, 16]).unwrap() + 2;
    assert!(has(&server, &hub[own..own + 16]), "the reconcile's trace did not reach the API server");
}

#[test]
fn in_one_process_a_reconcile_is_linked_to_the_request_that_wrote_the_object() {
    // SYM-11
    let (port, received) = collector();
    let folder = tempfile::tempdir().unwrap();
    let (api, config) = (free_port(), folder.path().join("up.yaml"));
    let text = format!(
        "managers:\n  default:\n    metricsBindAddress: \"0\"\n    healthBindAddress: \"0\"\n    reconcilers:\n      at:\n        \
         options: {{runner: process, allowProcess: true}}\ntracing: {{endpoint: 'http://127.0.0.1:{port}'}}\n"
    );
    fs::write(&config, text).unwrap();
    let mut up = muster(&["up", "-c", config.to_str().unwrap()]);
    up.arg(format!("--data-dir={}", folder.path().join("data").display())).arg(format!("--insecure-port={api}"));
    up.arg(format!("--bind=127.0.0.1:{}", free_port())).arg(format!("--secure-port={}", free_port()));
    up.args(["--", "--authn-allow-localhost"]);
    let log = folder.path().join("up.log");
    let up = Running::start(up, &log);
    eventually("it is ready", || fs::read_to_string(&log).unwrap_or_default().contains(", ready in "));
    let trace = "1bf7651916cd43dd8448eb211c80319c";
    // Whoever writes says whose trace the request is part of, and nothing in the object.
    let body = r#"{"apiVersion":"demo.wukong.com/v1","kind":"At","metadata":{"name":"plain"},"spec":{"schedule":"2020-01-01T00:00:00Z","command":"true"}}"#;
    let path = "/apis/demo.wukong.com/v1/namespaces/default/ats";
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\ntraceparent: 00-{trace}-b7ad6b7169203331-01\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = http(api, &request).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    eventually("the command ran", || get(api, &format!("{path}/plain")).unwrap_or_default().contains("\"DONE\""));
    up.stop();
    let all = received.try_iter().collect::<Vec<_>>().concat();
    // A span and a link begin alike: the trace, then the span. The request has one, and one that is linked to it has it again.
    let bytes: Vec<u8> =
        (0..trace.len()).step_by(2).map(|at| u8::from_str_radix(&trace[at..at + 2], 16).unwrap()).collect();
    let mark = [&[10, 16][..], &bytes, &[18, 8]].concat();
    let found = all.windows(mark.len() + 8).filter(|window| window.starts_with(&mark));
    let spans: Vec<&[u8]> = found.map(|window| &window[mark.len()..]).collect();
    assert!(spans.len() >= 2, "no reconcile is linked to the request: {} spans of the trace", spans.len());
    assert!(spans.iter().all(|span| *span == spans[0]), "{spans:?}");
}
