//! A TCP proxy that cuts, swallows or delays what passes through it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Pass,
    /// Nothing gets through either way; connections stay open.
    BlackHole,
    /// Requests arrive, answers are lost.
    Mute,
    /// Every connection is closed, new ones too.
    Cut,
    Delay(Duration),
}

pub struct Proxy {
    pub port: u16,
    mode: Arc<watch::Sender<Mode>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub async fn start(target: u16) -> Proxy {
        let port = super::peer::port();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let mode = Arc::new(watch::Sender::new(Mode::Pass));
        let modes = mode.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(connection(near, target, modes.subscribe()));
            }
        });
        Proxy { port, mode, task }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection(near: TcpStream, target: u16, mut mode: watch::Receiver<Mode>) {
    if *mode.borrow() == Mode::Cut {
        return;
    }
    let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        () = pass(near_read, far_write, mode.clone(), false) => {}
        () = pass(far_read, near_write, mode.clone(), true) => {}
        _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    answers: bool,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let flows = |mode: &Mode| !(*mode == Mode::BlackHole || (*mode == Mode::Mute && answers));
        let Ok(now) = mode.wait_for(flows).await.map(|mode| *mode) else { return };
        if let Mode::Delay(time) = now {
            tokio::time::sleep(time).await;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
