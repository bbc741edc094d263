//! Context of a request: data of its connection, and warnings for the client.

use std::sync::Arc;

use nerve_node::client_origin::ClientOrigin;
use nerve_node::telemetry::TraceContext;
use parking_lot::Mutex;

/// Characters of an invalid `traceparent` that a warning repeats.
const SHOWN: usize = 64;

/// Context of one request: its connection's tag, and the warnings for its reply.
#[derive(Debug, Default)]
pub struct RequestContext {
    /// Tag of the request's [`OutputChunk`](nerve_api::event::EventKind::OutputChunk) and
    /// [`BranchProgress`](nerve_api::event::EventKind::BranchProgress) events, by which a connection recognizes its own.
    pub tag: Option<u64>,
    /// The client that sent the request, for audit logs.
    pub origin: ClientOrigin,
    /// Warnings for the client.
    pub warnings: Warnings,
}

/// Warnings for the client of a request. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a warning.
    pub fn add(&self, warning: String) {
        self.0.lock().push(warning);
    }

    /// Removes and returns all warnings.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl RequestContext {
    /// Reads the span that a request is part of (W3C Trace Context). An invalid one never fails a request: it is ignored, with a
    /// warning.
    pub(super) fn trace(&self, parent: Option<&str>, state: Option<&str>) -> Option<TraceContext> {
        let parent = parent.filter(|parent| !parent.is_empty())?;
        match TraceContext::parse(parent, state) {
            Ok(context) => Some(context),
            Err(problem) => {
                let shown: String = parent.chars().take(SHOWN).collect();
                self.warnings.add(format!("params.traceparent {shown:?} is left out: {problem}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RequestContext;

    #[test]
    fn invalid_spans_are_ignored_with_a_short_warning() {
        const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = RequestContext::default();
        let span = context.trace(Some(CALLER), Some("vendor=1")).unwrap();
        assert_eq!((span.traceparent().as_str(), span.tracestate().as_deref()), (CALLER, Some("vendor=1")));
        assert!(context.trace(None, None).is_none() && context.trace(Some(""), None).is_none());
        assert!(context.warnings.take().is_empty());

        assert!(context.trace(Some("00-nonsense"), None).is_none());
        let warnings = context.warnings.take();
        assert!(warnings[0].contains("traceparent") && warnings[0].contains("00-nonsense"), "{warnings:?}");
        assert!(context.trace(Some(&"x".repeat(100_000)), None).is_none());
        assert!(context.warnings.take()[0].len() < 300);
    }
}
