//! Reports about ended requests, for callers of the proxy. The log has the same data.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use nerve_types::token_usage::TokenUsage;
use parking_lot::Mutex;

/// Target of the `tracing` spans that an exporter sends to a collector.
pub const SPAN_TARGET: &str = "nerve::span";

/// Report about an ended request. Texts are cut and contain no known key.
#[derive(Debug, Clone)]
pub struct CallReport {
    /// Id of the request, as in the log and in `x-nerve-request-id`.
    pub id: String,
    /// Node whose agent sent the request ([`ProxyConfig::node`](crate::ProxyConfig::node)).
    pub node: Option<String>,
    /// Turn at the start of the request ([`CurrentTurn`]); `None` between turns.
    pub turn: Option<u64>,
    /// Provider of the upstream: `anthropic` or `openai`.
    pub provider: &'static str,
    /// Host of the upstream, with the port if its address has one.
    pub upstream: String,
    /// The agent's conversation id, if it sent one.
    pub session: Option<String>,
    /// HTTP method, for example `POST`.
    pub method: String,
    /// Path and query, without keys.
    pub path: String,
    /// True if the request is billable. Connectivity checks and token counts are not.
    pub spends: bool,
    /// True if a stream was requested.
    pub stream: bool,
    /// The requested model.
    pub requested_model: Option<String>,
    /// The model named by the answer.
    pub model: Option<String>,
    /// Status of the response; `None` if there was none.
    pub status: Option<u16>,
    /// Outcome of the request.
    pub outcome: CallOutcome,
    /// The error, if any.
    pub error: Option<String>,
    /// Tokens, as reported by the upstream.
    pub usage: Option<TokenUsage>,
    /// US dollars, if prices are known.
    pub cost_usd: Option<f64>,
    /// Time at which the head of the request arrived.
    pub started: SystemTime,
    /// Time from `started` to the end of the response.
    pub took: Duration,
    /// Time from `started` to the first byte of the response's body.
    pub first: Option<Duration>,
    /// Size of the response's body, in bytes.
    pub bytes: u64,
    /// The request's `traceparent`, unchanged (W3C Trace Context).
    pub traceparent: Option<String>,
    /// Span of the request, not yet described. It ends when the last copy is dropped.
    pub span: tracing::Span,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum CallOutcome {
    /// The client received the whole response.
    Whole,
    /// The proxy answered with its own error.
    Refused,
    /// The upstream failed in the middle of its response.
    Broken,
    /// The client disconnected.
    ClientGone,
}

impl CallOutcome {
    /// Returns its name in the log: `whole`, `refused`, `broken`, `client_gone`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A callback for every ended request. It runs before the last byte of the response is sent, so that a client that has
/// seen the whole answer finds its tokens counted. It must not block.
#[derive(Clone)]
pub struct CallObserver(Arc<dyn Fn(&CallReport) + Send + Sync>);

impl CallObserver {
    /// Wraps a callback.
    pub fn new(callback: impl Fn(&CallReport) + Send + Sync + 'static) -> CallObserver {
        CallObserver(Arc::new(callback))
    }

    /// Returns a callback that calls `self`, then `other`.
    #[must_use]
    pub fn chain(self, other: CallObserver) -> CallObserver {
        CallObserver::new(move |report| {
            self.notify(report);
            other.notify(report);
        })
    }

    pub(crate) fn notify(&self, report: &CallReport) {
        (self.0)(report);
    }
}

impl fmt::Debug for CallObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallObserver(…)")
    }
}

/// The number of the current turn, set by the code that runs turns. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CurrentTurn(Arc<AtomicU64>);

impl CurrentTurn {
    /// Sets the current turn: a number from 1, or `None`.
    pub fn set(&self, turn: Option<u64>) {
        self.0.store(turn.unwrap_or(0), Ordering::SeqCst);
    }

    /// Returns the current turn.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|turn| *turn > 0)
    }
}

/// Maximum number of messages in [`LogFaults`].
const MAX_LOG_FAULTS: usize = 16;

/// Interruptions of a proxy's log and their ends, as messages for a user. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LogFaults(Arc<Mutex<Vec<String>>>);

impl LogFaults {
    /// Removes and returns the messages, oldest first.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    /// Adds a message, unless no caller has taken the earlier ones.
    pub(crate) fn add(&self, message: String) {
        let mut messages = self.0.lock();
        if messages.len() < MAX_LOG_FAULTS {
            messages.push(message);
        }
    }
}
