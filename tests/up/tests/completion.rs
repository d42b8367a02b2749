//! What Tab offers in a real bash, zsh and fish, with the scripts that `muster completion SHELL` prints.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use muster_tests::peer::{ensure, muster_binary};
use muster_tests_up::{PATIENCE, Seated, Up, muster, until};

/// A bash that has loaded the script.
struct Bash<'a> {
    data: &'a Path,
    script: std::path::PathBuf,
}

impl<'a> Bash<'a> {
    fn new(data: &'a Path, folder: &Path) -> Bash<'a> {
        let (code, script, err) = muster(&["completion", "bash"], data, "");
        assert_eq!(code, 0, "{err}");
        let path = folder.join("muster.bash");
        fs::write(&path, script).unwrap();
        Bash { data, script: path }
    }

    /// Waits until this is offered: who waits with a finger on Tab is not kept waiting for a server that is busy.
    fn offers(&self, words: &[&str], expected: &[&str]) {
        let mut offered = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            offered = self.tab(words);
            if offered == expected {
                return;
            }
        }
        panic!("{words:?}: {offered:?} is offered, not {expected:?}");
    }

    /// What is offered for the last of these words, as bash splits them.
    fn tab(&self, words: &[&str]) -> Vec<String> {
        let (offered, said) = self.try_tab(words);
        assert_eq!(said, "", "{words:?}: Tab is silent");
        offered
    }

    fn try_tab(&self, words: &[&str]) -> (Vec<String>, String) {
        // As readline does it: the words in COMP_WORDS, the function with command, word and the word before.
        let line = "source \"$0\"; COMP_WORDS=(muster \"$@\"); COMP_CWORD=$#; \
                    _muster muster \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                    printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut command = shell("bash", self.data);
        command.args(["--norc", "--noprofile", "-c", line]).arg(&self.script).args(words);
        let ended = command.output().unwrap();
        let offered = String::from_utf8(ended.stdout).unwrap();
        let offered = offered.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        (offered, String::from_utf8(ended.stderr).unwrap())
    }
}

/// A shell that finds muster, and of muster this data directory.
fn shell(program: &str, data: &Path) -> Command {
    let folder = muster_binary().unwrap().parent().unwrap().display().to_string();
    let mut command = Command::new(program);
    command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap())).env("HOME", data);
    command.env("MUSTER_DATA_DIR", data).env("TERM", "xterm");
    for variable in ["MUSTER_SERVER", "MUSTER_TOKEN", "MUSTER_CLUSTER", "MUSTER_HUB", "ZDOTDIR", "XDG_CONFIG_HOME"] {
        command.env_remove(variable);
    }
    command
}

/// The script of a shell in a file, which the shell itself finds nothing wrong with.
fn script(name: &str, data: &Path, folder: &Path) -> (String, String) {
    let program = ensure(&[name]).unwrap().join(name).display().to_string();
    let (code, script, err) = muster(&["completion", name], data, "");
    assert_eq!(code, 0, "{err}");
    let path = folder.join(format!("muster.{name}"));
    fs::write(&path, script).unwrap();
    let checked = shell(&program, data).arg("-n").arg(&path).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
    (program, path.display().to_string())
}

#[test]
fn zsh_completes_a_cluster_at_its_prompt() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    let (zsh, script) = script("zsh", &up.data(), up.folder());
    // A session of its own, as a terminal's window has it.
    let mut command = shell("setsid", &up.data());
    command.args(["--ctty", "--wait", &zsh, "-f", "-i"]);
    let mut seat = Seated::at(command);
    // What stands on the line is shown between brackets, so that what the terminal draws does not matter.
    seat.type_in("PS1='ready> '; autoload -Uz compinit; compinit -u -D; setopt nolistbeep\n");
    seat.type_in(&format!("source {script}; show() {{ print -r -- \"<$BUFFER>\" }}; zle -N show; bindkey '^X' show\n"));
    seat.type_in("echo has\\begun\n");
    seat.until("hasbegun");
    for (typed, line) in [
        ("muster clus", "<muster cluster >"),
        ("muster cluster get bei", "<muster cluster get beijing >"),
        ("muster pods --cluster=sh", "<muster pods --cluster=shanghai >"),
        ("muster restart orders", "<muster restart orders-db >"),
    ] {
        // Ctrl-U empties the line.
        seat.type_in(&format!("\u{15}{typed}\t"));
        seat.type_in("\u{18}");
        let heard = seat.heard_until(">");
        let heard = if heard.contains('<') { heard } else { heard + &seat.heard_until(">") };
        assert!(heard.contains(line), "{typed:?}: {heard:?}");
    }
    seat.type_in("\u{15}exit\n");
    seat.ended();
}

#[test]
fn fish_completes_what_it_is_asked() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    let (fish, script) = script("fish", &up.data(), up.folder());
    let tab = |line: &str| -> Vec<String> {
        let mut command = shell(&fish, &up.data());
        // As Tab does it, without a terminal.
        command.args(["--no-config", "-c", "source $argv[1]; complete --do-complete $argv[2]", &script, line]);
        let ended = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{line}: Tab is silent");
        let offered = String::from_utf8(ended.stdout).unwrap();
        offered.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    assert_eq!(tab("muster clus"), ["cluster"]);
    assert_eq!(tab("muster cluster get "), ["beijing", "guangzhou", "shanghai"]);
    assert_eq!(tab("muster cluster get bei"), ["beijing"]);
    assert_eq!(tab("muster pods --cluster=sh"), ["--cluster=shanghai"]);
    assert_eq!(tab("muster restart orders"), ["orders-db"]);
    assert!(tab("muster pods --token-file /etc/host").contains(&"/etc/hostname".to_owned()), "files are the shell's");
}

#[test]
fn names_of_the_fleet_are_offered() {
    // SYM-13
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    up.until_rows("pods orders-db", 9);
    until("releases are seen", || up.seen("releases -o name").contains("ingress"));
    let data = up.data();
    let bash = Bash::new(&data, up.folder());
    // Its own words need nobody.
    assert_eq!(bash.tab(&["clu"]), ["cluster"]);
    assert_eq!(bash.tab(&["pods", "--sel"]), ["--selector"]);
    assert_eq!(bash.tab(&["pods", "-o", "y"]), ["yaml"]);
    // Clusters.
    bash.offers(&["cluster", "get", ""], &["beijing", "guangzhou", "shanghai"]);
    bash.offers(&["pods", "--cluster", "b"], &["beijing"]);
    bash.offers(&["pods", "--cluster", "a"], &["all"]);
    // Bash takes the flag and its value for three words.
    bash.offers(&["pods", "--cluster", "=", "sh"], &["shanghai"]);
    bash.offers(&["pods", "--cluster", "="], &["beijing", "guangzhou", "shanghai", "all"]);
    // Namespaces, applications, pods, releases.
    bash.offers(&["pods", "-n", "sho"], &["shop"]);
    bash.offers(&["restart", "orde"], &["orders-db"]);
    bash.offers(&["exec", "orders-db-"], &["orders-db-0", "orders-db-1", "orders-db-2"]);
    bash.offers(&["exec", "--cluster", "beijing", "-n", "data", "orders-db-0"], &["orders-db-0"]);
    assert!(bash.tab(&["exec", "-n", "shop", "orders-db-"]).is_empty());
    bash.offers(&["logs", "orders-db"], &["orders-db", "orders-db-0", "orders-db-1", "orders-db-2"]);
    bash.offers(&["releases", "ing"], &["ingress"]);
    // Reconcilers of this program, as no hub listens there.
    let reconcilers = bash.tab(&["controller", "enable", ""]);
    assert!(!reconcilers.is_empty() && reconcilers == bash.tab(&["reconciler", ""]), "{reconcilers:?}");
    // Words for somebody else, and a name that is new.
    assert!(bash.tab(&["exec", "orders-db-0", "--", "l"]).is_empty());
    assert!(bash.tab(&["cluster", "import", ""]).is_empty());
}

#[test]
fn without_a_server_tab_is_quick_and_silent() {
    let folder = tempfile::tempdir().unwrap();
    let bash = Bash::new(folder.path(), folder.path());
    assert!(bash.tab(&["cluster", "get", ""]).is_empty());
    assert_eq!(bash.tab(&["pods", "--cluster", ""]), ["all"], "what needs nobody is there");
    // One that takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let token = folder.path().join("token");
    fs::write(&token, "t").unwrap();
    let begun = Instant::now();
    let line = ["pods", "--server", &server, "--token-file", token.to_str().unwrap(), "--cluster", ""];
    assert_eq!(bash.tab(&line), ["all"]);
    // Generous: what is asserted is that it ends, not how fast.
    assert!(begun.elapsed() < PATIENCE);
    // Files are the shell's: compopt wants a completion under way, and that there is none here is all that is said.
    let (offered, said) = bash.try_tab(&["pods", "--token-file", "/e"]);
    assert!(offered.is_empty() && said.is_empty(), "{said}");
}
