//! One request and what came of it: told to the log and the budget once, however it ends.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::request::Parts;

use crate::body::Place;
use crate::headers;
use crate::log_entry::{self, Answering, Asking};
use crate::model::Asked;
use crate::path;
use crate::report::{CallOutcome, CallReport};
use crate::secret::Secret;
use crate::state::Gateway;
use crate::usage::Usage;

/// The longest name or id in the log, in characters.
const NAME: usize = 200;
/// The longest error in the log, in characters.
const ERROR: usize = 4000;

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of the reply went to the client.
    Whole,
    /// The proxy answered with an error of its own.
    Refused(String),
    /// The upstream broke off in the middle of its reply.
    Broken(String),
    /// The client left.
    ClientGone,
}

impl Outcome {
    /// How it is told, and what was wrong.
    fn told(&self) -> (CallOutcome, Option<&str>) {
        match self {
            Outcome::Whole => (CallOutcome::Whole, None),
            Outcome::Refused(why) => (CallOutcome::Refused, Some(why)),
            Outcome::Broken(why) => (CallOutcome::Broken, Some(why)),
            Outcome::ClientGone => (CallOutcome::ClientGone, None),
        }
    }
}

/// A request under way. When it has ended, at the latest when it is dropped, it is told to the log and to whoever wants to know.
#[derive(Debug)]
pub(crate) struct Call {
    gateway: Arc<Gateway>,
    id: String,
    started: Instant,
    began: SystemTime,
    /// The turn that ran when it began.
    turn: Option<u64>,
    method: String,
    path: String,
    session: Option<String>,
    /// The client's own keys.
    shown: Vec<Secret>,
    /// It may cost something.
    spends: bool,
    stream: bool,
    asked_model: Option<String>,
    model: Option<String>,
    traceparent: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: Outcome,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    first: Option<Duration>,
    bytes: u64,
    body: Vec<u8>,
    /// Of the request's body.
    place: Place,
    is_told: bool,
}

impl Call {
    pub(crate) fn begin(gateway: Arc<Gateway>, head: &Parts) -> Call {
        let shown: Vec<Secret> = headers::shown(&head.headers).map(Secret::new).collect();
        let secrets: Vec<&Secret> = gateway.secrets().into_iter().chain(&shown).collect();
        let path = log_entry::path(&head.uri, &secrets);
        let session = headers::session(&head.headers).map(|id| log_entry::text(id, NAME, &secrets));
        let traceparent = headers::traceparent(&head.headers).map(|id| log_entry::text(id, NAME, &secrets));
        Call {
            id: uuid::Uuid::now_v7().to_string(),
            started: Instant::now(),
            began: SystemTime::now(),
            turn: gateway.config.turn.get(),
            spends: path::spends(&head.method, head.uri.path()),
            method: log_entry::text(head.method.as_str(), NAME, &secrets),
            path,
            session,
            gateway,
            shown,
            stream: false,
            asked_model: None,
            model: None,
            traceparent,
            status: None,
            outcome: Outcome::ClientGone,
            usage: None,
            cost_usd: None,
            first: None,
            bytes: 0,
            body: Vec::new(),
            place: Place::default(),
            is_told: false,
        }
    }

    /// The id in the log.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The request is there as a whole.
    pub(crate) fn asked(&mut self, asked: &Asked, body: &[u8], place: Place) {
        self.place = place;
        self.stream = asked.stream;
        self.model = asked.model.as_deref().map(|model| log_entry::text(model, NAME, &self.secrets()));
        self.asked_model = self.model.clone();
        let Some(log) = &self.gateway.log else { return };
        let logged = (log.bodies && !body.is_empty()).then(|| log_entry::body(body, true, &self.secrets()));
        let asking = Asking {
            id: &self.id,
            time: now(),
            node: self.gateway.config.node.as_deref(),
            turn: self.turn,
            session: self.session.as_deref(),
            method: &self.method,
            path: &self.path,
            model: self.model.as_deref(),
            stream: asked.stream,
            bytes: body.len() as u64,
            body: logged,
        };
        log.add(asking.to_json());
    }

    /// A piece of the reply's body goes to the client.
    pub(crate) fn sends(&mut self, bytes: &[u8]) {
        self.first.get_or_insert_with(|| self.started.elapsed());
        self.bytes += bytes.len() as u64;
        if self.gateway.logs_bodies() {
            // One byte more than is logged says that something is missing.
            let room = (log_entry::BODY + 1).saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// What is known of the answer when it ends, before its last byte goes out: the next request finds it counted. To be called once.
    pub(crate) fn ends(&mut self, usage: Option<Usage>, model: Option<&str>) {
        self.usage = usage;
        self.cost_usd = usage.and_then(|usage| self.gateway.ledger.add(usage));
        if let Some(model) = model {
            self.model = Some(log_entry::text(model, NAME, &self.secrets()));
        }
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.gateway.secrets().into_iter().chain(&self.shown).collect()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.tell();
    }
}

impl Call {
    /// Nothing more comes of it: it is told, once.
    pub(crate) fn tell(&mut self) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let (outcome, error) = self.outcome.told();
        let error = error.map(|why| log_entry::text(why, ERROR, &self.secrets()));
        if let Some(hear) = &self.gateway.config.on_call {
            hear.tell(&self.report(outcome, error.clone()));
        }
        let Some(log) = &self.gateway.log else { return };
        let is_whole = self.outcome == Outcome::Whole;
        let logged = (!self.body.is_empty()).then(|| log_entry::body(&self.body, is_whole, &self.secrets()));
        let answering = Answering {
            id: &self.id,
            time: now(),
            node: self.gateway.config.node.as_deref(),
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
        log.add(answering.to_json());
    }

    fn report(&self, outcome: CallOutcome, error: Option<String>) -> CallReport {
        let config = &self.gateway.config;
        CallReport {
            id: self.id.clone(),
            node: config.node.clone(),
            turn: self.turn,
            provider: self.gateway.behind.as_str(),
            upstream: config.upstream.host().to_string(),
            session: self.session.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            spends: self.spends,
            stream: self.stream,
            asked_model: self.asked_model.clone(),
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
        }
    }
}

/// The time, as RFC 3339 in UTC.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
