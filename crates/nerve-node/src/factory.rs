//! Creates nodes without registering them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_agent::parse::ParserKind;
use nerve_agent::profile::Profile;
use nerve_api::event::EventKind;
use nerve_api::request::{CommandLine, NodeRef, NodeSpec, UsageLimits};
use nerve_api::value::BackendKind;
use nerve_host::backend::{Program, SpawnError};
use nerve_host::clock::Clock;
use nerve_host::environment::{self, Environment};
use nerve_host::manager::{HostManager, Label};
use nerve_mux::pane::{PanePlace, Panes};
use nerve_types::files::read_text;
use nerve_types::name::DEFAULT_SERVER;

use super::launch::Launch;
use super::{NodeFuture, NodeHandle};
use crate::agent_version;
use crate::audit_log::AuditLogs;
use crate::bash::BashNode;
use crate::chat::ChatNode;
use crate::chat::setup::Setup;
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::fork::identify;
use crate::names::check_name;
use crate::profiles::LoadedProfiles;
use crate::proxy::{NodeProxy, Proxies, ProxyLaunch, ProxySettings, StoredProxy};
use crate::terminal::{AuditLog, TerminalNode, TerminalSpec};
use crate::usage_ledger::{LedgerRecord, LedgerUsage, UsageLedger, built_in_pricing};

/// Starts a node for an agent that speaks the Agent Client Protocol, in a crate above this one. The ledger counts the node's usage.
pub type AcpStarter = fn(NodeFactory, NodeSpec, UsageLedger) -> NodeFuture<'static, NodeHandle>;

/// Creates nodes of all kinds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeFactory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    audit_logs: AuditLogs,
    profile_dir: Option<PathBuf>,
    hook_relay: Option<PathBuf>,
    hosting: Option<HostManager>,
    panes: Panes,
    proxies: Proxies,
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
        let history_dir = config.history_dir.unwrap_or_else(|| PathBuf::from(".nerve/history"));
        let audit_logs = AuditLogs {
            // Relative folders refer to the current directory of now, not of when a node is created.
            dir: std::path::absolute(&history_dir).unwrap_or(history_dir),
            server: config.server.clone(),
            events: events.clone(),
        };
        let shared = Shared {
            server: config.server,
            audit_logs,
            profile_dir: config.profile_dir,
            hook_relay: config.hook_relay,
            hosting: config.hosting,
            panes: config.panes,
            proxies: config.proxies,
            events,
            clock,
            acp,
        };
        NodeFactory { shared: Arc::new(shared) }
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

    async fn start_terminal(&self, spec: NodeSpec, ledger: UsageLedger) -> Result<TerminalNode, EngineError> {
        let shared = &self.shared;
        let at = spec.node_ref();
        let node = at.with_session();
        check_terminal(&node, &spec)?;
        let multiplexer = spec.backend.multiplexer();
        if multiplexer.is_some() && spec.pane_id.is_none() && shared.hosting.is_none() {
            return Err(no_hosts_error(&node, spec.backend));
        }
        let (size, pane) = (spec.size(), spec.pane_id.clone());
        let server_env = environment::read_variables();
        // The label stores HOME with its value.
        let env_names: Vec<String> = spec.env.keys().filter(|name| *name != "HOME").cloned().collect();
        let mut env = Environment::new(spec.shell_env.as_ref(), spec.env, &server_env);
        let shell = env.get("SHELL", &server_env).cloned();
        let mut argv = program_argv(spec.backend, spec.command.unwrap_or_default(), shell)?;
        let profile = self.find_profile(spec.backend, spec.profile.as_deref(), &argv)?;
        env.remove_all(&profile.env_remove);
        let conversation_id = match pane {
            // The program in an existing pane was not started by nerve.
            Some(_) => spec.conversation_id,
            None => identify(&profile, &mut argv, spec.conversation_id)?,
        };
        let agent_version = match pane {
            Some(_) => None,
            None => {
                if !spec.force {
                    let variable = |name: &str| env.get(name, &server_env);
                    check_options(&node, &profile, &argv, spec.cwd.as_deref(), variable)?;
                }
                let Environment { set, remove, .. } = env.clone();
                let program =
                    Program { argv: argv.clone(), cwd: spec.cwd.clone(), env: set, env_remove: remove };
                let checked = agent_version::check(&profile, &program, spec.force).await;
                checked.map_err(|error| not_started_error(&node, error))?
            }
        };
        let audit_log = self.audit_log(&at, spec.history)?;
        // The proxy comes after all other checks, because it listens from here on.
        let proxy = match spec.proxy {
            Some(proxy) => {
                let launch = self.proxy_launch(&node);
                Some(self.start_proxy(launch, *proxy, pane.as_deref(), &profile, &mut env, &server_env)?)
            }
            None => None,
        };
        add_profile_env(&profile, &mut env, &server_env);
        let parser: ParserKind = spec.parser.unwrap_or(profile.parser);
        let program = Program { argv, cwd: spec.cwd, env: env.set, env_remove: env.remove };
        let terminal = TerminalSpec {
            node: node.clone(),
            program,
            size,
            profile,
            parser,
            ready_timeout: spec.ready_timeout.duration(),
            response_timeout: spec.response_timeout.duration(),
            audit_log,
            adopted: None,
            answers: pane.is_none(),
            events: shared.events.clone(),
            kind: spec.backend,
            log_start: spec.backend.is_claude(),
            conversation_id,
            agent_version,
            proxy: proxy.clone(),
            ledger,
        };
        let label = label(&shared.server, &at, spec.history, env_names, &terminal);
        let (relay, now) = (shared.hook_relay.as_deref(), shared.clock.now());
        let launch = Launch { panes: &shared.panes, label: &label, relay, record: spec.record, now };
        let terminal = match (&pane, multiplexer, &shared.hosting) {
            (Some(pane), Some(multiplexer), _) => {
                launch.attach(terminal, multiplexer, pane, spec.socket.as_deref()).await
            }
            (_, _, Some(hosting)) => {
                let place = PanePlace { split: None, session: spec.tmux_session, socket: spec.socket };
                let window = multiplexer.map(|multiplexer| (multiplexer, place));
                launch.start_in_host(hosting, terminal, window).await
            }
            (_, _, None) => TerminalNode::start(terminal, relay, Vec::new()),
        };
        if let (Err(_), Some(proxy)) = (&terminal, &proxy) {
            proxy.end().await;
        }
        terminal.map_err(|error| start_error(&node, &error))
    }

    fn start_proxy(
        &self,
        launch: ProxyLaunch<'_>,
        spec: ProxySettings,
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
        NodeProxy::start(launch, spec, profile, env, server_env).map_err(with_node_name)
    }

    /// Removes the stored state of all proxies except these.
    pub fn prune_proxies(&self, ids: &[String]) {
        if let Some(folder) = &self.shared.proxies.folder {
            StoredProxy::prune(folder, &self.shared.server, ids);
        }
    }

    /// Returns the launch settings of a node's proxy.
    pub fn proxy_launch<'a>(&'a self, node: &'a NodeRef) -> ProxyLaunch<'a> {
        ProxyLaunch { proxies: &self.shared.proxies, server: &self.shared.server, node }
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
        let loaded = LoadedProfiles::from_folder(self.shared.profile_dir.as_deref());
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
        &self.shared.server
    }

    /// Returns the folder of the histories.
    pub fn history_base_dir(&self) -> &Path {
        &self.shared.audit_logs.dir
    }

    /// Returns the registry of the panes of this server.
    pub fn panes(&self) -> &Panes {
        &self.shared.panes
    }

    /// Returns the manager of hosts, if nodes run in hosts.
    pub fn hosting(&self) -> Option<&HostManager> {
        self.shared.hosting.as_ref()
    }
}

fn not_started_error(node: &NodeRef, error: EngineError) -> EngineError {
    error.in_context(format_args!("node '{}' was not started", node.node))
}

/// Maximum size of a settings file that is read, in bytes.
const SETTINGS_LIMIT: u64 = 1 << 20;

/// Checks that the agent draws the screen that its profile describes. Reads the agent's settings files.
///
/// # Errors
/// InvalidRequest: an argument, a variable or a setting selects another screen.
fn check_options<'a>(
    node: &NodeRef,
    profile: &'a Profile,
    argv: &[String],
    cwd: Option<&Path>,
    env: impl Fn(&str) -> Option<&'a String>,
) -> Result<(), EngineError> {
    let env = |name: &str| env(name).map(String::as_str);
    let read = |path: &Path| {
        let path = cwd.map_or_else(|| path.to_path_buf(), |cwd| cwd.join(path));
        // A pipe is not read: its contents are for the agent.
        read_text(&path, SETTINGS_LIMIT).ok()
    };
    let option = profile.unsupported_option(argv, env).map(str::to_string);
    let setting = || profile.unsupported_setting(argv, env, read).map(|setting| setting.to_string());
    let Some(option) = option.or_else(setting) else { return Ok(()) };
    let (node, profile) = (&node.node, &profile.name);
    let message = format!(
        "node '{node}' was not started: with {option}, {profile} draws a screen that its profile does not describe"
    );
    let hint = format!("omit {option}, or add `--force` to start it anyway");
    Err(EngineError::invalid_request(message).hint(hint))
}

/// Sets the profile's variables. If one of them is already set, sets none: a part of them can be worse than none (PS0 marks a
/// start, PROMPT_COMMAND its end).
fn add_profile_env(profile: &Profile, env: &mut Environment, server_env: &BTreeMap<String, String>) {
    let is_set = |name: &String| env.get(name, server_env).is_some();
    if !profile.env.keys().chain(&profile.env_unless).any(is_set) {
        env.set.extend(profile.env.clone());
    }
}

/// Returns the label by which a later server recognizes and adopts the node. `env`: names of its variables.
fn label(server: &str, node: &NodeRef, history: bool, env: Vec<String>, terminal: &TerminalSpec) -> Label {
    let proxy = terminal.proxy.as_ref();
    Label {
        kind: terminal.kind.to_string(),
        server: server.to_string(),
        session: node.session.clone(),
        node: node.node.clone(),
        argv: terminal.program.argv.clone(),
        env_home: terminal.program.env.get("HOME").cloned(),
        profile: terminal.profile.name.clone(),
        parser: terminal.parser.to_string(),
        agent_version: terminal.agent_version.clone(),
        ready_timeout: terminal.ready_timeout,
        response_timeout: terminal.response_timeout,
        history,
        env,
        proxy_kind: proxy
            .and_then(|proxy| proxy.settings())
            .map(|settings| settings.kind.as_str().to_string()),
        proxy: proxy.map(|proxy| proxy.id().to_string()),
    }
}

fn check_cwd(node: &NodeRef, cwd: Option<&Path>) -> Result<(), EngineError> {
    match cwd.filter(|cwd| !cwd.is_dir()) {
        Some(cwd) => Err(start_error(node, &SpawnError::NoDirectory(cwd.to_path_buf()))),
        None => Ok(()),
    }
}

/// Creates the ledger of a node whose usage counts for no session.
fn own_ledger(spec: &NodeSpec, usage: LedgerUsage) -> UsageLedger {
    let record = LedgerRecord { limits: spec.budget, usage };
    UsageLedger::new("its session", built_in_pricing()).node(&spec.node_id, record)
}

/// Checks the request for a node without a terminal. Returns the node with its session.
///
/// # Errors
/// InvalidRequest; Process: no such folder.
pub fn check_without_terminal(spec: &NodeSpec) -> Result<NodeRef, EngineError> {
    let at = spec.node_ref().with_session();
    check_name(&at.node, "node")?;
    check_cwd(&at, spec.cwd.as_deref())?;
    let (node, backend) = (&spec.node_id, spec.backend.as_str());
    if spec.proxy.is_some() {
        let message = format!("node '{node}' was not started: a {backend} node cannot have a proxy");
        return Err(EngineError::invalid_request(message).hint("only Claude Code nodes support a proxy"));
    }
    if spec.backend == BackendKind::Bash {
        check_command_budget(node, spec.budget.as_ref())?;
    }
    Ok(at)
}

/// Checks the budget of a node that runs commands.
///
/// # Errors
/// InvalidRequest: commands have no tokens and no cost.
pub fn check_command_budget(node: &str, budget: Option<&UsageLimits>) -> Result<(), EngineError> {
    if budget.is_none_or(|limits| limits.max_tokens.is_none() && limits.max_cost_usd.is_none()) {
        return Ok(());
    }
    let message = format!("node '{node}' runs single commands, which have no tokens and no cost to limit");
    Err(EngineError::invalid_request(message)
        .hint("limit its working time with `--budget-time` (max_time_ms)"))
}

/// Checks the pane. An existing pane already runs its program, so it takes no command.
fn check_pane(spec: &NodeSpec) -> Result<(), EngineError> {
    let refused =
        |message: String, hint: &str| Err(EngineError::invalid_request(message).hint(hint.to_string()));
    match &spec.pane_id {
        Some(pane) if spec.backend.multiplexer().is_none() => {
            refused(format!("a pty node cannot use pane '{pane}'"), "use backend tmux or wezterm")
        }
        Some(pane) if pane.trim().is_empty() => {
            // tmux would use the active pane.
            refused("the name of the pane is empty".into(), "`nerve tmux list` lists the panes")
        }
        Some(pane) if !spec.command.as_ref().is_none_or(is_empty) => refused(
            format!("pane '{pane}' already runs its program and cannot be given a command"),
            "leave out the command or the pane; the profile describes the program in the pane",
        ),
        _ => Ok(()),
    }
}

/// Checks the request for a terminal node.
fn check_terminal(node: &NodeRef, spec: &NodeSpec) -> Result<(), EngineError> {
    check_name(&node.node, "node")?;
    check_cwd(node, spec.cwd.as_deref())?;
    if !spec.backend.has_terminal() {
        let backend = spec.backend.as_str();
        return Err(EngineError::invalid_request(format!("a {backend} node has no terminal")));
    }
    check_pane(spec)
}

/// Returns the error for a new pane in an engine that cannot start host processes.
fn no_hosts_error(node: &NodeRef, backend: BackendKind) -> EngineError {
    let (node, backend) = (&node.node, backend.as_str());
    let message = format!(
        "node '{node}' was not started: a new {backend} pane needs a server, and this engine runs without one"
    );
    EngineError::invalid_request(message)
        .hint("create the node in a server (`nerve server start`), name an existing pane, or use backend pty")
}

fn is_empty(command: &CommandLine) -> bool {
    match command {
        CommandLine::Text(text) => text.trim().is_empty(),
        CommandLine::Argv(argv) => argv.is_empty(),
    }
}

/// Creates the error of a program that was not started.
pub fn start_error(node: &NodeRef, error: &SpawnError) -> EngineError {
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
        SpawnError::NoDirectory(_) => "create the directory, or name another one",
        SpawnError::NoPane(_) => "`nerve tmux list` and `nerve wezterm list` show the existing panes",
        _ => "nothing was started",
    };
    EngineError::new(kind, format!("node '{}' was not started: {error}", node.node)).hint(hint)
}

/// The name of Claude Code's profile, and of its program.
const CLAUDE: &str = "claude";

/// Returns the command to run. A node for Claude Code runs nothing else.
fn program_argv(
    backend: BackendKind,
    command: CommandLine,
    shell: Option<String>,
) -> Result<Vec<String>, EngineError> {
    if !backend.is_claude() {
        return split_command(command, shell);
    }
    if is_empty(&command) {
        return Ok(vec![CLAUDE.to_string()]);
    }
    let argv = split_command(command, shell)?;
    if argv.iter().any(|word| word.to_lowercase().contains(CLAUDE)) {
        return Ok(argv);
    }
    Err(EngineError::invalid_request(format!("Command must contain 'claude'. Got: {}", argv.join(" ")))
        .hint(format!("backend '{}' is for Claude Code; other backends run any program", backend.as_str())))
}

/// Splits a command like a shell, without running one. An empty command means `shell`, the user's.
///
/// # Errors
/// InvalidRequest: a quote is open.
pub fn split_command(command: CommandLine, shell: Option<String>) -> Result<Vec<String>, EngineError> {
    let argv = match command {
        CommandLine::Argv(argv) => argv,
        CommandLine::Text(text) => shell_words::split(&text).map_err(|error| {
            let message = format!("cannot split the command '{text}': {error}");
            EngineError::invalid_request(message).hint("close the quote, or give the command as a list")
        })?,
    };
    if argv.is_empty() {
        return Ok(vec![shell.unwrap_or_else(|| "/bin/sh".to_string())]);
    }
    Ok(argv)
}
