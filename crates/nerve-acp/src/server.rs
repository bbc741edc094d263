//! The methods of the protocol.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use nerve_api::reply::NodeInfo;
use nerve_api::request::{CommandLine, CreateNode, Seconds, StartNode};
use nerve_api::value::NodeState;
use nerve_client::{NerveClient, Reconnect, RemoteNode};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::mcp_servers::{self, AgentMcp};
use crate::message::{Incoming, decode};
use crate::peer::Peer;
use crate::prompt_text::prompt_text;
use crate::rpc_error::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, RpcError};
use crate::session::{Session, await_start, check_absolute, check_cwd};
use crate::transcript;
use crate::turn::Turn;
use crate::types::{
    InitializeParams, ListSessionsParams, McpServer, NewSessionParams, OpenSessionParams, PromptParams,
    SessionParams, SessionUpdate,
};

/// The version of the protocol.
const VERSION: u16 = 1;
/// Maximum number of requests in progress.
const MAX_REQUESTS: usize = 64;
/// Time limit for stopping the nodes at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

type Reply = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// Ways to open an existing session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Sends its earlier turns.
    Load,
    Resume,
}

/// A server of one client.
pub(crate) struct Server {
    config: Config,
    peer: Arc<Peer>,
    closing: CancellationToken,
    /// `None` before `initialize`; true if the client shows notices.
    client: Mutex<Option<bool>>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

impl Server {
    pub(crate) fn new(config: Config, peer: Arc<Peer>, closing: CancellationToken) -> Server {
        Server { config, peer, closing, client: Mutex::default(), sessions: Mutex::default() }
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
        while requests.join_next().await.is_some() {}
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
                    Frame::Line(line) => self.on_line(&line, requests).await,
                    Frame::TooLong { bytes } => {
                        let message = format!("message of {bytes} bytes: at most {MAX_LINE_BYTES} are read");
                        self.peer.respond(Value::Null, Err(RpcError::new(INVALID_REQUEST, message))).await;
                    }
                    Frame::Eof { .. } => return Ok(()),
                },
                Some(_) = requests.join_next() => {}
                () = self.closing.cancelled() => return Ok(()),
                () = &mut stop => return Ok(()),
            }
        }
    }

    async fn on_line(self: &Arc<Server>, line: &[u8], requests: &mut JoinSet<()>) {
        match decode(line) {
            Ok(Incoming::Request { id, method, params }) => {
                let reply = match requests.len() < MAX_REQUESTS {
                    true => self.start(&method, params),
                    false => Err(RpcError::new(INTERNAL_ERROR, "too many requests are in progress")),
                };
                match reply {
                    Ok(reply) => {
                        let peer = Arc::clone(&self.peer);
                        requests.spawn(async move { peer.respond(id, reply.await).await });
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
            return Ok(Box::pin(async { Ok(response) }));
        }
        if self.client.lock().is_none() {
            return Err(RpcError::new(INVALID_REQUEST, "the first request must be 'initialize'"));
        }
        let server = Arc::clone(self);
        Ok(match method {
            "session/new" => {
                let params = parse(params)?;
                Box::pin(async move { server.new_session(params).await })
            }
            "session/load" | "session/resume" => {
                let params = parse(params)?;
                let open = if method == "session/load" { Open::Load } else { Open::Resume };
                Box::pin(async move { server.open_session(params, open).await })
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
                let turn = Turn::new(session.begin_turn()?, Arc::clone(&self.peer), self.closing.clone());
                Box::pin(turn.run(text))
            }
            _ => {
                let error = RpcError::new(METHOD_NOT_FOUND, format!("unknown method '{method}'"));
                return Err(error.with("method", method));
            }
        })
    }

    fn initialize(&self, params: InitializeParams) -> Result<Value, RpcError> {
        let mut client = self.client.lock();
        if client.is_some() {
            return Err(RpcError::new(INVALID_REQUEST, "'initialize' was sent before"));
        }
        *client = Some(params.client_capabilities["session"]["notices"].is_object());
        if params.protocol_version != VERSION {
            tracing::info!(version = params.protocol_version, "the client proposes another version");
        }
        // The client disconnects if it does not support this version.
        Ok(json!({
            "protocolVersion": VERSION,
            "agentInfo": { "name": "nerve", "title": self.title(), "version": env!("CARGO_PKG_VERSION") },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": false },
                "mcpCapabilities": { "http": self.is_claude(), "sse": self.is_claude() },
                "sessionCapabilities": { "list": {}, "resume": {}, "fork": {}, "close": {} },
            },
            "authMethods": [],
        }))
    }

    async fn new_session(&self, params: NewSessionParams) -> Result<Value, RpcError> {
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
        let node = self.started(client.create_node(&spec).await?).await?;
        let session = self.add(node, params.cwd, true);
        self.report_ignored(session.id(), &mcp).await;
        Ok(with_ignored(json!({ "sessionId": session.id() }), &mcp))
    }

    async fn open_session(&self, params: OpenSessionParams, open: Open) -> Result<Value, RpcError> {
        let known = self.sessions.lock().get(&params.session_id).cloned();
        let session = match known {
            Some(session) => {
                check_cwd(&params.cwd, &session.node.info().await?)?;
                session
            }
            None => self.attach(&params.session_id, &params.cwd).await?,
        };
        if open == Open::Load {
            for update in transcript::replay(&session.node, &session.cwd).await? {
                self.peer.update(session.id(), &update).await;
            }
        }
        // The agent runs already, or resumes with its own arguments.
        let mcp = ignore_all(&params.mcp_servers);
        self.report_ignored(session.id(), &mcp).await;
        Ok(with_ignored(json!({}), &mcp))
    }

    /// Opens the session of an existing node, and starts the node if it is stopped.
    async fn attach(&self, id: &str, cwd: &Path) -> Result<Arc<Session>, RpcError> {
        let client = self.connect().await?;
        let info = self.nodes(&client).await?.into_iter().find(|info| info.node_id == id);
        let info = info.ok_or_else(|| unknown_session(id))?;
        let cwd = check_cwd(cwd, &info)?;
        let node = client.node(id, self.config.session.as_deref());
        let is_stopped = info.state == NodeState::Stopped;
        if is_stopped {
            let shell_env = self.config.shell_env.clone();
            let request = StartNode { shell_env, ..StartNode::new(id, self.config.session.clone()) };
            client.request(&request).await?;
            self.started(node.clone()).await?;
        }
        Ok(self.add(node, cwd, is_stopped))
    }

    async fn fork_session(&self, params: OpenSessionParams) -> Result<Value, RpcError> {
        let client = self.connect().await?;
        let source = client.node(&params.session_id, self.config.session.as_deref());
        let cwd = check_cwd(&params.cwd, &source.info().await?)?;
        let node = self.started(source.fork(&self.new_id()).await?).await?;
        let session = self.add(node, cwd, true);
        let mcp = ignore_all(&params.mcp_servers);
        self.report_ignored(session.id(), &mcp).await;
        Ok(with_ignored(json!({ "sessionId": session.id() }), &mcp))
    }

    async fn list_sessions(&self, params: ListSessionsParams) -> Result<Value, RpcError> {
        if params.cursor.is_some() {
            return Err(RpcError::invalid_params("the list has one page"));
        }
        let nodes = self.nodes(&self.connect().await?).await?;
        let is_listed = |info: &&NodeInfo| {
            let is_in_folder = |cwd: &Path| info.metadata.text("cwd") == cwd.to_string_lossy();
            self.runs_agent(info) && params.cwd.as_deref().is_none_or(is_in_folder)
        };
        let mut listed: Vec<&NodeInfo> = nodes.iter().filter(is_listed).collect();
        listed.sort_by_key(|info| std::cmp::Reverse(info.progress.state_changed_at));
        let sessions: Vec<Value> = listed.into_iter().map(session_info).collect();
        Ok(json!({ "sessions": sessions }))
    }

    async fn close_session(&self, session: Arc<Session>) -> Result<Value, RpcError> {
        session.close().await?;
        self.sessions.lock().remove(session.id());
        Ok(json!({}))
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

    /// Returns a new node when its agent has started; stops it if the agent cannot be used.
    async fn started(&self, node: RemoteNode) -> Result<RemoteNode, RpcError> {
        let started = tokio::select! {
            started = await_start(&node) => started,
            () = self.closing.cancelled() => Err(RpcError::new(INTERNAL_ERROR, "the client has disconnected")),
        };
        match started {
            Ok(()) => Ok(node),
            Err(error) => {
                // It may have stopped by itself.
                let _ = node.stop().await;
                Err(error)
            }
        }
    }

    /// Returns the running and the stopped nodes.
    async fn nodes(&self, client: &NerveClient) -> Result<Vec<NodeInfo>, RpcError> {
        let session = self.config.session.as_deref();
        let mut nodes = client.list_nodes(session).await?;
        nodes.extend(client.list_stopped_nodes(session).await?);
        Ok(nodes)
    }

    /// Returns true if the node runs the same program as new sessions.
    fn runs_agent(&self, info: &NodeInfo) -> bool {
        let words = info.metadata.text("command").split_whitespace();
        let own = self.config.agent.iter().map(String::as_str);
        info.metadata.known_text("cwd").is_some() && program(words) == program(own)
    }

    fn session(&self, id: &str) -> Result<Arc<Session>, RpcError> {
        self.sessions.lock().get(id).cloned().ok_or_else(|| unknown_session(id))
    }

    /// Adds a session, unless it is open already.
    fn add(&self, node: RemoteNode, cwd: std::path::PathBuf, is_owner: bool) -> Arc<Session> {
        let mut sessions = self.sessions.lock();
        let id = node.id().to_string();
        Arc::clone(sessions.entry(id).or_insert_with(|| Arc::new(Session::new(node, cwd, is_owner))))
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

    fn is_claude(&self) -> bool {
        program(self.config.agent.iter().map(String::as_str)) == "claude"
    }

    /// Reports MCP servers that the agent does not get, if the client shows notices.
    async fn report_ignored(&self, session: &str, mcp: &AgentMcp) {
        if mcp.ignored.is_empty() {
            return;
        }
        let title = format!("The agent does not use these MCP servers: {}", mcp.ignored.join(", "));
        tracing::warn!("{title}");
        if *self.client.lock() == Some(true) {
            self.peer.update(session, &SessionUpdate::Notice { severity: "warning", title }).await;
        }
    }
}

/// Reads the parameters of a request.
fn parse<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_json::from_value(params)
        .map_err(|error| RpcError::invalid_params(format!("invalid params: {error}")))
}

fn unknown_session(id: &str) -> RpcError {
    RpcError::new(RESOURCE_NOT_FOUND, format!("no session '{id}'"))
        .with("error_type", "not_found_error")
        .with("hint", "session/list lists the sessions, session/load opens one")
}

/// Returns the program of a command line, without its directory.
fn program<'a>(mut words: impl Iterator<Item = &'a str>) -> &'a str {
    let first = words.next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

fn ignore_all(servers: &[McpServer]) -> AgentMcp {
    mcp_servers::configure(&[], servers)
}

/// Adds the MCP servers that the agent does not get to a response.
fn with_ignored(mut response: Value, mcp: &AgentMcp) -> Value {
    if !mcp.ignored.is_empty() {
        response["_meta"] = json!({ "nerve": { "ignoredMcpServers": mcp.ignored } });
    }
    response
}

/// Describes a session.
fn session_info(info: &NodeInfo) -> Value {
    let mut session = json!({ "sessionId": info.node_id, "cwd": info.metadata.text("cwd") });
    if let Some(title) = &info.progress.last_prompt {
        session["title"] = json!(title);
    }
    if let Some(at) = info.progress.state_changed_at {
        session["updatedAt"] = json!(at.iso());
    }
    session
}
