//! What of a request's body nobody has read. A client that still sends while it is answered may lose the answer with the connection:
//! whoever is refused may finish first, though not for long, nor with much. Whoever waits to be told to send has nothing to finish.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::visit::{Body, BoxError};

const LONGEST: Duration = Duration::from_secs(1);
const MOST: usize = 8 << 20;

/// A body that is given back when it is dropped before its end.
pub(crate) struct Lent {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
    /// The client sends nothing until somebody reads (`Expect: 100-continue`).
    waits: bool,
}

/// Where it is given back.
pub(crate) struct Unread(oneshot::Receiver<Body>);

pub(crate) fn lend(headers: &HeaderMap, body: Body) -> (Lent, Unread) {
    let (back, unread) = oneshot::channel();
    (Lent { body, back: Some(back), waits: headers.contains_key(header::EXPECT) }, Unread(unread))
}

impl Unread {
    /// Reads what is left. A body that somebody still holds is theirs.
    pub(crate) async fn discard(mut self) {
        let Ok(mut body) = self.0.try_recv() else { return };
        let reading = async {
            let mut left = MOST;
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    break;
                }
            }
        };
        let _ = timeout(LONGEST, reading).await;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(back) = self.back.take()
            && !self.waits
            && !http_body::Body::is_end_stream(&self.body)
        {
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.waits = false;
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.back = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use http_body_util::StreamBody;

    use super::*;

    /// So many frames of a megabyte; counts those that were read.
    fn body(frames: usize, read: &Arc<AtomicUsize>) -> Body {
        let read = read.clone();
        let frames = (0..frames).map(move |_| {
            read.fetch_add(1, Relaxed);
            Ok(Frame::data(Bytes::from(vec![0; 1 << 20])))
        });
        StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
    }

    #[tokio::test]
    async fn what_was_left_is_read_within_bounds() {
        for (frames, expected) in [(3, 3), (100, 1 + (MOST >> 20))] {
            let read = Arc::default();
            let (mut lent, unread) = lend(&HeaderMap::new(), body(frames, &read));
            lent.frame().await.unwrap().unwrap();
            drop(lent);
            unread.discard().await;
            assert_eq!(read.load(Relaxed), expected);
        }
    }

    #[tokio::test]
    async fn what_is_held_or_was_read_is_left_alone() {
        let read = Arc::default();
        let (lent, unread) = lend(&HeaderMap::new(), body(3, &read));
        unread.discard().await;
        assert_eq!(lent.collect().await.unwrap().to_bytes().len(), 3 << 20);
        let (lent, mut unread) = lend(&HeaderMap::new(), body(3, &read));
        lent.collect().await.unwrap();
        assert!(unread.0.try_recv().is_err());
    }

    #[tokio::test]
    async fn nobody_is_told_to_send_what_is_refused() {
        let waiting = HeaderMap::from_iter([(header::EXPECT, header::HeaderValue::from_static("100-continue"))]);
        let read = Arc::default();
        let (lent, unread) = lend(&waiting, body(3, &read));
        drop(lent);
        unread.discard().await;
        assert_eq!(read.load(Relaxed), 0);
        let (mut lent, unread) = lend(&waiting, body(3, &read));
        lent.frame().await.unwrap().unwrap();
        drop(lent);
        unread.discard().await;
        assert_eq!(read.load(Relaxed), 3);
    }
}
