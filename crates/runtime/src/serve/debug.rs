//! `/debug/`: profiles and the log level, for whoever was let in.

use std::{sync::Arc, time::Duration};

use http::{Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};

use super::{
    LogLevel,
    answer::{self, Answer, Refusal},
    routes::Query,
};
use crate::{
    BoxError,
    profile::{self, ProfileError},
};

/// Nothing that is sent here is longer.
const LONGEST_BODY: usize = 4096;

/// Answers a request below `/debug/` of a user that another listener has let in for exactly this method and path.
pub async fn debug<B>(log: Option<&Arc<dyn LogLevel>>, user: &str, request: Request<B>) -> Answer
where
    B: Body + Send,
    B::Error: Into<BoxError>,
{
    let (query, path) = (Query::of(&request), request.uri().path().to_owned());
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    inside(log, user, &segments, &query, request).await.unwrap_or_else(Refusal::answer)
}

pub(super) async fn inside<B>(
    log: Option<&Arc<dyn LogLevel>>,
    user: &str,
    segments: &[&str],
    query: &Query,
    request: Request<B>,
) -> Result<Answer, Refusal>
where
    B: Body + Send,
    B::Error: Into<BoxError>,
{
    let log = || log.ok_or_else(|| Refusal::not_found("the log level cannot be changed here"));
    match (request.method().as_str(), segments) {
        ("GET", ["debug", "pprof"] | ["debug", "pprof", ""]) => Ok(answer::text(
            "profile?seconds=30  where the processor's time goes\nheap                who holds the memory (with --profiling)\n",
        )),
        ("GET", ["debug", "pprof", "profile"]) => {
            let seconds = query.duration("seconds")?.unwrap_or(Duration::from_secs(30));
            if seconds.is_zero() || seconds > profile::LONGEST {
                return Err(Refusal::bad_request(format!("seconds must be 1 to {}", profile::LONGEST.as_secs())));
            }
            tracing::info!(user, seconds = seconds.as_secs(), "a CPU profile is taken");
            pprof(profile::cpu(seconds).await)
        }
        ("GET", ["debug", "pprof", "heap"]) => pprof(profile::heap().await),
        ("GET", ["debug", "loglevel"]) => Ok(answer::text(format!("{}\n", log()?.level()))),
        ("PUT", ["debug", "loglevel"]) => {
            let log = log()?;
            let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await;
            let body = body.map_err(|e| Refusal::bad_request(e.to_string()))?.to_bytes();
            let wanted = std::str::from_utf8(&body).map_err(|e| Refusal::bad_request(e.to_string()))?.trim();
            log.set_level(wanted).map_err(Refusal::bad_request)?;
            tracing::info!(user, level = log.level(), "the log level was changed");
            Ok(answer::text(format!("{}\n", log.level())))
        }
        _ => Err(Refusal::not_found(format!("there is no {} {:?} here", request.method(), request.uri().path()))),
    }
}

fn pprof(profile: Result<Vec<u8>, ProfileError>) -> Result<Answer, Refusal> {
    match profile {
        Ok(profile) => Ok(answer::bytes("application/octet-stream", profile)),
        Err(error @ ProfileError::Busy) => Err(Refusal::new(StatusCode::CONFLICT, "Conflict", error.to_string())),
        Err(error @ ProfileError::Off) => Err(Refusal::not_found(error.to_string())),
        Err(error) => Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.to_string())),
    }
}
