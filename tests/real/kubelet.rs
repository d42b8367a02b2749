//! Into real containers, of a real kubelet with containerd: logs, commands, terminals, log files, restarts.
use std::path::Path;
use std::time::{Duration, Instant};

use muster_tests::cluster::{Cluster, Nodes};
use muster_tests::peer::muster_binary;
use muster_tests::process::Process;
use muster_tests_up::{PATIENCE, Seated, until};

use crate::stage::{Stage, text};

/// Prints a line and writes one to a file, each second; beside it one that ends over and over.
const TALKER: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: talker, namespace: shop, labels: {app: talker}}
spec:
  replicas: 1
  selector: {matchLabels: {app: talker}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: talker, sym-group: blue}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: "muster.test/box:1"
        imagePullPolicy: Never
        command:
        - sh
        - -c
        - 'mkdir -p /var/log/app; i=0; while true; do i=$((i+1)); echo line $i; echo "file $i" >> "/var/log/app/a b;c.log"; sleep 1; done'
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: mortal, namespace: shop, labels: {app: mortal}}
spec:
  selector: {matchLabels: {app: mortal}}
  template:
    metadata: {labels: {app: mortal}}
    spec:
      hostNetwork: true
      containers:
      - {name: main, image: "muster.test/box:1", imagePullPolicy: Never, command: [sh, -c, "echo a short life; sleep 1; exit 7"]}
"#;

/// Why there can be no real node here.
fn obstacle() -> Option<&'static str> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    match () {
        () if !root => Some("a kubelet needs root"),
        () if !Path::new("/sys/fs/cgroup/memory").is_dir() => Some("peers/node knows control groups v1 alone"),
        () => None,
    }
}

// SYM-13: 5, 7, 8, 10, 11, 12, 13
pub fn real_containers_are_looked_into(stage: &mut Stage) {
    if let Some(why) = obstacle() {
        println!("not run: {why}");
        return;
    }
    let metal = stage.runtime.block_on(Cluster::start("metal", Nodes::Real)).unwrap_or_else(|why| panic!("{why}"));
    stage.join(&metal);
    metal.kubectl_fed("apply -f -", TALKER).unwrap();
    until("the talker runs", || stage.running("talker --cluster metal").len() == 1);
    let pod = stage.running("talker")[0].rsplit('/').next().unwrap().to_owned();
    logs(stage, &pod);
    commands(stage, &pod);
    terminal(stage, &pod);
    files(stage, &pod);
    let events = stage.get(&format!("/api/cluster/metal/namespace/shop/pods/{pod}/event"));
    let reasons: Vec<&str> = events["items"].as_array().unwrap().iter().map(|row| text(row, "reason")).collect();
    assert!(reasons.contains(&"Started"), "{events}");
    until("a short life ended several times", || {
        let rows = stage.up.json("pods mortal --cluster metal");
        rows["items"][0]["restarts"].as_u64() >= Some(1)
    });
    until("the life before is told", || {
        let (code, out, _) = stage.up.command(&["logs", "mortal", "--cluster", "metal", "-p", "--no-prefix"]);
        code == 0 && out == "a short life\n"
    });
    stage.up.ok("restart talker --cluster metal --group blue -n shop");
    until("a new pod has taken its place", || {
        let now = stage.running("talker --cluster metal");
        now.len() == 1 && !now[0].ends_with(&pod)
    });
    stage.up.ok("cluster delete metal --yes");
    until("it is gone", || stage.state("metal").is_empty());
}

/// One that runs well, one that does not, one that is over before it is done.
const ATS: &str = r#"
apiVersion: demo.wukong.com/v1
kind: At
metadata: {name: well}
spec: {schedule: "2020-01-01T00:00:00Z", command: "sh -c 'echo it is $((6 * 7)); id -u'"}
---
apiVersion: demo.wukong.com/v1
kind: At
metadata: {name: badly}
spec: {schedule: "2020-01-01T00:00:00Z", command: "sh -c 'echo gone wrong; exit 9'"}
---
apiVersion: demo.wukong.com/v1
kind: At
metadata: {name: late}
spec: {schedule: "2020-01-01T00:00:00Z", command: "sleep 600", timeoutSeconds: 15}
"#;

/// A hub beside a cluster; it dies with this value.
fn hub(stage: &Stage, kubeconfig: &Path) -> Process {
    let flags = [
        "hub",
        "--leader-elect=false",
        "--metrics-bind-address=0",
        "--health-bind-address=0",
        "--set=managers.default.reconcilers.at.options.image=muster.test/box:1",
    ];
    let flags = flags.iter().map(|flag| (*flag).to_owned()).chain([format!("--kubeconfig={}", kubeconfig.display())]);
    let (program, log) = (muster_binary().unwrap(), stage.file("hub.log", ""));
    Process::spawn("hub", &program, &flags.collect::<Vec<_>>(), &log).unwrap()
}

// KC-7
pub fn an_at_runs_as_a_real_pod_once(stage: &mut Stage) {
    if let Some(why) = obstacle() {
        println!("not run: {why}");
        return;
    }
    let metal = stage.runtime.block_on(Cluster::start("metal", Nodes::Real)).unwrap_or_else(|why| panic!("{why}"));
    let kubeconfig = stage.file("metal-hub.kubeconfig", &metal.kubeconfig().unwrap());
    let (code, _, err) = stage.up.command(&["crds", "apply", "--kubeconfig", &kubeconfig.display().to_string()]);
    assert_eq!(code, 0, "{err}");
    let mut first = hub(stage, &kubeconfig);
    metal.kubectl_fed("apply -f -", ATS).unwrap();
    let of = |name: &str, field: &str| {
        metal.kubectl(&format!("get ats {name} -o jsonpath={{.status.{field}}}")).unwrap_or_default()
    };
    until("a pod runs", || metal.kubectl("get pods -o jsonpath={.items[*].status.phase}").unwrap().contains("Running"));
    // Whoever made the pods dies; the next one finds them.
    first.kill();
    let mut second = hub(stage, &kubeconfig);
    for (name, outcome, code, output) in [
        ("well", "Succeeded", "0", "it is 42\n0"),
        ("badly", "Failed", "9", "gone wrong"),
        ("late", "TimedOut", "", ""),
    ] {
        let begun = Instant::now();
        while of(name, "phase") != "DONE" {
            let log = || format!("{}\n{}", metal.log_tail(), std::fs::read_to_string(&second.log).unwrap_or_default());
            assert!(begun.elapsed() < PATIENCE, "{name} is not done: {}\n{}", of(name, "message"), log());
            std::thread::sleep(Duration::from_millis(200));
        }
        assert_eq!((of(name, "outcome"), of(name, "runner")), (outcome.to_owned(), "pod".to_owned()), "{name}");
        if outcome != "TimedOut" {
            assert_eq!((of(name, "exitCode").as_str(), of(name, "output").trim_end()), (code, output), "{name}");
        }
    }
    let pods = metal.kubectl("get pods -o jsonpath={.items[*].metadata.name}").unwrap();
    assert_eq!(pods.split_whitespace().count(), 3, "each ran once: {pods}");
    second.kill();
}

fn logs(stage: &Stage, pod: &str) {
    until("it has said something", || stage.up.ok(&format!("logs {pod} --cluster metal")).lines().count() >= 4);
    let said = stage.up.ok(&format!("logs {pod} --cluster metal"));
    let expected: Vec<String> = (1..=said.lines().count()).map(|number| format!("line {number}")).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    assert_eq!(stage.up.ok(&format!("logs {pod} --cluster metal --tail 2")).lines().count(), 2);
    let timed = stage.up.ok(&format!("logs {pod} --cluster metal --tail 1 --timestamps"));
    assert!(timed.starts_with("20") && timed.contains("Z line "), "{timed}");
    let recent = stage.up.ok(&format!("logs {pod} --cluster metal --since 2s"));
    assert!(recent.lines().count() < said.lines().count() && !recent.contains("line 1\n"), "{recent}");
    // What is said from now on is heard at once.
    let mut seat = Seated::start(&stage.up, &["logs", pod, "--cluster", "metal", "--tail", "1", "-f"]);
    let next = said.lines().count() + 4;
    (next..next + 3).for_each(|number| seat.until(&format!("line {number}\r\n")));
}

fn commands(stage: &Stage, pod: &str) {
    let run = |command: &[&str]| stage.up.command(&[&["exec", pod, "--cluster", "metal", "--"], command].concat());
    assert_eq!(run(&["sh", "-c", "echo out; echo err >&2; exit 3"]), (3, "out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(run(&["echo", "a b", "$HOME;", "'"]), (0, "a b $HOME; '\n".to_owned(), String::new()));
    let (code, out, err) = run(&["no-such-program"]);
    assert!(code != 0 && out.is_empty() && err.contains("no-such-program"), "{code} {out}{err}");
    let (code, out, err) = run(&["cat", "/etc/hostname"]);
    assert_eq!(code, i32::from(!err.is_empty()), "{out}{err}");
}

fn terminal(stage: &Stage, pod: &str) {
    let mut seat = Seated::start(&stage.up, &["terminal", pod, "--cluster", "metal"]);
    seat.type_in("tty; echo $((6 * 7))\r");
    seat.until("/dev/pts/");
    seat.until("42");
    // The size of the window here is the size of the terminal there, also after it changed.
    for (rows, columns) in [(31, 97), (43, 132)] {
        seat.resize(rows, columns);
        let mut tries = 0;
        loop {
            seat.type_in("stty size; echo si''zed\r");
            if seat.heard_until("sized\r\n").contains(&format!("{rows} {columns}\r\n")) {
                break;
            }
            tries += 1;
            assert!(tries < 50, "the terminal never had {rows} rows and {columns} columns");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    // Ctrl-C ends the program in the terminal, not the terminal.
    seat.type_in("echo $((6 * 8)); sleep 1000\r");
    seat.until("48");
    seat.type_in("\u{3}");
    seat.type_in("echo still $((40 + 3))\r");
    seat.until("still 43");
    seat.type_in("exit 5\r");
    assert_eq!(seat.ended(), 5);
}

/// A file with blanks and a semicolon in its name: no shell reads it.
fn files(stage: &Stage, pod: &str) {
    let list = stage.get(&format!("/api/pod/logfiles?cluster=metal&namespace=shop&pod={pod}"));
    let file = list.as_array().unwrap().iter().find(|file| file["path"] == "/var/log/app/a b;c.log");
    let file = file.unwrap_or_else(|| panic!("{list}"));
    assert!(file["size"].as_u64() > Some(0) && text(file, "modified").starts_with("20"), "{file}");
    let path = "/var/log/app/a%20b%3Bc.log";
    let url = format!("/api/cluster/metal/namespace/shop/pods/{pod}/logs/file?path={path}&tail=2");
    let (code, body) = stage.request("GET", &url);
    assert!(code == 200 && body.matches("file ").count() == 2, "{code} {body}");
    let (code, body) = stage.request("GET", &url.replace("b%3Bc", "absent"));
    assert_eq!(code, 404, "{body}");
}
