//! Log files within pods: listed and read by the container's own programs, each with its words apart: no shell, no string made of a
//! path (SYM-13: 12, 13).

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Members;
use super::channel::{COMMAND_FAILED, Channel, Command, STDOUT, Said, exit_code};
use super::exec::{Ran, run};
use super::listing::Parameters;
use super::logs::kept;
use super::reach::Reached;
use super::route::Places;
use crate::access::Create;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{Answered, BoxError, Text, json as json_answer};

const FOLDER: &str = "/var/log";
const LONGEST_PATH: usize = 1_024;
const MOST_FILES: usize = 2_000;
const MOST_LISTED: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(15);
/// A file that is followed may be silent: whether it is there is known by then.
const FOLLOWED: Duration = Duration::from_secs(2);
/// How long a file may take that is not followed: what is named may be no file, and never end.
const WHOLE: Duration = Duration::from_secs(60);
const LINES: u64 = 1_000;
const MOST_LINES: u64 = 1_000_000;
/// Of a file that is not followed only so much is sent.
const MOST: usize = 16 << 20;

impl Members {
    pub(super) async fn log_files(&self, caller: &Caller, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["cluster", "namespace", "pod", "container", "path"], &[])?;
        let (cluster, namespace) = (parameters.needed("cluster")?, parameters.needed("namespace")?);
        let (pod, container) = (parameters.needed("pod")?, parameters.get("container"));
        let folder = plain_path(parameters.get("path").unwrap_or(FOLDER))?;
        let reach = self.in_pods(caller, cluster, namespace).await?;
        let files = files(&reach.one()?, pod, container, folder).await?;
        let shown = |file: &File| {
            let mut shown = json!({"name": file.name(), "path": file.path});
            if let Some(size) = file.size {
                shown["size"] = size.into();
            }
            if let Some(modified) = file.modified.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
                shown["modified"] = modified.to_string().into();
            }
            shown
        };
        Ok(json_answer(200, &files.iter().map(shown).collect::<Value>()))
    }

    pub(super) async fn log_file(&self, caller: &Caller, places: &Places, query: &str) -> Result<Text, Problem> {
        let parameters = Parameters::only(query, &["container", "path", "tail", "follow"], &[])?;
        let path = plain_path(parameters.needed("path")?)?;
        let lines = parameters.number("tail", MOST_LINES)?.unwrap_or(LINES);
        let follow = parameters.flag("follow")?;
        let reach = self.in_pods(caller, places.get("name"), places.get("namespace")).await?;
        let seat = if follow { Some(self.seats.take(caller.key)?) } else { None };
        let mut words = vec!["tail".to_owned(), "-n".to_owned(), lines.to_string()];
        if follow {
            // By its name: a log that is rotated is followed into the new file.
            words.push("-F".to_owned());
        }
        words.extend(["--".to_owned(), path.to_owned()]);
        let command = Command::quiet(places.get("pod"), parameters.get("container"), words);
        let mut channel = Channel::open(&reach.one()?, &command).await?;
        // The first word decides whether there is anything to read.
        let first = first(&mut channel, if follow { FOLLOWED } else { PATIENCE }).await?;
        let most = if follow { usize::MAX } else { MOST };
        let pieces = stream::unfold((Some(channel), first, 0), move |(channel, first, sent)| async move {
            let mut channel = channel?;
            let piece = match first {
                Some(piece) => piece,
                None => output(&mut channel).await?,
            };
            let sent = sent + piece.len();
            Some((Ok::<_, BoxError>(piece), ((sent < most).then_some(channel), None, sent)))
        });
        let until: BoxFuture<'static, Problem> = match seat {
            Some(seat) => kept(seat, caller.clone(), reach),
            None => Box::pin(async {
                sleep(WHOLE).await;
                Problem::new(504, "CommandSlow", "the file was not read to its end in time")
            }),
        };
        Ok(Text { pieces: pieces.boxed(), until })
    }
}

/// What the command says first: some output, or nothing because it ended well; why it failed otherwise.
async fn first(channel: &mut Channel, patience: Duration) -> Result<Option<Bytes>, Problem> {
    let mut complaint = Vec::new();
    let heard = async {
        loop {
            match channel.next().await {
                Some(Said::Frame(frame)) if frame[0] == STDOUT => return Ok(Some(frame.slice(1..))),
                Some(Said::Frame(frame)) => complaint.extend_from_slice(&frame[1..frame.len().min(500)]),
                Some(Said::Ended(status)) => {
                    return match exit_code(&status, !complaint.is_empty())? {
                        0 => Ok(Some(Bytes::new())),
                        _ => Err(Problem::not_found(format!("the file cannot be read: {}", one_line(&complaint)))),
                    };
                }
                None => return Err(Problem::new(502, "ClusterFailed", "the cluster broke the connection")),
            }
        }
    };
    match tokio::time::timeout(patience, heard).await {
        Ok(heard) => heard,
        // An empty file that is followed says nothing yet.
        Err(_) => Ok(None),
    }
}

/// Output, until the command ends.
async fn output(channel: &mut Channel) -> Option<Bytes> {
    loop {
        match channel.next().await? {
            Said::Frame(frame) if frame[0] == STDOUT => return Some(frame.slice(1..)),
            Said::Frame(_) => {}
            Said::Ended(_) => return None,
        }
    }
}

#[derive(Debug, PartialEq)]
struct File {
    path: String,
    size: Option<u64>,
    /// Seconds since 1970.
    modified: Option<i64>,
}

impl File {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The files of a folder and of the folders in it. Containers differ in what they have: the best answer of several programs counts.
async fn files(
    reached: &Reached<'_, Create>,
    pod: &str,
    container: Option<&str>,
    folder: &str,
) -> Result<Vec<File>, Problem> {
    let find = ["find", folder, "-maxdepth", "3", "-type", "f", "-exec", "stat", "-c", "%s %Y %n", "{}", "+"];
    let list = ["ls", "-ln", "--", folder];
    let mut failed: Option<Problem> = None;
    let mut said = String::new();
    for (words, read) in [(&find[..], from_find as fn(&str, &str) -> Vec<File>), (&list[..], from_ls)] {
        let command = Command::quiet(pod, container, words.iter().map(|word| (*word).to_owned()).collect());
        match run(reached, &command, PATIENCE, MOST_LISTED).await {
            Ok(Ran { out, err, code, .. }) => {
                let mut files = read(&String::from_utf8_lossy(&out), folder);
                files.truncate(MOST_FILES);
                if code == 0 && (words[0] == "ls" || files.iter().any(|file| file.size.is_some()) || out.is_empty()) {
                    return Ok(files);
                }
                said = one_line(&err);
            }
            Err(problem) if problem.reason == COMMAND_FAILED => failed = Some(problem),
            Err(problem) => return Err(problem),
        }
    }
    Err(match failed {
        Some(problem) if said.is_empty() => Problem {
            message: format!("the container has neither find and stat nor ls: {}", problem.message),
            ..problem
        },
        _ => Problem::not_found(format!("the folder cannot be listed: {said}")),
    })
}

/// `1234 1767225600 /var/log/app.log`
fn from_find(text: &str, folder: &str) -> Vec<File> {
    let read = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (size, modified, path) = (words.next()?, words.next()?, words.next()?);
        let inside = path.starts_with(folder) && plain_path(path).is_ok();
        inside.then(|| File { path: path.to_owned(), size: size.parse().ok(), modified: modified.parse().ok() })
    };
    text.lines().filter_map(read).collect()
}

/// `-rw-r--r-- 1 0 0 1234 Jan  1 01:00 app.log`: the time is not said in a way that could be read.
fn from_ls(text: &str, folder: &str) -> Vec<File> {
    let read = |line: &str| {
        if !line.starts_with('-') {
            return None;
        }
        let mut rest = line;
        let mut words = Vec::new();
        for _ in 0..8 {
            rest = rest.trim_start();
            let (word, after) = rest.split_at(rest.find(' ')?);
            words.push(word);
            rest = after;
        }
        let name = rest.strip_prefix(' ')?;
        // One that was asked for by its path is named by it.
        let path = match name.starts_with('/') {
            true => name.to_owned(),
            false => format!("{}/{name}", folder.trim_end_matches('/')),
        };
        plain_path(&path).ok()?;
        Some(File { path, size: words[4].parse().ok(), modified: None })
    };
    text.lines().filter_map(read).collect()
}

fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.trim().to_owned()
}

/// A path that means one place: from the root, without `..`, and nothing a program could take for an option.
fn plain_path(path: &str) -> Result<&str, Problem> {
    let refused = |why: &str| Err(Problem::bad_request(format!("path {why}")).with("parameter", "path"));
    match path {
        _ if !path.starts_with('/') => refused("must begin with /"),
        _ if path.len() > LONGEST_PATH => refused("is too long"),
        _ if path.chars().any(char::is_control) => refused("holds a control character"),
        _ if path.split('/').any(|part| part == ".." || part == ".") => refused("must not hold . or .."),
        path => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn paths_mean_one_place_and_no_option() {
        // SYM-13
        for good in ["/var/log", "/var/log/a b.log", "/", "/x/--help", "/a/..b/c..", "/日志/app.log"] {
            assert!(plain_path(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "x".repeat(2_000));
        for bad in [
            "",
            "var/log",
            "-n",
            "--help",
            "/var/../etc/shadow",
            "/..",
            "/a/./b",
            "/a\0b",
            "/a\nb",
            "/a\u{1b}[31m",
            &long,
        ] {
            assert_eq!(plain_path(bad).unwrap_err().code, 400, "{bad:?}");
        }
    }

    #[test]
    fn listings_of_different_programs_are_read_and_strange_lines_left_out() {
        // SYM-13, B-14
        let found = "12 1767225600 /var/log/app.log\n7 1767225601 /var/log/with space.log\n1 2 /etc/shadow\nnonsense\n3 4 /var/log/../x\n";
        let files = from_find(found, "/var/log");
        assert_eq!(files.len(), 2);
        assert_eq!(
            (files[1].name(), files[1].size, files[1].modified),
            ("with space.log", Some(7), Some(1_767_225_601))
        );
        let listed = "total 8\n-rw-r--r--    1 0        0              1234 Jan  1 01:00 app.log\ndrwxr-xr-x    2 0        0              4096 Jan  1 01:00 old\n-rw-r--r-- 1 0 0 5 Jan  1  2025 a b.log\nlrwxrwxrwx 1 0 0 5 Jan  1  2025 l -> /etc/shadow\n";
        let files = from_ls(listed, "/var/log/");
        assert_eq!(
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["/var/log/app.log", "/var/log/a b.log"]
        );
        assert_eq!((files[0].size, files[1].size), (Some(1234), Some(5)));
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_pod_prints_is_read_without_harm(text in "\\PC{0,200}", lines in "[-d rwx0-9 /a\n.]{0,200}") {
            for text in [&text, &lines] {
                for file in from_find(text, "/var").into_iter().chain(from_ls(text, "/var")) {
                    proptest::prop_assert!(plain_path(&file.path).is_ok());
                }
            }
        }
    }
}
