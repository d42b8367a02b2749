//! What people do to members, and how they get in, written down: who, from where, what, to which object of which cluster, and how it ended.
//!
//! Members know muster alone, so their own logs cannot tell who it was. A [`Deed`] has no field that could hold a body, a command's
//! words, what is typed or a token, so none of these can be written down.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

use crate::problem::Problem;

/// Longest texts taken from a request.
const LONGEST: usize = 1_024;
const LONGEST_AGENT: usize = 256;

/// Where deeds are written down.
pub trait Trail: Send + Sync + 'static {
    /// Writes one line. Must not wait: requests call it.
    fn note(&self, deed: &Deed);
}

/// Something somebody did to a member or about getting in, or was refused. The lines are of the shape that the API server's audit log has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deed {
    pub time: String,
    pub request_id: String,
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    pub verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Without the query: its values may be secrets.
    pub path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
    /// `started` and `ended`, of what takes its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<&'static str>,
    pub code: u16,
    /// Why it was not done, as the one stable word of the refusal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub latency_micros: u64,
}

/// An object that was changed, where one request changes several.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) cluster: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) failed: bool,
}

/// In the extensions of an answer: exactly these were changed. None at all, for a dry run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed(pub(crate) Vec<Touched>);

/// A deed under way. One that is given up in the middle (the caller went away) is written down, too: it may have been done.
pub(crate) struct Doing {
    trail: Option<Arc<dyn Trail>>,
    deed: Deed,
    begun: Instant,
    /// Whether it is written down however it ends; what only looks is not.
    matters: bool,
    started: std::sync::atomic::AtomicBool,
}

impl Doing {
    pub(crate) fn new(trail: Option<Arc<dyn Trail>>, deed: Deed, matters: bool) -> Self {
        let deed = Deed {
            request_id: match deed.request_id.as_str() {
                "" => format!("{:016x}", fastrand::u64(..)),
                id => shortened(id, LONGEST),
            },
            verb: shortened(&deed.verb, LONGEST),
            cluster: shortened(&deed.cluster, LONGEST),
            group: shortened(&deed.group, LONGEST),
            resource: shortened(&deed.resource, LONGEST),
            namespace: shortened(&deed.namespace, LONGEST),
            name: shortened(&deed.name, LONGEST),
            path: shortened(deed.path.split('?').next().unwrap_or_default(), LONGEST),
            user_agent: shortened(&deed.user_agent, LONGEST_AGENT),
            ..deed
        };
        Self { trail, deed, begun: Instant::now(), matters, started: Default::default() }
    }

    /// Whether anybody reads it.
    pub(crate) fn is_kept(&self) -> bool {
        self.trail.is_some()
    }

    pub(crate) fn matters(&self) -> bool {
        self.matters
    }

    /// Who it is, once that is known.
    pub(crate) fn by(&mut self, user: &str) {
        self.deed.user = shortened(user, LONGEST);
    }

    /// What it is done to, where that is known only now.
    pub(crate) fn of(&mut self, name: &str) {
        self.deed.name = shortened(name, LONGEST);
    }

    /// It was allowed and begins: for what takes its time.
    pub(crate) fn started(&self) {
        self.started.store(true, std::sync::atomic::Ordering::Relaxed);
        self.write(&Deed { stage: Some("started"), code: 200, ..self.deed.clone() });
    }

    /// It is over.
    pub(crate) fn ended(mut self, outcome: Result<(u16, Option<&Changed>), &Problem>) {
        let refused = matches!(outcome, Err(problem) if matches!(problem.code, 401 | 403));
        let matters = std::mem::take(&mut self.matters);
        if !matters && !refused {
            return;
        }
        match outcome {
            Ok((code, Some(Changed(all)))) => {
                for one in all {
                    let reason = if one.failed { "Failed" } else { "" };
                    self.write(&Deed {
                        cluster: one.cluster.clone(),
                        group: one.group.clone(),
                        resource: one.resource.clone(),
                        namespace: one.namespace.clone(),
                        name: one.name.clone(),
                        code: if one.failed { 500 } else { code },
                        reason: reason.to_owned(),
                        ..self.last()
                    });
                }
            }
            Ok((code, None)) => self.write(&Deed { code, ..self.last() }),
            Err(problem) => self.write(&self.failed(problem)),
        }
    }

    fn failed(&self, problem: &Problem) -> Deed {
        let mut deed = Deed { code: problem.code, reason: problem.reason.clone(), ..self.last() };
        if deed.cluster.is_empty() {
            deed.cluster = shortened(problem.details["cluster"].as_str().unwrap_or_default(), LONGEST);
        }
        deed
    }

    fn last(&self) -> Deed {
        let started = self.started.load(std::sync::atomic::Ordering::Relaxed);
        Deed { stage: started.then_some("ended"), ..self.deed.clone() }
    }

    fn write(&self, deed: &Deed) {
        let Some(trail) = &self.trail else { return };
        trail.note(&Deed {
            time: format!("{:.6}", Timestamp::now()),
            latency_micros: micros(self.begun.elapsed()),
            ..deed.clone()
        });
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        if self.matters {
            let reason = "GivenUp".to_owned();
            self.write(&Deed { code: 499, reason, ..self.last() });
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Deed>>);

    impl Trail for Kept {
        fn note(&self, deed: &Deed) {
            self.0.lock().unwrap().push(deed.clone());
        }
    }

    fn doing(kept: &Arc<Kept>, matters: bool) -> Doing {
        let deed = Deed {
            verb: "exec".into(),
            cluster: "prod".into(),
            path: "/api/cluster/prod/exec?command=secret".into(),
            ..Deed::default()
        };
        let mut doing = Doing::new(Some(kept.clone()), deed, matters);
        doing.by("ann");
        doing
    }

    fn said(kept: &Kept) -> Vec<(Option<&'static str>, u16, String)> {
        kept.0.lock().unwrap().drain(..).map(|deed| (deed.stage, deed.code, deed.reason)).collect()
    }

    #[tokio::test]
    async fn what_takes_its_time_has_two_lines_and_what_is_given_up_says_so() {
        let kept = Arc::new(Kept::default());
        let one = doing(&kept, true);
        one.started();
        one.ended(Ok((200, None)));
        assert_eq!(said(&kept), [(Some("started"), 200, String::new()), (Some("ended"), 200, String::new())]);
        let one = doing(&kept, true);
        one.started();
        drop(one);
        assert_eq!(said(&kept)[1], (Some("ended"), 499, "GivenUp".into()));
        drop(doing(&kept, true));
        assert_eq!(said(&kept), [(None, 499, "GivenUp".into())]);
    }

    #[tokio::test]
    async fn a_look_is_written_down_only_when_it_is_refused() {
        let kept = Arc::new(Kept::default());
        drop(doing(&kept, false));
        doing(&kept, false).ended(Ok((200, None)));
        doing(&kept, false).ended(Err(&Problem::not_found("no such pod")));
        assert_eq!(said(&kept), []);
        doing(&kept, false).ended(Err(&Problem::forbidden("you may not")));
        assert_eq!(said(&kept), [(None, 403, "Forbidden".into())]);
    }

    #[tokio::test]
    async fn every_object_of_one_request_has_its_line_and_a_dry_run_none() {
        let kept = Arc::new(Kept::default());
        doing(&kept, true).ended(Ok((200, Some(&Changed::default()))));
        assert_eq!(said(&kept), []);
        let one = |name: &str, failed| Touched {
            cluster: "bj".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            namespace: "shop".into(),
            name: name.into(),
            failed,
        };
        doing(&kept, true).ended(Ok((200, Some(&Changed(vec![one("a", false), one("b", true)])))));
        let lines: Vec<_> = kept.0.lock().unwrap().drain(..).map(|deed| (deed.cluster, deed.name, deed.code)).collect();
        assert_eq!(lines, [("bj".into(), "a".into(), 200), ("bj".into(), "b".into(), 500)]);
    }

    #[tokio::test]
    async fn queries_and_long_texts_are_not_written_down() {
        let kept = Arc::new(Kept::default());
        let deed = Deed { path: "/x?token=secret".into(), name: "é".repeat(2_000), ..Deed::default() };
        Doing::new(Some(kept.clone()), deed, true).ended(Ok((200, None)));
        let line = serde_json::to_string(&kept.0.lock().unwrap()[0]).unwrap();
        assert!(!line.contains("secret") && line.len() < 2_000, "{line}");
    }
}
