//! The caller of a turn.

use std::sync::{Arc, OnceLock};

use nerve_api::request::ExecuteInput;
use nerve_node::client_origin::ClientOrigin;
use nerve_node::telemetry::TraceContext;
use tokio_util::sync::CancellationToken;

use super::context::RequestContext;

/// The caller of a turn.
#[derive(Debug)]
pub(super) struct Caller {
    /// Tag of its connection.
    pub(super) tag: Option<u64>,
    /// Its span.
    pub(super) trace: Option<Arc<TraceContext>>,
    /// Withdraws the prompt, or interrupts its turn.
    pub(super) cancellation: Option<CancellationToken>,
    /// The client.
    pub(super) origin: ClientOrigin,
    /// The client that cancelled the turn.
    pub(super) canceller: Arc<OnceLock<ClientOrigin>>,
}

impl Caller {
    /// Returns the caller of a request.
    pub(super) fn new(request: &ExecuteInput, context: &RequestContext) -> Caller {
        let trace = context.trace(request.traceparent.as_deref(), request.tracestate.as_deref());
        Caller {
            tag: context.tag,
            trace: trace.map(Arc::new),
            cancellation: None,
            origin: context.origin.clone(),
            canceller: Arc::default(),
        }
    }
}
