//! Collects the data of one request and reports it once, however the request ends.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::request::Parts;

use crate::body::Reservation;
use crate::headers;
use crate::log_entry::{self, RequestEntry, ResponseEntry};
use crate::path;
use crate::report::{CallOutcome, CallReport, SPAN_TARGET};
use crate::request_summary::RequestSummary;
use crate::secret::Secret;
use crate::state::ProxyState;
use crate::usage::Usage;

/// Maximum length of a name or id in the log, in characters.
const MAX_NAME: usize = 200;
/// Maximum length of an error in the log, in characters.
const MAX_ERROR: usize = 4000;

/// Outcome of a request, with the error text. [`CallOutcome`] is its public form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The client received the whole response.
    Whole,
    /// The proxy answered with its own error.
    Refused(String),
    /// The upstream failed in the middle of its response.
    Broken(String),
    /// The client disconnected.
    ClientGone,
}

impl Outcome {
    /// Returns the public outcome and the error text.
    fn to_report(&self) -> (CallOutcome, Option<&str>) {
        match self {
            Outcome::Whole => (CallOutcome::Whole, None),
            Outcome::Refused(why) => (CallOutcome::Refused, Some(why)),
            Outcome::Broken(why) => (CallOutcome::Broken, Some(why)),
            Outcome::ClientGone => (CallOutcome::ClientGone, None),
        }
    }
}

/// A request in flight. When it ends, at the latest on drop, it is reported to the log and the callback.
#[derive(Debug)]
pub(crate) struct RequestLog {
    state: Arc<ProxyState>,
    id: String,
    started: Instant,
    began: SystemTime,
    /// Turn at the start of the request.
    turn: Option<u64>,
    method: String,
    path: String,
    session: Option<String>,
    /// Keys that the client sent.
    client_secrets: Vec<Secret>,
    /// The request may cost something.
    is_billable: bool,
    stream: bool,
    requested_model: Option<String>,
    model: Option<String>,
    traceparent: Option<String>,
    /// Handed over to the report.
    span: tracing::Span,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: Outcome,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    first: Option<Duration>,
    bytes: u64,
    body: Vec<u8>,
    /// Reservation of the request's body.
    reservation: Reservation,
    is_finished: bool,
}

impl RequestLog {
    pub(crate) fn begin(state: Arc<ProxyState>, head: &Parts) -> RequestLog {
        let client_secrets: Vec<Secret> = headers::credentials(&head.headers).map(Secret::new).collect();
        let secrets: Vec<&Secret> = state.secrets().into_iter().chain(&client_secrets).collect();
        let path = log_entry::clean_path(&head.uri, &secrets);
        let session = headers::session(&head.headers).map(|id| log_entry::clean_text(id, MAX_NAME, &secrets));
        let traceparent =
            headers::traceparent(&head.headers).map(|id| log_entry::clean_text(id, MAX_NAME, &secrets));
        RequestLog {
            id: uuid::Uuid::now_v7().to_string(),
            started: Instant::now(),
            began: SystemTime::now(),
            turn: state.config.turn.get(),
            is_billable: path::is_billable(&head.method, head.uri.path()),
            method: log_entry::clean_text(head.method.as_str(), MAX_NAME, &secrets),
            path,
            session,
            state,
            client_secrets,
            stream: false,
            requested_model: None,
            model: None,
            traceparent,
            span: tracing::trace_span!(
                target: SPAN_TARGET,
                parent: None,
                "proxy.call",
                otel.name = tracing::field::Empty,
                otel.kind = "client"
            ),
            status: None,
            outcome: Outcome::ClientGone,
            usage: None,
            cost_usd: None,
            first: None,
            bytes: 0,
            body: Vec::new(),
            reservation: Reservation::default(),
            is_finished: false,
        }
    }

    /// Returns the request's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Records the complete request and logs it.
    pub(crate) fn record_request(&mut self, summary: &RequestSummary, body: &[u8], reservation: Reservation) {
        self.reservation = reservation;
        self.stream = summary.stream;
        self.model =
            summary.model.as_deref().map(|model| log_entry::clean_text(model, MAX_NAME, &self.secrets()));
        self.requested_model = self.model.clone();
        let Some(log) = &self.state.log else { return };
        let logged =
            (log.bodies && !body.is_empty()).then(|| log_entry::clean_body(body, true, &self.secrets()));
        let entry = RequestEntry {
            id: &self.id,
            time: now(),
            node: self.state.config.node.as_deref(),
            turn: self.turn,
            session: self.session.as_deref(),
            method: &self.method,
            path: &self.path,
            model: self.model.as_deref(),
            stream: summary.stream,
            bytes: body.len() as u64,
            body: logged,
        };
        log.add(entry.to_json());
    }

    /// Records a piece of the response's body.
    pub(crate) fn record_bytes(&mut self, bytes: &[u8]) {
        self.first.get_or_insert_with(|| self.started.elapsed());
        self.bytes += bytes.len() as u64;
        if self.state.logs_bodies() {
            // One byte above the limit marks the logged body as cut.
            let left = (log_entry::MAX_BODY + 1).saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(left)]);
        }
    }

    /// Records usage and model before the last byte is sent, so that the next request finds them counted. Call it once.
    pub(crate) fn record_usage(&mut self, usage: Option<Usage>, model: Option<&str>) {
        self.usage = usage;
        self.cost_usd = usage.and_then(|usage| self.state.ledger.add(usage));
        if let Some(model) = model {
            self.model = Some(log_entry::clean_text(model, MAX_NAME, &self.secrets()));
        }
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.state.secrets().into_iter().chain(&self.client_secrets).collect()
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.finish();
    }
}

impl RequestLog {
    /// Reports the request, once.
    pub(crate) fn finish(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let (outcome, error) = self.outcome.to_report();
        let error = error.map(|why| log_entry::clean_text(why, MAX_ERROR, &self.secrets()));
        if let Some(on_call) = &self.state.config.on_call {
            let span = std::mem::replace(&mut self.span, tracing::Span::none());
            on_call.notify(&self.report(outcome, error.clone(), span));
        }
        let Some(log) = &self.state.log else { return };
        let is_whole = self.outcome == Outcome::Whole;
        let logged =
            (!self.body.is_empty()).then(|| log_entry::clean_body(&self.body, is_whole, &self.secrets()));
        let entry = ResponseEntry {
            id: &self.id,
            time: now(),
            node: self.state.config.node.as_deref(),
            turn: self.turn,
            session: self.session.as_deref(),
            method: &self.method,
            path: &self.path,
            status: self.status,
            outcome: outcome.as_str(),
            error: error.as_deref(),
            model: self.model.as_deref(),
            usage: self.usage,
            cost_usd: self.cost_usd,
            took: self.started.elapsed(),
            first: self.first,
            bytes: self.bytes,
            body: logged,
        };
        log.add(entry.to_json());
    }

    fn report(&self, outcome: CallOutcome, error: Option<String>, span: tracing::Span) -> CallReport {
        let config = &self.state.config;
        CallReport {
            id: self.id.clone(),
            node: config.node.clone(),
            turn: self.turn,
            provider: self.state.provider.as_str(),
            upstream: config.upstream.host().to_string(),
            session: self.session.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            spends: self.is_billable,
            stream: self.stream,
            requested_model: self.requested_model.clone(),
            model: self.model.clone(),
            status: self.status,
            outcome,
            error,
            usage: self.usage,
            cost_usd: self.cost_usd,
            started: self.began,
            took: self.started.elapsed(),
            first: self.first,
            bytes: self.bytes,
            traceparent: self.traceparent.clone(),
            span,
        }
    }
}

/// Returns the current time in UTC (RFC 3339).
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
