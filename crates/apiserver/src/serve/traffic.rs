//! The bytes of a connection on their way: noted when they move, cut so that sending them is cheap.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use super::flow;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What the watchdog sees of a connection. Written on the fast path, so plain counters and no clock.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests begun, ever.
    pub(super) begun: AtomicU32,
    /// Requests whose answer has not been sent in full.
    pub(super) running: AtomicU32,
    /// Bytes have arrived since the last request began; on HTTP/1.1 that is the start of a head.
    pub(super) head_started: AtomicBool,
    /// Successful writes, ever (wraps).
    pub(super) written: AtomicU32,
    /// The last write found the socket full.
    pub(super) write_blocked: AtomicBool,
}

/// Counts a request as running until its answer has been sent or given up.
pub(super) struct Running(Arc<Activity>);

impl Running {
    pub(super) fn begin(activity: &Arc<Activity>) -> Running {
        activity.begun.fetch_add(1, Relaxed);
        activity.running.fetch_add(1, Relaxed);
        activity.head_started.store(false, Relaxed);
        Running(Arc::clone(activity))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// The bytes of a connection, noting when they move.
pub(super) struct Observed<I> {
    io: I,
    activity: Arc<Activity>,
}

impl<I: AsyncRead + Unpin> AsyncRead for Observed<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let outcome = Pin::new(&mut this.io).poll_read(cx, buf);
        if buf.filled().len() != before {
            this.activity.head_started.store(true, Relaxed);
        }
        outcome
    }
}

impl<I> Observed<I> {
    pub(super) fn new(io: I, activity: Arc<Activity>) -> Self {
        Observed { io, activity }
    }

    fn wrote(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let blocked = outcome.is_pending();
        if !blocked {
            self.activity.written.fetch_add(1, Relaxed);
        }
        self.activity.write_blocked.store(blocked, Relaxed);
        outcome
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Observed<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write(cx, buf);
        this.wrote(outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut pieces = [io::IoSlice::new(&[]); PIECES];
        let outcome = Pin::new(&mut this.io).poll_write_vectored(cx, in_pieces(bufs, &mut pieces));
        this.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

/// TLS copies what it is given piece by piece. From 2 KiB on, the copy of older C libraries (up to glibc 2.38) takes an instruction that is
/// several times slower on current AMD processors when the two sides are not aligned alike, and these never are.
const PIECE: usize = 2000;
const PIECES: usize = 16;

/// The same bytes, or the first of them, in pieces that are copied fast.
fn in_pieces<'a>(bufs: &'a [io::IoSlice<'_>], pieces: &'a mut [io::IoSlice<'a>; PIECES]) -> &'a [io::IoSlice<'a>] {
    let mut count = 0;
    for (piece, place) in bufs.iter().flat_map(|buf| buf.chunks(PIECE)).zip(pieces.iter_mut()) {
        *place = io::IoSlice::new(piece);
        count += 1;
    }
    &pieces[..count]
}

/// What one turn of HTTP/2 sends: with its head of 9 bytes a frame fills one TLS record. A fuller frame would make two, the second nearly empty.
const FRAME: usize = (16 << 10) - 9;

/// An answer's body that keeps its request counted as running.
pub(super) struct Tracked<B> {
    body: B,
    /// Of the last chunk, what has not been sent yet.
    rest: Bytes,
    _running: Running,
}

impl<B> Tracked<B> {
    pub(super) fn new(body: B, running: Running) -> Self {
        flow::offer();
        Tracked { body, rest: Bytes::new(), _running: running }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Tracked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            let frame = match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(end) => return Poll::Ready(end),
                Poll::Pending => {
                    flow::dry();
                    return Poll::Pending;
                }
            };
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        flow::offer();
        let length = this.rest.len().min(FRAME);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn pieces_are_the_beginning_of_what_was_given() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        for cut in [0, 1, 9, PIECE, PIECE + 1, FRAME, 60_000] {
            let (head, tail) = bytes.split_at(cut);
            let bufs = [io::IoSlice::new(head), io::IoSlice::new(tail)];
            let mut pieces = [io::IoSlice::new(&[]); PIECES];
            let given = in_pieces(&bufs, &mut pieces);
            let joined: Vec<u8> = given.iter().flat_map(|piece| piece.to_vec()).collect();
            assert!(!joined.is_empty() && bytes.starts_with(&joined), "cut at {cut}");
            assert!(given.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE), "cut at {cut}");
        }
        assert!(in_pieces(&[], &mut [io::IoSlice::new(&[]); PIECES]).is_empty());
    }

    #[tokio::test]
    async fn a_body_leaves_in_frames_of_one_record_and_is_announced_whole() {
        let bytes = Bytes::from((0..3 * FRAME + 7).map(|n| n as u8).collect::<Vec<u8>>());
        let whole = http_body_util::Full::new(bytes.clone());
        let mut body = Tracked::new(whole, Running::begin(&Arc::default()));
        let mut arrived = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() <= FRAME);
            arrived.extend_from_slice(&data);
            assert_eq!(body.size_hint().exact(), Some((bytes.len() - arrived.len()) as u64));
            assert_eq!(body.is_end_stream(), arrived.len() == bytes.len());
        }
        assert_eq!(arrived, bytes);
    }
}
