#![allow(clippy::unwrap_used)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use futures_util::{SinkExt, StreamExt, stream};
use serde_json::Value;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::{advance, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

use super::log::WINDOW;
use super::*;
use crate::visit::{Notice, Notices, Text};

/// A room with a list whose content can be changed and a log without end. The right to both can be taken away.
#[derive(Default)]
struct Fake {
    /// What following is answered with; 0 is yes.
    refusal: AtomicU16,
    asked: AtomicUsize,
    changes: Mutex<Option<watch::Sender<u64>>>,
    /// How many pieces of logs were asked for.
    pieces: AtomicUsize,
}

/// The log's pieces; not a divisor of anything.
const PIECE: usize = 50_001;

impl Fake {
    fn change(&self) {
        self.changes.lock().unwrap().as_ref().unwrap().send_modify(|count| *count += 1);
    }
}

impl Room for Fake {
    fn owns(&self, path: &str) -> bool {
        path == "/list" || path == "/log"
    }

    fn answer(self: Arc<Self>, _: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(async { Err(Problem::not_found("")) })
    }

    fn follow(self: Arc<Self>, _: Caller, _: String, _: String) -> BoxFuture<'static, Result<Notices, Problem>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Relaxed);
            match self.refusal.load(Relaxed) {
                0 => {}
                code => return Err(Problem::new(code, "No", "no longer")),
            }
            let receiver = self.changes.lock().unwrap().get_or_insert_with(|| watch::Sender::new(0)).subscribe();
            Ok(stream::unfold(receiver, |mut receiver| async move {
                receiver.changed().await.ok()?;
                Some((Notice::Changed, receiver))
            })
            .boxed())
        })
    }

    fn text(self: Arc<Self>, _: Caller, path: String, query: String) -> BoxFuture<'static, Result<Text, Problem>> {
        Box::pin(async move {
            if path != "/log" {
                return Err(Problem::not_found("no log"));
            }
            let room = self.clone();
            let last = if query == "short" { 2 } else { usize::MAX };
            let pieces = stream::unfold(0, move |count| {
                room.pieces.fetch_add(1, Relaxed);
                async move { (count < last).then(|| (Ok(vec![b'x'; PIECE].into()), count + 1)) }
            });
            let until = async move {
                while self.refusal.load(Relaxed) == 0 {
                    sleep(Duration::from_secs(1)).await;
                }
                Problem::forbidden("no longer")
            };
            Ok(Text { pieces: pieces.boxed(), until: Box::pin(until) })
        })
    }
}

struct Tab(WebSocketStream<DuplexStream>);

impl Tab {
    async fn say(&mut self, value: Value) {
        self.0.send(Frame::Text(value.to_string().into())).await.unwrap();
    }

    /// The next event that is not a ping, within this many seconds.
    async fn hear(&mut self, seconds: u64) -> Option<Value> {
        let next = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Frame::Text(text))) => {
                        let value: Value = serde_json::from_str(&text).unwrap();
                        if value["event"] != "ping" {
                            return Some(value);
                        }
                    }
                    Some(Ok(Frame::Close(frame))) => return frame.map(|frame| json!(u16::from(frame.code))),
                    Some(Ok(_)) => {}
                    _ => return None,
                }
            }
        };
        timeout(Duration::from_secs(seconds), next).await.ok().flatten()
    }
}

impl Tab {
    /// How many bytes of a log come before it is silent for a second.
    async fn take(&mut self, id: &str) -> usize {
        let mut bytes = 0;
        while let Ok(Some(Ok(frame))) = timeout(Duration::from_secs(1), self.0.next()).await {
            if let Frame::Binary(frame) = frame {
                assert_eq!((usize::from(frame[0]), &frame[1..=id.len()]), (id.len(), id.as_bytes()));
                assert!(frame[1 + id.len()..].iter().all(|byte| *byte == b'x'));
                bytes += frame.len() - 1 - id.len();
            }
        }
        bytes
    }
}

async fn open(room: &Arc<Fake>) -> (Tab, JoinSet<()>) {
    let (near, far) = duplex(1 << 16);
    let mut socket = Socket::new(near, CancellationToken::new()).await;
    let rooms: Vec<Arc<dyn Room>> = vec![room.clone()];
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        if let Some(problem) = Talk::new(&rooms, Caller::for_tests("t")).run(&mut socket).await {
            socket.refuse(&problem).await;
        }
    });
    (Tab(WebSocketStream::from_raw_socket(far, Role::Client, None).await), tasks)
}

fn subscribe(id: &str) -> Value {
    json!({"subscribe": {"id": id, "path": "/list?q=1"}})
}

#[tokio::test(start_paused = true)]
async fn a_tab_hears_of_changes_a_few_times_a_second_at_most() {
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    tab.say(subscribe("a")).await;
    sleep(Duration::from_millis(10)).await;
    room.change();
    assert_eq!(tab.hear(1).await, Some(json!({"id": "a", "event": "changed"})));
    let begun = Instant::now();
    let mut heard = 0;
    for _ in 0..100 {
        room.change();
        advance(Duration::from_millis(10)).await;
        while let Ok(event) = timeout(Duration::from_millis(1), tab.hear(1)).await {
            assert_eq!(event.unwrap()["event"], "changed");
            heard += 1;
        }
    }
    assert!((2..=6).contains(&heard), "{heard} in {:?}", begun.elapsed());
    tab.say(json!({"unsubscribe": "a"})).await;
    sleep(Duration::from_millis(300)).await;
    while tab.hear(1).await.is_some() {}
    room.change();
    assert_eq!(tab.hear(2).await, None, "nothing is heard of what was taken back");
}

#[tokio::test(start_paused = true)]
async fn a_right_taken_away_while_a_tab_listens_is_told_within_half_a_minute() {
    // B-20
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    tab.say(subscribe("a")).await;
    sleep(Duration::from_secs(1)).await;
    room.refusal.store(403, Relaxed);
    let begun = Instant::now();
    assert_eq!(tab.hear(60).await, Some(json!({"id": "a", "event": "denied", "message": "no longer"})));
    assert!(begun.elapsed() <= Duration::from_secs(30), "{:?}", begun.elapsed());
    // The id is free again.
    room.refusal.store(404, Relaxed);
    tab.say(subscribe("a")).await;
    assert_eq!(tab.hear(1).await.unwrap()["event"], "gone");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_away_for_a_moment_ends_nothing() {
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    tab.say(subscribe("a")).await;
    sleep(Duration::from_secs(1)).await;
    room.refusal.store(503, Relaxed);
    assert_eq!(tab.hear(30).await, None);
    room.refusal.store(0, Relaxed);
    assert_eq!(tab.hear(25).await, None);
    room.change();
    assert_eq!(tab.hear(1).await.unwrap()["event"], "changed");
    room.refusal.store(503, Relaxed);
    assert_eq!(tab.hear(120).await.unwrap()["event"], "denied", "but not for ever");
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_bounded_and_nonsense_ends_the_talk() {
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    for n in 0..MOST {
        tab.say(subscribe(&format!("s{n}"))).await;
    }
    tab.say(subscribe("s0")).await;
    assert_eq!(tab.hear(1).await, None, "the same id is no further one");
    tab.say(subscribe("more")).await;
    assert_eq!(tab.hear(1).await.unwrap()["event"], "denied");
    tab.say(json!({"subscribe": {"id": "x", "path": "/nowhere"}})).await;
    assert_eq!(tab.hear(1).await.unwrap()["event"], "denied", "full");
    tab.say(json!({"unsubscribe": "s1"})).await;
    tab.say(json!({"subscribe": {"id": "x", "path": "/nowhere"}})).await;
    assert_eq!(tab.hear(1).await.unwrap()["event"], "gone");
    tab.say(json!({"shout": 1})).await;
    assert_eq!(tab.hear(1).await, Some(json!(4400)));
    for _ in 0..2 {
        let (mut tab, _tasks) = open(&room).await;
        for _ in 0..=OFTEN {
            tab.say(subscribe("a")).await;
        }
        assert_eq!(tab.hear(1).await, Some(json!(4429)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_used_again_does_not_hear_what_was_said_to_the_one_before() {
    let room = Arc::new(Fake::default());
    let rooms: Vec<Arc<dyn Room>> = vec![room.clone()];
    let mut talk = Talk::new(&rooms, Caller::for_tests("t"));
    room.refusal.store(403, Relaxed);
    assert_eq!(talk.hear(&subscribe("a").to_string()).unwrap(), None);
    // Its denial is in the queue when the tab, unaware, says it again.
    sleep(Duration::from_secs(1)).await;
    room.refusal.store(0, Relaxed);
    assert_eq!(talk.hear(&subscribe("a").to_string()).unwrap(), None);
    let denial = talk.queue.recv().await.unwrap();
    assert!(denial.to_json()["event"] == "denied" && !talk.is_live(&denial));
    sleep(Duration::from_secs(1)).await;
    room.change();
    let change = talk.queue.recv().await.unwrap();
    assert!(change.to_json()["event"] == "changed" && talk.is_live(&change));
}

fn follow(id: &str, query: &str) -> Value {
    json!({"follow": {"id": id, "path": format!("/log?{query}")}})
}

#[tokio::test(start_paused = true)]
async fn a_log_is_read_no_further_than_the_tab_has_room_for() {
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    tab.say(follow("log", "")).await;
    assert_eq!(tab.hear(1).await, Some(json!({"id": "log", "event": "open"})));
    assert_eq!(tab.take("log").await, WINDOW);
    let read = room.pieces.load(Relaxed);
    assert!(read <= WINDOW / PIECE + 2, "{read} pieces were read from the member");
    // A tab that takes nothing still hears everything else.
    tab.say(subscribe("a")).await;
    sleep(Duration::from_millis(10)).await;
    room.change();
    assert_eq!(tab.hear(1).await, Some(json!({"id": "a", "event": "changed"})));
    tab.say(json!({"took": {"id": "log", "bytes": 1000}})).await;
    assert_eq!(tab.take("log").await, 1000);
    tab.say(json!({"took": {"id": "log", "bytes": WINDOW + 1000}})).await;
    assert_eq!(tab.take("log").await, WINDOW);
    tab.say(json!({"unsubscribe": "log"})).await;
    tab.say(json!({"took": {"id": "log", "bytes": u64::MAX}})).await;
    assert_eq!(tab.take("log").await, 0, "nothing comes of what was taken back");
}

#[tokio::test(start_paused = true)]
async fn a_log_says_how_it_ended() {
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    tab.say(follow("short", "short")).await;
    assert_eq!(tab.hear(1).await.unwrap()["event"], "open");
    assert_eq!(tab.hear(1).await, Some(json!({"id": "short", "event": "ended"})));
    for path in ["/list", "/nowhere"] {
        tab.say(json!({"follow": {"id": "x", "path": path}})).await;
        let heard = tab.hear(1).await.unwrap();
        assert_eq!((&heard["event"], &heard["code"]), (&json!("failed"), &json!(404)), "{path}");
    }
    // The right is lost while the tab takes nothing: it is told all the same. // B-20
    tab.say(follow("log", "")).await;
    assert_eq!(tab.take("log").await, WINDOW);
    room.refusal.store(403, Relaxed);
    let lost = json!({"id": "log", "event": "failed", "code": 403, "reason": "Forbidden", "message": "no longer"});
    assert_eq!(tab.hear(5).await, Some(lost));
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_tab_are_bounded_and_leave_room_for_subscriptions() {
    let room = Arc::new(Fake::default());
    let (mut tab, _tasks) = open(&room).await;
    for n in 0..=MOST_LOGS {
        tab.say(follow(&format!("l{n}"), "")).await;
    }
    let mut heard = tab.hear(1).await.unwrap();
    while heard["event"] == "open" {
        heard = tab.hear(1).await.unwrap();
    }
    assert_eq!((&heard["id"], &heard["code"]), (&json!(format!("l{MOST_LOGS}")), &json!(429)));
    tab.say(subscribe("a")).await;
    while tab.hear(1).await.is_some() {}
    room.change();
    assert_eq!(tab.hear(1).await, Some(json!({"id": "a", "event": "changed"})));
    tab.say(json!({"unsubscribe": "l0"})).await;
    tab.say(follow("l0", "")).await;
    assert_eq!(tab.hear(1).await, Some(json!({"id": "l0", "event": "open"})));
}
