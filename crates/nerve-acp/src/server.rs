//! The methods of the protocol.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use nerve_api::reply::NodeInfo;
use nerve_api::request::{CommandLine, CreateNode, ListNodes, Seconds, StartNode};
use nerve_api::value::NodeState;
use nerve_client::{NerveClient, Reconnect, RemoteNode};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::{Agreement, UpdateSender, Version};
use crate::config::Config;
use crate::mcp_servers;
use crate::message::{Incoming, decode};
use crate::peer::Peer;
use crate::prompt_text::prompt_text;
use crate::response::{Reply, Response, respond};
use crate::rpc_error::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError};
use crate::server_error::from_client;
use crate::session::{Session, await_start, check_absolute, check_cwd, describe, is_same_directory};
use crate::transcript;
use crate::turn::Turn;
use crate::types::{
    InitializeParams, ListSessionsParams, NewSessionParams, OpenSessionParams, PromptParams, ReplayFrom,
    SessionParams,
};
use crate::version2::SessionState;

/// Hint for clients that send other parameters.
const SCHEMA: &str = "see https://agentclientprotocol.com/protocol/schema";
/// Maximum number of requests in progress.
const MAX_REQUESTS: usize = 64;
/// Time limit for the requests in progress at the end.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for stopping the nodes at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A server of one client.
pub(crate) struct Server {
    config: Config,
    peer: Arc<Peer>,
    closing: CancellationToken,
    /// `None` before `initialize`.
    agreement: Mutex<Option<Agreement>>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Held while a stopped node is started, so that two requests for one session start it once.
    opening: tokio::sync::Mutex<()>,
}

impl Server {
    pub(crate) fn new(config: Config, peer: Arc<Peer>, closing: CancellationToken) -> Server {
        Server {
            config,
            peer,
            closing,
            agreement: Mutex::default(),
            sessions: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// Serves the client until it disconnects or `stop` completes, and then stops the nodes.
    pub(crate) async fn run(
        self: &Arc<Server>,
        input: impl AsyncRead + Unpin,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut requests = JoinSet::new();
        let done = self.read(input, stop, &mut requests).await;
        self.closing.cancel();
        // Requests that start a node complete, so that it is stopped, too.
        let completed = async { while requests.join_next().await.is_some() {} };
        if tokio::time::timeout(REQUEST_TIMEOUT, completed).await.is_err() {
            tracing::warn!("some requests did not end within {} s", REQUEST_TIMEOUT.as_secs());
        }
        if !self.config.keep {
            self.stop_nodes().await;
        }
        done
    }

    async fn read(
        self: &Arc<Server>,
        input: impl AsyncRead + Unpin,
        stop: impl Future<Output = ()>,
        requests: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let mut reader = LineReader::new(input);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                frame = reader.next() => match frame? {
                    Frame::Eof { .. } => return Ok(()),
                    // A response waits for a client that does not read.
                    frame => tokio::select! {
                        () = self.on_frame(frame, requests) => {}
                        () = &mut stop => return Ok(()),
                    },
                },
                Some(_) = requests.join_next() => {}
                () = self.closing.cancelled() => return Ok(()),
                () = &mut stop => return Ok(()),
            }
        }
    }

    async fn on_frame(self: &Arc<Server>, frame: Frame, requests: &mut JoinSet<()>) {
        match frame {
            Frame::Line(line) => self.on_line(&line, requests).await,
            Frame::TooLong { bytes } => {
                let message = format!("message of {bytes} bytes: at most {MAX_LINE_BYTES} are read");
                let error = RpcError::new(INVALID_REQUEST, message).with("hint", "link to large files");
                self.peer.respond(Value::Null, Err(error)).await;
            }
            Frame::Eof { .. } => {}
        }
    }

    async fn on_line(self: &Arc<Server>, line: &[u8], requests: &mut JoinSet<()>) {
        match decode(line) {
            Ok(Incoming::Request { id, method, params }) => {
                let reply = match requests.len() < MAX_REQUESTS {
                    true => self.start(&method, params),
                    false => {
                        let message = format!("more than {MAX_REQUESTS} requests are in progress");
                        Err(RpcError::new(INTERNAL_ERROR, message).with("hint", "wait for their responses"))
                    }
                };
                match reply {
                    Ok(reply) => {
                        let peer = Arc::clone(&self.peer);
                        let shows_notices = self.agreement.lock().is_some_and(|agreed| agreed.shows_notices);
                        requests.spawn(async move { respond(&peer, id, reply, shows_notices).await });
                    }
                    Err(error) => self.peer.respond(id, Err(error)).await,
                }
            }
            Ok(Incoming::Notification { method, params }) => self.on_notification(&method, params),
            Ok(Incoming::Response { id, outcome }) => {
                if !self.peer.on_response(&id, outcome) {
                    tracing::debug!(%id, "response to no request");
                }
            }
            Err(invalid) => self.peer.respond(invalid.id, Err(invalid.error)).await,
        }
    }

    fn on_notification(&self, method: &str, params: Value) {
        if method != "session/cancel" {
            tracing::debug!(method, "notification ignored");
            return;
        }
        match parse::<SessionParams>(params).and_then(|params| self.session(&params.session_id)) {
            Ok(session) => session.cancel_turn(),
            Err(error) => tracing::warn!(%error, "session/cancel ignored"),
        }
    }

    /// Checks a request and starts it. A turn is registered here, so that the next message can cancel it.
    fn start(self: &Arc<Server>, method: &str, params: Value) -> Result<Reply, RpcError> {
        if method == "initialize" {
            let response = self.initialize(parse(params)?)?;
            return Ok(Box::pin(async { Ok(response.into()) }));
        }
        let Some(Agreement { version, .. }) = *self.agreement.lock() else {
            let error = RpcError::new(INVALID_REQUEST, "the first request must be 'initialize'");
            return Err(error.with("hint", "send it with protocolVersion 1"));
        };
        let server = Arc::clone(self);
        Ok(match method {
            "session/new" => {
                let params = parse(params)?;
                Box::pin(async move { server.new_session(params).await })
            }
            "session/load" if version == Version::V1 => {
                let params = OpenSessionParams { replay_from: Some(ReplayFrom::Start), ..parse(params)? };
                Box::pin(async move { server.open_session(params, version).await })
            }
            "session/resume" => {
                let params = parse(params)?;
                Box::pin(async move { server.open_session(params, version).await })
            }
            "session/fork" => {
                let params = parse(params)?;
                Box::pin(async move { server.fork_session(params).await })
            }
            "session/list" => {
                let params = parse(params)?;
                Box::pin(async move { server.list_sessions(params).await })
            }
            "session/close" => {
                let params: SessionParams = parse(params)?;
                let session = self.session(&params.session_id)?;
                Box::pin(async move { server.close_session(session).await })
            }
            "session/prompt" => {
                let params: PromptParams = parse(params)?;
                let session = self.session(&params.session_id)?;
                let text = prompt_text(&params.prompt)?;
                let sender = UpdateSender::new(Arc::clone(&self.peer), session.id(), version);
                let turn = Turn::new(session.begin_turn()?, sender, self.closing.clone());
                match version {
                    Version::V1 => Box::pin(turn.run(text)),
                    Version::V2 => Box::pin(turn.accept(text, params.prompt)),
                }
            }
            _ => {
                let error = RpcError::new(METHOD_NOT_FOUND, format!("unknown method '{method}'"));
                return Err(error.with("method", method));
            }
        })
    }

    fn initialize(&self, params: InitializeParams) -> Result<Value, RpcError> {
        let mut agreement = self.agreement.lock();
        if agreement.is_some() {
            let error = RpcError::new(INVALID_REQUEST, "'initialize' was sent before");
            return Err(error.with("hint", "start another 'nerve acp' for another client"));
        }
        let version = Version::agree(params.protocol_version, self.config.protocol);
        // In version 2 all clients show notices.
        let shows_notices =
            version == Version::V2 || params.client_capabilities["session"]["notices"].is_object();
        *agreement = Some(Agreement { version, shows_notices });
        if params.protocol_version != version.number() {
            tracing::info!(version = params.protocol_version, "the client proposes another version");
        }
        // The client disconnects if it does not support this version.
        Ok(self.describe_agent(version))
    }

    /// Returns the response to `initialize`.
    fn describe_agent(&self, version: Version) -> Value {
        let takes_mcp = mcp_servers::accepts_servers(&self.config.agent);
        let info = json!({ "name": "nerve", "title": self.title(), "version": env!("CARGO_PKG_VERSION") });
        if version == Version::V2 {
            let mcp = if takes_mcp { json!({ "stdio": {}, "http": {} }) } else { json!({}) };
            return json!({
                "protocolVersion": version.number(),
                "info": info,
                "capabilities": { "session": { "prompt": {}, "mcp": mcp, "fork": {} } },
                "authMethods": [],
            });
        }
        json!({
            "protocolVersion": version.number(),
            "agentInfo": info,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": false },
                "mcpCapabilities": { "http": takes_mcp, "sse": takes_mcp },
                "sessionCapabilities": { "list": {}, "resume": {}, "fork": {}, "close": {} },
            },
            "authMethods": [],
        })
    }

    async fn new_session(&self, params: NewSessionParams) -> Result<Response, RpcError> {
        check_absolute(&params.cwd)?;
        let client = self.connect().await?;
        let mcp = mcp_servers::configure(&self.config.agent, &params.mcp_servers);
        let command = [&self.config.agent[..], &mcp.args].concat();
        let spec = CreateNode {
            session_id: self.config.session.clone(),
            command: Some(CommandLine::Argv(command)),
            cwd: Some(params.cwd.clone()),
            env: mcp.env.clone(),
            shell_env: self.config.shell_env.clone(),
            profile: self.config.profile.clone(),
            response_timeout: Seconds::from(crate::turn::TURN_LIMIT),
            ..CreateNode::new(self.new_id())
        };
        let node = client.create_node(&spec).await.map_err(from_client)?;
        self.ensure_usable(&node).await?;
        let session = self.add(node, params.cwd, true);
        Ok(Response::from(json!({ "sessionId": session.id() })).with_ignored(session.id(), &mcp))
    }

    /// Opens the session of an existing node, and starts the node if it is stopped. Sends the earlier turns if the client wants them.
    async fn open_session(&self, params: OpenSessionParams, version: Version) -> Result<Response, RpcError> {
        if params.replay_from == Some(ReplayFrom::Unknown) {
            let error = RpcError::invalid_params("unknown position in 'replayFrom'");
            return Err(error.with("hint", "earlier turns can be sent from the start only"));
        }
        let client = self.connect().await?;
        let guard = self.opening.lock().await;
        let info = self.find(&client, &params.session_id).await?;
        let cwd = check_cwd(&params.cwd, &info)?;
        let is_stopped = info.state == NodeState::Stopped;
        if is_stopped {
            let shell_env = self.config.shell_env.clone();
            let id = self.config.session.clone();
            let start = StartNode { shell_env, ..StartNode::new(&info.node_id, id) };
            client.request(&start).await.map_err(from_client)?;
        }
        let node = client.node(&info.node_id, self.config.session.as_deref());
        let session = self.add(node, cwd, is_stopped);
        drop(guard);
        if is_stopped && let Err(error) = self.ensure_usable(&session.node).await {
            self.sessions.lock().remove(session.id());
            return Err(error);
        }
        let mut sender = UpdateSender::new(Arc::clone(&self.peer), session.id(), version);
        if params.replay_from.is_some() {
            sender.send(transcript::replay(&session.node, &session.cwd).await?).await;
        }
        let state = if session.has_turn() { SessionState::Running } else { SessionState::Idle(None) };
        sender.report_state(&state).await;
        // The agent has the servers with which it was created.
        let mcp = mcp_servers::configure(&[], &params.mcp_servers);
        Ok(Response::from(json!({})).with_ignored(session.id(), &mcp))
    }

    async fn fork_session(&self, params: OpenSessionParams) -> Result<Response, RpcError> {
        let client = self.connect().await?;
        let cwd = check_cwd(&params.cwd, &self.find(&client, &params.session_id).await?)?;
        let source = client.node(&params.session_id, self.config.session.as_deref());
        let node = source.fork(&self.new_id()).await.map_err(from_client)?;
        self.ensure_usable(&node).await?;
        let session = self.add(node, cwd, true);
        let mcp = mcp_servers::configure(&[], &params.mcp_servers);
        Ok(Response::from(json!({ "sessionId": session.id() })).with_ignored(session.id(), &mcp))
    }

    async fn list_sessions(&self, params: ListSessionsParams) -> Result<Response, RpcError> {
        if params.cursor.is_some() {
            let error = RpcError::invalid_params("invalid cursor: the list has one page");
            return Err(error.with("hint", "send session/list without a cursor"));
        }
        let nodes = self.nodes(&self.connect().await?).await?;
        let is_listed = |info: &&NodeInfo| {
            let is_in_folder = |cwd: &Path| is_same_directory(cwd, Path::new(info.metadata.text("cwd")));
            self.runs_agent(info) && params.cwd.as_deref().is_none_or(is_in_folder)
        };
        let mut listed: Vec<&NodeInfo> = nodes.iter().filter(is_listed).collect();
        listed.sort_by_key(|info| std::cmp::Reverse(info.progress.state_changed_at));
        let sessions: Vec<Value> = listed.into_iter().map(describe).collect();
        Ok(json!({ "sessions": sessions }).into())
    }

    async fn close_session(&self, session: Arc<Session>) -> Result<Response, RpcError> {
        session.close().await?;
        self.sessions.lock().remove(session.id());
        Ok(json!({}).into())
    }

    async fn stop_nodes(&self) {
        let sessions: Vec<Arc<Session>> = self.sessions.lock().drain().map(|(_, session)| session).collect();
        let stopping = join_all(sessions.iter().map(|session| session.abandon()));
        if tokio::time::timeout(STOP_TIMEOUT, stopping).await.is_err() {
            tracing::warn!("some nodes did not stop within {} s", STOP_TIMEOUT.as_secs());
        }
    }

    async fn connect(&self) -> Result<NerveClient, RpcError> {
        Ok(self.config.connector.connect().await?.reconnect(Reconnect::default()))
    }

    /// Waits until the agent of a node that was just started can be used; otherwise stops the node.
    async fn ensure_usable(&self, node: &RemoteNode) -> Result<(), RpcError> {
        let started = tokio::select! {
            started = await_start(node) => started,
            () = self.closing.cancelled() => Err(RpcError::disconnected()),
        };
        if started.is_err() {
            // It may have stopped by itself.
            let _ = node.stop().await;
        }
        started
    }

    /// Returns the running and the stopped nodes.
    async fn nodes(&self, client: &NerveClient) -> Result<Vec<NodeInfo>, RpcError> {
        let request = ListNodes { session_id: self.config.session.clone(), ..ListNodes::default() };
        let mut list = client.request(&request).await.map_err(from_client)?;
        list.nodes_info.append(&mut list.stopped);
        Ok(list.nodes_info)
    }

    /// Returns the node of a session.
    async fn find(&self, client: &NerveClient, id: &str) -> Result<NodeInfo, RpcError> {
        let found = self.nodes(client).await?.into_iter().find(|info| info.node_id == id);
        found.ok_or_else(|| RpcError::unknown_session(id))
    }

    /// Returns true if the node runs the same program as new sessions.
    fn runs_agent(&self, info: &NodeInfo) -> bool {
        let words = info.metadata.text("command").split_whitespace();
        let own = self.config.agent.iter().map(String::as_str);
        info.metadata.known_text("cwd").is_some() && program(words) == program(own)
    }

    fn session(&self, id: &str) -> Result<Arc<Session>, RpcError> {
        self.sessions.lock().get(id).cloned().ok_or_else(|| RpcError::unknown_session(id))
    }

    /// Adds a session, unless it is open already. `is_owner`: this process started the node.
    fn add(&self, node: RemoteNode, cwd: std::path::PathBuf, is_owner: bool) -> Arc<Session> {
        let mut sessions = self.sessions.lock();
        let id = node.id().to_string();
        let session = sessions.entry(id).or_insert_with(|| Arc::new(Session::new(node, cwd, is_owner)));
        if is_owner {
            session.set_owner();
        }
        Arc::clone(session)
    }

    /// Returns the name of a new node: at most 32 characters of `a-z 0-9 -`.
    fn new_id(&self) -> String {
        let name = program(self.config.agent.iter().map(String::as_str));
        let name: String =
            name.chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit()).take(15).collect();
        let unique = uuid::Uuid::new_v4().simple().to_string();
        format!("acp-{name}-{}", &unique[..8])
    }

    fn title(&self) -> String {
        format!("{} (nerve)", program(self.config.agent.iter().map(String::as_str)))
    }
}

/// Reads the parameters of a request.
fn parse<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_json::from_value(params)
        .map_err(|error| RpcError::invalid_params(format!("invalid params: {error}")).with("hint", SCHEMA))
}

/// Returns the program of a command line, without its directory.
fn program<'a>(mut words: impl Iterator<Item = &'a str>) -> &'a str {
    let first = words.next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}
