//! A TCP proxy in front of a server that can swallow everything, let it drip, or break every connection.
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Pass,
    /// Takes everything and answers nothing; connections stay open.
    Swallow,
    /// One byte at a time towards the client.
    Drip,
    /// Breaks every connection, the open ones and the new ones, with a reset.
    Reset,
}

pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<State>,
    accept: JoinHandle<()>,
}

#[derive(Clone, Copy)]
struct State {
    mode: Mode,
    /// How often everything was swallowed: connections from before stay dead afterwards, as those a firewall forgot.
    holes: u32,
}

impl Proxy {
    pub async fn start(target: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, watching) = watch::channel(State { mode: Mode::Pass, holes: 0 });
        let accept = tokio::spawn(async move {
            // The links die with this task's set.
            let mut links = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let mode = watching.clone();
                links.spawn(link(client, target, mode));
            }
        });
        Proxy { port, mode, accept }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_modify(|state| {
            state.holes += u32::from(mode == Mode::Swallow);
            state.mode = mode;
        });
    }
}

/// One connection, until both sides are done or it is broken.
async fn link(mut client: TcpStream, target: u16, state: watch::Receiver<State>) {
    if state.borrow().mode != Mode::Reset {
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let both = async {
            tokio::join!(
                pump(from_client, to_server, state.clone(), false),
                pump(from_server, to_client, state.clone(), true)
            );
        };
        let mut watching = state.clone();
        tokio::select! {
            () = both => return,
            _ = watching.wait_for(|state| state.mode == Mode::Reset) => {}
        }
    }
    // Closed without a goodbye: the client is told by a reset.
    let _ = client.set_zero_linger();
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: watch::Receiver<State>,
    drips: bool,
) {
    let born = state.borrow().holes;
    let mut dead = false;
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read) = from.read(&mut buffer).await {
        let now = *state.borrow();
        dead |= now.holes != born || now.mode == Mode::Swallow;
        match now.mode {
            _ if read == 0 => break,
            _ if dead => continue,
            Mode::Drip if drips => {
                for byte in &buffer[..read] {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    if to.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                }
            }
            _ => {
                if to.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
    // A dead connection is half open: nobody is told.
    if dead || state.borrow().holes != born {
        std::future::pending::<()>().await;
    }
    let _ = to.shutdown().await;
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accept.abort();
    }
}
