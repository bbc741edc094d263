//! Command in, reply out, events beside it: everything a server, a CLI or a test asks goes through here.

mod adopt;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_record::history::{Filter, HistoryError, HistoryReader, HistoryWriter, Page};
use nerve_term::parse::ParserKind;
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::backend::{Program, SpawnError};
use crate::clock::Clock;
use crate::command::{
    BackendKind, Command, CommandLine, EngineEvent, EventKind, Execute, HistoryQuery, NodeRef, NodeSpec,
    Outcome, Reply, Response, StateName,
};
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::host::hosting::{Hosting, Label};
use crate::node::Node;
use crate::node::bash::BashNode;
use crate::node::terminal::{Journal, Prompt, TerminalNode, TerminalSpec};
use crate::profiles::Loaded;
use crate::session::{DEFAULT, Sessions, check_name};

/// Bytes of entries in one reply: a line of the wire holds 16 MiB.
const REPLY_LIMIT: usize = 12 << 20;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Name of the server: 1–32 of `a-z 0-9 -`.
    pub server: String,
    /// Where histories go; `.nerve/history` under the current directory if `None`.
    pub history_dir: Option<PathBuf>,
    /// Folder with the user's own profiles (`*.toml`), if there is one.
    pub profile_dir: Option<PathBuf>,
    /// The program that agents' hooks run to reach us (`PROGRAM hook SOCKET`); without one, no hooks are asked for.
    pub hook_relay: Option<PathBuf>,
    /// Nodes run in host processes, which outlive this one; without it, in this process.
    pub hosting: Option<Hosting>,
}

/// The engine of one server. Cheap to clone; all clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: String,
    history_dir: PathBuf,
    profile_dir: Option<PathBuf>,
    hook_relay: Option<PathBuf>,
    hosting: Option<Hosting>,
    clock: Clock,
    events: Publisher,
    sessions: Mutex<Sessions>,
    /// Nodes that are being started.
    creating: TaskTracker,
}

impl Engine {
    /// An engine without nodes.
    pub fn new(config: EngineConfig) -> Engine {
        let clock = Clock::start();
        let history_dir = config.history_dir.unwrap_or_else(|| PathBuf::from(".nerve/history"));
        let inner = Inner {
            server: config.server,
            // Relative folders mean the folder of now, not of whenever a node is made.
            history_dir: std::path::absolute(&history_dir).unwrap_or(history_dir),
            profile_dir: config.profile_dir,
            hook_relay: config.hook_relay,
            hosting: config.hosting,
            clock,
            events: Publisher::new(clock),
            sessions: Mutex::new(Sessions::new(clock.now())),
            creating: TaskTracker::new(),
        };
        Engine { inner: Arc::new(inner) }
    }

    /// Does what is asked. Safe to call from many tasks at once; dropping the future detaches from a running turn's answer
    /// but does not undo what was already typed.
    ///
    /// # Errors
    /// [`EngineError`]: what happened, to what, and what to do.
    pub async fn execute(&self, command: Command) -> Outcome {
        match command {
            Command::CreateNode(spec) => self.create_detached(spec).await,
            Command::StopNode(node) => self.stop_node(&node).await,
            Command::ListNodes { session } => Ok(Reply::Nodes(self.sessions().nodes(session.as_deref())?)),
            Command::GetNode(node) => Ok(Reply::Node(Box::new(self.node(&node)?.info()))),
            Command::ExecuteInput(execute) => self.execute_input(execute).await,
            Command::RunCommand { node, command } => {
                self.terminal(&node)?.run(command).await?;
                Ok(Reply::Ran { node: node.node })
            }
            Command::SendInterrupt(node) => self.interrupt(node).await,
            Command::WriteData { node, data } => {
                Ok(Reply::Written { bytes: self.terminal(&node)?.write(data).await? })
            }
            Command::ResizeNode { node, size } => {
                self.terminal(&node)?.resize(size).await.map(|()| Reply::Done)
            }
            Command::GetBuffer { node, lines } => self.buffer(&node, lines).await,
            Command::ClearBuffer(node) => self.terminal(&node)?.clear_buffer().await.map(|()| Reply::Done),
            Command::GetHistory(query) => self.history(query).await,
            Command::ExplainNode(node) => {
                Ok(Reply::Explained(Box::new(self.terminal(&node)?.explain().await?)))
            }
            Command::WaitNode { node, until, timeout } => self.wait(&node, &until, timeout).await,
            Command::AnswerNode { node, choice, wait, timeout } => {
                let response = self.terminal(&node)?.answer(choice, wait, timeout).await?;
                Ok(response.map_or(Reply::Done, |response| Reply::Response(Box::new(response))))
            }
            Command::CreateSession { name, description, tags } => Ok(Reply::Session(
                self.sessions().create(&name, description, tags, self.inner.clock.now())?,
            )),
            Command::GetSession { name } => Ok(Reply::Session(self.sessions().info(&name)?)),
            Command::ListSessions => Ok(Reply::Sessions(self.sessions().list())),
            Command::DeleteSession { name } => {
                let nodes = self.sessions().remove(&name)?;
                stop_all(nodes, "its session was deleted").await;
                Ok(Reply::Done)
            }
            Command::Shutdown { keep_nodes } => {
                self.shut_down(keep_nodes).await;
                Ok(Reply::ShuttingDown)
            }
            Command::Ping => {
                let sessions = self.sessions();
                Ok(Reply::Pong { nodes: sessions.all_nodes().len(), sessions: sessions.len() })
            }
        }
    }

    /// All events from now on. A receiver that is slow loses the oldest and is told how many.
    pub fn subscribe(&self) -> broadcast::Receiver<EngineEvent> {
        self.inner.events.subscribe()
    }

    /// A start is not left half done when nobody waits for it any more.
    async fn create_detached(&self, spec: NodeSpec) -> Outcome {
        let engine = self.clone();
        let created = self.inner.creating.spawn(async move { engine.create(spec).await }).await;
        created.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
    }

    async fn create(&self, spec: NodeSpec) -> Outcome {
        let reservation = self.sessions().reserve(&spec.node)?;
        let at = spec.node.clone();
        let node = self.start(spec).await.inspect_err(|_| self.sessions().release(&at, reservation))?;
        let info = node.info();
        if !self.sessions().fill(&at, reservation, node.clone()) {
            node.stop("its session was deleted, or the server was shut down").await;
            return Err(EngineError::new(
                ErrorKind::NotFound,
                "its session was deleted meanwhile, or the server is shutting down",
            ));
        }
        self.inner.events.publish(Some(&named(&at)), EventKind::NodeCreated { kind: info.kind });
        Ok(Reply::Created(info))
    }

    async fn start(&self, spec: NodeSpec) -> Result<Node, EngineError> {
        let journal = self.journal(&spec.node, spec.history)?;
        let node = named(&spec.node);
        if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            return Err(not_startable(&node, &SpawnError::NoDirectory(cwd.clone())));
        }
        if spec.backend == BackendKind::Bash {
            return Ok(Node::Bash(BashNode::new(
                node,
                spec.cwd,
                spec.env,
                journal,
                self.inner.events.clone(),
            )));
        }
        let argv = words(spec.command)?;
        let profile = self.profiles().find(spec.profile.as_deref(), &argv)?;
        let mut env = spec.env;
        let is_set = |name: &String| env.contains_key(name) || std::env::var_os(name).is_some();
        // All or none: half of them can be worse than none (PS0 marks a start, PROMPT_COMMAND its end).
        if !profile.env.keys().chain(&profile.env_unless).any(is_set) {
            env.extend(profile.env.clone());
        }
        let parser: ParserKind = spec.parser.unwrap_or(profile.parser);
        let program = Program { argv, cwd: spec.cwd, env, env_remove: profile.env_remove.clone() };
        let label = Label {
            server: self.inner.server.clone(),
            session: spec.node.session.clone(),
            node: spec.node.node.clone(),
            argv: program.argv.clone(),
            env_home: program.env.get("HOME").cloned(),
            profile: profile.name.clone(),
            parser: parser.to_string(),
            ready_timeout: spec.ready_timeout,
            response_timeout: spec.response_timeout,
            history: spec.history,
        };
        let terminal = TerminalSpec {
            node: node.clone(),
            program,
            size: spec.size,
            profile,
            parser,
            ready_timeout: spec.ready_timeout,
            response_timeout: spec.response_timeout,
            journal,
            adopted: None,
            answers: true,
            events: self.inner.events.clone(),
        };
        let relay = self.inner.hook_relay.as_deref();
        let terminal = match &self.inner.hosting {
            Some(hosting) => {
                hosting.start(terminal, &label, relay, spec.record, self.inner.clock.now()).await
            }
            None => TerminalNode::start(terminal, relay, Vec::new()),
        };
        terminal.map(Node::Terminal).map_err(|error| not_startable(&node, &error))
    }

    /// A log that cannot be opened costs the log, not the node (seed channel-history §6.1).
    fn journal(&self, at: &NodeRef, history: bool) -> Result<Journal, EngineError> {
        if !history {
            return Ok(Journal::off());
        }
        check_name(&self.inner.server, "server")?;
        let session = at.session.as_deref().filter(|session| *session != DEFAULT);
        let (dir, server, id) = (&self.inner.history_dir, &self.inner.server, &at.node);
        match HistoryWriter::create_in_session(dir, server, session, id) {
            Ok(writer) => Ok(Journal::new(writer)),
            Err(error) => {
                tracing::warn!(node = %at.node, %error, "no history is kept");
                let message = format!("no history is kept: {error}");
                self.inner.events.publish(Some(&named(at)), EventKind::Error { message });
                Ok(Journal::off())
            }
        }
    }

    /// Profiles are read when a node is made: an edited file counts for the next node.
    fn profiles(&self) -> Loaded {
        let loaded = Loaded::from_folder(self.inner.profile_dir.as_deref());
        for message in loaded.broken.iter().cloned() {
            tracing::warn!("{message}");
            self.inner.events.publish(None, EventKind::Error { message });
        }
        loaded
    }

    async fn stop_node(&self, at: &NodeRef) -> Outcome {
        let node = self.node(at)?;
        node.stop("stopped").await;
        // Meanwhile the name may have gone to a new node.
        self.sessions().forget(at, &node);
        Ok(Reply::Stopped { node: at.node.clone() })
    }

    async fn shut_down(&self, keep_nodes: bool) {
        // Who comes later is refused, and who is on the way ends by itself.
        let mut nodes = self.sessions().close();
        if keep_nodes {
            let mut left = Vec::new();
            for node in nodes {
                if !node.release().await {
                    left.push(node);
                }
            }
            nodes = left;
        }
        stop_all(nodes, "the server was shut down").await;
        self.inner.creating.close();
        self.inner.creating.wait().await;
        self.inner.events.publish(None, EventKind::ServerShutdown);
    }

    async fn execute_input(&self, execute: Execute) -> Outcome {
        let prompt = Prompt {
            text: execute.text,
            parser: execute.parser,
            stream: execute.stream,
            timeout: execute.timeout,
            fail_if_busy: execute.fail_if_busy,
            detach_on_timeout: execute.detach_on_timeout,
        };
        let response: Response = match self.node(&execute.node)? {
            Node::Terminal(node) => node.execute(prompt).await?,
            Node::Bash(node) => node.execute(prompt).await?,
        };
        Ok(Reply::Response(Box::new(response)))
    }

    async fn interrupt(&self, at: NodeRef) -> Outcome {
        match self.node(&at)? {
            Node::Terminal(node) => node.interrupt().await?,
            Node::Bash(node) => node.interrupt(),
        }
        Ok(Reply::Interrupted { node: at.node })
    }

    async fn buffer(&self, at: &NodeRef, lines: Option<usize>) -> Outcome {
        let node = self.terminal(at)?;
        let text = match lines {
            Some(lines) => node.read_tail(lines).await?,
            None => node.read().await?,
        };
        Ok(Reply::Buffer { text })
    }

    async fn wait(&self, at: &NodeRef, until: &[StateName], timeout: Option<std::time::Duration>) -> Outcome {
        let ready = [StateName::Ready];
        let until = if until.is_empty() { &ready[..] } else { until };
        match self.node(at)? {
            Node::Terminal(node) => Ok(Reply::State(node.wait(until, timeout).await?)),
            Node::Bash(node) => Ok(Reply::State(node.wait(until, timeout).await?)),
        }
    }

    async fn history(&self, query: HistoryQuery) -> Outcome {
        let server = query.server.clone().unwrap_or_else(|| self.inner.server.clone());
        check_name(&server, "server")?;
        check_name(&query.node, "node")?;
        let dir = self.inner.history_dir.clone();
        let node = query.node.clone();
        let session = query.session.clone().filter(|session| session != DEFAULT);
        if let Some(session) = &session {
            check_name(session, "session")?;
        }
        let at = NodeRef { session: query.session.clone(), node: node.clone() };
        let exists =
            query.server.as_ref().is_none_or(|server| *server == self.inner.server) && self.node(&at).is_ok();
        let read_server = server.clone();
        let page =
            tokio::task::spawn_blocking(move || read_history(&dir, &read_server, session.as_deref(), &query))
                .await
                .map_err(|error| EngineError::new(ErrorKind::Internal, error.to_string()))?;
        match page {
            Ok(Page { entries, total, truncated, .. }) => {
                let note = truncated.then(|| {
                    "There are more entries than one reply can hold: ask for the last N".to_string()
                });
                Ok(Reply::History { node, server, entries, total, note })
            }
            // The node is there and keeps no log (seed channel-history §8.3).
            Err(HistoryError::NotFound { .. }) if exists => {
                let note = Some("History was disabled for this node".to_string());
                Ok(Reply::History { node, server, entries: Vec::new(), total: 0, note })
            }
            Err(error @ HistoryError::NotFound { .. }) => {
                Err(EngineError::new(ErrorKind::NotFound, error.to_string()))
            }
            Err(error) => Err(EngineError::new(ErrorKind::InvalidRequest, error.to_string())),
        }
    }

    fn node(&self, at: &NodeRef) -> Result<Node, EngineError> {
        self.sessions().node(at)
    }

    fn terminal(&self, at: &NodeRef) -> Result<TerminalNode, EngineError> {
        match self.node(at)? {
            Node::Terminal(node) => Ok(node),
            Node::Bash(_) => {
                let message = format!("node '{}' has no terminal", at.node);
                Err(EngineError::new(ErrorKind::InvalidRequest, message)
                    .hint("a bash node can be executed, interrupted, stopped"))
            }
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same node with its session named.
fn named(at: &NodeRef) -> NodeRef {
    NodeRef {
        session: Some(at.session.clone().unwrap_or_else(|| DEFAULT.to_string())),
        node: at.node.clone(),
    }
}

fn not_startable(node: &NodeRef, error: &SpawnError) -> EngineError {
    let kind = match error {
        SpawnError::Empty | SpawnError::ZeroByte => ErrorKind::InvalidRequest,
        SpawnError::NoProgram { .. }
        | SpawnError::NoDirectory(_)
        | SpawnError::Host(_)
        | SpawnError::System { .. } => ErrorKind::Process,
    };
    let hint = match error {
        SpawnError::NoProgram { .. } => {
            "check the spelling; `nerve doctor` lists the agents found on this machine"
        }
        SpawnError::NoDirectory(_) => "make the directory first, or give another one",
        _ => "nothing was started",
    };
    EngineError::new(kind, format!("node '{}' was not started: {error}", node.node)).hint(hint)
}

/// Splits a command as a shell would, without running one. Empty means the user's shell.
fn words(command: CommandLine) -> Result<Vec<String>, EngineError> {
    let argv = match command {
        CommandLine::Argv(argv) => argv,
        CommandLine::Text(text) => shell_words::split(&text).map_err(|error| {
            let message = format!("cannot split the command '{text}': {error}");
            EngineError::new(ErrorKind::InvalidRequest, message)
                .hint("close the quote, or give the command as a list")
        })?,
    };
    if argv.is_empty() {
        return Ok(vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_string())]);
    }
    Ok(argv)
}

async fn stop_all(nodes: Vec<Node>, reason: &'static str) {
    let stops: Vec<_> =
        nodes.into_iter().map(|node| tokio::spawn(async move { node.stop(reason).await })).collect();
    for stop in stops {
        // A task that panicked has nothing left to stop.
        let _ = stop.await;
    }
}

fn read_history(
    dir: &Path,
    server: &str,
    session: Option<&str>,
    query: &HistoryQuery,
) -> Result<Page, HistoryError> {
    HistoryReader::open_in_session(dir, server, session, &query.node)?.query(&Filter {
        last: query.last,
        op: query.op.clone(),
        seq: query.seq,
        inputs_only: query.inputs_only,
        max_bytes: Some(REPLY_LIMIT),
    })
}
