//! The load generator: one HTTP/2 connection over TLS per client, all on one thread, doing as little as possible per request,
//! because it shares the machine with the server it measures.
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use muster_tests::Peer;
use muster_tests::client::{Failure, H2};
use muster_tests::peer::WORKER;

/// One client with its connection.
pub struct Client {
    sender: H2,
    base: String,
}

impl Client {
    pub async fn connect(peer: &Peer) -> Result<Client, Failure> {
        Ok(Client { sender: peer.h2().await?, base: format!("https://127.0.0.1:{}", peer.port) })
    }

    pub async fn several(peer: &Peer, count: usize) -> Result<Vec<Client>, Failure> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(Client::connect(peer).await?);
        }
        Ok(clients)
    }

    /// Sends and reads the answer to its end; the number of bytes read.
    pub async fn call(&mut self, method: &str, path: &str, body: Option<Bytes>) -> Result<usize, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {WORKER}"))
            .header("accept", "application/json");
        if body.is_some() {
            let kind = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
            request = request.header("content-type", kind);
        }
        let request = request.body(Full::new(body.unwrap_or_default()).boxed())?;
        std::future::poll_fn(|cx| self.sender.poll_ready(cx)).await?;
        let mut response = self.sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("{method} {path}: {}", response.status()).into());
        }
        let mut length = 0;
        while let Some(frame) = response.body_mut().frame().await {
            if let Ok(data) = frame?.into_data() {
                length += data.len();
            }
        }
        Ok(length)
    }
}

/// What a run of requests gave.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub requests: usize,
    pub seconds: f64,
    /// Sorted, in microseconds.
    pub latencies: Vec<u32>,
}

impl Run {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// In milliseconds.
    pub fn percentile(&self, part: f64) -> f64 {
        let at = ((self.latencies.len() as f64 * part) as usize).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
    }
}

/// Runs `make(n)` → (method, path, body) from all clients until the time is over or `limit` requests were sent.
pub async fn drive(
    clients: &mut [Client],
    time: Duration,
    limit: usize,
    make: impl Fn(usize) -> (&'static str, String, Option<Bytes>),
) -> Result<Run, Failure> {
    let next = std::cell::Cell::new(0);
    let start = Instant::now();
    let (next, make) = (&next, &make);
    let work = clients.iter_mut().map(|client| async move {
        let mut latencies = Vec::new();
        while start.elapsed() < time {
            let n = next.get();
            if n >= limit {
                break;
            }
            next.set(n + 1);
            let (method, path, body) = make(n);
            let sent = Instant::now();
            client.call(method, &path, body).await?;
            latencies.push(sent.elapsed().as_micros().min(u128::from(u32::MAX)) as u32);
        }
        Ok::<_, Failure>(latencies)
    });
    let mut latencies: Vec<u32> = futures_util::future::try_join_all(work).await?.into_iter().flatten().collect();
    latencies.sort_unstable();
    Ok(Run { requests: latencies.len(), seconds: start.elapsed().as_secs_f64(), latencies })
}
