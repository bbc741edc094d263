//! Command in, reply out, events beside it: everything a server, a CLI or a test asks goes through here.

mod adopt;
mod book;
mod conversations;
mod fork;
mod graphs;
mod linking;
mod results;
pub mod runs;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_record::history::{Filter, HistoryError, HistoryReader, Page};
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use self::book::Book;
use self::conversations::Programs;
use self::runs::Runs;
use crate::cancellation::CancellationToken;
use crate::clock::Clock;
use crate::command::{
    Command, EngineEvent, EventKind, Execute, HistoryQuery, NodeRef, Outcome, Reply, Response, StateName,
};
use crate::context::ExecutionContext;
use crate::conversation::ConversationStore;
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::metrics::Metrics;
use crate::node::NodeHandle;
use crate::node::bash::BashNode;
use crate::node::factory::{FactoryConfig, NodeFactory};
use crate::node::terminal::{Prompt, TerminalNode};
use crate::results::Results;
use crate::session::manager::SessionManager;
use crate::session::{DEFAULT, check_name, stop_all};
use crate::telemetry::{Telemetry, end_turn, end_with};

/// Bytes of entries in one reply: a line of the wire holds 16 MiB.
const REPLY_LIMIT: usize = 12 << 20;

/// How an engine is set up.
#[derive(Debug, Clone, Default)]
pub struct EngineConfig {
    /// What its nodes are given; the server's name among it.
    pub nodes: FactoryConfig,
    /// Where journals of runs go, in a folder for each server; without it, runs end with the server.
    pub runs_dir: Option<PathBuf>,
    /// Where sessions and the definitions of their nodes are kept; without it, they end with the server.
    pub sessions_file: Option<PathBuf>,
    /// Where conversations are kept; without it, they are not.
    pub conversations: Option<PathBuf>,
    /// Where results of executions that nobody waits for are kept, in a folder for each server; without it, a few are remembered until
    /// the server ends.
    pub results_dir: Option<PathBuf>,
    /// Where what is done is told, span by span; nowhere by default.
    pub telemetry: Telemetry,
}

/// The engine of one server. Cheap to clone; all clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    factory: NodeFactory,
    clock: Clock,
    events: Publisher,
    sessions: SessionManager,
    runs: Runs,
    book: Book,
    conversations: Option<ConversationStore>,
    programs: Programs,
    results: Results,
    telemetry: Telemetry,
    /// Nodes that are being started.
    creating: TaskTracker,
}

impl Engine {
    /// An engine without nodes; sessions that were kept are there again, and their nodes defined.
    pub fn new(config: EngineConfig) -> Engine {
        let clock = Clock::start();
        let events = Publisher::new(clock);
        let server = config.nodes.server.clone();
        let mut nodes = config.nodes;
        nodes.proxies.telemetry = config.telemetry.clone();
        let factory = NodeFactory::with_publisher(nodes, events.clone(), clock);
        let sessions = SessionManager::new(factory.clone());
        let book = Book::open(config.sessions_file, &server, &sessions, &events);
        let inner = Inner {
            runs: Runs::new(config.runs_dir, &server, clock, events.clone()),
            factory,
            clock,
            events,
            sessions,
            book,
            conversations: config.conversations.map(ConversationStore::new),
            programs: Programs::new(),
            results: Results::open(config.results_dir, &server, clock),
            telemetry: config.telemetry,
            creating: TaskTracker::new(),
        };
        Engine { inner: Arc::new(inner) }
    }

    /// What was wrong with the sessions that were kept, when they were read: for people, in whole sentences. Events of it are gone
    /// before anybody can subscribe.
    pub fn troubles(&self) -> &[String] {
        self.inner.book.troubles()
    }

    /// Does what is asked. Safe to call from many tasks at once; dropping the future detaches from a running turn's answer
    /// but does not undo what was already typed.
    ///
    /// # Errors
    /// [`EngineError`]: what happened, to what, and what to do.
    pub async fn execute(&self, command: Command) -> Outcome {
        match command {
            Command::CreateNode(spec) => self.create_detached(self.taking_up(self.alike(spec)?)).await,
            Command::ForkNode { source, target, at } => self.fork_node(source, target, at).await,
            Command::StartNode(node) => self.start_node(&node).await,
            Command::StopNode(node) => self.stop_node(&node).await,
            Command::ListNodes { session } => self.list_nodes(session.as_deref()),
            Command::GetNode(node) => Ok(Reply::Node(Box::new(self.node_info(&node)?))),
            Command::ExecuteInput(mut execute) => match execute.background.take() {
                Some(background) => self.execute_in_background(execute, background).await,
                None => Ok(Reply::Response(Box::new(self.turn(execute, None).await?))),
            },
            Command::GetResult { result, wait, timeout } => self.get_result(&result, wait, timeout).await,
            Command::ListResults { session, node, last } => self.list_results(session, node, last).await,
            Command::CancelResult { result } => self.cancel_result(&result).await,
            Command::RunCommand { node, command, trace } => {
                let parent = trace.map(Arc::new);
                let span = self.inner.telemetry.begin_run_command(parent.as_ref(), &node);
                let ran = match self.terminal(&node) {
                    Ok(terminal) => terminal.run(command).await,
                    Err(error) => Err(error),
                };
                end_with(span, &ran);
                ran?;
                Ok(Reply::Ran { node: node.node })
            }
            Command::SendInterrupt(node) => {
                let found = self.node(&node)?;
                if found.as_graph().is_some() {
                    let message =
                        format!("'{}' is a graph: its runs are cancelled, not interrupted", node.node);
                    return Err(
                        EngineError::new(ErrorKind::InvalidRequest, message).hint("`graph cancel` does that")
                    );
                }
                found.interrupt().await?;
                Ok(Reply::Interrupted { node: node.node })
            }
            Command::WriteData { node, data } => {
                Ok(Reply::Written { bytes: self.terminal(&node)?.write(data).await? })
            }
            Command::ResizeNode { node, size } => {
                self.terminal(&node)?.resize(size).await.map(|()| Reply::Done)
            }
            Command::GetBuffer { node, lines } => self.buffer(&node, lines).await,
            Command::ClearBuffer(node) => match self.node(&node)?.as_chat() {
                Some(chat) => {
                    chat.clear().await;
                    self.inner.programs.forget(node);
                    Ok(Reply::Done)
                }
                None => self.terminal(&node)?.clear_buffer().await.map(|()| Reply::Done),
            },
            Command::GetHistory(query) => self.history(query).await,
            Command::ExplainNode(node) => {
                Ok(Reply::Explained(Box::new(self.terminal(&node)?.explain().await?)))
            }
            Command::WaitNode { node, until, timeout } => self.wait(&node, &until, timeout).await,
            Command::AnswerNode { node, choice, wait, timeout } => {
                let response = self.terminal(&node)?.answer(choice, wait, timeout).await?;
                Ok(response.map_or(Reply::Done, |response| Reply::Response(Box::new(response))))
            }
            Command::CreateSession { name, description, tags } => {
                self.create_session(&name, description, tags)
            }
            Command::GetSession { name } => Ok(Reply::Session(self.inner.sessions.get(Some(&name))?.info())),
            Command::ListSessions => {
                Ok(Reply::Sessions(self.inner.sessions.list().iter().map(|session| session.info()).collect()))
            }
            Command::DeleteSession { name } => self.delete_session(&name).await,
            Command::StartSession { name } => self.start_session(&name).await,
            Command::StopSession { name } => self.stop_session(&name).await,
            Command::CreateGraph { session, graph } => self.create_graph(session.as_deref(), graph),
            Command::GetGraph(graph) => self.get_graph(&graph),
            Command::ListGraphs { session } => self.list_graphs(session.as_deref()),
            Command::DeleteGraph(graph) => self.delete_graph(&graph),
            Command::RunGraph(run) => self.run_graph(*run).await,
            Command::CancelGraph { id } => self.cancel_graph(&id).await,
            Command::ListRuns => self.list_runs().await,
            Command::GetRun { run } => self.get_run(&run).await,
            Command::ResumeRun(resume) => self.resume_run(*resume).await,
            Command::AnswerGate { run, step, choice } => {
                self.answer_gate(&run, step.as_deref(), &choice).await
            }
            Command::Shutdown { keep_nodes } => {
                self.shut_down(keep_nodes).await;
                Ok(Reply::ShuttingDown)
            }
            Command::Ping => Ok(self.pong()),
        }
    }

    /// All events from now on. A receiver that is slow loses the oldest and is told how many.
    pub fn subscribe(&self) -> broadcast::Receiver<EngineEvent> {
        self.inner.events.subscribe()
    }

    /// What it has done so far, in numbers.
    pub fn metrics(&self) -> &Metrics {
        self.inner.events.metrics()
    }

    async fn shut_down(&self, keep_nodes: bool) {
        // What nobody waits for is written down before it ends.
        self.inner.results.shut_down().await;
        // Runs are interrupted, not ended: they can be resumed.
        self.inner.runs.interrupt_all(keep_nodes).await;
        // Who comes later is refused, and who is on the way ends by itself.
        let mut nodes = self.inner.sessions.close_registration();
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
        self.inner.book.close().await;
        self.inner.events.publish(None, EventKind::ServerShutdown);
    }

    fn pong(&self) -> Reply {
        let sessions = self.inner.sessions.list();
        let infos = sessions.iter().map(|session| session.info());
        let (nodes, graphs) = infos
            .fold((0, 0), |(nodes, graphs), info| (nodes + info.nodes.len(), graphs + info.graphs.len()));
        Reply::Pong { nodes, graphs, sessions: sessions.len() }
    }

    /// A turn, whoever waits for it, with the conversation it belongs to.
    async fn turn(
        &self,
        mut execute: Execute,
        cancellation: Option<&CancellationToken>,
    ) -> Result<Response, EngineError> {
        let (at, node) = (execute.node.clone(), self.node(&execute.node)?);
        let talk = self.begin_talk(&node, &mut execute).await?;
        let prompt = Prompt {
            text: execute.text,
            parser: execute.parser,
            stream: execute.stream,
            tag: execute.tag,
            timeout: execute.timeout,
            fail_if_busy: execute.fail_if_busy,
            detach_on_timeout: execute.detach_on_timeout,
            trace: None,
        };
        let (telemetry, parent) = (&self.inner.telemetry, execute.trace.map(Arc::new));
        let never = CancellationToken::new();
        let cancellation = cancellation.unwrap_or(&never);
        let mut response = if let Some(node) = node.as_terminal() {
            let span = telemetry.begin_turn(parent.as_ref(), &at, &prompt.text, || node.telemetry_target());
            let prompt = Prompt { trace: span.context().cloned(), ..prompt };
            let done = node.execute_until(prompt, cancellation).await;
            end_turn(span, telemetry, &done, || node.agent_session());
            done?
        } else if let Some(node) = node.as_bash() {
            let span = telemetry.begin_turn(parent.as_ref(), &at, &prompt.text, BashNode::telemetry_target);
            let prompt = Prompt { trace: span.context().cloned(), ..prompt };
            let done = node.execute_until(prompt, cancellation).await;
            end_turn(span, telemetry, &done, || None);
            done?
        } else if let Some(node) = node.as_chat() {
            let session = self.inner.sessions.get(at.session.as_deref())?;
            let context = ExecutionContext::new(&session)
                .with_cancellation(cancellation.clone())
                .with_telemetry(telemetry.clone(), parent);
            node.turn(prompt, context).await?
        } else {
            return Err(self.takes_no_prompts(&at, node.kind()));
        };
        if let Some(talk) = talk {
            self.end_talk(talk, &node, &mut response).await;
        }
        Ok(response)
    }

    fn takes_no_prompts(&self, at: &NodeRef, kind: &str) -> EngineError {
        let message = format!("node '{}' is a {kind} and takes no prompts", at.node);
        EngineError::new(ErrorKind::InvalidRequest, message).hint("a graph is run: `graph run`")
    }

    async fn buffer(&self, at: &NodeRef, lines: Option<usize>) -> Outcome {
        if let Some(chat) = self.node(at)?.as_chat() {
            return Ok(Reply::Buffer { text: chat.read(lines) });
        }
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
        let node = self.node(at)?;
        if let Some(node) = node.as_terminal() {
            return Ok(Reply::State(node.wait(until, timeout).await?));
        }
        if let Some(node) = node.as_chat() {
            return Ok(Reply::State(node.wait(until, timeout).await?));
        }
        match node.as_bash() {
            Some(node) => Ok(Reply::State(node.wait(until, timeout).await?)),
            None => Ok(Reply::State(node.info().state)),
        }
    }

    async fn history(&self, query: HistoryQuery) -> Outcome {
        let ours = self.inner.factory.server_name().to_string();
        let server = query.server.clone().unwrap_or_else(|| ours.clone());
        check_name(&server, "server")?;
        check_name(&query.node, "node")?;
        let dir = self.inner.factory.history_base_dir().to_path_buf();
        let node = query.node.clone();
        let session = query.session.clone().filter(|session| session != DEFAULT);
        if let Some(session) = &session {
            check_name(session, "session")?;
        }
        let at = NodeRef { session: query.session.clone(), node: node.clone() };
        let exists = query.server.as_ref().is_none_or(|server| *server == ours) && self.node(&at).is_ok();
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

    fn node(&self, at: &NodeRef) -> Result<NodeHandle, EngineError> {
        self.inner.sessions.node(at)
    }

    fn terminal(&self, at: &NodeRef) -> Result<TerminalNode, EngineError> {
        let node = self.node(at)?;
        node.as_terminal().cloned().ok_or_else(|| {
            let message = format!("node '{}' has no terminal", at.node);
            let hint = match node.as_graph() {
                Some(_) => "it is a graph: `graph run` runs it",
                None if node.as_chat().is_some() => {
                    "a chat node can be executed, read, cleared, interrupted, stopped"
                }
                None => "a bash node can be executed, interrupted, stopped",
            };
            EngineError::new(ErrorKind::InvalidRequest, message).hint(hint)
        })
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
