//! The way from one client to its server: what is asked over a connection, and over another one when that has ended.

use std::sync::{Arc, Mutex};

use nerve_api::RequestName;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::connection::{Connection, Line};
use crate::dialing::{Core, lock};
use crate::error::ClientError;
use crate::execute::{ChunkSource, Prompt};
use crate::inbox::{Events, Inbox, Subscribing};
use crate::pending::{Extras, Outcome, PendingReply};
use crate::reconnect::Reconnect;
use crate::way::{self, Way};

/// Held by clients, nodes and streams. With the last of them the connection ends.
#[derive(Debug)]
pub(crate) struct Link {
    core: Arc<Core>,
    runtime: Handle,
    /// Connects again for streams of events; there from the first one on.
    keeper: Mutex<Option<AbortHandle>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        if let Some(keeper) = lock(&self.keeper).take() {
            keeper.abort();
        }
    }
}

impl Link {
    /// Connects to a server, and again when that connection has ended.
    pub(crate) async fn open(way: Way) -> Result<Link, ClientError> {
        let inbox = Arc::new(Inbox::new(true));
        let connection = way.dial(&inbox, false).await?;
        Ok(Link::new(Some(way), inbox, connection, Reconnect::default()))
    }

    /// Over a stream. Must be called within a tokio runtime.
    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Link {
        let inbox = Arc::new(Inbox::new(false));
        let connection = way::over(stream, &inbox, false);
        Link::new(None, inbox, connection, Reconnect::Never)
    }

    fn new(way: Option<Way>, inbox: Arc<Inbox>, connection: Connection, reconnect: Reconnect) -> Link {
        let core = Arc::new(Core::new(way, inbox, connection, reconnect));
        Link { core, runtime: Handle::current(), keeper: Mutex::default() }
    }

    pub(crate) fn set_reconnect(&self, reconnect: Reconnect) {
        self.core.set_reconnect(reconnect);
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn request(&self, command: RequestName, params: Map<String, Value>) -> Outcome {
        let subscribing = (command == RequestName::Subscribe).then(|| Subscribing::asked(&params));
        let line = way::line(self.core.inbox(), command, params)?;
        let span = tracing::debug_span!("request", %command, request_id = line.id);
        self.ask(command, line, subscribing).instrument(span).await
    }

    async fn ask(&self, command: RequestName, line: Line, subscribing: Option<Subscribing>) -> Outcome {
        let mut deadline = self.core.deadline();
        let mut again = command.is_idempotent();
        loop {
            let extras = Extras { chunks: None, subscribing: subscribing.clone() };
            let asked = match self.core.connection(deadline).await {
                Ok(connection) => connection.send(line.clone(), extras).await,
                Err(error) => return Err(named(error, line.id)),
            };
            let outcome = match asked {
                Ok(mut pending) => pending.wait().await.outcome,
                Err(error) => Err(error),
            };
            // What did not go out cannot have been done. What did is asked once more only if that does no harm.
            match &outcome {
                Err(error) if self.goes_out_again(error, deadline) => {}
                Err(ClientError::Closed(unanswered))
                    if self.core.goes_on() && unanswered.sent && std::mem::take(&mut again) =>
                {
                    deadline = self.core.deadline();
                }
                _ => return outcome,
            }
            tracing::debug!("asked again");
        }
    }

    /// What failed so did not go out, and there is time for another connection.
    pub(crate) fn goes_out_again(&self, error: &ClientError, deadline: Instant) -> bool {
        let unsent = matches!(error, ClientError::Closed(unanswered) if !unanswered.sent);
        unsent && self.core.goes_on() && Instant::now() < deadline
    }

    /// A prompt whose answer is wanted as it grows.
    pub(crate) fn prompt(
        &self,
        params: Map<String, Value>,
        node: &str,
        session: Option<&str>,
    ) -> Result<Prompt, ClientError> {
        let line = way::line(self.core.inbox(), RequestName::ExecuteInput, params)?;
        Ok(Prompt::new(line, node, session, self.core.deadline()))
    }

    /// Sends a prompt. It is on its way when this returns; dropping the result gives up on the answer. Nothing is sent when this is
    /// dropped before it is done.
    pub(crate) async fn start(&self, prompt: &Prompt) -> Result<(PendingReply, ChunkSource), ClientError> {
        let id = prompt.line.id;
        loop {
            let connection = self.core.connection(prompt.deadline).await.map_err(|error| named(error, id))?;
            tracing::debug!(request_id = id, "asked");
            let (sink, chunks) = prompt.queue();
            let extras = Extras { chunks: Some(sink), subscribing: None };
            match connection.send(prompt.line.clone(), extras).await {
                Err(error) if self.goes_out_again(&error, prompt.deadline) => {}
                outcome => return outcome.map(|reply| (reply, chunks)),
            }
        }
    }

    /// Events from now on. For them a connection that has ended is made again.
    pub(crate) fn events(&self) -> Events {
        let events = self.core.inbox().listen();
        if self.core.can_dial() {
            let mut keeper = lock(&self.keeper);
            if keeper.is_none() {
                let keeping = Arc::clone(&self.core).keep();
                *keeper = Some(self.runtime.spawn(keeping).abort_handle());
            }
            if self.core.open().is_none() {
                self.core.inbox().miss();
            }
        }
        events
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.core.in_flight()
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        self.core.inbox()
    }

    /// Ends the connection for good: all that wait are told, and streams end.
    pub(crate) fn close(&self) {
        self.core.close();
    }
}

/// With the id of the request that had no connection.
fn named(error: ClientError, id: i64) -> ClientError {
    match error {
        ClientError::Closed(mut unanswered) => {
            unanswered.request_id = Some(id.to_string());
            ClientError::Closed(unanswered)
        }
        error => error,
    }
}
