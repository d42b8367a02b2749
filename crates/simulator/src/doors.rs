//! What of a request is not the API server's: logs, exec and attach are a kubelet's, usage is the metrics server's.
//!
//! The API server is asked first in any case, so that it decides who may; only what it leaves open is answered here.

use std::sync::Arc;

use apiserver::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use meta::Status;
use meta::options::Query;

use crate::member::Inner;
use crate::{exec, log_request, metrics};

enum Door<'a> {
    Pod {
        namespace: &'a str,
        name: &'a str,
        what: What,
    },
    /// The list of groups, to which one is added.
    Groups,
    Metrics(Vec<&'a str>),
}

#[derive(Clone, Copy)]
enum What {
    Log,
    Exec,
    Attach,
}

impl<'a> Door<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts[..] {
            ["api", "v1", "namespaces", namespace, "pods", name, what] => {
                let what = match what {
                    "log" => What::Log,
                    "exec" => What::Exec,
                    "attach" => What::Attach,
                    _ => return None,
                };
                Some(Self::Pod { namespace, name, what })
            }
            ["apis"] => Some(Self::Groups),
            ["apis", metrics::GROUP, ref rest @ ..] => Some(Self::Metrics(rest.to_vec())),
            _ => None,
        }
    }
}

pub(crate) async fn answer<B>(inner: &Arc<Inner>, mut request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let uri = request.uri().clone();
    let Some(door) = Door::of(uri.path()) else { return inner.api.handle(request).await };
    let query = uri.query().unwrap_or_default();
    match door {
        Door::Pod { namespace, name, what } => {
            let upgrade = request.extensions_mut().remove::<OnUpgrade>();
            let headers = request.headers().clone();
            let answer = inner.api.handle(request).await;
            if answer.status() != StatusCode::NOT_IMPLEMENTED {
                return answer;
            }
            let Some(pod) = inner.cluster.kinds.pods.get(namespace, name) else { return answer };
            let answer = match what {
                What::Log => log_request::answer(inner, &pod, &Query::parse(Some(query))),
                What::Exec => exec::answer(inner, pod, query, &headers, upgrade, false),
                What::Attach => exec::answer(inner, pod, query, &headers, upgrade, true),
            };
            answer.unwrap_or_else(|status| refusal(&status))
        }
        Door::Groups => {
            // It is to be read here.
            request.headers_mut().remove(header::ACCEPT_ENCODING);
            request.headers_mut().remove(header::IF_NONE_MATCH);
            metrics::announce(inner.api.handle(request).await)
        }
        Door::Metrics(rest) => {
            let reads = request.method() == Method::GET;
            let answer = inner.api.handle(request).await;
            if answer.status() != StatusCode::NOT_FOUND || !reads {
                return answer;
            }
            match metrics::answer(&inner.cluster, &rest, &Query::parse(Some(query))) {
                Ok(Some(value)) => json(200, &value),
                Ok(None) => answer,
                Err(status) => refusal(&status),
            }
        }
    }
}

fn refusal(status: &Status) -> Response<Body> {
    json(status.code, &status.to_value())
}

pub(crate) fn json(code: u16, value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string().into_bytes()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
