//! One request and what came of it: told to the log and the budget once, however it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::request::Parts;

use crate::body::Place;
use crate::gateway::Gateway;
use crate::headers;
use crate::line::{self, Answering, Asking};
use crate::model::Asked;
use crate::secret::Secret;
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

/// A request under way. Dropped, it is told to the log.
#[derive(Debug)]
pub(crate) struct Call {
    gateway: Arc<Gateway>,
    id: String,
    started: Instant,
    method: String,
    path: String,
    session: Option<String>,
    /// The client's own keys.
    shown: Vec<Secret>,
    model: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: Outcome,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    first: Option<Duration>,
    bytes: u64,
    body: Vec<u8>,
    /// Of the request's body.
    place: Place,
}

impl Call {
    pub(crate) fn begin(gateway: Arc<Gateway>, head: &Parts) -> Call {
        let shown: Vec<Secret> = headers::shown(&head.headers).map(Secret::new).collect();
        let secrets: Vec<&Secret> = gateway.secrets().into_iter().chain(&shown).collect();
        let path = line::path(&head.uri, &secrets);
        let session = headers::session(&head.headers).map(|id| line::text(id, NAME, &secrets));
        Call {
            id: uuid::Uuid::now_v7().to_string(),
            started: Instant::now(),
            method: line::text(head.method.as_str(), NAME, &secrets),
            path,
            session,
            gateway,
            shown,
            model: None,
            status: None,
            outcome: Outcome::ClientGone,
            usage: None,
            cost_usd: None,
            first: None,
            bytes: 0,
            body: Vec::new(),
            place: Place::default(),
        }
    }

    /// The id in the log.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The request is there as a whole.
    pub(crate) fn asked(&mut self, asked: &Asked, body: &[u8], place: Place) {
        self.place = place;
        self.model = asked.model.as_deref().map(|model| line::text(model, NAME, &self.secrets()));
        let Some(log) = &self.gateway.log else { return };
        let logged = (log.bodies && !body.is_empty()).then(|| line::body(body, true, &self.secrets()));
        let asking = Asking {
            id: &self.id,
            time: now(),
            node: self.gateway.config.node.as_deref(),
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
            let room = (line::BODY + 1).saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// What is known of the answer when it ends, before its last byte goes out: the next request finds it counted. To be called once.
    pub(crate) fn ends(&mut self, usage: Option<Usage>, model: Option<&str>) {
        self.usage = usage;
        self.cost_usd = usage.and_then(|usage| self.gateway.ledger.add(usage));
        if let Some(model) = model {
            self.model = Some(line::text(model, NAME, &self.secrets()));
        }
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.gateway.secrets().into_iter().chain(&self.shown).collect()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(log) = &self.gateway.log else { return };
        let (outcome, error) = match &self.outcome {
            Outcome::Whole => ("whole", None),
            Outcome::Refused(why) => ("refused", Some(why.as_str())),
            Outcome::Broken(why) => ("broken", Some(why.as_str())),
            Outcome::ClientGone => ("client_gone", None),
        };
        let error = error.map(|why| line::text(why, ERROR, &self.secrets()));
        let is_whole = self.outcome == Outcome::Whole;
        let logged = (!self.body.is_empty()).then(|| line::body(&self.body, is_whole, &self.secrets()));
        let answering = Answering {
            id: &self.id,
            time: now(),
            node: self.gateway.config.node.as_deref(),
            session: self.session.as_deref(),
            method: &self.method,
            path: &self.path,
            status: self.status,
            outcome,
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
}

/// The time, as RFC 3339 in UTC.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
