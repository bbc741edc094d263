//! Creates nodes without registering them.

mod checks;
mod command;
mod errors;
mod label;

use std::collections::BTreeMap;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_agent::profile::Profile;
use nerve_api::event::EventKind;
use nerve_api::request::{NodeRef, NodeSpec};
use nerve_api::value::BackendKind;
use nerve_host::backend::{Program, SpawnError};
use nerve_host::clock::Clock;
use nerve_host::environment::{self, Environment};
use nerve_host::manager::{HostManager, Label};
use nerve_mux::pane::{PanePlace, Panes};
use nerve_types::name::DEFAULT_SERVER;

pub use self::checks::{check_command_budget, check_without_terminal};
pub use self::command::split_command;
pub use self::errors::start_error;

use self::checks::{check_options, check_terminal};
use self::command::{CLAUDE, program_argv};
use self::errors::{no_hosts_error, not_started_error};
use self::label::label;
use crate::agent_version;
use crate::audit_log::AuditLogs;
use crate::bash::BashNode;
use crate::chat::ChatNode;
use crate::chat::setup::Setup;
use crate::error::EngineError;
use crate::events::Publisher;
use crate::fork::identify;
use crate::launch::Launch;
use crate::profiles::LoadedProfiles;
use crate::proxy::{NodeProxy, Proxies, ProxyLaunch, ProxySettings, StoredProxy};
use crate::terminal::{AuditLog, TerminalNode, TerminalSpec};
use crate::usage_ledger::{LedgerRecord, LedgerUsage, UsageLedger, built_in_pricing};
use crate::{NodeFuture, NodeHandle};

/// Starts a node for an agent that speaks the Agent Client Protocol, in a crate above this one. The ledger counts the node's usage.
pub type AcpStarter = fn(NodeFactory, NodeSpec, UsageLedger) -> NodeFuture<'static, NodeHandle>;

/// Creates nodes of all kinds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeFactory {
    shared: Arc<Shared>,
}

/// The program of a terminal node, ready to be started.
struct ResolvedProgram {
    argv: Vec<String>,
    env: Environment,
    profile: Arc<Profile>,
    conversation_id: Option<String>,
    agent_version: Option<String>,
}

#[derive(Debug)]
struct Shared {
    config: FactoryConfig,
    audit_logs: AuditLogs,
    events: Publisher,
    clock: Clock,
    acp: Option<AcpStarter>,
}

/// Settings shared by all nodes of a factory.
#[derive(Debug, Clone)]
pub struct FactoryConfig {
    /// Name of the server: 1–32 of `a-z 0-9 -`. It is part of the paths of histories.
    pub server: String,
    /// Folder of the histories; `.nerve/history` under the current directory if `None`.
    pub history_dir: Option<PathBuf>,
    /// Folder with the user's own profiles (`*.toml`).
    pub profile_dir: Option<PathBuf>,
    /// The program that agents' hooks run to send events (`PROGRAM hook SOCKET`). No hooks are installed if `None`.
    pub hook_relay: Option<PathBuf>,
    /// Runs nodes in host processes, which outlive this process. Nodes run in this process if `None`.
    pub hosting: Option<HostManager>,
    /// Persistent state of nodes in tmux and WezTerm panes.
    pub panes: Panes,
    /// Persistent state of nodes' proxies, and the observers of their calls.
    pub proxies: Proxies,
}

impl Default for FactoryConfig {
    fn default() -> FactoryConfig {
        FactoryConfig {
            server: DEFAULT_SERVER.to_string(),
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
    /// Creates a factory without a server: nodes run in this process, with histories under the current directory.
    fn default() -> NodeFactory {
        NodeFactory::new(FactoryConfig::default())
    }
}

impl NodeFactory {
    /// Creates a factory whose events have no subscriber.
    pub fn new(config: FactoryConfig) -> NodeFactory {
        let clock = Clock::start();
        NodeFactory::with_publisher(config, Publisher::new(clock), clock, None)
    }

    /// Creates a factory whose nodes publish their events with `events`. `acp` starts agents that speak the Agent Client Protocol.
    pub fn with_publisher(
        config: FactoryConfig,
        events: Publisher,
        clock: Clock,
        acp: Option<AcpStarter>,
    ) -> NodeFactory {
        let history_dir = config.history_dir.clone().unwrap_or_else(|| PathBuf::from(".nerve/history"));
        let audit_logs = AuditLogs {
            // Relative folders refer to the current directory of now, not of when a node is created.
            dir: std::path::absolute(&history_dir).unwrap_or(history_dir),
            server: config.server.clone(),
            events: events.clone(),
        };
        NodeFactory { shared: Arc::new(Shared { config, audit_logs, events, clock, acp }) }
    }

    /// Creates and starts a node. Its program need not be ready yet.
    ///
    /// # Errors
    /// InvalidRequest, NotFound (no such profile), Process. Nothing was started then.
    pub async fn create(&self, spec: NodeSpec) -> Result<NodeHandle, EngineError> {
        let session = UsageLedger::new("its session", built_in_pricing());
        self.create_in(&session, spec, LedgerUsage::default()).await
    }

    /// Creates and starts a node whose usage counts for a session. `usage`: the usage of its earlier processes.
    ///
    /// # Errors
    /// See [`NodeFactory::create`].
    pub async fn create_in(
        &self,
        session: &UsageLedger,
        spec: NodeSpec,
        usage: LedgerUsage,
    ) -> Result<NodeHandle, EngineError> {
        match spec.backend {
            BackendKind::Bash => {
                // Commands do not count toward the budget of the session.
                let ledger = own_ledger(&spec, usage);
                Ok(Arc::new(self.start_bash(spec, ledger)?))
            }
            BackendKind::Chat => {
                let ledger = session.node(&spec.node_id, LedgerRecord { limits: spec.budget, usage });
                Ok(Arc::new(self.start_chat(spec, ledger)?))
            }
            BackendKind::Acp => {
                let ledger = session.node(&spec.node_id, LedgerRecord { limits: spec.budget, usage });
                let none = || EngineError::internal("this engine starts no acp nodes");
                (self.shared.acp.ok_or_else(none)?)(self.clone(), spec, ledger).await
            }
            BackendKind::Pty
            | BackendKind::Claude
            | BackendKind::Tmux
            | BackendKind::ClaudeTmux
            | BackendKind::Wezterm
            | BackendKind::ClaudeWezterm => {
                let ledger = session.node(&spec.node_id, LedgerRecord { limits: spec.budget, usage });
                Ok(Arc::new(self.start_terminal(spec, ledger).await?))
            }
        }
    }

    /// Creates a terminal node and starts its program.
    ///
    /// # Errors
    /// See [`NodeFactory::create`].
    pub async fn create_terminal(&self, spec: NodeSpec) -> Result<TerminalNode, EngineError> {
        let ledger = own_ledger(&spec, LedgerUsage::default());
        self.start_terminal(spec, ledger).await
    }

    async fn start_terminal(
        &self,
        mut spec: NodeSpec,
        ledger: UsageLedger,
    ) -> Result<TerminalNode, EngineError> {
        let shared = &self.shared;
        let at = spec.node_ref();
        let node = at.with_session();
        check_terminal(&node, &spec)?;
        if spec.backend.multiplexer().is_some() && spec.pane_id.is_none() && shared.config.hosting.is_none() {
            return Err(no_hosts_error(&node, spec.backend));
        }
        let server_env = environment::read_variables();
        // The label stores HOME with its value.
        let env_names: Vec<String> = spec.env.keys().filter(|name| *name != "HOME").cloned().collect();
        let ResolvedProgram { argv, mut env, profile, conversation_id, agent_version } =
            self.resolve_program(&node, &mut spec, &server_env).await?;
        let audit_log = self.audit_log(&at, spec.history)?;
        // The proxy comes after all other checks, because it listens from here on.
        let proxy = match spec.proxy.take() {
            Some(settings) => {
                let launch = self.proxy_launch(&node);
                let pane = spec.pane_id.as_deref();
                Some(self.start_proxy(launch, *settings, pane, &profile, &mut env, &server_env)?)
            }
            None => None,
        };
        add_profile_env(&profile, &mut env, &server_env);
        let terminal = TerminalSpec {
            node: node.clone(),
            program: Program { argv, cwd: spec.cwd.take(), env: env.set, env_remove: env.remove },
            size: spec.size(),
            parser: spec.parser.unwrap_or(profile.parser),
            profile,
            ready_timeout: spec.ready_timeout.duration(),
            response_timeout: spec.response_timeout.duration(),
            audit_log,
            adopted: None,
            answers_queries: spec.pane_id.is_none(),
            events: shared.events.clone(),
            kind: spec.backend,
            log_start: spec.backend.is_claude(),
            conversation_id,
            agent_version,
            proxy: proxy.clone(),
            ledger,
        };
        let label = label(&shared.config.server, &at, spec.history, env_names, &terminal);
        let terminal = self.open_terminal(spec, terminal, &label).await;
        if let (Err(_), Some(proxy)) = (&terminal, &proxy) {
            proxy.end().await;
        }
        terminal.map_err(|error| start_error(&node, &error))
    }

    /// Finds the program of a terminal node and its profile, and checks whether nerve can drive it. Takes the program's settings
    /// from `spec`. The program in an existing pane is not checked, because it already runs.
    async fn resolve_program(
        &self,
        node: &NodeRef,
        spec: &mut NodeSpec,
        server_env: &BTreeMap<String, String>,
    ) -> Result<ResolvedProgram, EngineError> {
        let mut env = Environment::new(spec.shell_env.as_ref(), take(&mut spec.env), server_env);
        let shell = env.get("SHELL", server_env).cloned();
        let mut argv = program_argv(spec.backend, spec.command.take().unwrap_or_default(), shell)?;
        let profile = self.find_profile(spec.backend, spec.profile.as_deref(), &argv)?;
        env.remove_all(&profile.env_remove);
        let mut conversation_id = spec.conversation_id.take();
        let mut agent_version = None;
        if spec.pane_id.is_none() {
            conversation_id = identify(&profile, &mut argv, conversation_id)?;
            if !spec.force {
                let variable = |name: &str| env.get(name, server_env);
                check_options(node, &profile, &argv, spec.cwd.as_deref(), variable)?;
            }
            let Environment { set, remove, .. } = env.clone();
            let program = Program { argv: argv.clone(), cwd: spec.cwd.clone(), env: set, env_remove: remove };
            let checked = agent_version::check(&profile, &program, spec.force).await;
            agent_version = checked.map_err(|error| not_started_error(node, error))?;
        }
        Ok(ResolvedProgram { argv, env, profile, conversation_id, agent_version })
    }

    /// Opens the terminal in an existing pane, in a host, or in this process.
    async fn open_terminal(
        &self,
        spec: NodeSpec,
        terminal: TerminalSpec,
        label: &Label,
    ) -> Result<TerminalNode, SpawnError> {
        let Shared { config, clock, .. } = &*self.shared;
        let FactoryConfig { panes, hook_relay, hosting, .. } = config;
        let relay = hook_relay.as_deref();
        let launch = Launch { panes, label, relay, record: spec.record, now: clock.now() };
        let multiplexer = spec.backend.multiplexer();
        match (&spec.pane_id, multiplexer, hosting) {
            (Some(pane), Some(multiplexer), _) => {
                launch.attach(terminal, multiplexer, pane, spec.socket.as_deref()).await
            }
            (_, _, Some(hosting)) => {
                let place = PanePlace { split: None, session: spec.tmux_session, socket: spec.socket };
                let window = multiplexer.map(|multiplexer| (multiplexer, place));
                launch.start_in_host(hosting, terminal, window).await
            }
            (_, _, None) => TerminalNode::start(terminal, relay, Vec::new()),
        }
    }

    fn start_proxy(
        &self,
        launch: ProxyLaunch<'_>,
        settings: ProxySettings,
        pane: Option<&str>,
        profile: &Profile,
        env: &mut Environment,
        server_env: &BTreeMap<String, String>,
    ) -> Result<NodeProxy, EngineError> {
        let with_node_name = |error| not_started_error(launch.node, error);
        if let Some(pane) = pane {
            let message =
                format!("the program in pane '{pane}' is already running and cannot be given a proxy");
            return Err(with_node_name(EngineError::invalid_request(message).hint(
                "let the node start the program, or start `nerve proxy` and set its variables before the program starts",
            )));
        }
        NodeProxy::start(launch, settings, profile, env, server_env).map_err(with_node_name)
    }

    /// Removes the stored state of all proxies except these.
    pub fn prune_proxies(&self, ids: &[String]) {
        if let Some(folder) = &self.shared.config.proxies.folder {
            StoredProxy::prune(folder, &self.shared.config.server, ids);
        }
    }

    /// Returns the launch settings of a node's proxy.
    pub fn proxy_launch<'a>(&'a self, node: &'a NodeRef) -> ProxyLaunch<'a> {
        ProxyLaunch { proxies: &self.shared.config.proxies, server: &self.shared.config.server, node }
    }

    /// Returns the profile of that name, otherwise the one that matches the command.
    ///
    /// # Errors
    /// NotFound: no profile has that name.
    pub fn find_profile(
        &self,
        backend: BackendKind,
        name: Option<&str>,
        argv: &[String],
    ) -> Result<Arc<Profile>, EngineError> {
        let profiles = self.profiles();
        let profile = profiles.find(name, argv)?;
        if backend.is_claude() && name.is_none() && profile.name != CLAUDE {
            // For example a script that starts Claude Code: the program that reads the input is still Claude Code.
            return profiles.find(Some(CLAUDE), argv);
        }
        Ok(profile)
    }

    /// Creates a node that runs one-shot commands.
    ///
    /// # Errors
    /// InvalidRequest; Process: no such folder.
    pub fn create_bash(&self, spec: NodeSpec) -> Result<BashNode, EngineError> {
        let ledger = own_ledger(&spec, LedgerUsage::default());
        self.start_bash(spec, ledger)
    }

    fn start_bash(&self, spec: NodeSpec, ledger: UsageLedger) -> Result<BashNode, EngineError> {
        let node = check_without_terminal(&spec)?;
        let audit_log = self.audit_log(&spec.node_ref(), spec.history)?;
        let env = Environment::new(spec.shell_env.as_ref(), spec.env, &environment::read_variables());
        Ok(BashNode::new(node, spec.cwd, env, audit_log, self.shared.events.clone(), ledger))
    }

    /// Creates a node for a conversation with a model's API.
    ///
    /// # Errors
    /// InvalidRequest: no model, no key, invalid settings. Process: no such folder, or the stored conversation cannot be read.
    pub fn create_chat(&self, spec: NodeSpec) -> Result<ChatNode, EngineError> {
        let ledger = own_ledger(&spec, LedgerUsage::default());
        self.start_chat(spec, ledger)
    }

    fn start_chat(&self, spec: NodeSpec, ledger: UsageLedger) -> Result<ChatNode, EngineError> {
        let node = check_without_terminal(&spec)?;
        let with_node_name = |error| not_started_error(&node, error);
        let chat = spec.chat.ok_or_else(|| {
            with_node_name(
                EngineError::invalid_request("a chat node needs a model")
                    .hint("add `--model NAME`, or chat.model"),
            )
        })?;
        let setup = Setup {
            settings: *chat,
            cwd: spec.cwd,
            env: Environment::new(spec.shell_env.as_ref(), spec.env, &environment::read_variables()).set,
            timeout: spec.response_timeout.duration(),
            events: self.shared.events.clone(),
            ledger,
            fork_audit_logs: spec.history.then(|| self.shared.audit_logs.clone()),
        };
        // A node that cannot be created leaves no history.
        setup.check().map_err(with_node_name)?;
        let audit_log = self.audit_log(&node, spec.history)?;
        ChatNode::new(node.clone(), setup, audit_log).map_err(with_node_name)
    }

    /// Opens the audit log of a node. If the log cannot be opened, the node runs without one.
    pub fn audit_log(&self, at: &NodeRef, history: bool) -> Result<AuditLog, EngineError> {
        if history { self.shared.audit_logs.open(at) } else { Ok(AuditLog::disabled()) }
    }

    /// Reads the profiles. They are read for each new node, so that edits take effect.
    pub fn profiles(&self) -> LoadedProfiles {
        let loaded = LoadedProfiles::from_folder(self.shared.config.profile_dir.as_deref());
        for message in loaded.errors.iter().cloned() {
            tracing::warn!("{message}");
            self.shared.events.publish(None, EventKind::machine_failure(message));
        }
        loaded
    }

    /// Returns the publisher of the nodes' events.
    pub fn events(&self) -> &Publisher {
        &self.shared.events
    }

    /// Returns the name of the server.
    pub fn server_name(&self) -> &str {
        &self.shared.config.server
    }

    /// Returns the folder of the histories.
    pub fn history_base_dir(&self) -> &Path {
        &self.shared.audit_logs.dir
    }

    /// Returns the registry of the panes of this server.
    pub fn panes(&self) -> &Panes {
        &self.shared.config.panes
    }

    /// Returns the manager of hosts, if nodes run in hosts.
    pub fn hosting(&self) -> Option<&HostManager> {
        self.shared.config.hosting.as_ref()
    }
}

/// Sets the profile's variables. If one of them is already set, sets none: a part of them can be worse than none (PS0 marks a
/// start, PROMPT_COMMAND its end).
fn add_profile_env(profile: &Profile, env: &mut Environment, server_env: &BTreeMap<String, String>) {
    let is_set = |name: &String| env.get(name, server_env).is_some();
    if !profile.env.keys().chain(&profile.env_unless).any(is_set) {
        env.set.extend(profile.env.clone());
    }
}

/// Creates the ledger of a node whose usage counts for no session.
fn own_ledger(spec: &NodeSpec, usage: LedgerUsage) -> UsageLedger {
    let record = LedgerRecord { limits: spec.budget, usage };
    UsageLedger::new("its session", built_in_pricing()).node(&spec.node_id, record)
}
