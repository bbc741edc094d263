//! Makes nodes, and does not register them (seed REQ-F1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_record::history::HistoryWriter;
use nerve_term::parse::ParserKind;
use nerve_term::profile::Profile;
use serde_json::Value;

use super::NodeHandle;
use super::function::FunctionNode;
use super::launch::Launch;
use crate::backend::pane::Panes;
use crate::backend::{Program, SpawnError};
use crate::chat::ChatNode;
use crate::chat::setup::Setup;
use crate::clock::Clock;
use crate::command::{BackendKind, CommandLine, EventKind, NodeRef, NodeSpec, PanePlace, TerminalKind};
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::fork::identify;
use crate::graph::Graph;
use crate::host::manager::{HostManager, Label};
use crate::node::bash::BashNode;
use crate::node::terminal::{Journal, TerminalNode, TerminalSpec};
use crate::profiles::LoadedProfiles;
use crate::proxy::{Kept, NodeProxy, Proxies, ProxySpec, Starting};
use crate::session::{DEFAULT, check_name};

/// Makes nodes of all kinds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeFactory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    history_dir: PathBuf,
    profile_dir: Option<PathBuf>,
    hook_relay: Option<PathBuf>,
    hosting: Option<HostManager>,
    panes: Panes,
    proxies: Proxies,
    events: Publisher,
    clock: Clock,
}

/// What a factory gives the nodes it makes.
#[derive(Debug, Clone)]
pub struct FactoryConfig {
    /// Name of the server: 1–32 of `a-z 0-9 -`; part of the paths of histories.
    pub server: String,
    /// Where histories go; `.nerve/history` under the current directory if `None`.
    pub history_dir: Option<PathBuf>,
    /// Folder with the user's own profiles (`*.toml`), if there is one.
    pub profile_dir: Option<PathBuf>,
    /// The program that agents' hooks run to reach us (`PROGRAM hook SOCKET`); without one, no hooks are asked for.
    pub hook_relay: Option<PathBuf>,
    /// Nodes run in host processes, which outlive this one; without it, in this process.
    pub hosting: Option<HostManager>,
    /// What is kept of nodes in panes of tmux and WezTerm.
    pub panes: Panes,
    /// What is kept of nodes' proxies, and who is told what passes through them.
    pub proxies: Proxies,
}

impl Default for FactoryConfig {
    fn default() -> FactoryConfig {
        FactoryConfig {
            server: DEFAULT.to_string(),
            history_dir: None,
            profile_dir: None,
            hook_relay: None,
            hosting: None,
            panes: Panes::default(),
            proxies: Proxies::default(),
        }
    }
}

impl Default for NodeFactory {
    /// Of a program that has no server: nodes in this process, histories under the current directory.
    fn default() -> NodeFactory {
        NodeFactory::new(FactoryConfig::default())
    }
}

impl NodeFactory {
    /// A factory whose nodes' events nobody hears.
    pub fn new(config: FactoryConfig) -> NodeFactory {
        let clock = Clock::start();
        NodeFactory::publishing(config, Publisher::new(clock), clock)
    }

    pub(crate) fn publishing(config: FactoryConfig, events: Publisher, clock: Clock) -> NodeFactory {
        let history_dir = config.history_dir.unwrap_or_else(|| PathBuf::from(".nerve/history"));
        let shared = Shared {
            server: config.server,
            // Relative folders mean the folder of now, not of whenever a node is made.
            history_dir: std::path::absolute(&history_dir).unwrap_or(history_dir),
            profile_dir: config.profile_dir,
            hook_relay: config.hook_relay,
            hosting: config.hosting,
            panes: config.panes,
            proxies: config.proxies,
            events,
            clock,
        };
        NodeFactory { shared: Arc::new(shared) }
    }

    /// Makes a node as it is specified, started and ready to be worked with (not yet to be ready).
    ///
    /// # Errors
    /// InvalidRequest, NotFound (a profile), Process: nothing was started.
    pub async fn create(&self, spec: NodeSpec) -> Result<NodeHandle, EngineError> {
        match spec.backend {
            BackendKind::Bash => Ok(Arc::new(self.create_bash(spec)?)),
            BackendKind::Chat => Ok(Arc::new(self.create_chat(spec)?)),
            BackendKind::Pty
            | BackendKind::Claude
            | BackendKind::Tmux
            | BackendKind::ClaudeTmux
            | BackendKind::Wezterm
            | BackendKind::ClaudeWezterm => Ok(Arc::new(self.create_terminal(spec).await?)),
        }
    }

    /// Makes a terminal node; its program runs.
    ///
    /// # Errors
    /// As [`NodeFactory::create`].
    pub async fn create_terminal(&self, spec: NodeSpec) -> Result<TerminalNode, EngineError> {
        let shared = &self.shared;
        let node = named(&spec.node);
        check_name(&node.node, "node")?;
        check_cwd(&node, spec.cwd.as_deref())?;
        let Some(kind) = spec.backend.terminal() else {
            let message = format!("a {} node has no terminal", spec.backend.as_str());
            return Err(EngineError::new(ErrorKind::InvalidRequest, message));
        };
        check_place(kind, &spec.place, &spec.command)?;
        let mut argv = program_of(spec.backend, spec.command)?;
        let profile = self.profile_of(spec.backend, spec.profile.as_deref(), &argv)?;
        let agent_session = match spec.place.pane {
            // What runs in a pane that is there already was started by somebody else.
            Some(_) => spec.agent_session,
            None => identify(&profile, &mut argv, spec.agent_session)?,
        };
        let journal = self.journal(&spec.node, spec.history)?;
        let mut env = spec.env;
        // It is told apart, with its value.
        let given = env.keys().filter(|name| *name != "HOME").cloned().collect();
        let mut env_remove = profile.env_remove.clone();
        // Last of what can be refused: from here on it listens.
        let proxy = match spec.proxy {
            Some(proxy) => {
                let starting = self.starting(&node);
                Some(self.start_proxy(
                    starting,
                    (*proxy, &spec.place),
                    &profile,
                    (&mut env, &mut env_remove),
                )?)
            }
            None => None,
        };
        let is_set = |name: &String| env.contains_key(name) || std::env::var_os(name).is_some();
        // All or none: half of them can be worse than none (PS0 marks a start, PROMPT_COMMAND its end).
        if !profile.env.keys().chain(&profile.env_unless).any(is_set) {
            env.extend(profile.env.clone());
        }
        let parser: ParserKind = spec.parser.unwrap_or(profile.parser);
        let program = Program { argv, cwd: spec.cwd, env, env_remove };
        let label = Label {
            kind: spec.backend.as_str().to_string(),
            server: shared.server.clone(),
            session: spec.node.session.clone(),
            node: spec.node.node.clone(),
            argv: program.argv.clone(),
            env_home: program.env.get("HOME").cloned(),
            profile: profile.name.clone(),
            parser: parser.to_string(),
            ready_timeout: spec.ready_timeout,
            response_timeout: spec.response_timeout,
            history: spec.history,
            env: given,
            proxy_kind: proxy
                .as_ref()
                .and_then(|proxy| proxy.spec())
                .map(|spec| spec.kind.as_str().to_string()),
            proxy: proxy.as_ref().map(|proxy| proxy.id().to_string()),
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
            answers: kind == TerminalKind::Pty,
            events: shared.events.clone(),
            kind: spec.backend.as_str(),
            log_start: spec.backend.is_claude(),
            agent_session,
            proxy: proxy.clone(),
        };
        let (relay, now) = (shared.hook_relay.as_deref(), shared.clock.now());
        let launch = Launch {
            panes: &shared.panes,
            place: &spec.place,
            label: &label,
            relay,
            record: spec.record,
            now,
        };
        let terminal = match (kind, &shared.hosting) {
            (TerminalKind::Tmux, _) => launch.in_tmux(terminal).await,
            (TerminalKind::Wezterm, _) => launch.in_wezterm(terminal).await,
            (TerminalKind::Pty, Some(hosting)) => launch.in_host(hosting, terminal).await,
            (TerminalKind::Pty, None) => TerminalNode::start(terminal, relay, Vec::new()),
        };
        if let (Err(_), Some(proxy)) = (&terminal, &proxy) {
            proxy.end().await;
        }
        terminal.map_err(|error| not_startable(&node, &error))
    }

    fn start_proxy(
        &self,
        starting: Starting<'_>,
        (spec, place): (ProxySpec, &PanePlace),
        profile: &Profile,
        (env, env_remove): (&mut BTreeMap<String, String>, &mut Vec<String>),
    ) -> Result<NodeProxy, EngineError> {
        let of_mine = |mut error: EngineError| {
            error.message = format!("node '{}' was not started: {}", starting.node.node, error.message);
            error
        };
        if let Some(pane) = &place.pane {
            let message = format!("the program in pane '{pane}' runs already: it cannot be told of a proxy");
            return Err(of_mine(EngineError::new(ErrorKind::InvalidRequest, message).hint(
                "let the node start the program, or run `nerve proxy` and set its variables before it starts",
            )));
        }
        NodeProxy::start(starting, spec, profile, env, env_remove).map_err(of_mine)
    }

    /// Removes what is kept of proxies that no node comes back for: all but these.
    pub(crate) fn forget_proxies_but(&self, ids: &[String]) {
        if let Some(folder) = &self.shared.proxies.folder {
            Kept::forget_others(folder, &self.shared.server, ids);
        }
    }

    /// Where the proxy of a node is kept, and who is told of it.
    pub(crate) fn starting<'a>(&'a self, node: &'a NodeRef) -> Starting<'a> {
        Starting { proxies: &self.shared.proxies, server: &self.shared.server, node }
    }

    /// The profile of that name, else the one that fits the command.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn profile_of(
        &self,
        backend: BackendKind,
        name: Option<&str>,
        argv: &[String],
    ) -> Result<Arc<Profile>, EngineError> {
        let profiles = self.profiles();
        let profile = profiles.find(name, argv)?;
        if backend.is_claude() && name.is_none() && profile.name != CLAUDE {
            // A script that starts it, say: what is typed into is still Claude Code.
            return profiles.find(Some(CLAUDE), argv);
        }
        Ok(profile)
    }

    /// Makes a node of one-shot commands.
    ///
    /// # Errors
    /// InvalidRequest; Process: no such folder.
    pub fn create_bash(&self, spec: NodeSpec) -> Result<BashNode, EngineError> {
        let node = named(&spec.node);
        check_name(&node.node, "node")?;
        check_cwd(&node, spec.cwd.as_deref())?;
        no_proxy(&spec)?;
        let journal = self.journal(&spec.node, spec.history)?;
        Ok(BashNode::new(node, spec.cwd, spec.env, journal, self.shared.events.clone()))
    }

    /// Makes a node of a conversation with a model's API.
    ///
    /// # Errors
    /// InvalidRequest: no model, no key, what cannot be; Process: no such folder, or a kept conversation that cannot be read.
    pub fn create_chat(&self, spec: NodeSpec) -> Result<ChatNode, EngineError> {
        let node = named(&spec.node);
        check_name(&node.node, "node")?;
        check_cwd(&node, spec.cwd.as_deref())?;
        no_proxy(&spec)?;
        let of_mine = |mut error: EngineError| {
            error.message = format!("node '{}' was not started: {}", node.node, error.message);
            error
        };
        let chat = spec.chat.ok_or_else(|| {
            of_mine(
                EngineError::new(ErrorKind::InvalidRequest, "a chat node needs a model")
                    .hint("name it: `--model NAME`, or chat.model"),
            )
        })?;
        let setup = Setup {
            spec: *chat,
            cwd: spec.cwd,
            env: spec.env,
            timeout: spec.response_timeout,
            events: self.shared.events.clone(),
            journals: spec.history.then(|| self.clone()),
        };
        // Who cannot be made has no history.
        setup.check().map_err(of_mine)?;
        let journal = self.journal(&spec.node, spec.history)?;
        ChatNode::new(node.clone(), setup, journal).map_err(of_mine)
    }

    /// Makes a node of a function.
    pub fn create_function(
        &self,
        id: &str,
        function: impl Fn(&ExecutionContext) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> FunctionNode {
        FunctionNode::new(id, function)
    }

    /// Makes a graph without steps.
    pub fn create_graph(&self, id: &str) -> Graph {
        Graph::new(id)
    }

    /// A log that cannot be opened costs the log, not the node (seed channel-history §6.1).
    pub(crate) fn journal(&self, at: &NodeRef, history: bool) -> Result<Journal, EngineError> {
        if !history {
            return Ok(Journal::off());
        }
        let shared = &self.shared;
        check_name(&shared.server, "server")?;
        let session = at.session.as_deref().filter(|session| *session != DEFAULT);
        let (dir, server, id) = (&shared.history_dir, &shared.server, &at.node);
        match HistoryWriter::create_in_session(dir, server, session, id) {
            Ok(writer) => Ok(Journal::new(writer)),
            Err(error) => {
                tracing::warn!(node = %at.node, %error, "no history is kept");
                let message = format!("no history is kept: {error}");
                shared.events.publish(Some(&named(at)), EventKind::Error { message });
                Ok(Journal::off())
            }
        }
    }

    /// Profiles are read when a node is made: an edited file counts for the next node.
    pub(crate) fn profiles(&self) -> LoadedProfiles {
        let loaded = LoadedProfiles::from_folder(self.shared.profile_dir.as_deref());
        for message in loaded.broken.iter().cloned() {
            tracing::warn!("{message}");
            self.shared.events.publish(None, EventKind::Error { message });
        }
        loaded
    }

    /// Name of the server, for the paths of histories.
    pub fn server_name(&self) -> &str {
        &self.shared.server
    }

    /// Where histories are.
    pub fn history_base_dir(&self) -> &Path {
        &self.shared.history_dir
    }

    pub(crate) fn panes(&self) -> &Panes {
        &self.shared.panes
    }

    pub(crate) fn hosting(&self) -> Option<&HostManager> {
        self.shared.hosting.as_ref()
    }
}

/// The same node with its session named.
pub(crate) fn named(at: &NodeRef) -> NodeRef {
    NodeRef {
        session: Some(at.session.clone().unwrap_or_else(|| DEFAULT.to_string())),
        node: at.node.clone(),
    }
}

fn check_cwd(node: &NodeRef, cwd: Option<&Path>) -> Result<(), EngineError> {
    match cwd.filter(|cwd| !cwd.is_dir()) {
        Some(cwd) => Err(not_startable(node, &SpawnError::NoDirectory(cwd.to_path_buf()))),
        None => Ok(()),
    }
}

/// Only what runs a program of its own can have one.
fn no_proxy(spec: &NodeSpec) -> Result<(), EngineError> {
    if spec.proxy.is_none() {
        return Ok(());
    }
    let (node, backend) = (&spec.node.node, spec.backend.as_str());
    let message =
        format!("node '{node}' was not started: a {backend} node cannot have a proxy, for it runs no agent");
    Err(EngineError::new(ErrorKind::InvalidRequest, message).hint("terminals with Claude Code can"))
}

/// A pane that is there runs its program already.
fn check_place(kind: TerminalKind, place: &PanePlace, command: &CommandLine) -> Result<(), EngineError> {
    let refused = |message: String, hint: &str| {
        Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(hint.to_string()))
    };
    match &place.pane {
        Some(pane) if kind == TerminalKind::Pty => {
            refused(format!("a pty node has no pane, and pane '{pane}' was named"), "take -b tmux or wezterm")
        }
        Some(pane) if pane.trim().is_empty() => {
            // tmux would take the one that somebody looks at.
            refused("the name of the pane is empty".into(), "`nerve tmux list` lists the panes")
        }
        Some(pane) if !is_empty(command) => refused(
            format!("pane '{pane}' is there and runs its program already: it cannot be given a command"),
            "leave one of them out; the profile says what is known of the program",
        ),
        _ => Ok(()),
    }
}

fn is_empty(command: &CommandLine) -> bool {
    match command {
        CommandLine::Text(text) => text.trim().is_empty(),
        CommandLine::Argv(argv) => argv.is_empty(),
    }
}

fn not_startable(node: &NodeRef, error: &SpawnError) -> EngineError {
    let kind = match error {
        SpawnError::Empty | SpawnError::ZeroByte => ErrorKind::InvalidRequest,
        SpawnError::NoPane(_) => ErrorKind::NotFound,
        SpawnError::NoProgram { .. }
        | SpawnError::NotExecutable { .. }
        | SpawnError::NoDirectory(_)
        | SpawnError::Multiplexer(_)
        | SpawnError::Host(_)
        | SpawnError::System { .. } => ErrorKind::Process,
    };
    let hint = match error {
        SpawnError::NoProgram { .. } => {
            "check the spelling; `nerve doctor` lists the agents found on this machine"
        }
        SpawnError::NoDirectory(_) => "make the directory first, or give another one",
        SpawnError::NoPane(_) => "`nerve tmux list` and `nerve wezterm list` show the panes there are",
        _ => "nothing was started",
    };
    EngineError::new(kind, format!("node '{}' was not started: {error}", node.node)).hint(hint)
}

/// The name of Claude Code's profile, and of its program.
const CLAUDE: &str = "claude";

/// What to run. A node for Claude Code runs just that (seed channel-history §5.7).
fn program_of(backend: BackendKind, command: CommandLine) -> Result<Vec<String>, EngineError> {
    if !backend.is_claude() {
        return words(command);
    }
    if is_empty(&command) {
        return Ok(vec![CLAUDE.to_string()]);
    }
    let argv = words(command)?;
    if argv.iter().any(|word| word.to_lowercase().contains(CLAUDE)) {
        return Ok(argv);
    }
    let message = format!("Command must contain 'claude'. Got: {}", argv.join(" "));
    Err(EngineError::new(ErrorKind::InvalidRequest, message)
        .hint(format!("backend '{}' is for Claude Code; others run any program", backend.as_str())))
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
