//! The client of a server.

use std::path::Path;
use std::sync::Arc;

use nerve_api::reply::{BudgetStatus, NodesChanged, Pong, SearchResult, SessionInfo, UsageReport};
use nerve_api::request::{
    CreateSession, DeleteSession, ExecuteInput, GetSession, GetUsage, ListSessions, Ping, Search, SetBudget,
    Shutdown, StartSession, StopSession, Subscribe,
};
use nerve_api::{Request, RequestName};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::endpoint::{Endpoint, Secret};
use crate::error::ClientError;
use crate::events::EventStream;
use crate::execute::ExecuteStream;
use crate::link::{Link, decode_reply};
use crate::reconnect::Reconnect;
use crate::ssh_target::SshTarget;
use crate::tls::Tls;

/// A client of one server. Clones share one connection, which closes when the last clone, node and stream is dropped.
///
/// A connection that has ended is reopened on demand, unless [`Reconnect::Never`] is set or the stream was provided by the caller
/// ([`NerveClient::over`]). Pending requests fail with [`ClientError::Closed`], which says whether they were sent. Requests that change
/// something are never sent twice. Read-only requests (PING, SEARCH, GET_…, LIST_…, EXPLAIN_NODE) are repeated once.
///
/// Every method that sends a request fails like [`NerveClient::request`]. Its own documentation lists only further errors.
#[derive(Debug, Clone)]
pub struct NerveClient {
    link: Arc<Link>,
}

impl NerveClient {
    /// Connects to the server that listens on the Unix socket `path`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] if no server listens on the socket, [`ClientError::Io`] if access is denied.
    pub async fn connect(path: &Path) -> Result<NerveClient, ClientError> {
        NerveClient::open(Endpoint::Unix(path.to_path_buf())).await
    }

    /// Connects to the server that listens on the TCP address `host:port` (`[…]:port` for IPv6) for the line protocol, and authenticates
    /// with `token`. There is no time limit: wrap the future in a timeout.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use nerve_client::{NerveClient, Tls};
    ///
    /// let token = std::fs::read_to_string("/run/secrets/nerve-token")?;
    /// let authority = Tls::Authorities(std::fs::read("ca.pem")?);
    /// let client = NerveClient::connect_tcp("build.example.com:7070", token.trim(), &authority).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Io`] if no server listens there or its certificate is not trusted; a [`crate::ServerError`] of type
    /// `authentication_error` if the token is wrong; [`ClientError::Protocol`] if the address or the certificates in `tls` are invalid.
    pub async fn connect_tcp(address: &str, token: &str, tls: &Tls) -> Result<NerveClient, ClientError> {
        let (address, token) = (address.to_string(), Secret(token.to_string()));
        NerveClient::open(Endpoint::Tcp { address, token, tls: tls.clone() }).await
    }

    /// Connects to the server with the HTTP interface at `url`, `http://host:port` or `https://host:port`, and authenticates with `token`.
    /// Uses the WebSocket, which carries the same messages as a socket. There is no time limit: wrap the future in a timeout.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use nerve_client::{NerveClient, Tls};
    ///
    /// let token = std::fs::read_to_string("/run/secrets/nerve-token")?;
    /// let client = NerveClient::connect_http("https://build.example.com", token.trim(), &Tls::Public).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Io`] if no server listens there or its certificate is not trusted; a [`crate::ServerError`] of type
    /// `authentication_error` if the token is wrong (401), `permission_error` if the server does not accept the host name (403),
    /// `not_found_error` if there is no WebSocket (404), `busy` if the server is at its limit; [`ClientError::Protocol`] if the response is
    /// not from a nerve server, or `url` and `tls` do not match.
    pub async fn connect_http(url: &str, token: &str, tls: &Tls) -> Result<NerveClient, ClientError> {
        let (url, token) = (url.to_string(), Secret(token.to_string()));
        NerveClient::open(Endpoint::Http { url, token, tls: tls.clone() }).await
    }

    /// Connects to a server on another machine through ssh, with the user's own ssh configuration. The time limit is that of the target.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use nerve_client::{NerveClient, SshTarget};
    ///
    /// let target = SshTarget::parse("ssh://me@build.example.com").ok_or("not an address")?;
    /// let client = NerveClient::connect_ssh(target).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Ssh`]: the machine is not reachable, rejects the user, or has no nerve or no running server.
    pub async fn connect_ssh(target: SshTarget) -> Result<NerveClient, ClientError> {
        NerveClient::open(Endpoint::Ssh(Box::new(target))).await
    }

    /// Returns true if the client uses a Unix socket or a stream from [`NerveClient::over`]. A server that is reached over TCP, HTTP or
    /// ssh counts as remote, even on this machine.
    pub fn is_local(&self) -> bool {
        self.link.is_local()
    }

    async fn open(endpoint: Endpoint) -> Result<NerveClient, ClientError> {
        Ok(NerveClient { link: Arc::new(Link::open(endpoint).await?) })
    }

    /// Creates a client over any stream, for example to a server in the same process. The stream is closed with the client and never
    /// reopened. Must be called within a tokio runtime.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> NerveClient {
        NerveClient { link: Arc::new(Link::over(stream)) }
    }

    /// Sets the behaviour after the connection has ended, for all clones. Default: [`Reconnect::default`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), nerve_client::ClientError> {
    /// use nerve_client::{NerveClient, Reconnect};
    ///
    /// let client = NerveClient::connect("/run/user/1000/nerve/default.sock".as_ref()).await?;
    /// let client = client.reconnect(Reconnect::Never);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reconnect(self, reconnect: Reconnect) -> NerveClient {
        self.link.set_reconnect(reconnect);
        self
    }

    /// Closes the connection for all clones: pending and further requests fail, and streams end.
    pub fn close(&self) {
        self.link.close();
    }

    /// Sends a request and waits for its reply. There is no time limit: wrap the future in a timeout.
    ///
    /// # Errors
    /// Any [`ClientError`] except `NotRunning`; [`ClientError::Protocol`] if the reply is not of the expected type.
    pub async fn request<R: Request>(&self, request: &R) -> Result<R::Reply, ClientError> {
        self.request_as(request).await
    }

    /// Sends a request and returns its reply as JSON, with fields that only a newer server sends.
    ///
    /// # Errors
    /// Any [`ClientError`] except `NotRunning`.
    pub async fn request_json<R: Request>(&self, request: &R) -> Result<Value, ClientError> {
        self.request_as(request).await
    }

    /// Sends a request by its name. `params` is an object or null.
    ///
    /// # Errors
    /// Any [`ClientError`] except `NotRunning`.
    pub async fn request_by_name(&self, name: RequestName, params: Value) -> Result<Value, ClientError> {
        let line = self.link.encode(name, &object(name, params)?)?;
        decode_reply(&self.link.request(name, line).await?)
    }

    /// Sends a request by its name and returns its reply as JSON text, without decoding it. `params` is an object or null.
    ///
    /// # Errors
    /// Any [`ClientError`] except `NotRunning`.
    pub async fn request_text(&self, name: RequestName, params: Value) -> Result<String, ClientError> {
        let line = self.link.encode(name, &object(name, params)?)?;
        let reply: Box<str> = self.link.request(name, line).await?.into();
        Ok(reply.into_string())
    }

    /// Sends a request whose options decide the type of its reply.
    pub async fn request_as<R: Request, T: DeserializeOwned>(&self, request: &R) -> Result<T, ClientError> {
        let line = self.link.encode(R::NAME, request)?;
        decode_reply(&self.link.request(R::NAME, line).await?)
    }

    pub(crate) async fn stream(&self, input: ExecuteInput) -> Result<ExecuteStream, ClientError> {
        ExecuteStream::open(Arc::clone(&self.link), self.link.prompt(input)?).await
    }

    /// Returns the number of requests that wait for their reply.
    pub fn in_flight(&self) -> usize {
        self.link.in_flight()
    }

    /// Returns the number of replies that match no request of this client. They are ignored; a correct server sends none.
    pub fn unmatched_replies(&self) -> u64 {
        self.link.router().unmatched()
    }

    /// Returns and clears the server's warnings about deprecated names in requests, without duplicates and at most 64.
    pub fn take_warnings(&self) -> Vec<String> {
        self.link.router().take_warnings()
    }

    /// Returns a stream of new events: all of them, or those selected with [`NerveClient::subscribe`]. The first call on a
    /// connection without a subscription sends a SUBSCRIBE for all events, ahead of later requests.
    pub fn events(&self) -> EventStream {
        EventStream::new(&self.link)
    }

    /// Selects the events that this client receives, and returns a stream of them, without those sent before the filter took effect.
    /// The filter applies to all streams of the client, also after a reconnect.
    pub async fn subscribe(&self, filter: &Subscribe) -> Result<EventStream, ClientError> {
        // Created before the request: events may arrive before its reply is read.
        let events = EventStream::before_subscribe(&self.link);
        let reply = self.request(filter).await?;
        let start = filter.since.filter(|since| *since <= reply.seq).unwrap_or(reply.seq);
        Ok(events.starting_after(start))
    }

    /// Lists all sessions.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        Ok(self.request(&ListSessions::default()).await?.sessions)
    }

    /// Creates a session.
    pub async fn create_session(&self, request: &CreateSession) -> Result<SessionInfo, ClientError> {
        self.request(request).await
    }

    /// Returns the description of a session; `None` for the default session.
    pub async fn session(&self, name: Option<&str>) -> Result<SessionInfo, ClientError> {
        self.request(&GetSession::new(name.map(str::to_string))).await
    }

    /// Stops a session's nodes and deletes it.
    pub async fn delete_session(&self, name: &str) -> Result<(), ClientError> {
        self.request(&DeleteSession::new(Some(name.to_string()))).await.map(drop)
    }

    /// Starts the nodes of a session that were stopped by a request or lost. Returns those that were started and those that failed.
    pub async fn start_session(&self, name: &str) -> Result<NodesChanged, ClientError> {
        self.request(&StartSession::new(Some(name.to_string()))).await
    }

    /// Stops all nodes of a session and keeps their definitions. Returns those that were stopped and those that failed.
    pub async fn stop_session(&self, name: &str) -> Result<NodesChanged, ClientError> {
        self.request(&StopSession::new(Some(name.to_string()))).await
    }

    /// Sets or removes the budget of a node, or of a session if the request names no node.
    pub async fn set_budget(&self, request: &SetBudget) -> Result<BudgetStatus, ClientError> {
        self.request(request).await
    }

    /// Finds a text in the prompts, answers, tools and screens of all recordings and nodes on the server's machine. Dropping the
    /// future does not end the search: the connection has to be closed.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; typical server errors are `invalid_request_error` and `not_found_error`.
    pub async fn search(&self, request: &Search) -> Result<SearchResult, ClientError> {
        self.request(request).await
    }

    /// Sums up the tokens and costs of the nodes and recordings on the server's machine, also of those that ended.
    pub async fn usage(&self, request: &GetUsage) -> Result<UsageReport, ClientError> {
        self.request(request).await
    }

    /// Checks that the server is running.
    pub async fn ping(&self) -> Result<Pong, ClientError> {
        self.request(&Ping {}).await
    }

    /// Stops the server. `keep_nodes` leaves hosted nodes running.
    pub async fn shutdown(&self, keep_nodes: bool) -> Result<(), ClientError> {
        self.request(&Shutdown { keep_nodes }).await.map(drop)
    }
}

fn object(command: RequestName, params: Value) -> Result<Map<String, Value>, ClientError> {
    match params {
        Value::Object(params) => Ok(params),
        Value::Null => Ok(Map::new()),
        _ => Err(ClientError::Protocol(format!("{command}: params must be an object"))),
    }
}
