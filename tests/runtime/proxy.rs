//! A TCP proxy in front of a server, to cut and to block what goes through it.
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

pub struct Proxy {
    pub port: u16,
    state: Arc<Mutex<State>>,
    accept: JoinHandle<()>,
    cutter: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    blocked: bool,
    links: Vec<AbortHandle>,
    cuts: usize,
}

impl Proxy {
    pub async fn start(target: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let accept = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut state = shared.lock().unwrap();
                if state.blocked {
                    continue;
                }
                let link = tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                state.links.retain(|link| !link.is_finished());
                state.links.push(link.abort_handle());
            }
        });
        Proxy { port, state, accept, cutter: None }
    }

    /// Cuts everything, again and again.
    pub fn cut_every(&mut self, pause: Duration) {
        let state = self.state.clone();
        self.cutter = Some(tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                cut(&state);
            }
        }));
    }

    pub fn cut_no_more(&mut self) {
        if let Some(cutter) = self.cutter.take() {
            cutter.abort();
        }
    }

    /// How many connections were cut so far.
    pub fn cuts(&self) -> usize {
        self.state.lock().unwrap().cuts
    }

    /// Cuts everything and lets nothing through.
    pub fn block(&self) {
        self.state.lock().unwrap().blocked = true;
        cut(&self.state);
    }

    pub fn unblock(&self) {
        self.state.lock().unwrap().blocked = false;
    }
}

fn cut(state: &Mutex<State>) {
    let mut state = state.lock().unwrap();
    let links = std::mem::take(&mut state.links);
    state.cuts += links.iter().filter(|link| !link.is_finished()).count();
    links.iter().for_each(AbortHandle::abort);
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accept.abort();
        self.cut_no_more();
        self.block();
    }
}
