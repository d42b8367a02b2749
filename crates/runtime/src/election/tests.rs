//! Elections against a lease in memory, in virtual time, on networks that fail.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use super::*;
use crate::{
    Fenced, SystemClock,
    fence::FENCE_HEADER,
    testing::{Answer, client, json as answer, refusal},
};

/// Keeps one lease as a server does, and everything else that is written to it.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    version: AtomicU64,
    written: Mutex<Vec<String>>,
}

impl Server {
    fn handle(&self, request: &Request<Bytes>) -> Answer {
        let path = request.uri().path();
        if !path.contains("/leases") {
            let fence = request.headers().get(FENCE_HEADER).and_then(|fence| fence.to_str().ok()).unwrap_or("none");
            self.written.lock().unwrap().push(fence.to_owned());
            return answer(200, &json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}));
        }
        let named = path.ends_with("/hub");
        let mut lease = self.lease.lock().unwrap();
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        match (request.method(), &*lease) {
            // Watching is not allowed here: polling must do.
            (&Method::GET, _) if !named => refusal(403),
            (&Method::GET, Some(lease)) => answer(200, lease),
            (&Method::GET, None) => refusal(404),
            (&Method::POST, Some(_)) => refusal(409),
            (&Method::PUT, None) => refusal(404),
            (&Method::PUT, Some(known))
                if known["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] =>
            {
                refusal(409)
            }
            (&Method::POST | &Method::PUT, _) => {
                let mut body = body;
                body["metadata"]["resourceVersion"] = json!(self.version.fetch_add(1, SeqCst).to_string());
                *lease = Some(body.clone());
                answer(200, &body)
            }
            _ => refusal(405),
        }
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        lease
            .as_ref()
            .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned())
            .unwrap_or_default()
    }
}

/// One who stands for election over a network of its own.
struct Candidate {
    fence: Arc<Fence>,
    term: watch::Receiver<Option<Term>>,
    cut: Arc<AtomicBool>,
    client: Client,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(server: &Arc<Server>, name: &str, seed: Option<u64>) -> Self {
        let cut = Arc::new(AtomicBool::new(false));
        let random = seed.map(|seed| Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))));
        let (network, server) = (cut.clone(), server.clone());
        let client = client(move |request: Request<Bytes>| {
            let (cut, server, random) = (network.clone(), server.clone(), random.clone());
            async move {
                let draw = |most: u64| random.as_ref().map_or(0, |random| random.lock().unwrap().u64(0..=most));
                let (before, after, fate) = (draw(900), draw(900), draw(9));
                sleep(Duration::from_millis(before)).await;
                if cut.load(SeqCst) || fate == 9 {
                    return refusal(503);
                }
                let answer = server.handle(&request);
                sleep(Duration::from_millis(after)).await;
                // Written, and the answer lost.
                if cut.load(SeqCst) || fate == 8 { refusal(504) } else { answer }
            }
        });
        let (terms, term) = watch::channel(None);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let fence = Fence::new("n/hub".into(), clock.clone());
        let election = Election { identity: name.to_owned(), ..Election::new("n", "hub") };
        let terms = Arc::new(terms);
        let elector = Elector::new(client.clone(), election, fence.clone(), clock, &Metrics::new(), terms);
        let stop = CancellationToken::new();
        let task = tokio::spawn(elector.run(stop.clone()));
        Candidate { fence, term, cut, client, stop, task }
    }

    fn leads(&self) -> bool {
        self.term.borrow().is_some()
    }

    async fn until_leading(&mut self) -> Duration {
        let start = Instant::now();
        self.term.wait_for(Option::is_some).await.unwrap();
        start.elapsed()
    }

    async fn write(&self, term: Option<Term>) -> Result<(), kube::Error> {
        let api: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.fence.client(self.client.clone(), term), "n");
        api.create(&PostParams::default(), &Default::default()).await.map(|_| ())
    }
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_is_taken_over_at_the_next_look_and_a_kill_within_the_lease() {
    // SYM-12
    let server = Arc::new(Server::default());
    let mut first = Candidate::start(&server, "first", None);
    first.until_leading().await;
    let mut second = Candidate::start(&server, "second", None);
    sleep(Duration::from_secs(60)).await;
    assert!(first.leads() && !second.leads());

    first.stop.cancel();
    first.task.await.unwrap();
    assert_eq!(server.holder(), "");
    // A second and its jitter; with the right to watch it is at once.
    assert!(second.until_leading().await <= Duration::from_millis(1200));

    let mut third = Candidate::start(&server, "third", None);
    sleep(Duration::from_secs(5)).await;
    second.task.abort();
    third.until_leading().await;
    assert_eq!(server.lease.lock().unwrap().as_ref().unwrap()["spec"]["leaseTransitions"], 2);
}

/// Whenever it happens between two renewals, and although the next leader has no right to watch the lease and must look now and then.
#[tokio::test(start_paused = true)]
async fn a_kill_is_taken_over_within_fifteen_seconds_and_not_before_the_lease_is_over() {
    // SYM-12
    let lease = Election::new("n", "hub").lease;
    for moment in (0..1_000).step_by(50) {
        let server = Arc::new(Server::default());
        let mut first = Candidate::start(&server, "first", None);
        first.until_leading().await;
        let mut second = Candidate::start(&server, "second", None);
        sleep(Duration::from_millis(60_000 + moment)).await;
        first.task.abort();
        let took = second.until_leading().await;
        assert!(took <= Duration::from_secs(15), "{took:?} after a kill {moment} ms after a renewal");
        assert!(took >= lease - Duration::from_secs(1), "{took:?} after a kill {moment} ms after a renewal");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_writing_before_another_may_begin() {
    let server = Arc::new(Server::default());
    let mut first = Candidate::start(&server, "first", None);
    first.until_leading().await;
    first.write(Some(1)).await.unwrap();
    assert_eq!(*server.written.lock().unwrap(), ["n/hub/first/0"]);
    let mut second = Candidate::start(&server, "second", None);
    sleep(Duration::from_secs(10)).await;
    first.cut.store(true, SeqCst);
    let start = Instant::now();
    first.term.wait_for(Option::is_none).await.unwrap();
    let stopped = start.elapsed();
    assert!(stopped <= Duration::from_secs(8), "{stopped:?}");
    let refused = first.write(None).await.unwrap_err();
    assert_eq!(Fenced::of(&refused), Some(&Fenced::NotLeading { lease: "n/hub".into() }));
    assert!(!second.leads());
    second.until_leading().await;
    assert!(start.elapsed() > stopped);
    second.write(Some(1)).await.unwrap();
    assert_eq!(server.written.lock().unwrap().last().unwrap(), "n/hub/second/1");

    // It leads again, in another term: what began in the first stays shut.
    first.cut.store(false, SeqCst);
    second.stop.cancel();
    first.until_leading().await;
    let refused = first.write(Some(1)).await.unwrap_err();
    assert_eq!(Fenced::of(&refused), Some(&Fenced::TermOver { lease: "n/hub".into() }));
    first.write(Some(2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_given_up_when_the_lease_is_no_longer_surely_ours() {
    let fence = Fence::new("n/hub".into(), Arc::new(SystemClock));
    let now = jiff::Timestamp::now();
    let later = now + jiff::SignedDuration::from_secs(3600);
    fence.hold(1, Instant::now() + Duration::from_secs(7), later, HeaderValue::from_static("x"));
    let silent = client(|_| std::future::pending::<Answer>());
    let api: Api<Lease> = Api::namespaced(fence.client(silent, Some(1)), "n");
    let start = Instant::now();
    let error = api.create(&PostParams::default(), &Lease::default()).await.unwrap_err();
    assert_eq!(Fenced::of(&error), Some(&Fenced::OutOfTime { lease: "n/hub".into() }));
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

/// The clock by which waits are measured stands still while a machine sleeps; the time of day does not.
#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_does_not_write() {
    struct Woken(Arc<AtomicBool>);
    impl Clock for Woken {
        fn now(&self) -> jiff::Timestamp {
            let slept = if self.0.load(SeqCst) { 60 } else { 0 };
            jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(slept)
        }
        fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(sleep(duration))
        }
    }
    let slept = Arc::new(AtomicBool::new(false));
    let fence = Fence::new("n/hub".into(), Arc::new(Woken(slept.clone())));
    let until = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(10);
    fence.hold(1, Instant::now() + Duration::from_secs(10), until, HeaderValue::from_static("x"));
    let server = Arc::new(Server::default());
    let client = client(move |request: Request<Bytes>| {
        let server = server.clone();
        async move { server.handle(&request) }
    });
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(fence.client(client, None), "n");
    api.create(&PostParams::default(), &Default::default()).await.unwrap();
    slept.store(true, SeqCst);
    let error = api.create(&PostParams::default(), &Default::default()).await.unwrap_err();
    assert!(Fenced::of(&error).is_some(), "{error}");
    // Reading is never refused.
    api.get("x").await.unwrap();
}

/// Slow, lossy networks, cuts and lost answers: there is never a moment in which two may write, and somebody leads most of the time.
#[tokio::test(start_paused = true)]
async fn never_two_leaders_whatever_the_network_does() {
    for seed in 0..12 {
        let server = Arc::new(Server::default());
        let candidates: Vec<Candidate> =
            (0..3).map(|i| Candidate::start(&server, &format!("c{i}"), Some(seed * 10 + i))).collect();
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut led, mut moments) = (0, 0);
        for step in 0..6000 {
            if step % 200 == 0 {
                let which = random.usize(0..3);
                candidates[which].cut.store(random.u8(0..3) == 0, SeqCst);
            }
            sleep(Duration::from_millis(100)).await;
            let may: Vec<usize> = (0..3).filter(|i| candidates[*i].fence.open()).collect();
            assert!(may.len() <= 1, "seed {seed}: {may:?} may write at once");
            moments += 1;
            led += may.len();
        }
        assert!(led * 2 > moments, "seed {seed}: somebody led in {led} of {moments} moments");
    }
}
