//! What a container logs: lines made of its pod's name and their number, at the times at which it would have written them.
//!
//! Nothing is stored: any line can be made at any time, so a log is as long as its container is old.

use jiff::{SignedDuration, Timestamp};
use meta::{Object, time};
use serde_json::Value;

use crate::look::{hash, list};

/// Real logs are rotated, too: of older lines nothing is left.
const KEPT: u64 = 20_000;
/// Lines that come at once when a container starts.
const GREETING: u64 = 3;

/// The log of one run of a container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Log {
    pod: String,
    container: String,
    seed: u64,
    begun: Timestamp,
    /// When it ended and with which code, if it has.
    ended: Option<(Timestamp, i64)>,
}

/// Why there is no log.
#[derive(Debug, PartialEq)]
pub(crate) enum NoLog {
    Waiting(String),
    NoPrevious,
    NoContainer,
}

impl Log {
    /// Of the run now, or of the one before.
    pub fn of(pod: &Object, container: &str, previous: bool) -> Result<Self, NoLog> {
        let all = list(pod, "/status/containerStatuses").iter().chain(list(pod, "/status/initContainerStatuses"));
        let status = all.into_iter().find(|status| status["name"] == container).ok_or(NoLog::NoContainer)?;
        let restarts = status["restartCount"].as_u64().unwrap_or_default();
        let (state, run) = match (previous, &status["state"], &status["lastState"]) {
            (true, _, last) if last["terminated"].is_object() => (last, restarts.wrapping_sub(1)),
            (true, ..) => return Err(NoLog::NoPrevious),
            (false, state, _) if state["running"].is_object() || state["terminated"].is_object() => (state, restarts),
            // While it waits to be started again its last run is what there is to read.
            (false, _, last) if last["terminated"].is_object() => (last, restarts.wrapping_sub(1)),
            (false, state, _) => {
                return Err(NoLog::Waiting(
                    state["waiting"]["reason"].as_str().unwrap_or("ContainerCreating").to_owned(),
                ));
            }
        };
        let stamp = |value: &Value| value.as_str().and_then(time::parse);
        let over = &state["terminated"];
        let begun = stamp(&state["running"]["startedAt"]).or_else(|| stamp(&over["startedAt"]));
        let ended = stamp(&over["finishedAt"]).map(|at| (at, over["exitCode"].as_i64().unwrap_or_default()));
        Ok(Self {
            pod: pod.name().to_owned(),
            container: container.to_owned(),
            seed: hash(&[pod.name(), container, &run.to_string()]),
            begun: begun.or(ended.map(|(at, _)| at)).unwrap_or(Timestamp::UNIX_EPOCH),
            ended,
        })
    }

    /// The same run, perhaps ended meanwhile.
    pub fn is_same_run(&self, other: &Self) -> bool {
        (self.seed, self.begun) == (other.seed, other.begun)
    }

    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Milliseconds between lines: each pod has its own pace.
    fn pace(&self) -> u64 {
        1000 + self.seed % 3000
    }

    /// How many lines there are at a time.
    pub fn count(&self, now: Timestamp) -> u64 {
        let until = self.ended.map_or(now, |(at, _)| at);
        let age = until.duration_since(self.begun).as_millis().max(0).unsigned_abs();
        let written = GREETING + u64::try_from(age).unwrap_or(u64::MAX) / self.pace();
        written + u64::from(matches!(self.ended, Some((_, code)) if code != 0))
    }

    /// The oldest line that is left.
    pub fn first(&self, now: Timestamp) -> u64 {
        self.count(now).saturating_sub(KEPT)
    }

    /// The first line written at or after a time.
    pub fn since(&self, at: Timestamp) -> u64 {
        let age = at.duration_since(self.begun).as_millis();
        match u64::try_from(age) {
            Ok(age) if age > 0 => GREETING - 1 + age.div_ceil(self.pace()),
            _ => 0,
        }
    }

    /// When a line is written.
    pub fn time(&self, line: u64) -> Timestamp {
        let passed = (line + 1).saturating_sub(GREETING).saturating_mul(self.pace());
        let passed = SignedDuration::from_millis(i64::try_from(passed).unwrap_or(i64::MAX));
        let at = self.begun.checked_add(passed).unwrap_or(self.begun);
        self.ended.map_or(at, |(end, _)| at.min(end))
    }

    /// The text of a line, without its end.
    pub fn line(&self, line: u64) -> String {
        let at = self.time(line).strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
        if let Some((end, code)) = self.ended
            && code != 0
            && line + 1 == self.count(end)
        {
            return format!("{at} FATAL {}: simulated crash, exit code {code}", self.container);
        }
        match line {
            0 => format!("{at} INFO  {} starting in pod {}", self.container, self.pod),
            1 => format!("{at} INFO  configuration read"),
            2 => format!("{at} INFO  listening on :8080"),
            _ => {
                let dice = hash(&[&self.pod, &self.container, &line.to_string(), &self.seed.to_string()]);
                let pick = |from: &[&'static str], shift: u32| from[(dice >> shift) as usize % from.len()];
                let method = pick(&["GET", "GET", "GET", "POST", "PUT"], 3);
                let path = pick(&["/", "/api/items", "/api/orders", "/healthz", "/api/users/7", "/static/app.js"], 11);
                let (level, status) = match dice % 23 {
                    0 => ("ERROR", 500),
                    1 | 2 => ("WARN ", 404),
                    _ => ("INFO ", 200),
                };
                format!("{at} {level} {method} {path} {status} {}ms id={:08x}", dice >> 20 & 255, dice >> 32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(state: Value, last: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "shop-1"},
            "status": {"containerStatuses": [{"name": "web", "restartCount": 1, "state": state, "lastState": last}]}}))
        .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_same_line_is_the_same_whenever_it_is_read() {
        let pod = pod(json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), json!({}));
        let log = Log::of(&pod, "web", false).unwrap();
        let (early, late) = (log.count(at("2026-01-01T00:01:00Z")), log.count(at("2026-01-01T01:00:00Z")));
        assert!(GREETING < early && early < late);
        assert_eq!(log.line(7), Log::of(&pod, "web", false).unwrap().line(7));
        assert_ne!(log.line(7), log.line(8));
        for line in 0..early {
            assert!(log.time(line) <= at("2026-01-01T00:01:00Z"), "{line}");
            assert!(line < GREETING || log.since(log.time(line)) == line, "{line}");
        }
        assert!(log.time(early) > at("2026-01-01T00:01:00Z"), "the next line is not written yet");
    }

    #[test]
    fn a_crash_is_the_last_line_and_can_be_read_after_it() {
        let last = json!({"terminated": {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:30Z", "exitCode": 3}});
        let crashed = pod(json!({"waiting": {"reason": "CrashLoopBackOff"}}), last.clone());
        let log = Log::of(&crashed, "web", true).unwrap();
        let count = log.count(at("2027-01-01T00:00:00Z"));
        assert!(log.line(count - 1).ends_with("simulated crash, exit code 3"), "{}", log.line(count - 1));
        assert_eq!(Log::of(&crashed, "web", false).unwrap(), log);
        let running = pod(json!({"running": {"startedAt": "2026-01-01T00:01:00Z"}}), last);
        assert_eq!(Log::of(&running, "web", true).unwrap(), log);
        assert_ne!(Log::of(&running, "web", false).unwrap(), log);
    }

    #[test]
    fn without_a_run_there_is_no_log() {
        let waiting = pod(json!({"waiting": {"reason": "ContainerCreating"}}), json!({}));
        assert_eq!(Log::of(&waiting, "web", false), Err(NoLog::Waiting("ContainerCreating".into())));
        assert_eq!(Log::of(&waiting, "web", true), Err(NoLog::NoPrevious));
        assert_eq!(Log::of(&waiting, "other", false), Err(NoLog::NoContainer));
    }
}
