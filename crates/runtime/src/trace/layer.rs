//! Turns spans of `tracing` into spans of a trace and hands the finished ones to the exporter.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use tokio::sync::mpsc;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::{
    TraceContext, context,
    otlp::{self, AnyValue, KeyValue, Value},
    versions,
};

/// What a span keeps of what happened inside it.
const MOST_EVENTS: usize = 32;
/// Longer texts are clipped.
const LONGEST_TEXT: usize = 1024;

/// Listens to spans of traces. Made by [`super::Exporter::new`].
pub struct TraceLayer {
    finished: mpsc::Sender<otlp::Span>,
    dropped: Arc<AtomicU64>,
    /// Which share of the traces that begin here is kept.
    ratio: f64,
}

/// What hangs on a span while it is open.
struct Open {
    context: TraceContext,
    span: otlp::Span,
}

impl TraceLayer {
    pub(super) fn new(finished: mpsc::Sender<otlp::Span>, dropped: Arc<AtomicU64>, ratio: f64) -> TraceLayer {
        TraceLayer { finished, dropped, ratio }
    }

    /// A trace that begins here. By its id, so that every program that uses the same share decides alike.
    fn begin(&self) -> TraceContext {
        let trace = fastrand::u128(1..);
        let sampled = ((trace as u64) >> 11) as f64 / (1u64 << 53) as f64;
        TraceContext { trace, span: fastrand::u64(1..), sampled: sampled < self.ratio }
    }
}

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let around = || {
            let parent = if attributes.is_contextual() { ctx.lookup_current() } else { span.parent() };
            parent?.scope().find_map(|outer| outer.extensions().get::<Open>().map(|open| open.context))
        };
        let parent = fields.parent.or_else(around);
        let context = match parent {
            Some(parent) => TraceContext { span: fastrand::u64(1..), ..parent },
            None => self.begin(),
        };
        let mut open = otlp::Span {
            trace_id: context.trace.to_be_bytes().to_vec(),
            span_id: context.span.to_be_bytes().to_vec(),
            parent_span_id: parent.map(|parent| parent.span.to_be_bytes().to_vec()).unwrap_or_default(),
            name: attributes.metadata().name().to_owned(),
            kind: otlp::INTERNAL,
            start_time_unix_nano: now(),
            flags: u32::from(context.sampled),
            ..otlp::Span::default()
        };
        fields.put_into(&mut open);
        span.extensions_mut().insert(Open { context, span: open });
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            if let Some(version) = fields.version.filter(|_| open.context.sampled) {
                versions::remember(version, open.context);
            }
            fields.put_into(&mut open.span);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let Some(scope) = ctx.event_scope(event) else { return };
        for span in scope {
            let mut extensions = span.extensions_mut();
            let Some(open) = extensions.get_mut::<Open>() else { continue };
            if open.span.events.len() >= MOST_EVENTS {
                open.span.dropped_events_count += 1;
                return;
            }
            let mut fields = Fields::default();
            event.record(&mut fields);
            let name = std::mem::take(&mut fields.message);
            fields.add("level", Value::Text(event.metadata().level().to_string()));
            open.span.events.push(otlp::Event { time_unix_nano: now(), name, attributes: fields.attributes });
            return;
        }
    }

    fn on_enter(&self, id: &span::Id, ctx: Context<'_, S>) {
        if let Some(context) = context_of(id, &ctx) {
            context::enter(context);
        }
    }

    fn on_exit(&self, id: &span::Id, ctx: Context<'_, S>) {
        if let Some(context) = context_of(id, &ctx) {
            context::exit(context);
        }
    }

    fn on_close(&self, id: span::Id, ctx: Context<'_, S>) {
        let open = ctx.span(&id).and_then(|span| span.extensions_mut().remove::<Open>());
        let Some(Open { context, mut span }) = open else { return };
        if context.sampled {
            span.end_time_unix_nano = now();
            // Nobody waits for a trace: what does not fit is counted and gone.
            if self.finished.try_send(span).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn context_of<S>(id: &span::Id, ctx: &Context<'_, S>) -> Option<TraceContext>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    ctx.span(id)?.extensions().get::<Open>().map(|open| open.context)
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The fields of a span or event, those with a meaning apart.
#[derive(Default)]
struct Fields {
    parent: Option<TraceContext>,
    link: Option<TraceContext>,
    kind: Option<i32>,
    error: Option<String>,
    version: Option<u64>,
    message: String,
    attributes: Vec<KeyValue>,
}

impl Fields {
    fn add(&mut self, key: &str, value: Value) {
        self.attributes.push(KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) });
    }

    fn put_into(self, span: &mut otlp::Span) {
        span.attributes.extend(self.attributes);
        span.kind = self.kind.unwrap_or(span.kind);
        span.links.extend(self.link.map(|link| otlp::Link {
            trace_id: link.trace.to_be_bytes().to_vec(),
            span_id: link.span.to_be_bytes().to_vec(),
        }));
        if let Some(message) = self.error {
            span.status = Some(otlp::Status { message, code: otlp::ERROR });
        }
    }

    fn text(&mut self, field: &Field, text: &str) {
        match field.name() {
            "traceparent" => self.parent = text.parse().ok(),
            "link.traceparent" => self.link = text.parse().ok(),
            "otel.kind" => self.kind = otlp::kind(text),
            "message" => self.message = clipped(text),
            "error" => self.error = Some(clipped(text)),
            name => self.add(name, Value::Text(clipped(text))),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), Value::Bool(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), Value::Int(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "object.version" {
            self.version = Some(value);
        }
        self.add(field.name(), Value::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), Value::Double(value));
    }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
