//! `/wapi/v1/audit`: the newest part of the audit log, newest line first.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::access::{Discover, Gatekeeper, Target};
use crate::caller::Caller;
use crate::options::Limits;
use crate::problem::Problem;
use crate::visit::{Answered, Notice, Notices, Room, Visit, json};

const PATH: &str = "/wapi/v1/audit";
const RIGHT: &str = "/audit";
/// How much of the log one question looks at, and how long a line may be.
const MOST: u64 = 32 << 20;
const PIECE: u64 = 256 << 10;
const LONGEST_LINE: usize = 64 << 10;
/// Rotated files beside the log: `audit.log.1` is the newest.
const ROTATED: u32 = 20;
/// How often somebody who listens is told that the log has grown.
const LOOK: Duration = Duration::from_secs(2);
/// Questions at once: each keeps a core busy for a moment.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

pub(crate) struct Audit {
    pub(crate) file: Option<PathBuf>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) limits: Limits,
}

/// What is asked of the log.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// In small letters.
    text: String,
    user: String,
    verb: String,
    page: usize,
    page_size: usize,
}

impl Question {
    fn parse(query: &str, limits: &Limits) -> Result<Self, Problem> {
        let mut question = Self {
            text: String::new(),
            user: String::new(),
            verb: String::new(),
            page: 1,
            page_size: limits.page_size,
        };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let number =
                || {
                    value.parse::<usize>().ok().filter(|number| *number >= 1).ok_or_else(|| {
                        Problem::bad_request(format!("{key} is a number from 1")).with("parameter", &*key)
                    })
                };
            match &*key {
                "q" if value.len() <= 256 => question.text = value.to_lowercase(),
                "user" if value.len() <= 256 => question.user = value.into_owned(),
                "verb" if value.len() <= 64 => question.verb = value.to_lowercase(),
                "page" => question.page = number()?.min(1_000_000),
                "pageSize" => question.page_size = number()?.min(limits.max_page_size),
                _ => {
                    let why = "the parameters here are q, user, verb, page and pageSize, of a sensible length";
                    return Err(Problem::bad_request(why));
                }
            }
        }
        Ok(question)
    }

    fn wants(&self, line: &[u8]) -> Option<Value> {
        // Cheap first: most lines are not wanted, and need not be understood.
        if !self.text.is_empty() && !String::from_utf8_lossy(line).to_lowercase().contains(&self.text) {
            return None;
        }
        let row: Value = serde_json::from_slice(line).ok().filter(Value::is_object)?;
        let is = |key: &str, wanted: &str| row[key].as_str() == Some(wanted);
        let user = self.user.is_empty() || is("user", &self.user) || is("impersonatedUser", &self.user);
        let verb = self.verb.is_empty() || is("verb", &self.verb);
        (user && verb).then_some(row)
    }
}

impl Audit {
    /// The log, if the caller may read it.
    async fn file(&self, caller: Caller) -> Result<PathBuf, Problem> {
        self.gatekeeper.clone().authorize::<Discover>(caller, Target::Document(RIGHT.into())).await?;
        self.file
            .clone()
            .ok_or_else(|| Problem::not_found("there is no audit log here: it is off, or not written to a file"))
    }

    async fn notices(&self, caller: Caller) -> Result<Notices, Problem> {
        let file = self.file(caller).await?;
        let size = tokio::fs::metadata(&file).await.map_or(0, |about| about.len());
        Ok(stream::unfold((file, size), |(file, size)| async move {
            loop {
                sleep(LOOK).await;
                let now = tokio::fs::metadata(&file).await.map_or(0, |about| about.len());
                if now != size {
                    return Some((Notice::Changed, (file, now)));
                }
            }
        })
        .boxed())
    }

    async fn list(&self, visit: Visit) -> Answered {
        let question = Question::parse(&visit.query, &self.limits)?;
        let file = self.file(visit.caller).await?;
        let _turn = AT_ONCE.acquire().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
        let found = tokio::task::spawn_blocking(move || look(&file, &question)).await;
        let failed =
            || Problem::new(500, "InternalError", "the audit log could not be read; the server's log says why");
        let found = found.map_err(|_| failed())?.map_err(|why| {
            tracing::warn!(%why, "the audit log cannot be read");
            failed()
        })?;
        Ok(json(200, &found))
    }
}

impl Room for Audit {
    fn owns(&self, path: &str) -> bool {
        path == PATH
    }

    fn answer(self: Arc<Self>, visit: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(async move {
            if visit.method != Method::GET {
                return Err(Problem::new(405, "MethodNotAllowed", "this path takes GET").with("allow", "GET"));
            }
            self.list(visit).await
        })
    }

    fn follow(self: Arc<Self>, caller: Caller, _: String, _: String) -> BoxFuture<'static, Result<Notices, Problem>> {
        Box::pin(async move { self.notices(caller).await })
    }
}

fn look(file: &Path, question: &Question) -> std::io::Result<Value> {
    let begin = (question.page - 1).saturating_mul(question.page_size);
    let (mut items, mut count) = (Vec::new(), 0usize);
    let complete = backwards(file, MOST, |line| {
        if let Some(row) = question.wants(line) {
            if count >= begin && items.len() < question.page_size {
                items.push(row);
            }
            count += 1;
        }
    })?;
    // What is older than the part that was looked at is not counted.
    Ok(
        json!({"items": items, "count": count, "page": question.page, "pageSize": question.page_size, "complete": complete}),
    )
}

/// Calls `each` with every line of the log and its rotated files, newest first, until `most` bytes were read. Says whether that was all.
fn backwards(file: &Path, most: u64, mut each: impl FnMut(&[u8])) -> std::io::Result<bool> {
    let mut left = most;
    for number in 0..=ROTATED {
        let mut name = file.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let mut file = match File::open(&name) {
            Ok(file) => file,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(why) => return Err(why),
        };
        // Only what is there now: the log grows meanwhile.
        let mut end = file.metadata()?.len();
        // The beginning of a line whose end was read already.
        let mut rest: Vec<u8> = Vec::new();
        while end > 0 {
            let take = end.min(PIECE).min(left);
            if take == 0 {
                return Ok(false);
            }
            end -= take;
            left -= take;
            let mut piece = vec![0; take as usize];
            file.seek(SeekFrom::Start(end))?;
            file.read_exact(&mut piece)?;
            piece.extend_from_slice(&rest);
            let mut lines = piece.rsplit(|byte| *byte == b'\n').peekable();
            while let Some(line) = lines.next() {
                if lines.peek().is_none() && end > 0 {
                    // It may begin in the piece before. One without an end is no line of ours.
                    rest = if line.len() <= LONGEST_LINE { line.to_vec() } else { Vec::new() };
                } else if !line.is_empty() {
                    each(line);
                }
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    fn log(folder: &Path, lines: std::ops::Range<usize>, name: &str) -> PathBuf {
        let path = folder.join(name);
        let mut file = File::create(&path).unwrap();
        for n in lines {
            let user = if n % 2 == 0 { "ann" } else { "bob" };
            let pad = "x".repeat(n % 300);
            writeln!(
                file,
                r#"{{"n":{n},"user":"gateway","impersonatedUser":"{user}","verb":"create","path":"/{pad}"}}"#
            )
            .unwrap();
        }
        path
    }

    fn ask(query: &str) -> Question {
        Question::parse(query, &Limits::default()).unwrap()
    }

    #[test]
    fn lines_come_newest_first_over_pieces_and_rotated_files() {
        let folder = tempfile::tempdir().unwrap();
        log(folder.path(), 0..3_000, "audit.log.1");
        let path = log(folder.path(), 3_000..6_000, "audit.log");
        let mut seen = Vec::new();
        let complete = backwards(&path, u64::MAX, |line| {
            seen.push(serde_json::from_slice::<Value>(line).unwrap()["n"].as_u64().unwrap());
        });
        assert!(complete.unwrap());
        assert_eq!(seen, (0..6_000).rev().collect::<Vec<u64>>());
        let mut some = 0;
        assert!(!backwards(&path, 400_000, |_| some += 1).unwrap(), "there is more");
        assert!((1_000..6_000).contains(&some));
    }

    #[test]
    fn pages_filters_and_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 0..100, "audit.log");
        let page = look(&path, &ask("user=ann&pageSize=10&page=2")).unwrap();
        assert_eq!(page["count"], 50);
        assert_eq!(page["items"][0]["n"], 78);
        assert_eq!(page["items"].as_array().unwrap().len(), 10);
        assert_eq!(look(&path, &ask("q=%22N%22:7,")).unwrap()["count"], 1);
        assert_eq!(look(&path, &ask("verb=delete")).unwrap()["count"], 0);
        let none = look(&folder.path().join("missing"), &ask("")).unwrap();
        assert_eq!((none["count"].as_u64(), none["complete"].as_bool()), (Some(0), Some(true)));
    }

    #[test]
    fn what_is_not_a_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut bytes = vec![b'y'; 1 << 20];
        bytes.extend_from_slice(b"\n[1]\nnot json\n{\"n\":1}\n\xff\xfe\n{\"n\":2}");
        std::fs::write(&path, bytes).unwrap();
        let page = look(&path, &ask("")).unwrap();
        assert_eq!(page["items"], json!([{"n": 2}, {"n": 1}]));
    }

    #[test]
    fn strange_questions_are_refused() {
        for bad in ["page=0", "page=x", "pageSize=-1", "limit=3", &format!("q={}", "x".repeat(300))] {
            assert_eq!(Question::parse(bad, &Limits::default()).err().unwrap().code, 400, "{bad}");
        }
    }
}
