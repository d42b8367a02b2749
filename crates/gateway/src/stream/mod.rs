//! `/wapi/v1/stream`: one WebSocket per tab over which it hears which of its pages changed, and reads the logs it follows.

mod event;
mod follow;
mod log;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::access::Gatekeeper;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::standing;
use crate::visit::{Answered, Room, Visit};
use crate::ws::{Gone, Message, Socket};
use event::{Event, Word};
use follow::Follow;
use log::Log;

const PATH: &str = "/wapi/v1/stream";
const MOST: usize = 64;
/// A browser has six connections to a host; logs that share the tab's socket need none of their own.
const MOST_LOGS: usize = 48;
const LONGEST_ID: usize = 64;
const LONGEST_PATH: usize = 4_096;
const PING: Duration = Duration::from_secs(15);
/// Events under way to a tab: what does not fit waits with its subscription or log, which has at most one.
const QUEUE: usize = 32;
/// Each subscription and log asks the API for rights: so many in so long.
const OFTEN: usize = 200;
const PERIOD: Duration = Duration::from_secs(10);

pub(crate) struct Stream {
    rooms: Vec<Arc<dyn Room>>,
    gatekeeper: Arc<Gatekeeper>,
}

/// What a tab says.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Said {
    /// Say when this changes.
    Subscribe(Wanted),
    /// Read this log to me.
    Follow(Wanted),
    /// So much of a log has arrived.
    Took(Took),
    /// No more of a subscription or a log.
    Unsubscribe(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    id: String,
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Took {
    id: String,
    /// In all, since it was opened.
    bytes: u64,
}

impl Stream {
    /// Over what these rooms can follow.
    pub(crate) fn new(rooms: Vec<Arc<dyn Room>>, gatekeeper: Arc<Gatekeeper>) -> Self {
        Self { rooms, gatekeeper }
    }

    async fn serve(self: Arc<Self>, caller: Caller, mut socket: Socket) {
        let mut talk = Talk::new(&self.rooms, caller.clone());
        let lost = standing::lost(&caller, || self.gatekeeper.recognise(&caller));
        let why = tokio::select! {
            why = talk.run(&mut socket) => why,
            why = lost => Some(why),
        };
        match why {
            Some(problem) => socket.refuse(&problem).await,
            None => socket.close(1000, "").await,
        }
    }
}

impl Room for Stream {
    fn owns(&self, path: &str) -> bool {
        path == PATH
    }

    fn answer(self: Arc<Self>, _: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(async { Err(Problem::new(426, "UpgradeRequired", "this path is a WebSocket")) })
    }

    fn converses(&self, _: &str) -> bool {
        true
    }

    fn converse(self: Arc<Self>, visit: Visit, socket: Socket) -> BoxFuture<'static, ()> {
        Box::pin(self.serve(visit.caller, socket))
    }
}

/// Something a tab has open.
struct Open {
    number: u64,
    task: AbortHandle,
    /// How many bytes the tab took of it; only of logs.
    taken: Option<watch::Sender<u64>>,
}

/// One tab's subscriptions and logs. Their tasks end with it.
struct Talk<'a> {
    rooms: &'a [Arc<dyn Room>],
    caller: Caller,
    open: HashMap<String, Open>,
    /// How many there were: an id can be used again, and what the one before said must not be taken for its own.
    numbers: u64,
    tasks: JoinSet<u64>,
    events: mpsc::Sender<Event>,
    queue: mpsc::Receiver<Event>,
    /// How many were begun in the period that began then.
    begun: (usize, Instant),
}

impl<'a> Talk<'a> {
    fn new(rooms: &'a [Arc<dyn Room>], caller: Caller) -> Self {
        let (events, queue) = mpsc::channel(QUEUE);
        let begun = (0, Instant::now());
        Self { rooms, caller, open: HashMap::new(), numbers: 0, tasks: JoinSet::new(), events, queue, begun }
    }

    /// Until the tab goes (`None`) or breaks the rules.
    async fn run(&mut self, socket: &mut Socket) -> Option<Problem> {
        let mut ping = interval_at(Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                message = socket.next() => match message {
                    None => return None,
                    Some(Message::Text(text)) => match self.hear(&text) {
                        Ok(None) => Ok(()),
                        Ok(Some(refusal)) => say(socket, &refusal).await,
                        Err(problem) => return Some(problem),
                    },
                    Some(Message::Binary(_)) => return Some(Problem::bad_request("only text frames are read here")),
                },
                Some(event) = self.queue.recv() => match self.is_live(&event) {
                    // It was said before the tab took the subscription back.
                    false => Ok(()),
                    true => say(socket, &event).await,
                },
                Some(ended) = self.tasks.join_next() => {
                    // Its last word may still be in the queue; the id is free when that was said.
                    let said = self.flush(socket).await;
                    if let Ok(ended) = ended {
                        self.open.retain(|_, open| open.number != ended);
                    }
                    said
                }
                _ = ping.tick() => socket.send(Message::Text(json!({"event": "ping"}).to_string())).await,
            };
            if done.is_err() {
                return None;
            }
        }
    }

    fn is_live(&self, event: &Event) -> bool {
        self.open.get(&event.id).is_some_and(|open| open.number == event.number)
    }

    async fn flush(&mut self, socket: &mut Socket) -> Result<(), Gone> {
        while let Ok(event) = self.queue.try_recv() {
            if self.is_live(&event) {
                say(socket, &event).await?;
            }
        }
        Ok(())
    }

    /// Takes in what the tab says; gives back what it is told at once.
    fn hear(&mut self, text: &str) -> Result<Option<Event>, Problem> {
        let said = serde_json::from_str(text).map_err(|_| {
            Problem::bad_request(
                "say subscribe or follow with {\"id\":\"…\",\"path\":\"…\"}, unsubscribe with an id, or took",
            )
        })?;
        let (wanted, is_log) = match said {
            Said::Subscribe(wanted) => (wanted, false),
            Said::Follow(wanted) => (wanted, true),
            Said::Took(Took { id, bytes }) => {
                if let Some(taken) = self.open.get(&id).and_then(|open| open.taken.as_ref()) {
                    taken.send_replace(bytes);
                }
                return Ok(None);
            }
            Said::Unsubscribe(id) => {
                self.end(&id);
                return Ok(None);
            }
        };
        self.begin(wanted, is_log)
    }

    fn begin(&mut self, Wanted { id, path }: Wanted, is_log: bool) -> Result<Option<Event>, Problem> {
        if id.is_empty() || id.len() > LONGEST_ID || path.len() > LONGEST_PATH || !path.starts_with('/') {
            return Err(Problem::bad_request("an id has 1 to 64 bytes, a path at most 4096 and begins with a slash"));
        }
        let now = Instant::now();
        if now.duration_since(self.begun.1) >= PERIOD {
            self.begun = (0, now);
        }
        self.begun.0 += 1;
        if self.begun.0 > OFTEN {
            return Err(Problem::too_many("too many subscriptions in too short a time"));
        }
        self.end(&id);
        let refused = |id, word| Ok(Some(Event { id, number: 0, word }));
        let most = if is_log { MOST_LOGS } else { MOST };
        if self.open.values().filter(|open| open.taken.is_some() == is_log).count() >= most {
            let what = if is_log { "logs" } else { "subscriptions" };
            let why = format!("a tab has at most {most} {what}; take some back first");
            return refused(id, if is_log { Word::Failed(Problem::too_many(why)) } else { Word::Denied(why) });
        }
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let Some(room) = self.rooms.iter().find(|room| room.owns(path)) else {
            let why = "there is nothing at this path";
            return refused(
                id,
                if is_log { Word::Failed(Problem::not_found(why)) } else { Word::Gone(why.to_owned()) },
            );
        };
        self.numbers += 1;
        let (room, caller, number) = (room.clone(), self.caller.clone(), self.numbers);
        let (path, query, events) = (path.to_owned(), query.to_owned(), self.events.clone());
        let (task, taken) = if is_log {
            let (sender, taken) = watch::channel(0);
            let log = Log { room, caller, id: id.clone(), number, path, query, taken, events };
            (self.tasks.spawn(log.run()), Some(sender))
        } else {
            let follow = Follow { room, caller, id: id.clone(), number, path, query, events };
            (self.tasks.spawn(follow.run()), None)
        };
        self.open.insert(id, Open { number, task, taken });
        Ok(None)
    }

    fn end(&mut self, id: &str) {
        if let Some(open) = self.open.remove(id) {
            open.task.abort();
        }
    }
}

async fn say(socket: &mut Socket, event: &Event) -> Result<(), Gone> {
    socket.send(event.to_message()).await
}

#[cfg(test)]
mod tests;
