//! Bodies on their way out: counted as under way until they are sent, and those without an end are ended when the server stops.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::visit::{Body, BoxError};

/// How long a stream may go on after the server was told to stop.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct SentBody {
    body: Body,
    /// When to break off: only for a body whose size is not known, which may have no end (a log that is followed).
    over: Option<BoxFuture<'static, ()>>,
    _counted: Counted,
}

impl SentBody {
    pub(super) fn new(body: Body, counted: Counted, stop: CancellationToken) -> Self {
        let endless = http_body::Body::size_hint(&body).exact().is_none();
        let over = endless.then(|| {
            async move {
                stop.cancelled().await;
                sleep(GRACE).await;
            }
            .boxed()
        });
        Self { body, over, _counted: counted }
    }
}

impl http_body::Body for SentBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over.as_mut().is_some_and(|over| over.poll_unpin(cx).is_ready()) {
            self.over = None;
            // An error, not an end: nobody shall take half of something for all of it.
            return Poll::Ready(Some(Err("the server stops".into())));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The requests of one connection.
#[derive(Default)]
pub(super) struct Traffic {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Traffic {
    /// How many there were, and whether one is under way.
    pub(super) fn look(&self) -> (usize, bool) {
        let ended = self.ended.load(Relaxed);
        let begun = self.begun.load(Relaxed);
        (begun, begun != ended)
    }
}

/// One request under way.
pub(super) struct Counted(Arc<Traffic>);

impl Counted {
    pub(super) fn new(traffic: &Arc<Traffic>) -> Self {
        traffic.begun.fetch_add(1, Relaxed);
        Self(traffic.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::visit::whole;
    use futures_util::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    #[tokio::test(start_paused = true)]
    async fn a_body_without_an_end_is_broken_off_when_the_server_stops() {
        let (traffic, stop) = (Arc::default(), CancellationToken::new());
        let pieces = stream::iter([Ok(Frame::data(Bytes::from_static(b"a")))]).chain(stream::pending());
        let mut body = SentBody::new(StreamBody::new(pieces).boxed_unsync(), Counted::new(&traffic), stop.clone());
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(traffic.look(), (1, true), "it counts while it is sent");
        stop.cancel();
        assert!(body.frame().await.unwrap().is_err());
        drop(body);
        assert_eq!(traffic.look(), (1, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_body_is_sent_whatever_happens() {
        let (traffic, stop) = (Arc::default(), CancellationToken::new());
        let body = SentBody::new(whole("all of it"), Counted::new(&traffic), stop.clone());
        stop.cancel();
        sleep(GRACE * 2).await;
        assert_eq!(body.collect().await.unwrap().to_bytes(), "all of it");
    }
}
