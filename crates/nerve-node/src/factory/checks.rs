//! Checks of requests for nodes.

use std::path::Path;

use nerve_agent::profile::Profile;
use nerve_api::request::{NodeRef, NodeSpec, UsageLimits};
use nerve_api::value::BackendKind;
use nerve_host::backend::SpawnError;
use nerve_types::files::read_text;

use super::command::is_empty;
use super::errors::start_error;
use crate::error::EngineError;
use crate::names::check_name;

/// Maximum size of a settings file that is read, in bytes.
const SETTINGS_LIMIT: u64 = 1 << 20;

/// Checks the request for a terminal node.
pub(super) fn check_terminal(node: &NodeRef, spec: &NodeSpec) -> Result<(), EngineError> {
    check_name(&node.node, "node")?;
    check_cwd(node, spec.cwd.as_deref())?;
    if !spec.backend.has_terminal() {
        let backend = spec.backend.as_str();
        return Err(EngineError::invalid_request(format!("a {backend} node has no terminal")));
    }
    check_pane(spec)
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

/// Checks that the agent draws the screen that its profile describes. Reads the agent's settings files.
///
/// # Errors
/// InvalidRequest: an argument, a variable or a setting selects another screen.
pub(super) fn check_options<'a>(
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

fn check_cwd(node: &NodeRef, cwd: Option<&Path>) -> Result<(), EngineError> {
    match cwd.filter(|cwd| !cwd.is_dir()) {
        Some(cwd) => Err(start_error(node, &SpawnError::NoDirectory(cwd.to_path_buf()))),
        None => Ok(()),
    }
}
