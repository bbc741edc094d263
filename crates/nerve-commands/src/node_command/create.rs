//! `node create`: creates a node.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use nerve_api::request::{ChatSettings, CommandLine, ConversationOptions, CreateNode, Seconds};
use nerve_api::value::BackendKind;
use nerve_record::executions::trace;

use super::CommandContext;
use super::args::CreateArgs;
use super::chat_args::ChatOptions;
use super::proxy_args::proxy_params;
use super::shell_env::shell_env;
use super::turn_args::ConversationArgs;
use crate::failure::{Failure, USAGE};
use crate::out;

/// Creates the node.
pub(super) async fn run(context: &CommandContext, args: CreateArgs) -> Result<()> {
    check_pane(&args)?;
    if args.command.is_some() && matches!(args.backend, BackendKind::Bash | BackendKind::Chat) {
        let message = format!("--command is for terminals: a {} node runs no program", args.backend);
        return Err(Failure::new(USAGE, message).hint("omit it, or use another backend").into());
    }
    // An existing pane keeps its working directory.
    let cwd = match args.pane.pane_id {
        Some(_) => None,
        None => Some(directory(args.cwd.as_deref())?),
    };
    let mut env: BTreeMap<String, String> = args.env.into_iter().map(|pair| (pair.key, pair.value)).collect();
    env.extend(trace_tools(args.trace_tools));
    // The program of an existing pane already has its environment.
    let shell_env = if args.pane.pane_id.is_some() { None } else { shell_env(&context.client) };
    let params = CreateNode {
        session_id: context.session.clone(),
        command: args.command.map(CommandLine::Text),
        backend: args.backend,
        cwd,
        pane_id: args.pane.pane_id,
        tmux_session: args.pane.tmux_session,
        socket: args.pane.socket,
        conversation_id: args.conversation_id,
        force: args.force,
        chat: chat_params(args.model, args.backend)?.map(Box::new),
        env,
        shell_env,
        cols: args.cols,
        rows: args.rows,
        profile: args.profile,
        parser: args.parser,
        history: !args.no_history,
        record: !args.no_record,
        ready_timeout: Seconds::from(args.ready_timeout.0),
        response_timeout: Seconds::from(args.response_timeout.0),
        conversation: conversation_params(args.conversation),
        budget: args.budget.limits()?,
        proxy: proxy_params(args.proxy)?,
        ..CreateNode::new(args.name)
    };
    context.request_and_print(&params, |_| out::line(format_args!("node '{}' created", params.node_id))).await
}

/// Returns the parameters of a chat node.
fn chat_params(args: ChatOptions, backend: BackendKind) -> Result<Option<ChatSettings>> {
    if backend != BackendKind::Chat {
        let Some(option) = args.first_set() else { return Ok(None) };
        let message = format!("{option} requires a chat node; this is a {} node", backend);
        return Err(Failure::new(USAGE, message).hint("use -b chat").into());
    }
    let Some(model) = args.model else {
        return Err(Failure::new(USAGE, "a chat node needs a model").hint("add --model MODEL").into());
    };
    let keep = args.keep.map(|path| path.into_os_string().into_string());
    let keep = keep.transpose().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))?;
    let default = ChatSettings::new(args.provider.unwrap_or_default(), model);
    Ok(Some(ChatSettings {
        base_url: args.base_url,
        api_key_env: args.api_key_env,
        system: args.system,
        tools: args.tools,
        max_tokens: args.max_tokens.unwrap_or(default.max_tokens),
        keep,
        ..default
    }))
}

/// Returns the conversation of the node's prompts.
fn conversation_params(args: ConversationArgs) -> Option<ConversationOptions> {
    let ConversationArgs { workspace, chat } = args;
    workspace.is_some().then(|| ConversationOptions { workspace, chat, ..ConversationOptions::default() })
}

/// Rejects pane options without a pane backend, and options for new panes with an existing pane.
fn check_pane(args: &CreateArgs) -> Result<(), Failure> {
    let is_tmux = matches!(args.backend, BackendKind::Tmux | BackendKind::ClaudeTmux);
    let is_wezterm = matches!(args.backend, BackendKind::Wezterm | BackendKind::ClaudeWezterm);
    let mismatch = |option: &str, place: &str, backends: &str| {
        let message = format!("{option} is for {place}: a {} node has none", args.backend);
        Failure::new(USAGE, message).hint(format!("use {backends}"))
    };
    let pane = &args.pane;
    for (option, is_set) in [("--pane-id", pane.pane_id.is_some()), ("--socket", pane.socket.is_some())] {
        if is_set && !(is_tmux || is_wezterm) {
            return Err(mismatch(option, "panes", "-b tmux, claude-tmux, wezterm or claude-wezterm"));
        }
    }
    if pane.tmux_session.is_some() && !is_tmux {
        return Err(mismatch("--tmux-session", "panes of tmux", "-b tmux or claude-tmux"));
    }
    let Some(id) = &pane.pane_id else { return Ok(()) };
    let new_pane_options = [
        ("--command", args.command.is_some(), "already runs a program"),
        ("--cwd", args.cwd.is_some(), "has its program's working directory"),
        ("--env", !args.env.is_empty(), "already has its environment"),
        ("--trace-tools", args.trace_tools, "was started without it"),
        ("--tmux-session", pane.tmux_session.is_some(), "is already in a session"),
        ("--proxy", args.proxy.proxy.is_some(), "already has its environment"),
    ];
    match new_pane_options.into_iter().find(|(_, is_set, _)| *is_set) {
        None => Ok(()),
        Some((option, _, reason)) => {
            let message = format!("{option} requires a new pane: pane {id} exists and {reason}");
            Err(Failure::new(USAGE, message).hint("omit one of them; --profile selects the agent profile"))
        }
    }
}

/// Returns the absolute working directory. Relative paths refer to the directory of this command, not of the server.
fn directory(cwd: Option<&Path>) -> Result<PathBuf> {
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let path = cwd.map_or(here.clone(), |cwd| here.join(cwd));
    // `..` would stay in lists, and in the id of an agent's project.
    let has_parents = path.components().any(|part| part == Component::ParentDir);
    let path = if has_parents { path.canonicalize().unwrap_or(path) } else { path };
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(path)
}

/// Returns the variable that enables tool tracing; `None` if not `enabled`.
pub fn trace_tools(enabled: bool) -> Option<(String, String)> {
    enabled.then(|| (trace::VARIABLE.to_string(), "1".to_string()))
}
