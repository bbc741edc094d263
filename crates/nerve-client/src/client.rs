//! A client of one server.

use std::path::Path;
use std::sync::Arc;

use nerve_api::reply::{NodeInfo, NodesChanged, Pong, SessionInfo};
use nerve_api::request::{
    CreateNode, CreateSession, DeleteSession, ExecuteInput, GetNode, GetSession, ListNodes, ListSessions,
    Ping, Shutdown, StartSession, StopSession, Subscribe,
};
use nerve_api::{Request, RequestName};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::endpoint::{Endpoint, Secret};
use crate::error::ClientError;
use crate::events::EventStream;
use crate::execute::ExecuteStream;
use crate::link::Link;
use crate::node::RemoteNode;
use crate::reconnect::Reconnect;
use crate::tls::Tls;

/// A client of a server. Clones share its connection, which ends with the last of them, nodes and streams included.
///
/// A connection that has ended is made again when it is needed, unless [`Reconnect::Never`] is set or it is one over a stream that was
/// given ([`NerveClient::over`]). What was asked and not answered then fails with [`ClientError::Closed`], which says whether it had gone
/// out: nothing that changes something is sent twice. What only looks (PING, GET_…, LIST_…, EXPLAIN_NODE) is asked once more.
#[derive(Debug, Clone)]
pub struct NerveClient {
    link: Arc<Link>,
}

impl NerveClient {
    /// Connects to the server that listens on the Unix socket `path`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when nobody listens there, [`ClientError::Io`] when it may not be asked.
    pub async fn connect(path: &Path) -> Result<NerveClient, ClientError> {
        NerveClient::by(Endpoint::Unix(path.to_path_buf())).await
    }

    /// Connects to the server that listens for lines on the TCP address `host:port` (`[…]:port` for IPv6), and shows it `token`. There is
    /// no limit of time: put the future into a timeout.
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
    /// [`ClientError::Io`] when nobody listens there or the server's certificate is not believed; a [`crate::ServerError`] of type
    /// `authentication_error` when the token is wrong; [`ClientError::Protocol`] when the address or the certificates in `tls` cannot be
    /// read.
    pub async fn connect_tcp(address: &str, token: &str, tls: &Tls) -> Result<NerveClient, ClientError> {
        let (address, token) = (address.to_string(), Secret(token.to_string()));
        NerveClient::by(Endpoint::Tcp { address, token, tls: tls.clone() }).await
    }

    /// Connects to the server whose HTTP is at `url`, `http://host:port` or `https://host:port`, and shows it `token`: over its WebSocket,
    /// which carries requests, answers and events as a socket does. There is no limit of time: put the future into a timeout.
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
    /// [`ClientError::Io`] when nobody listens there or the server's certificate is not believed; a [`crate::ServerError`] of type
    /// `authentication_error` when the token is wrong (401), `permission_error` when the server does not go by that name (403),
    /// `not_found_error` when there is no WebSocket (404), `busy` when it has no room; [`ClientError::Protocol`] when what answers is no
    /// nerve server, or `url` and `tls` do not fit together.
    pub async fn connect_http(url: &str, token: &str, tls: &Tls) -> Result<NerveClient, ClientError> {
        let (url, token) = (url.to_string(), Secret(token.to_string()));
        NerveClient::by(Endpoint::Http { url, token, tls: tls.clone() }).await
    }

    async fn by(endpoint: Endpoint) -> Result<NerveClient, ClientError> {
        Ok(NerveClient { link: Arc::new(Link::open(endpoint).await?) })
    }

    /// Talks to a server over any stream: that of a server in this process, say. It is closed with the client, and not made again when it
    /// has ended. Must be called within a tokio runtime.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> NerveClient {
        NerveClient { link: Arc::new(Link::over(stream)) }
    }

    /// Says what is done when the connection has ended; [`Reconnect::default`] without it. Holds for all clones.
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

    /// Closes the connection, for all clones: what waits for an answer fails, streams end, and nothing can be asked any more.
    pub fn close(&self) {
        self.link.close();
    }

    /// Sends a request and waits for its reply. There is no time limit: wrap the future in a timeout.
    ///
    /// # Errors
    /// Any [`ClientError`] but `NotRunning`; [`ClientError::Protocol`] when the reply is not of the expected type.
    pub async fn request<R: Request>(&self, request: &R) -> Result<R::Reply, ClientError> {
        typed(self.request_json(request).await?)
    }

    /// Sends a request and returns its reply as JSON, with fields that only a newer server sends.
    ///
    /// # Errors
    /// Any [`ClientError`] but `NotRunning`.
    pub async fn request_json<R: Request>(&self, request: &R) -> Result<Value, ClientError> {
        self.link.request(R::NAME, object(R::NAME, value(request)?)?).await
    }

    /// Sends a request by its name. `params` is an object or null.
    ///
    /// # Errors
    /// Any [`ClientError`] but `NotRunning`.
    pub async fn request_by_name(&self, name: RequestName, params: Value) -> Result<Value, ClientError> {
        self.link.request(name, object(name, params)?).await
    }

    /// Sends a request whose options decide the type of its reply.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn request_as<R: Request, T: DeserializeOwned>(&self, request: &R) -> Result<T, ClientError> {
        typed(self.request_json(request).await?)
    }

    pub(crate) async fn stream(
        &self,
        request: &ExecuteInput,
        node: &str,
        session: Option<&str>,
    ) -> Result<ExecuteStream, ClientError> {
        let params = object(RequestName::ExecuteInput, value(request)?)?;
        ExecuteStream::open(self.link(), self.link.prompt(params, node, session)?).await
    }

    /// Requests that wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.link.in_flight()
    }

    /// Answers that came to what this client never asked. They were passed over; a server that works as it should sends none.
    pub fn unmatched_answers(&self) -> u64 {
        self.link.router().unmatched()
    }

    /// What the server warned of since the last call, each once: older names that were used.
    pub fn take_warnings(&self) -> Vec<String> {
        self.link.router().take_warnings()
    }

    /// The events this client gets from now on: all, until [`NerveClient::subscribe`] says which.
    pub fn events(&self) -> EventStream {
        EventStream::new(&self.link)
    }

    /// Says which events this client is to get, and gives them. Holds for all its streams, and for connections that are made again.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn subscribe(&self, filter: &Subscribe) -> Result<EventStream, ClientError> {
        // Made before asking: events may come before the answer.
        let events = self.events();
        self.request(filter).await?;
        Ok(events)
    }

    /// Starts a node.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn create_node(&self, request: &CreateNode) -> Result<RemoteNode, ClientError> {
        let created = self.request(request).await?;
        Ok(RemoteNode::new(self.clone(), created.node_id, request.session_id.clone()))
    }

    /// A node that is there already.
    ///
    /// # Errors
    /// As [`NerveClient::request`]; a [`crate::ServerError`] of type `not_found_error` when it is not.
    pub async fn get_node(&self, node_id: &str, session: Option<&str>) -> Result<RemoteNode, ClientError> {
        let node = self.node(node_id, session);
        node.info().await?;
        Ok(node)
    }

    /// A node that is believed to be there: nothing is asked.
    pub fn node(&self, node_id: &str, session: Option<&str>) -> RemoteNode {
        RemoteNode::new(self.clone(), node_id.to_string(), session.map(str::to_string))
    }

    /// Starts a node again that is defined and does not run.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn start_node(&self, node_id: &str, session: Option<&str>) -> Result<RemoteNode, ClientError> {
        let node = self.node(node_id, session);
        node.start().await?;
        Ok(node)
    }

    /// What is known of a node.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn node_info(&self, node: &GetNode) -> Result<NodeInfo, ClientError> {
        Ok(self.request(node).await?.into())
    }

    /// All nodes of a session.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn list_nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, ClientError> {
        Ok(self.request(&ListNodes { session_id: session.map(str::to_string) }).await?.nodes_info)
    }

    /// All sessions.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        Ok(self.request(&ListSessions {}).await?.sessions)
    }

    /// Makes a session.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn create_session(&self, request: &CreateSession) -> Result<SessionInfo, ClientError> {
        self.request(request).await
    }

    /// One session; the default one if `name` is `None`.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn session(&self, name: Option<&str>) -> Result<SessionInfo, ClientError> {
        self.request(&GetSession::new(name.map(str::to_string))).await
    }

    /// Stops a session's nodes and forgets it.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn delete_session(&self, name: &str) -> Result<(), ClientError> {
        self.request(&DeleteSession::new(Some(name.to_string()))).await.map(drop)
    }

    /// Starts all nodes of a session that do not run; tells which were started and which could not be.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn start_session(&self, name: &str) -> Result<NodesChanged, ClientError> {
        self.request(&StartSession::new(Some(name.to_string()))).await
    }

    /// Stops all nodes of a session and keeps their definitions; tells which were stopped and which could not be.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn stop_session(&self, name: &str) -> Result<NodesChanged, ClientError> {
        self.request(&StopSession::new(Some(name.to_string()))).await
    }

    /// Is anybody there?
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn ping(&self) -> Result<Pong, ClientError> {
        self.request(&Ping {}).await
    }

    /// Stops the server; `keep_nodes` leaves hosted nodes running.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn shutdown(&self, keep_nodes: bool) -> Result<(), ClientError> {
        self.request(&Shutdown { keep_nodes }).await.map(drop)
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }
}

fn object(command: RequestName, params: Value) -> Result<Map<String, Value>, ClientError> {
    match params {
        Value::Object(params) => Ok(params),
        Value::Null => Ok(Map::new()),
        _ => Err(ClientError::Protocol(format!("{command}: params must be an object"))),
    }
}

fn value<R: Request>(request: &R) -> Result<Value, ClientError> {
    serde_json::to_value(request)
        .map_err(|error| ClientError::Protocol(format!("parameters that are no JSON: {error}")))
}

pub(crate) fn typed<T: DeserializeOwned>(data: Value) -> Result<T, ClientError> {
    serde_json::from_value(data)
        .map_err(|error| ClientError::Protocol(format!("the server's result is not as expected: {error}")))
}
