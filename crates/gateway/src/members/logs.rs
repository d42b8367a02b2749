//! Logs of pods, whole or followed: passed on piece by piece, as fast as the reader reads (SYM-13: 11).

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::Response;
use http::header::{self, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};

use super::Members;
use super::listing::Parameters;
use super::reach::{Ask, Reach, Scope, What};
use super::route::Places;
use super::views::KNOWN;
use crate::access::{Get, Verb};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::seats::Seat;
use crate::standing;
use crate::visit::{Body, Text};

/// Of a log that is not followed only so much is sent.
const MOST: u64 = 16 << 20;

impl Members {
    pub(super) async fn pod_logs(&self, caller: &Caller, places: &Places, query: &str) -> Result<Text, Problem> {
        let (query, follow) = wanted(query)?;
        let pod = places.get("pod");
        let what = What::within(&KNOWN.pods, Some(places.get("namespace"))).sub("log");
        let scope = match places.get("name") {
            "all" => return Err(Problem::bad_request("name one cluster: a pod is on one")),
            name => Scope::One(name.to_owned()),
        };
        let reach: Reach<Get> = self.reaching.reach(caller, what, &scope).await?;
        let seat = if follow { Some(self.seats.take(caller.key)?) } else { None };
        let response = reach.one()?.open(Ask::get(pod).with(query)).await?;
        let pieces = BodyStream::new(response.into_body()).map(|frame| match frame {
            Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
            Err(error) => Err(error.into()),
        });
        let until: BoxFuture<'static, Problem> = match seat {
            Some(seat) => kept(seat, caller.clone(), reach),
            // The gate has it whole already.
            None => Box::pin(std::future::pending()),
        };
        Ok(Text { pieces: pieces.boxed(), until })
    }
}

/// What is passed on of a question for a log, and whether it is followed.
fn wanted(query: &str) -> Result<(String, bool), Problem> {
    let own =
        ["container", "tailLines", "tail", "follow", "sinceSeconds", "since", "sinceTime", "previous", "timestamps"];
    let parameters = Parameters::only(query, &own, &[])?;
    let mut asked = form_urlencoded::Serializer::new(String::new());
    if let Some(container) = parameters.get("container") {
        asked.append_pair("container", container);
    }
    let tail = match parameters.number("tailLines", u64::from(u32::MAX))? {
        Some(tail) => Some(tail),
        None => parameters.number("tail", u64::from(u32::MAX))?,
    };
    if let Some(tail) = tail {
        asked.append_pair("tailLines", &tail.to_string());
    }
    let since = match (parameters.number("sinceSeconds", u64::from(u32::MAX))?, parameters.get("since")) {
        (Some(seconds), _) => Some(seconds),
        (None, Some(text)) => Some(seconds(text).ok_or_else(|| {
            Problem::bad_request("since is a time like 90s, 5m or 2h, or seconds").with("parameter", "since")
        })?),
        (None, None) => None,
    };
    // Kubernetes takes at least one second.
    if let Some(since) = since {
        asked.append_pair("sinceSeconds", &since.max(1).to_string());
    }
    if let Some(time) = parameters.get("sinceTime") {
        let time: jiff::Timestamp = time.parse().map_err(|_| {
            Problem::bad_request("sinceTime is a time like 2026-01-02T03:04:05Z").with("parameter", "sinceTime")
        })?;
        if since.is_some() {
            return Err(Problem::bad_request("give sinceTime or sinceSeconds, not both").with("parameter", "sinceTime"));
        }
        asked.append_pair("sinceTime", &time.to_string());
    }
    for flag in ["previous", "timestamps"] {
        if parameters.flag(flag)? {
            asked.append_pair(flag, "true");
        }
    }
    let follow = parameters.flag("follow")?;
    if follow {
        asked.append_pair("follow", "true");
    } else {
        asked.append_pair("limitBytes", &MOST.to_string());
    }
    Ok((asked.finish(), follow))
}

/// `90`, `90s`, `5m`, `2h`, `1d`.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|seconds| *seconds <= u64::from(u32::MAX))
}

/// Returns, with the reason, when a stream that is kept open must end: its reader lost the right to it, or the member was lost.
pub(super) fn kept<V: Verb>(seat: Seat, caller: Caller, reach: Reach<V>) -> BoxFuture<'static, Problem> {
    Box::pin(async move {
        let _seat = seat;
        let away = async {
            match reach.one() {
                Ok(reached) => reached.lost().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            why = standing::lost(&caller, || reach.still()) => why,
            () = away => Problem::new(503, "ClusterUnreachable", "the cluster is no longer reached"),
        }
    })
}

/// A text as an answer. What ends it before its time is its last line.
pub(super) fn answer(text: Text) -> Response<Body> {
    let frames = stream::unfold(Some(text), |text| async move {
        let Text { mut pieces, mut until } = text?;
        tokio::select! {
            biased;
            why = &mut until => {
                let last = Bytes::from(format!("\n[closed: {}]\n", why.message));
                Some((Ok(Frame::data(last)), None))
            }
            piece = pieces.next() => match piece? {
                Ok(piece) => Some((Ok(Frame::data(piece)), Some(Text { pieces, until }))),
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn questions_for_logs_are_passed_on_in_the_words_of_kubernetes() {
        // SYM-13
        for (query, passed, follows) in [
            ("", "limitBytes=16777216", false),
            ("tail=5&follow=true", "tailLines=5&follow=true", true),
            ("tailLines=5&previous=true", "tailLines=5&previous=true&limitBytes=16777216", false),
            ("since=5m&follow=1", "sinceSeconds=300&follow=true", true),
            ("sinceSeconds=0&follow=1", "sinceSeconds=1&follow=true", true),
            ("sinceTime=2026-01-02T03:04:05Z&follow=1", "sinceTime=2026-01-02T03%3A04%3A05Z&follow=true", true),
            ("container=a%26b&timestamps=true&follow=1", "container=a%26b&timestamps=true&follow=true", true),
        ] {
            assert_eq!(wanted(query).unwrap(), (passed.to_owned(), follows), "{query}");
        }
        for bad in [
            "tail=-1",
            "tail=x",
            "since=5x",
            "since=99999999999d",
            "sinceTime=yesterday",
            "follow=maybe",
            "limitBytes=1",
            "sinceTime=2026-01-02T03:04:05Z&since=1",
        ] {
            assert_eq!(wanted(bad).unwrap_err().code, 400, "{bad}");
        }
    }
}
