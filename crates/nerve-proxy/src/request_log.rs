//! Collects the data of one request and reports it once, however the request ends.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use http::request::Parts;
use nerve_types::token_usage::TokenUsage;

use crate::body::Reservation;
use crate::headers;
use crate::log_entry::{self, LogLine};
use crate::path;
use crate::report::{CallOutcome, CallReport, SPAN_TARGET};
use crate::request_summary::RequestSummary;
use crate::secret::Secret;
use crate::state::ProxyState;

/// Maximum length of a name or id in the log, in characters.
const MAX_NAME: usize = 200;
/// Maximum length of an error in the log, in characters.
const MAX_ERROR: usize = 4000;

/// A request in flight. When it ends, at the latest on drop, it is reported to the log and the callback.
#[derive(Debug)]
pub(crate) struct RequestLog {
    state: Arc<ProxyState>,
    started: Instant,
    /// Keys that the client sent.
    client_secrets: Vec<Secret>,
    /// The report as far as it is known. The duration is set at the end.
    report: CallReport,
    /// The beginning of the response's body, if bodies are logged.
    body: Vec<u8>,
    /// Reservation of the request's body.
    reservation: Reservation,
    is_finished: bool,
}

impl RequestLog {
    pub(crate) fn begin(state: Arc<ProxyState>, head: &Parts) -> RequestLog {
        let config = &state.config;
        let client_secrets: Vec<Secret> = headers::credentials(&head.headers).map(Secret::new).collect();
        let secrets: Vec<&Secret> = state.secrets().into_iter().chain(&client_secrets).collect();
        let clean_name = |name: &str| log_entry::clean_text(name, MAX_NAME, &secrets);
        let report = CallReport {
            id: uuid::Uuid::now_v7().to_string(),
            node: config.node.clone(),
            turn: config.turn.get(),
            provider: state.provider.as_str(),
            upstream: config.upstream.host().to_string(),
            session: headers::session(&head.headers).map(clean_name),
            method: clean_name(head.method.as_str()),
            path: log_entry::clean_path(&head.uri, &secrets),
            spends: path::is_billable(&head.method, head.uri.path()),
            stream: false,
            requested_model: None,
            model: None,
            status: None,
            outcome: CallOutcome::ClientGone,
            error: None,
            usage: None,
            cost_usd: None,
            started: SystemTime::now(),
            took: Duration::ZERO,
            first: None,
            bytes: 0,
            traceparent: headers::traceparent(&head.headers).map(clean_name),
            span: tracing::trace_span!(
                target: SPAN_TARGET,
                parent: None,
                "proxy.call",
                otel.name = tracing::field::Empty,
                otel.kind = "client"
            ),
        };
        RequestLog {
            state,
            started: Instant::now(),
            client_secrets,
            report,
            body: Vec::new(),
            reservation: Reservation::default(),
            is_finished: false,
        }
    }

    /// Returns the request's id.
    pub(crate) fn id(&self) -> &str {
        &self.report.id
    }

    /// Records the complete request and logs it.
    pub(crate) fn record_request(&mut self, summary: &RequestSummary, body: &[u8], reservation: Reservation) {
        self.reservation = reservation;
        self.report.stream = summary.stream;
        self.report.model = summary.model.as_deref().map(|model| self.clean(model, MAX_NAME));
        self.report.requested_model = self.report.model.clone();
        let Some(log) = &self.state.log else { return };
        let logged =
            (log.bodies && !body.is_empty()).then(|| log_entry::clean_body(body, true, &self.secrets()));
        log.add(&LogLine::request(&self.report, body.len() as u64, logged));
    }

    /// Records the status of the response.
    pub(crate) fn record_status(&mut self, status: StatusCode) {
        self.report.status = Some(status.as_u16());
    }

    /// Records a piece of the response's body.
    pub(crate) fn record_bytes(&mut self, bytes: &[u8]) {
        self.report.first.get_or_insert_with(|| self.started.elapsed());
        self.report.bytes += bytes.len() as u64;
        if self.state.logs_bodies() {
            // One byte above the limit marks the logged body as cut.
            let room = (log_entry::MAX_BODY + 1).saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Records usage and model before the last byte is sent, so that the next request finds them counted. Call it once.
    pub(crate) fn record_usage(&mut self, usage: Option<TokenUsage>, model: Option<&str>) {
        self.report.usage = usage;
        self.report.cost_usd = usage.and_then(|usage| self.state.ledger.add(usage));
        if let Some(model) = model {
            self.report.model = Some(self.clean(model, MAX_NAME));
        }
    }

    /// Records how the request ends, and the error. Without a call, the client has disconnected.
    pub(crate) fn record_outcome(&mut self, outcome: CallOutcome, error: Option<&str>) {
        self.report.outcome = outcome;
        self.report.error = error.map(|why| self.clean(why, MAX_ERROR));
    }

    fn clean(&self, text: &str, max_chars: usize) -> String {
        log_entry::clean_text(text, max_chars, &self.secrets())
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
        self.report.took = self.started.elapsed();
        if let Some(on_call) = &self.state.config.on_call {
            on_call.notify(&self.report);
        }
        // The span ends now, unless the callback keeps a copy.
        self.report.span = tracing::Span::none();
        let Some(log) = &self.state.log else { return };
        let is_whole = self.report.outcome == CallOutcome::Whole;
        let logged =
            (!self.body.is_empty()).then(|| log_entry::clean_body(&self.body, is_whole, &self.secrets()));
        log.add(&LogLine::reply(&self.report, logged));
    }
}
