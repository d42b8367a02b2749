//! `/wapi/v1/stream`: one WebSocket per tab over which it hears which of its pages changed.

mod follow;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::access::Gatekeeper;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::standing;
use crate::visit::{Answered, Room, Visit};
use crate::ws::{Gone, Message, Socket};
use follow::{Event, Follow};

const PATH: &str = "/wapi/v1/stream";
const MOST: usize = 64;
const LONGEST_ID: usize = 64;
const LONGEST_PATH: usize = 4_096;
const PING: Duration = Duration::from_secs(15);
/// Events under way to a tab: what does not fit waits with its subscription, which has at most one.
const QUEUE: usize = 32;
/// Each subscription asks the API for rights: so many in so long.
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
    Subscribe(Subscribe),
    Unsubscribe(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    id: String,
    path: String,
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

/// One tab's subscriptions. Their tasks end with it.
struct Talk<'a> {
    rooms: &'a [Arc<dyn Room>],
    caller: Caller,
    subscriptions: HashMap<String, (u64, AbortHandle)>,
    /// How many subscriptions there were: an id can be used again, and what the one before said must not be taken for its own.
    numbers: u64,
    tasks: JoinSet<u64>,
    events: mpsc::Sender<Event>,
    queue: mpsc::Receiver<Event>,
    /// Subscriptions begun in the period that began then.
    begun: (usize, Instant),
}

impl<'a> Talk<'a> {
    fn new(rooms: &'a [Arc<dyn Room>], caller: Caller) -> Self {
        let (events, queue) = mpsc::channel(QUEUE);
        let begun = (0, Instant::now());
        Self { rooms, caller, subscriptions: HashMap::new(), numbers: 0, tasks: JoinSet::new(), events, queue, begun }
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
                        self.subscriptions.retain(|_, (number, _)| *number != ended);
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
        self.subscriptions.get(&event.id).is_some_and(|(number, _)| *number == event.number)
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
            Problem::bad_request("say {\"subscribe\":{\"id\":\"…\",\"path\":\"…\"}} or {\"unsubscribe\":\"…\"}")
        })?;
        let Subscribe { id, path } = match said {
            Said::Subscribe(subscribe) => subscribe,
            Said::Unsubscribe(id) => {
                self.end(&id);
                return Ok(None);
            }
        };
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
        if self.subscriptions.len() >= MOST {
            let why = format!("a tab has at most {MOST} subscriptions; take some back first");
            return Ok(Some(Event::denied(&id, 0, &why)));
        }
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let Some(room) = self.rooms.iter().find(|room| room.owns(path)) else {
            return Ok(Some(Event::gone(&id, 0, "there is nothing at this path")));
        };
        self.numbers += 1;
        let follow = Follow {
            room: room.clone(),
            caller: self.caller.clone(),
            id: id.clone(),
            number: self.numbers,
            path: path.to_owned(),
            query: query.to_owned(),
            events: self.events.clone(),
        };
        let task = self.tasks.spawn(follow.run());
        self.subscriptions.insert(id, (self.numbers, task));
        Ok(None)
    }

    fn end(&mut self, id: &str) {
        if let Some((_, task)) = self.subscriptions.remove(id) {
            task.abort();
        }
    }
}

async fn say(socket: &mut Socket, event: &Event) -> Result<(), Gone> {
    socket.send(Message::Text(event.to_json().to_string())).await
}

#[cfg(test)]
mod tests;
