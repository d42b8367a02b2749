//! `muster up --demo`, walked with the commands a newcomer types.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use muster_tests::peer::{free_port, muster_binary, peers_folder};
use muster_tests_up::{Seated, Up, muster, until};

#[test]
fn the_demo_greets_and_its_members_run() {
    let mut up = Up::start(&["--demo"]);
    let log = up.log();
    for words in [
        format!("console     http://127.0.0.1:{}", up.port),
        "login       admin, teleport".to_owned(),
        "muster cluster list".to_owned(),
        format!("https://127.0.0.1:{}", up.secure_port),
    ] {
        assert!(log.contains(&words), "no {words:?} in\n{log}");
    }
    assert!(!log.contains("setup"), "the demo has its administrator:\n{log}");
    up.until_running(3);
    assert_eq!(up.ok("cluster list --sort name -o name"), "beijing\nguangzhou\nshanghai\n");
    let table = up.ok("cluster list");
    assert!(table.lines().next().unwrap().starts_with("NAME"), "{table}");
    let one = up.ok("cluster get shanghai");
    assert!(one.contains("state      Running") && one.contains("sym-ldc=sh1"), "{one}");
    for file in ["client.json", "admin.kubeconfig"] {
        let mode = fs::metadata(up.data().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let kubectl = Command::new(peers_folder().unwrap().join("kubectl"))
        .arg("--kubeconfig")
        .arg(up.data().join("admin.kubeconfig"))
        .args(["get", "namespaces", "-o", "name"])
        .env("HOME", up.folder())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&kubectl.stdout).contains("namespace/muster-system"), "{kubectl:?}");
    assert_eq!(up.ok("console"), format!("http://127.0.0.1:{}\n", up.port));
    up.stop();
    assert!(!up.data().join("client.json").exists());
    assert!(!up.log().contains("panicked"), "{}", up.log());
}

#[test]
fn an_application_is_seen_over_all_clusters_and_by_group() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    up.until_rows("pods web", 18);
    let canary = up.ok("pods web --group canary --sort cluster -o name");
    let clusters: Vec<&str> = canary.lines().filter_map(|line| line.split('/').next()).collect();
    assert_eq!(clusters, ["beijing", "guangzhou", "shanghai"], "{canary}");
    up.until_rows("pods web --cluster beijing -n shop --group blue", 3);
    up.until_rows("pods web --ldc gz1 --unit unit-2", 6);
    up.until_rows("pods -l version=1.9.0", 6);
    let limited = up.json("pods web --limit 4 --sort name");
    assert_eq!((limited["items"].as_array().map(Vec::len), &limited["count"]), (Some(4), &18.into()));
    until("those of beijing are on its nodes", || {
        let (code, out, err) = up.command(&["pods", "--filter", "node startswith bj1- and app eq web", "-o", "name"]);
        assert_eq!(code, 0, "{out}{err}");
        out.lines().count() == 6
    });
    until("the failing pod is seen to fail", || {
        up.rows("pods recommend").iter().any(|row| row["restarts"].as_u64().unwrap_or(0) > 0)
    });
    until("it is told of", || up.seen("events recommend --warnings").contains("BackOff"));
    let wide = up.ok("pods web -o wide --cluster beijing");
    assert!(wide.lines().next().unwrap().contains("IMAGE") && wide.contains("registry.example/shop/web"), "{wide}");
    until("web has its addresses", || up.seen("endpoints web --cluster beijing").contains(":8080"));
    up.until_rows("releases ingress --cluster shanghai", 1);
    assert_eq!(up.rows("releases ingress --cluster shanghai")[0]["revision"], 2);
}

#[test]
fn logs_and_commands_reach_into_containers() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    until("orders-db runs everywhere", || {
        let pods = up.rows("pods orders-db -n data");
        pods.len() == 9 && pods.iter().all(|row| row["phase"] == "Running")
    });
    // A pod that has just begun has said one line.
    let mut lines = String::new();
    until("every pod has said something", || {
        lines = up.ok("logs orders-db --tail 2");
        lines.lines().count() == 18
    });
    assert!(lines.lines().any(|line| line.starts_with("guangzhou/data/orders-db-2 ")), "{lines}");
    let one = up.ok("logs orders-db-0 --cluster beijing --tail 1");
    assert!(one.lines().count() == 1 && !one.starts_with("beijing/"), "{one}");
    let (code, out, _) =
        up.command(&["exec", "orders-db-0", "--cluster", "beijing", "--", "sh", "-c", "echo $HOSTNAME; exit 3"]);
    assert_eq!((code, out.trim()), (3, "orders-db-0"));
    let (code, _, err) = up.command(&["exec", "orders-db-0", "--", "ls"]);
    assert!(code == 1 && err.contains("means 3 pods") && err.contains("--cluster"), "{code} {err}");
    let (code, _, err) = up.command(&["terminal", "orders-db-0", "--cluster", "beijing"]);
    assert!(code == 2 && err.contains("muster exec orders-db-0 -- COMMAND"), "{err}");
}

#[test]
fn a_terminal_carries_keys_and_output_and_ends_as_its_shell() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    until("orders-db runs", || {
        up.rows("pods orders-db --cluster beijing")
            .iter()
            .any(|row| row["name"] == "orders-db-0" && row["phase"] == "Running")
    });
    let mut terminal = Seated::start(&up, &["terminal", "orders-db-0", "--cluster", "beijing"]);
    terminal.until("Ctrl-]");
    terminal.until("# ");
    terminal.type_in("hostname\r");
    terminal.until("orders-db-0");
    // The size of the window here is the size of the terminal there, also after it changed.
    for (rows, columns) in [(31, 97), (43, 132)] {
        terminal.resize(rows, columns);
        let size = format!("{rows} {columns}\r\n");
        until("the size has arrived", || {
            terminal.type_in("stty size; echo si''zed\r");
            terminal.heard_until("sized\r\n").contains(&size)
        });
    }
    terminal.type_in("exit 4\r");
    assert_eq!(terminal.ended(), 4);
    let mut left = Seated::start(&up, &["terminal", "orders-db-0", "--cluster", "beijing"]);
    left.until("# ");
    left.type_in("\u{1d}");
    assert_eq!(left.ended(), 0);
}

#[test]
fn one_group_is_restarted_and_the_others_are_not() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    until("web is up", || up.rows("pods web").iter().filter(|row| row["phase"] == "Running").count() == 18);
    let before = up.ok("pods web --group green --sort cluster,name -o name");
    let canary = up.ok("pods web --group canary --sort cluster,name -o name");
    let said = up.until_restarted("restart web --group canary");
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.contains("deployment beijing/shop/web-canary restarted"), "{said}");
    until("the canaries are new", || {
        let now = up.ok("pods web --group canary --sort cluster,name -o name");
        now.lines().count() == 3 && now.lines().all(|line| !canary.contains(line))
    });
    assert_eq!(up.ok("pods web --group green --sort cluster,name -o name"), before);
    let (code, _, err) = up.command(&["restart", "web", "--group", "purple", "-n", "shop"]);
    assert!(code == 6 && err.contains("nothing was restarted"), "{code} {err}");
}

#[test]
fn commands_end_with_the_code_of_what_happened() {
    let mut up = Up::start(&[]);
    let code = |words: &[&str]| {
        let (code, _, err) = up.command(words);
        (code, err)
    };
    assert_eq!(code(&["cluster", "get", "nowhere"]).0, 6);
    assert_eq!(code(&["pods", "--filter", "phase like x"]).0, 2);
    assert_eq!(code(&["pods", "--nonsense"]).0, 2);
    assert_eq!(code(&["cluster", "delete", "x"]).0, 2, "nobody can be asked");
    let wrong = up.folder().join("token");
    fs::write(&wrong, "not-a-token").unwrap();
    let (forbidden, err) = code(&["pods", "--token-file", wrong.to_str().unwrap()]);
    assert_eq!(forbidden, 5, "{err}");
    for part in ["error: ", "\n  because: ", "\n  try: ", "request "] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    up.kill();
    let (unreachable, err) = {
        let (code, _, err) = up.command(&["cluster", "list"]);
        (code, err)
    };
    assert!(unreachable == 8 && err.contains("does not answer"), "{err}");
    let empty = tempfile::tempdir().unwrap();
    let (code, _, err) = muster(&["pods"], empty.path(), "");
    assert!(code == 8 && err.contains("muster up --demo"), "{code} {err}");
}

#[test]
fn a_taken_address_a_demo_in_the_open_and_a_weak_password_are_refused() {
    let up = Up::start(&[]);
    let refused = |flags: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let data = format!("--data-dir={}", folder.path().display());
        let secure = format!("--secure-port={}", free_port());
        let mut command = Command::new(muster_binary().unwrap());
        command.args(["up", &data, &secure, "--metrics-bind-address=0", "--health-bind-address=0"]).args(flags);
        let ended = command.output().unwrap();
        (ended.status.code().unwrap(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (code, err) = refused(&[&format!("--bind=127.0.0.1:{}", up.port)]);
    assert!(code == 7 && err.contains("--bind"), "{code} {err}");
    let (code, err) = refused(&["--demo", &format!("--bind=0.0.0.0:{}", free_port())]);
    assert!(code == 2 && err.contains("error: "), "{code} {err}");
    let file = up.folder().join("weak");
    fs::write(&file, "12345").unwrap();
    let bind = format!("--bind=127.0.0.1:{}", free_port());
    let (code, err) = refused(&[&bind, "--admin-password-file", file.to_str().unwrap()]);
    assert!(code == 2 && err.contains("choose another password") && !err.contains("12345"), "{code} {err}");
}

#[test]
fn a_password_file_makes_the_first_administrator_where_nobody_can_click() {
    // B-17
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "canary-password-4711\n").unwrap();
    let up = Up::start(&["--admin-password-file", file.to_str().unwrap()]);
    assert!(!up.log().contains("setup "), "{}", up.log());
    let address = format!("http://127.0.0.1:{}", up.port);
    let login = |password: &str| {
        let body = format!(r#"{{"user":"admin","password":"{password}"}}"#);
        up.request("POST", "/wapi/v1/login", &[("Origin", &address)], &body).0
    };
    assert_eq!((login("canary-password-4711"), login("canary-password-4712")), (200, 401));
    assert!(!up.log().contains("canary"));
}

#[test]
fn beyond_this_machine_it_speaks_tls_and_the_commands_know_its_authority() {
    let up = Up::start_on("0.0.0.0", &["--host=muster.example.org"]);
    assert_eq!(up.ok("cluster list -o name"), "");
    let link = up.ok("console");
    assert!(link.starts_with(&format!("https://muster.example.org:{}/setup#t=", up.port)), "{link}");
    // Whom else to believe is not guessed.
    let token = up.folder().join("token");
    fs::write(&token, "x").unwrap();
    let server = format!("https://localhost:{}", up.port);
    let (code, _, err) = up.command(&["pods", "--server", &server, "--token-file", token.to_str().unwrap()]);
    assert!(code == 8 && err.contains("certificate"), "{code} {err}");
}

#[test]
fn behind_a_proxy_links_and_cookies_are_those_of_the_public_address() {
    // B-9
    let up = Up::start(&["--public-url=https://muster.example.com"]);
    let link = up.ok("console");
    let (address, token) = link.trim().split_once("/setup#t=").unwrap();
    assert_eq!(address, "https://muster.example.com");
    assert!(
        up.log().contains("console     https://muster.example.com\n") && up.log().contains(link.trim()),
        "{}",
        up.log()
    );
    let body = format!(r#"{{"token":"{token}","user":"ann","password":"a password of some length"}}"#);
    // As a proxy sends it that names us by our own address.
    let (code, said) = up.request("POST", "/wapi/v1/setup", &[("Origin", "https://evil.example")], &body);
    assert_eq!(code, 403, "{said}");
    let (code, said) = up.request("POST", "/wapi/v1/setup", &[("Origin", "https://muster.example.com")], &body);
    assert!(code == 200 && said.contains("\"ann\""), "{code} {said}");
    // The command line on this machine goes past the proxy.
    assert_eq!(up.ok("cluster list -o name"), "");
    let folder = tempfile::tempdir().unwrap();
    let refused = Command::new(muster_binary().unwrap())
        .args([
            "up",
            "--demo",
            "--public-url=https://muster.example.com",
            "--secure-port=0",
            "--metrics-bind-address=0",
        ])
        .args(["--health-bind-address=0", &format!("--bind=127.0.0.1:{}", free_port())])
        .arg(format!("--data-dir={}", folder.path().display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("known to everybody"), "{said}");
}

#[test]
fn the_first_administrator_is_made_by_a_link_that_works_once() {
    let mut up = Up::start(&[]);
    let link = up.ok("console");
    let (address, token) = link.trim().split_once("/setup#t=").unwrap();
    assert_eq!(address, format!("http://127.0.0.1:{}", up.port));
    assert!(up.log().contains(link.trim()));
    let origin = [("Origin", address)];
    let body = format!(r#"{{"token":"{token}","user":"ann","password":"a password of some length"}}"#);
    assert_eq!(up.request("GET", "/wapi/v1/session", &[], "").0, 401);
    let (code, said) = up.request("POST", "/wapi/v1/setup", &origin, &body);
    assert!(code == 200 && said.contains("\"ann\""), "{code} {said}");
    assert_ne!(up.request("POST", "/wapi/v1/setup", &origin, &body).0, 200);
    up.kill();
    up.start_again();
    assert_eq!(up.ok("console"), format!("http://127.0.0.1:{}\n", up.port));
    let login = r#"{"user":"ann","password":"a password of some length"}"#;
    assert_eq!(up.request("POST", "/wapi/v1/login", &origin, login).0, 200);
}
