//! Which trace and which span: the W3C trace context, and the one of the running thread.

use std::{cell::RefCell, fmt, str::FromStr};

/// The context of a span, as `traceparent` carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; never zero.
    pub trace: u128,
    /// The span; never zero.
    pub span: u64,
    /// Whether the trace is kept.
    pub sampled: bool,
}

/// Not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent: it is written 00-TRACE-SPAN-FLAGS in lower-case hexadecimal digits")]
pub struct NotTraceContext;

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

impl FromStr for TraceContext {
    type Err = NotTraceContext;

    fn from_str(text: &str) -> Result<Self, NotTraceContext> {
        let mut parts = text.split('-');
        let mut next = |length: usize| {
            let digits =
                |part: &&str| part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().filter(digits).ok_or(NotTraceContext)
        };
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // A later version may say more; the first four parts keep their meaning. ff is no version.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(NotTraceContext);
        }
        let number = |digits| u128::from_str_radix(digits, 16).map_err(|_| NotTraceContext);
        let (trace, span) = (number(trace)?, number(span)? as u64);
        if trace == 0 || span == 0 {
            return Err(NotTraceContext);
        }
        Ok(TraceContext { trace, span, sampled: number(flags)? & 1 == 1 })
    }
}

thread_local! {
    /// The spans of traces that this thread is in, the innermost last.
    static ENTERED: RefCell<Vec<TraceContext>> = const { RefCell::new(Vec::new()) };
}

/// The innermost span of a trace that this thread is in.
pub fn current() -> Option<TraceContext> {
    ENTERED.with_borrow(|entered| entered.last().copied())
}

pub(super) fn enter(context: TraceContext) {
    ENTERED.with_borrow_mut(|entered| entered.push(context));
}

pub(super) fn exit(context: TraceContext) {
    ENTERED.with_borrow_mut(|entered| {
        if let Some(at) = entered.iter().rposition(|other| *other == context) {
            entered.remove(at);
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        // SYM-11
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context: TraceContext = good.parse().unwrap();
        assert_eq!((context.trace, context.span), (0x0af7651916cd43dd8448eb211c80319c, 0xb7ad6b7169203331));
        assert!(context.sampled);
        assert_eq!(context.to_string(), good);
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02-more";
        assert!(later.parse::<TraceContext>().is_ok_and(|context| !context.sampled));
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(wrong.parse::<TraceContext>(), Err(NotTraceContext), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_means_itself(text in ".{0,60}") {
            if let Ok(context) = text.parse::<TraceContext>() {
                prop_assert_eq!(context.to_string().parse(), Ok(context));
            }
        }

        #[test]
        fn a_context_survives_its_own_words(trace in 1u128.., span in 1u64.., sampled: bool) {
            let context = TraceContext { trace, span, sampled };
            prop_assert_eq!(context.to_string().parse(), Ok(context));
        }
    }
}
