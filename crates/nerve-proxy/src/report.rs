//! What is told of a request when it has ended, beside the log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::usage::Usage;

/// What came of one request. Texts are cut and have no known key in them.
#[derive(Debug, Clone, PartialEq)]
pub struct CallReport {
    /// The request's id: that of its lines in the log and of its `x-nerve-request-id`.
    pub id: String,
    /// The node whose agent asked ([`ProxyConfig::node`](crate::ProxyConfig::node)).
    pub node: Option<String>,
    /// The turn that ran when the request began ([`CurrentTurn`]); `None` outside of turns.
    pub turn: Option<u64>,
    /// Whose API is behind: `anthropic` or `openai`.
    pub provider: &'static str,
    /// Host and port of the upstream, as its address gives them.
    pub upstream: String,
    /// The agent's own conversation, where it says so.
    pub session: Option<String>,
    /// `POST`, say.
    pub method: String,
    /// Path and query, without keys.
    pub path: String,
    /// Whether the request is one that costs something; the others ask whether somebody is there, or count tokens.
    pub spends: bool,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The model that was asked for.
    pub asked_model: Option<String>,
    /// The model that answered, by its own word.
    pub model: Option<String>,
    /// The status of the reply; `None`: there was none.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// What was wrong, where something was.
    pub error: Option<String>,
    /// Tokens, as far as the upstream told them.
    pub usage: Option<Usage>,
    /// US dollars, where prices are known.
    pub cost_usd: Option<f64>,
    /// When the head of the request was there.
    pub started: SystemTime,
    /// From then to the end of the reply.
    pub took: Duration,
    /// From then to the first byte of the reply's body.
    pub first: Option<Duration>,
    /// Bytes of the reply's body.
    pub bytes: u64,
    /// The request's `traceparent`, as it came (W3C Trace Context).
    pub traceparent: Option<String>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// All of the reply went to the client.
    Whole,
    /// The proxy answered with an error of its own.
    Refused,
    /// The upstream broke off in the middle of its reply.
    Broken,
    /// The client left.
    ClientGone,
}

impl CallOutcome {
    /// As it is called in the log: `whole`, `refused`, `broken`, `client_gone`.
    pub fn as_str(self) -> &'static str {
        match self {
            CallOutcome::Whole => "whole",
            CallOutcome::Refused => "refused",
            CallOutcome::Broken => "broken",
            CallOutcome::ClientGone => "client_gone",
        }
    }
}

/// Who is told of every request that has ended, before the last byte of its reply goes out: whoever sees the end of an answer finds
/// its tokens counted. It is called on the way of the reply and must not wait.
#[derive(Clone)]
pub struct OnCall(Arc<dyn Fn(&CallReport) + Send + Sync>);

impl OnCall {
    /// Tells `hear`.
    pub fn new(hear: impl Fn(&CallReport) + Send + Sync + 'static) -> OnCall {
        OnCall(Arc::new(hear))
    }

    /// Tells both, this one first.
    #[must_use]
    pub fn and(self, other: OnCall) -> OnCall {
        OnCall::new(move |report| {
            self.tell(report);
            other.tell(report);
        })
    }

    pub(crate) fn tell(&self, report: &CallReport) {
        (self.0)(report);
    }
}

impl fmt::Debug for OnCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCall(…)")
    }
}

/// The turn that runs now, told to a proxy by whoever runs turns. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub struct CurrentTurn(Arc<AtomicU64>);

impl CurrentTurn {
    /// Says which turn runs: `None` or a number from 1.
    pub fn set(&self, turn: Option<u64>) {
        self.0.store(turn.unwrap_or(0), Ordering::SeqCst);
    }

    /// Which turn runs.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|turn| *turn > 0)
    }
}
