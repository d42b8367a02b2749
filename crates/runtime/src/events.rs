//! Events on objects, written beside the work and never in its way: repeated ones are counted in one, too many are dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Reporter},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{
    Fenced, Metrics, Object,
    queue::{Bucket, Rate},
};

/// As client-go's recorder does by default: 25 at once per object, then one every five minutes.
const PER_OBJECT: Rate = Rate { per_second: 1.0 / 300.0, burst: 25 };
/// Objects whose figures are kept; beyond, the oldest are forgotten.
const OBJECTS: usize = 4096;
/// Events that wait to be written.
const WAITING: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes Events about objects. Cheap to clone; never waits.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Inner>>);

struct Inner {
    sender: mpsc::Sender<(Event, ObjectReference)>,
    spent: Mutex<HashMap<String, (Bucket, Instant)>>,
    metrics: Metrics,
}

impl Recorder {
    /// Writes nothing: for tests.
    pub fn none() -> Self {
        Recorder(None)
    }

    /// A recorder and the task that writes; the task ends when the last recorder is gone.
    pub(crate) fn start(client: Client, controller: &str, instance: &str, metrics: Metrics) -> (Self, JoinHandle<()>) {
        let (sender, mut receiver) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
        let reporter = Reporter { controller: controller.to_owned(), instance: Some(instance.to_owned()) };
        let writer = kube::runtime::events::Recorder::new(client, reporter);
        let task = tokio::spawn(async move {
            let mut failing = false;
            while let Some((event, about)) = receiver.recv().await {
                let why = match timeout(PATIENCE, writer.publish(&event, &about)).await {
                    Ok(Ok(())) => {
                        failing = false;
                        continue;
                    }
                    // Whoever leads now writes its own.
                    Ok(Err(error)) if Fenced::of(&error).is_some() => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => format!("no answer within {PATIENCE:?}"),
                };
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(why, reason = event.reason, "events cannot be written");
                }
            }
        });
        (Recorder(Some(Arc::new(Inner { sender, spent: Mutex::default(), metrics }))), task)
    }

    /// Something went as it should.
    pub fn normal<K: Object>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventType::Normal, reason, action, note.into());
    }

    /// Something a person should look at.
    pub fn warning<K: Object>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventType::Warning, reason, action, note.into());
    }

    fn record<K: Object>(&self, object: &K, type_: EventType, reason: &str, action: &str, note: String) {
        let Some(inner) = &self.0 else { return };
        let about = object.object_ref(&());
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(clipped(note)),
            action: action.to_owned(),
            secondary: None,
        };
        if !inner.grants(&about) || inner.sender.try_send((event, about)).is_err() {
            inner.metrics.events_dropped().inc();
        }
    }
}

impl Inner {
    fn grants(&self, about: &ObjectReference) -> bool {
        let object = about.uid.clone().or_else(|| about.name.clone()).unwrap_or_default();
        let now = Instant::now();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.len() >= OBJECTS && !spent.contains_key(&object) {
            let mut times: Vec<Instant> = spent.values().map(|(_, at)| *at).collect();
            let middle = times.len() / 2;
            let (_, half, _) = times.select_nth_unstable(middle);
            let half = *half;
            spent.retain(|_, (_, at)| *at > half);
        }
        let (bucket, at) = spent.entry(object).or_insert_with(|| (Bucket::new(PER_OBJECT), now));
        *at = now;
        bucket.try_take(now)
    }
}

/// The API takes notes of up to 1 KiB.
fn clipped(mut note: String) -> String {
    const LONGEST: usize = 1024;
    if note.len() > LONGEST {
        let mut end = LONGEST - 3;
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_long_note_is_clipped_between_characters() {
        let note = clipped("ä".repeat(2000));
        assert!(note.len() <= 1024 && note.ends_with('…'));
        assert_eq!(clipped("short".into()), "short");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_with_too_many_events_is_silenced_and_the_others_are_not() {
        let metrics = Metrics::new();
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let inner = Inner { sender, spent: Mutex::default(), metrics: metrics.clone() };
        let recorder = Recorder(Some(Arc::new(inner)));
        let object = |name: &str| {
            let mut object = ConfigMap::default();
            object.metadata.uid = Some(name.to_owned());
            object
        };
        for _ in 0..100 {
            recorder.normal(&object("noisy"), "R", "A", "n");
        }
        recorder.warning(&object("quiet"), "R", "A", "n");
        let mut seen = Vec::new();
        while let Ok((_, about)) = receiver.try_recv() {
            seen.push(about.uid.unwrap());
        }
        assert_eq!(seen.iter().filter(|uid| *uid == "noisy").count(), 25);
        assert_eq!(seen.last().unwrap(), "quiet");
        assert_eq!(metrics.events_dropped().get(), 75);
        tokio::time::advance(Duration::from_secs(301)).await;
        recorder.normal(&object("noisy"), "R", "A", "n");
        assert!(receiver.try_recv().is_ok());
    }
}
