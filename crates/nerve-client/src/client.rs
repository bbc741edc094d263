//! A client of one server.

use std::path::Path;
use std::sync::Arc;

use nerve_proto::CommandType;
use nerve_proto::data::{
    CreatedData, LifecycleData, ListNodesData, NodeData, NodeInfo, PongData, SessionInfo, SessionsData,
    StoppedData, SubscribedData,
};
use nerve_proto::params::{
    CreateNodeParams, CreateSessionParams, ListNodesParams, NodeParams, SessionParams, ShutdownParams,
    SubscribeParams,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connection::{Connection, PendingReply};
use crate::error::ClientError;
use crate::events::EventStream;
use crate::execute::ChunkSink;
use crate::node::RemoteNode;
use crate::tls::{Tls, split};

/// A connection to a server. Clones share it; it closes with the last of them, nodes and streams included.
#[derive(Debug, Clone)]
pub struct NerveClient {
    connection: Arc<Connection>,
}

impl NerveClient {
    /// Connects to the server that listens on the Unix socket `path`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when nobody listens there, [`ClientError::Io`] when it may not be asked.
    pub async fn connect(path: &Path) -> Result<NerveClient, ClientError> {
        Ok(NerveClient { connection: Arc::new(Connection::open(path).await?) })
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
        let (host, port) =
            split(address).ok_or_else(|| ClientError::Protocol(format!("{address:?} is not 'host:port'")))?;
        let failed = |source| ClientError::Io { action: format!("cannot connect to {address}"), source };
        let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let client = match tls {
            Tls::Off => {
                let (reading, writing) = stream.into_split();
                NerveClient { connection: Arc::new(Connection::over(reading, writing)) }
            }
            tls => NerveClient::over(tls.connect(stream, host).await?),
        };
        client.request(CommandType::Authenticate, json!({ "token": token })).await?;
        Ok(client)
    }

    /// Talks to a server over any stream: that of a server in this process, say. It is closed with the client. Must be called within a
    /// tokio runtime.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> NerveClient {
        let (reading, writing) = tokio::io::split(stream);
        NerveClient { connection: Arc::new(Connection::over(reading, writing)) }
    }

    /// Sends a command and waits for the `data` of its result. There is no limit of time: put the future into a timeout.
    /// `params` is an object or null.
    ///
    /// # Errors
    /// Any [`ClientError`] but `NotRunning`.
    pub async fn request(&self, command: CommandType, params: Value) -> Result<Value, ClientError> {
        self.start(command, params, None).await?.wait().await.outcome
    }

    /// The same with types: one of [`nerve_proto::params`] in, one of [`nerve_proto::data`] out.
    ///
    /// # Errors
    /// As [`NerveClient::request`]; [`ClientError::Protocol`] when the result is not of type `T`.
    pub async fn call<T: DeserializeOwned>(
        &self,
        command: CommandType,
        params: &impl Serialize,
    ) -> Result<T, ClientError> {
        typed(self.request(command, value(params)?).await?)
    }

    pub(crate) async fn start(
        &self,
        command: CommandType,
        params: Value,
        chunks: Option<ChunkSink>,
    ) -> Result<PendingReply, ClientError> {
        let params = match params {
            Value::Object(params) => params,
            Value::Null => Map::new(),
            _ => return Err(ClientError::Protocol(format!("{command}: params must be an object"))),
        };
        self.connection.send(command, params, chunks).await
    }

    /// Requests that wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// What the server warned of since the last call, each once: older names that were used.
    pub fn take_warnings(&self) -> Vec<String> {
        self.connection.take_warnings()
    }

    /// The events this connection gets from now on: all, until [`NerveClient::subscribe`] says which.
    pub fn events(&self) -> EventStream {
        EventStream::new(Arc::clone(&self.connection))
    }

    /// Says which events this connection is to get, and gives them. Holds for all streams of the connection.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn subscribe(&self, filter: &SubscribeParams) -> Result<EventStream, ClientError> {
        // Made before asking: events may come before the answer.
        let events = self.events();
        let _: SubscribedData = self.call(CommandType::Subscribe, filter).await?;
        Ok(events)
    }

    /// Starts a node.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn create_node(&self, params: &CreateNodeParams) -> Result<RemoteNode, ClientError> {
        let created: CreatedData = self.call(CommandType::CreateNode, params).await?;
        Ok(RemoteNode::new(self.clone(), created.node_id, params.session_id.clone()))
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
        self.request(CommandType::StartNode, value(&node.params())?).await?;
        Ok(node)
    }

    /// What is known of a node.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn node_info(&self, node: &NodeParams) -> Result<NodeInfo, ClientError> {
        Ok(self.call::<NodeData>(CommandType::GetNode, node).await?.into())
    }

    /// All nodes of a session.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn list_nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, ClientError> {
        let params = ListNodesParams { session_id: session.map(str::to_string) };
        Ok(self.call::<ListNodesData>(CommandType::ListNodes, &params).await?.nodes_info)
    }

    /// All sessions.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        Ok(self.call::<SessionsData>(CommandType::ListSessions, &json!({})).await?.sessions)
    }

    /// Makes a session.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn create_session(&self, params: &CreateSessionParams) -> Result<SessionInfo, ClientError> {
        self.call(CommandType::CreateSession, params).await
    }

    /// One session; the default one if `name` is `None`.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn session(&self, name: Option<&str>) -> Result<SessionInfo, ClientError> {
        let params = SessionParams { name: name.map(str::to_string), session_id: None };
        self.call(CommandType::GetSession, &params).await
    }

    /// Stops a session's nodes and forgets it.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn delete_session(&self, name: &str) -> Result<(), ClientError> {
        let params = SessionParams { name: Some(name.to_string()), session_id: None };
        self.request(CommandType::DeleteSession, value(&params)?).await.map(drop)
    }

    /// Starts all nodes of a session that do not run; tells which were started and which could not be.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn start_session(&self, name: &str) -> Result<LifecycleData, ClientError> {
        let params = SessionParams { name: Some(name.to_string()), session_id: None };
        self.call(CommandType::StartSession, &params).await
    }

    /// Stops all nodes of a session and keeps their definitions; tells which were stopped and which could not be.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn stop_session(&self, name: &str) -> Result<LifecycleData, ClientError> {
        let params = SessionParams { name: Some(name.to_string()), session_id: None };
        self.call(CommandType::StopSession, &params).await
    }

    /// Is anybody there?
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn ping(&self) -> Result<PongData, ClientError> {
        self.call(CommandType::Ping, &json!({})).await
    }

    /// Stops the server; `keep_nodes` leaves hosted nodes running.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn shutdown(&self, keep_nodes: bool) -> Result<(), ClientError> {
        let _: StoppedData = self.call(CommandType::Shutdown, &ShutdownParams { keep_nodes }).await?;
        Ok(())
    }

    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

pub(crate) fn value(params: &impl Serialize) -> Result<Value, ClientError> {
    serde_json::to_value(params)
        .map_err(|error| ClientError::Protocol(format!("parameters that are no JSON: {error}")))
}

pub(crate) fn typed<T: DeserializeOwned>(data: Value) -> Result<T, ClientError> {
    serde_json::from_value(data)
        .map_err(|error| ClientError::Protocol(format!("the server's result is not as expected: {error}")))
}
