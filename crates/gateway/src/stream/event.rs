//! What a tab hears of what it has open.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::ws::Message;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    /// Of what was opened, among all of the tab.
    pub(crate) number: u64,
    pub(crate) word: Word,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// What is shown is worth reading again.
    Changed,
    /// The subscription is over: the right to it is gone.
    Denied(String),
    /// The subscription is over: there is nothing (any more).
    Gone(String),
    /// A log is read from here on.
    Open,
    /// A piece of a log, cut anywhere.
    Text(Bytes),
    /// The log has no more.
    Ended,
    /// The log cannot be read, or not any further.
    Failed(Problem),
}

impl Event {
    /// Pieces of logs are binary: a byte with the length of the id, the id, the text. Everything else is JSON.
    pub(crate) fn to_message(&self) -> Message {
        let Word::Text(text) = &self.word else { return Message::Text(self.to_json().to_string()) };
        let mut frame = BytesMut::with_capacity(1 + self.id.len() + text.len());
        // An id has at most 64 bytes.
        frame.put_u8(u8::try_from(self.id.len()).unwrap_or(u8::MAX));
        frame.put_slice(self.id.as_bytes());
        frame.put_slice(text);
        Message::Binary(frame.freeze())
    }

    pub(crate) fn to_json(&self) -> Value {
        let id = &self.id;
        match &self.word {
            Word::Changed => json!({"id": id, "event": "changed"}),
            Word::Denied(why) => json!({"id": id, "event": "denied", "message": why}),
            Word::Gone(why) => json!({"id": id, "event": "gone", "message": why}),
            Word::Open => json!({"id": id, "event": "open"}),
            Word::Text(_) => json!({"id": id, "event": "text"}),
            Word::Ended => json!({"id": id, "event": "ended"}),
            Word::Failed(Problem { code, reason, message, .. }) => {
                json!({"id": id, "event": "failed", "code": code, "reason": reason, "message": message})
            }
        }
    }
}
