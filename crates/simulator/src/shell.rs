//! A shell small enough to be simulated: it knows a few commands and a few files, and nothing it does changes anything.

mod line;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use meta::Object;
use serde_json::Value;

use line::{Join, pipelines};

use crate::log::Log;
use crate::look::{at, list, text};

/// The most a command may say.
const MOST: usize = 1 << 20;
const COMMANDS: &str = "cat cd date echo env exit false find grep head hostname id ls printenv ps pwd sh sleep stty tail true uname wc whoami";

/// What a command came to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub out: String,
    pub err: String,
    pub code: i32,
    /// The shell ends.
    pub exit: bool,
    pub then: Option<Then>,
}

/// What only time can bring.
#[derive(Debug, PartialEq)]
pub(crate) enum Then {
    Sleep(Duration),
    /// More lines of the log file that was read to its end.
    Follow {
        errors: bool,
        from: u64,
    },
}

impl Outcome {
    fn say(out: impl Into<String>) -> Self {
        Self { out: out.into(), ..Self::default() }
    }

    fn fail(code: i32, err: impl Into<String>) -> Self {
        Self { err: err.into() + "\n", code, ..Self::default() }
    }
}

/// A shell in a container.
pub(crate) struct Shell {
    pod: Object,
    env: BTreeMap<String, String>,
    here: String,
    log: Option<Log>,
    last: i32,
    /// Rows and columns, if somebody sits at a terminal.
    pub size: Option<(u16, u16)>,
}

impl Shell {
    pub fn new(pod: &Object, container: &str) -> Self {
        Self {
            env: environment(pod, container),
            here: "/".into(),
            log: Log::of(pod, container, false).ok(),
            pod: pod.clone(),
            last: 0,
            size: None,
        }
    }

    pub fn prompt(&self) -> String {
        format!("{} # ", self.here)
    }

    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Runs a command that is already taken apart, as exec gives it, on this input.
    pub fn run(&mut self, words: &[String], input: Option<String>, now: Timestamp) -> Outcome {
        self.command(words, input, now)
    }

    /// Runs a line as a shell reads it.
    pub fn line(&mut self, line: &str, now: Timestamp) -> Outcome {
        let mut total = Outcome::default();
        for (joined, commands) in pipelines(line) {
            let skip = match joined {
                Join::And => self.last != 0,
                Join::Or => self.last == 0,
                Join::Always => false,
            };
            if skip {
                continue;
            }
            let mut input = None;
            let mut outcome = Outcome::default();
            for command in commands {
                let words = match self.words(&command) {
                    Ok(words) => words,
                    Err(why) => {
                        outcome = Outcome::fail(2, format!("sh: syntax error: {why}"));
                        break;
                    }
                };
                if words.is_empty() {
                    continue;
                }
                total.err.push_str(&std::mem::take(&mut outcome.err));
                outcome = self.command(&words, input.take(), now);
                input = Some(outcome.out.clone());
            }
            self.last = outcome.code;
            total.out.push_str(&outcome.out);
            total.err.push_str(&outcome.err);
            (total.code, total.exit, total.then) = (outcome.code, outcome.exit, outcome.then);
            if total.exit || total.then.is_some() || total.out.len() > MOST {
                break;
            }
        }
        total
    }

    fn command(&mut self, words: &[String], input: Option<String>, now: Timestamp) -> Outcome {
        let Some((name, rest)) = words.split_first() else { return Outcome::default() };
        let args: Vec<&str> = rest.iter().map(String::as_str).collect();
        let program = name.rsplit('/').next().unwrap_or_default();
        match program {
            "true" | ":" => Outcome::default(),
            "false" => Outcome { code: 1, ..Outcome::default() },
            "exit" => {
                let code = args.first().and_then(|code| code.parse().ok()).unwrap_or(self.last);
                Outcome { code, exit: true, ..Outcome::default() }
            }
            "echo" => echo(&args),
            "pwd" => Outcome::say(format!("{}\n", self.here)),
            "cd" => self.cd(args.first().copied().unwrap_or("/")),
            "hostname" => Outcome::say(format!("{}\n", self.hostname())),
            "whoami" => Outcome::say("root\n"),
            "id" => Outcome::say("uid=0(root) gid=0(root) groups=0(root)\n"),
            "uname" if args.contains(&"-a") => {
                Outcome::say(format!("Linux {} 6.12.0-simulated #1 SMP x86_64 GNU/Linux\n", self.hostname()))
            }
            "uname" => Outcome::say("Linux\n"),
            "date" => Outcome::say(format!("{}\n", now.strftime("%a %b %e %H:%M:%S UTC %Y"))),
            "stty" => match (args.as_slice(), self.size) {
                (["size"], Some((rows, columns))) => Outcome::say(format!("{rows} {columns}\n")),
                (_, None) => Outcome::fail(1, "stty: standard input: Inappropriate ioctl for device"),
                _ => Outcome::fail(1, "stty: only `stty size` is simulated"),
            },
            "env" | "printenv" => self.show_env(&args),
            "ps" => self.processes(),
            "ls" => self.ls(&args, now),
            "find" => self.find(&args, now),
            "cat" => self.cat(&args, input, now),
            "head" | "tail" => self.ends(program, &args, input, now),
            "grep" => self.grep(&args, input, now),
            "wc" => self.wc(&args, input, now),
            "sleep" => match args.first().and_then(|text| text.trim_end_matches('s').parse::<f64>().ok()) {
                Some(seconds) if (0.0..86_400.0).contains(&seconds) => {
                    Outcome { then: Some(Then::Sleep(Duration::from_secs_f64(seconds))), ..Outcome::default() }
                }
                _ => Outcome::fail(1, "sleep: a number of seconds up to a day is needed"),
            },
            "sh" | "bash" | "ash" => match args[..] {
                ["-c" | "-lc" | "-ec", script, ..] => {
                    let script = script.to_owned();
                    Outcome { exit: false, ..self.line(&script, now) }
                }
                [] => Outcome::default(),
                _ => Outcome::fail(2, format!("{program}: only `{program} -c COMMAND` is simulated")),
            },
            "help" => Outcome::say(format!("This shell is simulated. It knows: {COMMANDS}\n")),
            _ => Outcome::fail(127, format!("sh: {name}: not found (this shell is simulated; it knows: {COMMANDS})")),
        }
    }

    /// Whether a program can be run at all, as exec asks before it starts one.
    pub fn knows(name: &str) -> bool {
        let program = name.rsplit('/').next().unwrap_or_default();
        matches!(program, "bash" | "ash" | "help") || COMMANDS.split(' ').any(|known| known == program)
    }

    /// Whether a command means to talk.
    pub fn is_interactive(words: &[String]) -> bool {
        let talks = |word: &String| matches!(word.rsplit('/').next().unwrap_or_default(), "sh" | "bash" | "ash");
        words.first().is_some_and(talks) && words[1..].iter().all(|word| matches!(word.as_str(), "-i" | "-l" | "-il"))
    }

    fn hostname(&self) -> &str {
        let asked = text(&self.pod, "/spec/hostname");
        if asked.is_empty() { self.pod.name() } else { asked }
    }

    fn show_env(&self, args: &[&str]) -> Outcome {
        match args.first() {
            Some(name) => match self.env.get(*name) {
                Some(value) => Outcome::say(format!("{value}\n")),
                None => Outcome { code: 1, ..Outcome::default() },
            },
            None => Outcome::say(self.env.iter().map(|(key, value)| format!("{key}={value}\n")).collect::<String>()),
        }
    }

    fn processes(&self) -> Outcome {
        let mut out = String::from("PID   USER     TIME  COMMAND\n");
        for (i, name) in crate::pod::containers(&self.pod).enumerate() {
            out.push_str(&format!("{:>5} root      0:0{i} {name}\n", i + 1));
        }
        out.push_str("   42 root      0:00 sh\n   43 root      0:00 ps\n");
        Outcome::say(out)
    }

    /// The files there are, by path.
    fn read(&self, path: &str, now: Timestamp) -> Option<String> {
        match path {
            "/etc/hostname" => Some(format!("{}\n", self.hostname())),
            "/etc/os-release" => Some("NAME=\"Simulated Linux\"\nID=simulated\nVERSION_ID=1\n".into()),
            "/etc/hosts" => {
                Some(format!("127.0.0.1\tlocalhost\n{}\t{}\n", text(&self.pod, "/status/podIP"), self.hostname()))
            }
            "/etc/resolv.conf" => Some(format!(
                "search {ns}.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
                ns = self.pod.namespace()
            )),
            "/var/log/app.log" => Some(self.log_lines(false, now)),
            "/var/log/error.log" => Some(self.log_lines(true, now)),
            _ => None,
        }
    }

    fn log_lines(&self, errors: bool, now: Timestamp) -> String {
        let Some(log) = &self.log else { return String::new() };
        let lines = (log.first(now)..log.count(now)).map(|line| log.line(line));
        lines.filter(|line| !errors || is_error(line)).fold(String::new(), |all, line| all + &line + "\n")
    }

    fn resolve(&self, path: &str) -> String {
        let full = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.here) };
        let mut parts: Vec<&str> = Vec::new();
        for part in full.split('/') {
            match part {
                "" | "." => {}
                ".." => _ = parts.pop(),
                part => parts.push(part),
            }
        }
        format!("/{}", parts.join("/"))
    }

    fn is_folder(path: &str) -> bool {
        path == "/" || FOLDERS.contains(&path) || FILES.iter().any(|file| file.starts_with(&format!("{path}/")))
    }

    fn cd(&mut self, path: &str) -> Outcome {
        let to = self.resolve(path);
        if !Self::is_folder(&to) {
            return Outcome::fail(1, format!("sh: cd: can't cd to {path}: No such file or directory"));
        }
        self.here = to;
        Outcome::default()
    }

    fn ls(&self, args: &[&str], now: Timestamp) -> Outcome {
        let long = args.iter().any(|arg| arg.starts_with('-') && arg.contains('l'));
        let mut total = Outcome::default();
        let paths: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
        for path in if paths.is_empty() { vec!["."] } else { paths } {
            let full = self.resolve(path);
            let names: Vec<String> = match () {
                () if Self::is_folder(&full) => children(&full),
                () if FILES.contains(&full.as_str()) => vec![path.to_owned()],
                () => {
                    total.err.push_str(&format!("ls: {path}: No such file or directory\n"));
                    total.code = 1;
                    continue;
                }
            };
            for name in names {
                let entry = if Self::is_folder(&full) {
                    format!("{}/{name}", full.trim_end_matches('/'))
                } else {
                    full.clone()
                };
                match (long, self.read(&entry, now)) {
                    (false, _) => total.out.push_str(&format!("{name}\n")),
                    (true, Some(content)) => {
                        let when = now.strftime("%b %e %H:%M");
                        total.out.push_str(&format!(
                            "-rw-r--r--    1 root     root     {:>9} {when} {name}\n",
                            content.len()
                        ));
                    }
                    (true, None) => {
                        let when = now.strftime("%b %e %H:%M");
                        total.out.push_str(&format!("drwxr-xr-x    2 root     root          4096 {when} {name}\n"));
                    }
                }
            }
        }
        total
    }

    fn find(&self, args: &[&str], _: Timestamp) -> Outcome {
        let start = args.first().filter(|arg| !arg.starts_with('-')).copied().unwrap_or(".");
        let full = self.resolve(start);
        if !Self::is_folder(&full) && !FILES.contains(&full.as_str()) {
            return Outcome::fail(1, format!("find: {start}: No such file or directory"));
        }
        let name = args.iter().position(|arg| *arg == "-name").and_then(|i| args.get(i + 1)).copied();
        let fits = |file: &str| match name {
            Some(pattern) => glob(pattern, file.rsplit('/').next().unwrap_or_default()),
            None => true,
        };
        let inside = |file: &&&str| ***file == full || full == "/" || file.starts_with(&format!("{full}/"));
        Outcome::say(
            FILES.iter().filter(inside).filter(|file| fits(file)).map(|file| format!("{file}\n")).collect::<String>(),
        )
    }

    /// The files that were named, or what came through the pipe.
    fn contents(&self, program: &str, paths: &[&str], input: Option<String>, now: Timestamp) -> (String, Outcome) {
        let mut told = Outcome::default();
        if paths.is_empty() {
            return (input.unwrap_or_default(), told);
        }
        let mut all = String::new();
        for path in paths {
            let full = self.resolve(path);
            match self.read(&full, now) {
                Some(content) => all.push_str(&content),
                None => {
                    let why = if Self::is_folder(&full) { "Is a directory" } else { "No such file or directory" };
                    told.err.push_str(&format!("{program}: {path}: {why}\n"));
                    told.code = 1;
                }
            }
        }
        (all, told)
    }

    fn cat(&self, args: &[&str], input: Option<String>, now: Timestamp) -> Outcome {
        let paths: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
        let (content, told) = self.contents("cat", &paths, input, now);
        Outcome { out: content, ..told }
    }

    /// `head` and `tail`.
    fn ends(&self, program: &str, args: &[&str], input: Option<String>, now: Timestamp) -> Outcome {
        let (mut count, mut follow, mut paths) = (10usize, false, Vec::new());
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match *arg {
                "-f" | "-F" | "--follow" | "--follow=name" => follow = true,
                "-n" | "--lines" => match rest.next().and_then(|n| n.trim_start_matches('-').parse().ok()) {
                    Some(n) => count = n,
                    None => return Outcome::fail(1, format!("{program}: -n needs a number")),
                },
                "--" => paths.extend(rest.by_ref()),
                arg if arg.starts_with('-') => {
                    match arg.trim_start_matches("--lines=").trim_start_matches("-n").trim_start_matches('-').parse() {
                        Ok(n) => count = n,
                        Err(_) => return Outcome::fail(1, format!("{program}: unrecognized option: {arg}")),
                    }
                }
                path => paths.push(path),
            }
        }
        let (content, mut told) = self.contents(program, &paths, input, now);
        let lines: Vec<&str> = content.lines().collect();
        let chosen = match program {
            "head" => &lines[..count.min(lines.len())],
            _ => &lines[lines.len().saturating_sub(count)..],
        };
        told.out = chosen.iter().fold(String::new(), |all, line| all + line + "\n");
        let file = paths.last().map(|path| self.resolve(path));
        if let (true, "tail", Some(log)) = (follow, program, &self.log)
            && let Some("/var/log/app.log" | "/var/log/error.log") = file.as_deref()
        {
            told.then =
                Some(Then::Follow { errors: file.as_deref() == Some("/var/log/error.log"), from: log.count(now) });
        }
        told
    }

    fn grep(&self, args: &[&str], input: Option<String>, now: Timestamp) -> Outcome {
        let flags: String = args.iter().filter_map(|arg| arg.strip_prefix('-')).collect();
        let mut plain = args.iter().copied().filter(|arg| !arg.starts_with('-'));
        let Some(pattern) = plain.next() else { return Outcome::fail(2, "grep: a pattern is needed") };
        let (content, told) = self.contents("grep", &plain.collect::<Vec<_>>(), input, now);
        let fold = |text: &str| if flags.contains('i') { text.to_lowercase() } else { text.to_owned() };
        let pattern = fold(pattern);
        let found: Vec<&str> =
            content.lines().filter(|line| fold(line).contains(&pattern) != flags.contains('v')).collect();
        let out = match flags.contains('c') {
            true => format!("{}\n", found.len()),
            false => found.iter().fold(String::new(), |all, line| all + line + "\n"),
        };
        let code = if told.code != 0 { 2 } else { i32::from(found.is_empty()) };
        Outcome { out, code, ..told }
    }

    fn wc(&self, args: &[&str], input: Option<String>, now: Timestamp) -> Outcome {
        let paths: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
        let (content, told) = self.contents("wc", &paths, input, now);
        let (lines, words, bytes) = (content.lines().count(), content.split_whitespace().count(), content.len());
        let counts =
            if args.contains(&"-l") { format!("{lines}") } else { format!("{lines:>7} {words:>7} {bytes:>7}") };
        let name = paths.first().map(|path| format!(" {path}")).unwrap_or_default();
        Outcome { out: format!("{counts}{name}\n"), ..told }
    }

    /// A command as its words: quotes are taken off and variables filled in.
    fn words(&self, command: &str) -> Result<Vec<String>, &'static str> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        let mut chars = command.chars().peekable();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('\''), c) => word.push(c),
                (None, '\'' | '"') => (quote, quoted) = (Some(c), true),
                (_, '\\') => word.extend(chars.next()),
                (_, '$') => {
                    let braced = chars.next_if_eq(&'{').is_some();
                    let mut name = String::new();
                    while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '?')) {
                        name.push(c);
                    }
                    if braced {
                        chars.next_if_eq(&'}').ok_or("a brace is not closed")?;
                    }
                    match name.as_str() {
                        "" => word.push('$'),
                        "?" => word.push_str(&self.last.to_string()),
                        name => word.push_str(self.env.get(name).map(String::as_str).unwrap_or_default()),
                    }
                }
                (None, c) if c.is_whitespace() => {
                    if quoted || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                    quoted = false;
                }
                (_, c) => word.push(c),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed");
        }
        if quoted || !word.is_empty() {
            words.push(word);
        }
        Ok(words)
    }
}

pub(crate) fn is_error(line: &str) -> bool {
    line.contains(" ERROR ") || line.contains(" WARN ") || line.contains(" FATAL ")
}

const FILES: &[&str] =
    &["/etc/hostname", "/etc/hosts", "/etc/os-release", "/etc/resolv.conf", "/var/log/app.log", "/var/log/error.log"];
const FOLDERS: &[&str] = &["/bin", "/etc", "/home", "/proc", "/root", "/tmp", "/usr", "/var", "/var/log"];

fn children(folder: &str) -> Vec<String> {
    let inside = |path: &&&str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder.trim_end_matches('/'));
    let mut names: Vec<String> = FILES
        .iter()
        .chain(FOLDERS)
        .filter(inside)
        .filter_map(|path| Some(path.rsplit_once('/')?.1.to_owned()))
        .collect();
    names.sort();
    names
}

/// `*` is anything.
fn glob(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).any(|i| rest.is_char_boundary(i) && glob(tail, &rest[i..]))),
    }
}

fn echo(args: &[&str]) -> Outcome {
    match args.split_first() {
        Some((&"-n", rest)) => Outcome::say(rest.join(" ")),
        Some((&"-e", rest)) => Outcome::say(rest.join(" ").replace("\\n", "\n").replace("\\t", "\t") + "\n"),
        _ => Outcome::say(args.join(" ") + "\n"),
    }
}

fn environment(pod: &Object, container: &str) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let asked = text(pod, "/spec/hostname");
    env.insert("HOSTNAME".into(), if asked.is_empty() { pod.name() } else { asked }.to_owned());
    let spec = list(pod, "/spec/containers").iter().find(|c| c["name"] == container);
    for entry in spec.and_then(|c| c["env"].as_array()).into_iter().flatten() {
        let Some(name) = entry["name"].as_str() else { continue };
        let value = match entry["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some(path) => match at(pod, &format!("/{}", path.replace('.', "/"))) {
                Value::String(text) => text.clone(),
                _ => String::new(),
            },
            None => entry["value"].as_str().unwrap_or_default().to_owned(),
        };
        env.insert(name.to_owned(), value);
    }
    env
}

#[cfg(test)]
mod tests;
