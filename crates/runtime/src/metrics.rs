//! Figures under the names operators know from controller-runtime and client-go; served by whoever has an HTTP listener.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Every figure of the process. Cheap to clone; parts add their own with [`Metrics::register`].
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    queues: Queues,
    reconciles: Reconciles,
    leading: Family<LeaseLabel, Gauge>,
    skipped: Family<KindLabel, Counter>,
    restarts: Family<KindLabel, Counter>,
    events_dropped: Counter,
    /// Queues whose work under way is looked at when somebody reads the figures.
    unfinished: Watched,
}

type Watched = Arc<Mutex<Vec<(QueueLabels, Weak<dyn Unfinished>)>>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: Arc<str>,
    controller: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: Arc<str>,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabel {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

struct Queues {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    waited: Family<QueueLabels, Histogram>,
    worked: Family<QueueLabels, Histogram>,
}

struct Reconciles {
    total: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabel, Counter>,
    terminal: Family<ControllerLabel, Counter>,
    panics: Family<ControllerLabel, Counter>,
    time: Family<ControllerLabel, Histogram>,
    workers: Family<ControllerLabel, Gauge>,
    active: Family<ControllerLabel, Gauge>,
}

/// Something that can say how long its work under way has been going on: the sum, and the longest.
pub(crate) trait Unfinished: Send + Sync {
    fn unfinished(&self) -> (Duration, Duration);
}

/// 1 µs to 1000 s (the buckets of client-go's queues run to 10 s only; builds of clusters take longer).
fn queue_times() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 10.0, 10))
}

fn reconcile_times() -> Histogram {
    const BUCKETS: [f64; 24] = [
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0,
        30.0, 60.0, 300.0, 1200.0,
    ];
    Histogram::new(BUCKETS)
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// A fresh set, all at zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let queues = Queues::new(&mut registry);
        let reconciles = Reconciles::new(&mut registry);
        let leading = Family::default();
        registry.register(
            "leader_election_master_status",
            "1 while this process holds the lease, 0 otherwise",
            leading.clone(),
        );
        let skipped = Family::default();
        registry.register(
            "muster_informer_unreadable_objects",
            "Versions of objects that could not be read and were skipped",
            skipped.clone(),
        );
        let restarts = Family::default();
        registry.register(
            "muster_informer_relists",
            "How often a kind had to be read anew because the server no longer had the history",
            restarts.clone(),
        );
        let events_dropped = Counter::default();
        registry.register(
            "muster_events_dropped",
            "Events not written because an object, or all of them together, had too many",
            events_dropped.clone(),
        );
        let unfinished = Watched::default();
        registry.register_collector(Box::new(UnfinishedWork(unfinished.clone())));
        Metrics(Arc::new(Inner {
            registry: Mutex::new(registry),
            queues,
            reconciles,
            leading,
            skipped,
            restarts,
            events_dropped,
            unfinished,
        }))
    }

    /// Adds figures of another part.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.0.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All figures as OpenMetrics text (which Prometheus reads too).
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.0.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(out)
    }

    pub(crate) fn queue(&self, controller: &str) -> QueueMetrics {
        let name: Arc<str> = controller.into();
        let labels = QueueLabels { name: name.clone(), controller: name };
        let queues = &self.0.queues;
        QueueMetrics {
            depth: queues.depth.get_or_create(&labels).clone(),
            adds: queues.adds.get_or_create(&labels).clone(),
            retries: queues.retries.get_or_create(&labels).clone(),
            waited: queues.waited.get_or_create(&labels).clone(),
            worked: queues.worked.get_or_create(&labels).clone(),
            labels,
            unfinished: self.0.unfinished.clone(),
        }
    }

    pub(crate) fn controller(&self, controller: &str) -> ControllerMetrics {
        let label = ControllerLabel { controller: controller.into() };
        let all = &self.0.reconciles;
        let result =
            |result| all.total.get_or_create(&ResultLabels { controller: label.controller.clone(), result }).clone();
        ControllerMetrics {
            success: result("success"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            error: result("error"),
            errors: all.errors.get_or_create(&label).clone(),
            terminal: all.terminal.get_or_create(&label).clone(),
            panics: all.panics.get_or_create(&label).clone(),
            time: all.time.get_or_create(&label).clone(),
            workers: all.workers.get_or_create(&label).clone(),
            active: all.active.get_or_create(&label).clone(),
        }
    }

    pub(crate) fn leading(&self, lease: &str) -> Gauge {
        self.0.leading.get_or_create(&LeaseLabel { name: lease.to_owned() }).clone()
    }

    pub(crate) fn unreadable(&self, kind: &str) -> Counter {
        self.0.skipped.get_or_create(&KindLabel { kind: kind.to_owned() }).clone()
    }

    pub(crate) fn relists(&self, kind: &str) -> Counter {
        self.0.restarts.get_or_create(&KindLabel { kind: kind.to_owned() }).clone()
    }

    pub(crate) fn events_dropped(&self) -> &Counter {
        &self.0.events_dropped
    }
}

impl Queues {
    fn new(registry: &mut Registry) -> Self {
        let queues = Queues {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(queue_times),
            worked: Family::new_with_constructor(queue_times),
        };
        registry.register("workqueue_depth", "Keys that wait for a worker", queues.depth.clone());
        registry.register("workqueue_adds", "Keys that came to wait", queues.adds.clone());
        registry.register("workqueue_retries", "Keys that were put back after a failure", queues.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key waited for a worker",
            queues.waited.clone(),
        );
        registry.register("workqueue_work_duration_seconds", "How long a worker had a key", queues.worked.clone());
        queues
    }
}

impl Reconciles {
    fn new(registry: &mut Registry) -> Self {
        let all = Reconciles {
            total: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            time: Family::new_with_constructor(reconcile_times),
            workers: Family::default(),
            active: Family::default(),
        };
        registry.register("controller_runtime_reconcile", "Reconciles by how they ended", all.total.clone());
        registry.register("controller_runtime_reconcile_errors", "Reconciles that failed", all.errors.clone());
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed in a way that trying again cannot help",
            all.terminal.clone(),
        );
        registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", all.panics.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "How long reconciles took", all.time.clone());
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "How many reconciles may run at once",
            all.workers.clone(),
        );
        registry.register("controller_runtime_active_workers", "How many reconciles run now", all.active.clone());
        all
    }
}

/// The figures of one queue.
#[derive(Clone)]
pub(crate) struct QueueMetrics {
    labels: QueueLabels,
    depth: Gauge,
    pub adds: Counter,
    pub retries: Counter,
    waited: Histogram,
    worked: Histogram,
    unfinished: Watched,
}

impl QueueMetrics {
    pub(crate) fn depth(&self, depth: usize) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.waited.observe(time.as_secs_f64());
    }

    pub(crate) fn worked(&self, time: Duration) {
        self.worked.observe(time.as_secs_f64());
    }

    pub(crate) fn watch_unfinished(&self, queue: Weak<dyn Unfinished>) {
        let mut watched = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|(labels, queue)| *labels != self.labels && queue.strong_count() > 0);
        watched.push((self.labels.clone(), queue));
    }
}

/// The figures of one reconciler.
#[derive(Clone)]
pub(crate) struct ControllerMetrics {
    pub success: Counter,
    pub requeue: Counter,
    pub requeue_after: Counter,
    pub error: Counter,
    pub errors: Counter,
    pub terminal: Counter,
    pub panics: Counter,
    pub time: Histogram,
    pub workers: Gauge,
    pub active: Gauge,
}

/// Asks the queues when the figures are read, so that nothing has to keep them up to date.
struct UnfinishedWork(Watched);

impl fmt::Debug for UnfinishedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnfinishedWork")
    }
}

impl Collector for UnfinishedWork {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let queues: Vec<(QueueLabels, (Duration, Duration))> = {
            let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            watched.iter().filter_map(|(labels, queue)| Some((labels.clone(), queue.upgrade()?.unfinished()))).collect()
        };
        let mut write = |name: &str, help: &str, value: fn(&(Duration, Duration)) -> Duration| {
            let kind = prometheus_client::metrics::MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, figures) in &queues {
                ConstGauge::new(value(figures).as_secs_f64()).encode(family.encode_family(labels)?)?;
            }
            Ok(())
        };
        write("workqueue_unfinished_work_seconds", "Time of the work under way, summed", |f| f.0)?;
        write("workqueue_longest_running_processor_seconds", "Time of the longest work under way", |f| f.1)
    }
}
