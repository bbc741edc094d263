//! A connection to the broker, which comes back by itself.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, Message, Request, Subscriber};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::error::BrokerError;
use crate::options::{BrokerOptions, Credentials};

/// Longest delay between attempts to connect again.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(2);
/// Delay after the first failed attempt. Doubles.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);
/// Interval of the pings that notice a silent broker. Calls notice it by their deadline.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// A connection. Clones share it.
#[derive(Debug, Clone)]
pub struct Connection {
    client: Client,
    deadline: Duration,
    problem: Arc<Mutex<Option<String>>>,
}

impl Connection {
    /// Connects. Afterwards a lost connection is made again in the background.
    ///
    /// # Errors
    /// [`BrokerError::Unavailable`] if no server replies within the deadline, [`BrokerError::Authentication`], or
    /// [`BrokerError::Configuration`].
    pub async fn open(options: &BrokerOptions) -> Result<Connection, BrokerError> {
        let problem = Arc::new(Mutex::new(None));
        let connecting = configure(options, problem.clone()).connect(&options.servers);
        match timeout(options.deadline, connecting).await {
            Ok(Ok(client)) => Ok(Connection { client, deadline: options.deadline, problem }),
            Ok(Err(error)) => Err(connect_error(&error)),
            Err(_) => Err(no_response(options.deadline)),
        }
    }

    /// Returns true if the connection exists, as far as known: a silent broker is noticed by its missing responses.
    pub fn is_open(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns the last problem that the client reported since the connection exists, for example a missing permission.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Returns the version of the connected server.
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// Returns the limit of each call.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sends a request and returns the response.
    pub(crate) async fn request(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<Message, BrokerError> {
        // The client would keep the request and send it after a reconnection, when nothing waits for it any more.
        self.check_open()?;
        let mut request = Request::new().payload(payload.into()).timeout(None);
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        let response = self.client.send_request(subject.clone(), request);
        match timeout(self.deadline, response).await {
            Err(_) => Err(self.missing_response(&subject)),
            Ok(Ok(message)) => Ok(message),
            Ok(Err(error)) => Err(match error.kind() {
                RequestErrorKind::NoResponders => BrokerError::NoStream(format!("for {subject}")),
                RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => {
                    BrokerError::Refused { code: 0, description: error.to_string() }
                }
                _ => BrokerError::Unavailable(error.to_string()),
            }),
        }
    }

    /// Sends a request with several responses, which the returned subscription receives.
    pub(crate) async fn request_many(
        &self,
        subject: String,
        payload: Vec<u8>,
    ) -> Result<Subscriber, BrokerError> {
        self.check_open()?;
        let unavailable = |error: &dyn std::fmt::Display| BrokerError::Unavailable(error.to_string());
        let inbox = self.client.new_inbox();
        let responses = self.client.subscribe(inbox.clone()).await.map_err(|error| unavailable(&error))?;
        let sent = self.client.publish_with_reply(subject, inbox, payload.into());
        sent.await.map_err(|error| unavailable(&error))?;
        Ok(responses)
    }

    /// Subscribes to a subject. The client subscribes again after a reconnection.
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, BrokerError> {
        let subscribed = self.client.subscribe(subject).await;
        subscribed.map_err(|error| BrokerError::Unavailable(error.to_string()))
    }

    /// Returns the error of a request without a response. The broker reports a missing permission only as an event.
    fn missing_response(&self, subject: &str) -> BrokerError {
        match self.problem() {
            Some(description) if description.contains(subject) => {
                BrokerError::Refused { code: 0, description }
            }
            Some(problem) => BrokerError::Unavailable(problem),
            None => no_response(self.deadline),
        }
    }

    fn check_open(&self) -> Result<(), BrokerError> {
        if self.is_open() {
            return Ok(());
        }
        let problem = self.problem().map_or_else(String::new, |problem| format!(": {problem}"));
        Err(BrokerError::Unavailable(format!("no connection{problem}")))
    }
}

pub(crate) fn no_response(deadline: Duration) -> BrokerError {
    BrokerError::Unavailable(format!("no response within {} ms", deadline.as_millis()))
}

fn configure(options: &BrokerOptions, problem: Arc<Mutex<Option<String>>>) -> ConnectOptions {
    let mut configured = ConnectOptions::new()
        .name(&options.client_name)
        .connection_timeout(options.deadline)
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            record_problem(&mut problem.lock(), event);
            std::future::ready(())
        });
    configured = match &options.credentials {
        Credentials::None => configured,
        Credentials::Token { token } => configured.token(token.clone()),
        Credentials::Password { user, password } => {
            configured.user_and_password(user.clone(), password.clone())
        }
    };
    if let Some(ca) = &options.ca {
        configured = configured.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let Some((certificate, key)) = &options.certificate {
        configured = configured.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
    }
    configured
}

fn reconnect_delay(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts).unwrap_or(u32::MAX).min(10);
    (RECONNECT_DELAY * 2_u32.pow(doublings)).min(MAX_RECONNECT_DELAY)
}

fn record_problem(problem: &mut Option<String>, event: Event) {
    match event {
        Event::Connected => *problem = None,
        Event::ServerError(error) => *problem = Some(error.to_string()),
        Event::ClientError(error) => *problem = Some(error.to_string()),
        _ => {}
    }
}

fn connect_error(error: &async_nats::ConnectError) -> BrokerError {
    let message = error.to_string();
    // rustls reports invalid certificates as invalid data.
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    if source.is_some_and(|source| source.kind() == io::ErrorKind::InvalidData) {
        return BrokerError::Configuration(message);
    }
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            BrokerError::Authentication(message)
        }
        ConnectErrorKind::ServerParse | ConnectErrorKind::Tls => BrokerError::Configuration(message),
        _ => BrokerError::Unavailable(message),
    }
}
