//! A watcher that does next to nothing: HTTP/2 read frame by frame, events counted by their newlines.
//!
//! Five hundred full HTTP/2 clients on one core would be what is measured, not the server.

use muster_tests::Peer;
use muster_tests::client::Failure;
use muster_tests::peer::WORKER;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
/// The most a window can hold: no watch of a benchmark comes near, so no window is ever updated.
const WINDOW: u32 = i32::MAX as u32;
const INITIAL_WINDOW: u16 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Headers,
    Reset,
    Settings,
    Ping,
    GoAway,
    Other,
}

impl Kind {
    fn of(byte: u8) -> Kind {
        match byte {
            0 => Kind::Data,
            1 => Kind::Headers,
            3 => Kind::Reset,
            4 => Kind::Settings,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            _ => Kind::Other,
        }
    }
}

/// Opens a watch on a connection of its own; `seen` gets the number of events of each read. Ends when the server ends it.
pub async fn watch(
    peer: &Peer,
    path: &str,
    seen: impl Fn(usize) + 'static,
) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let mut stream = peer.tls("h2").await?;
    let mut hello = PREFACE.to_vec();
    let mut window = INITIAL_WINDOW.to_be_bytes().to_vec();
    window.extend(WINDOW.to_be_bytes());
    frame(&mut hello, 4, 0, 0, &window);
    // The connection's own window starts at 65,535 and is only ever raised.
    frame(&mut hello, 8, 0, 0, &(WINDOW - 65_535).to_be_bytes());
    // END_STREAM and END_HEADERS.
    frame(&mut hello, 1, 0x5, 1, &request(peer.port, path));
    stream.write_all(&hello).await?;
    stream.flush().await?;
    Ok(tokio::task::spawn_local(async move {
        if let Err(why) = read(&mut stream, seen).await {
            eprintln!("a watch ended: {why}");
        }
    }))
}

/// Header fields as literals without indexing and without Huffman coding: a decoder needs no state for them.
fn request(port: u16, path: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", path),
        (":authority", &format!("127.0.0.1:{port}")),
        ("authorization", &format!("Bearer {WORKER}")),
        ("accept", "application/json"),
    ];
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a literal of one length byte");
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

async fn read(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), seen: impl Fn(usize)) -> Result<(), Failure> {
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err("the server closed the connection".into());
        }
        let (mut at, mut events) = (0, 0);
        while let Some(head) = bytes.get(at..at + HEAD) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (Kind::of(head[3]), head[4]);
            let Some(payload) = bytes.get(at + HEAD..at + HEAD + length) else { break };
            match kind {
                Kind::Data => {
                    events += memchr::memchr_iter(b'\n', payload).count();
                    if flags & 1 != 0 {
                        return Err("the server ended the stream".into());
                    }
                }
                // SETTINGS and PING without ACK ask for one.
                Kind::Settings if flags & 1 == 0 => answer(stream, 4, &[]).await?,
                Kind::Ping if flags & 1 == 0 => answer(stream, 6, payload).await?,
                // The status: anything but 200 (index 8) comes with END_STREAM or as a data frame that is no event.
                Kind::Headers if payload.first() != Some(&0x88) => return Err("the watch was refused".into()),
                Kind::Reset | Kind::GoAway => return Err("the server gave up the watch".into()),
                _ => {}
            }
            at += HEAD + length;
        }
        bytes.drain(..at);
        seen(events);
    }
}

async fn answer(stream: &mut (impl AsyncWrite + Unpin), kind: u8, payload: &[u8]) -> Result<(), Failure> {
    let mut out = Vec::new();
    frame(&mut out, kind, 1, 0, payload);
    stream.write_all(&out).await?;
    Ok(stream.flush().await?)
}
