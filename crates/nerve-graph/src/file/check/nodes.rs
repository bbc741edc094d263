//! Checks the nodes of a graph.

use nerve_api::request::CommandLine;
use nerve_types::{Size, name};

use super::super::source_map::{Path, Report};
use super::super::types::{ChatDefinition, GraphFile, NestedDefinition, NodeDefinition, TerminalDefinition};
use super::{limits, nested_source_map};
use nerve_types::suggestion::nearest;

pub(super) fn check(file: &GraphFile, report: &mut Report<'_>) {
    let nodes = Path::Root.key("nodes");
    for (name, definition) in &file.nodes {
        if let Err(error) = name::check("node", name) {
            report.error(nodes.name(name), error.to_string());
        }
        let at = nodes.key(name);
        match definition {
            NodeDefinition::Claude(node)
            | NodeDefinition::ClaudeTmux(node)
            | NodeDefinition::ClaudeWezterm(node) => {
                terminal(node, at, report);
                claude(node, at, report);
            }
            NodeDefinition::Pty(node) | NodeDefinition::Tmux(node) | NodeDefinition::Wezterm(node) => {
                terminal(node, at, report);
            }
            NodeDefinition::Chat(node) => chat(node, file, at, report),
            NodeDefinition::Acp(node) => {
                limits::seconds(node.ready_timeout, at.key("ready_timeout"), report);
                limits::seconds(node.response_timeout, at.key("response_timeout"), report);
                env(node.env.keys(), at, report);
                command(&node.command, at.key("command"), report);
            }
            NodeDefinition::Bash(node) => {
                limits::seconds(node.timeout, at.key("timeout"), report);
                env(node.env.keys(), at, report);
            }
            // Its template is checked together with those of the steps.
            NodeDefinition::Template(_) => {}
            NodeDefinition::Graph(node) => nested(node, at, report),
        }
    }
}

fn terminal(node: &TerminalDefinition, at: Path<'_>, report: &mut Report<'_>) {
    limits::seconds(node.ready_timeout, at.key("ready_timeout"), report);
    limits::seconds(node.response_timeout, at.key("response_timeout"), report);
    env(node.env.keys(), at, report);
    for (field, size, max) in [("cols", node.cols, Size::MAX.cols), ("rows", node.rows, Size::MAX.rows)] {
        if size == Some(0) {
            report.error(at.key(field), format!("{field} must be at least 1"));
        }
        if size.is_some_and(|size| size > max) {
            report.error(at.key(field), format!("{field} must be at most {max}"));
        }
    }
    if let Some(line) = &node.command {
        command(line, at.key("command"), report);
    }
    if node.pane.is_some() {
        pane(node, at, report);
    }
    if let Some(proxy) = &node.proxy {
        super::super::proxy::check(proxy, at.key("proxy"), report);
    }
}

fn command(command: &CommandLine, at: Path<'_>, report: &mut Report<'_>) {
    match command {
        CommandLine::Text(text) => match shell_words::split(text) {
            Ok(words) if words.is_empty() => report.error(at, "the command is empty"),
            Ok(_) => {}
            Err(_) => report.error(at, "unclosed quote in the command"),
        },
        CommandLine::Argv(words) if words.first().is_none_or(String::is_empty) => {
            report.error(at, "the command is empty");
        }
        CommandLine::Argv(_) => {}
    }
}

/// Rejects settings of new panes for an existing pane.
fn pane(node: &TerminalDefinition, at: Path<'_>, report: &mut Report<'_>) {
    let fields = [
        ("command", node.command.is_some()),
        ("cwd", node.cwd.is_some()),
        ("env", !node.env.is_empty()),
        ("tmux_session", node.tmux_session.is_some()),
        ("proxy", node.proxy.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        let message = format!("`{field}` applies to new panes, but `pane` names an existing one");
        report.error_with_hint(at.key(field), message, "remove one of them");
    }
}

/// Checks that nodes for Claude Code run Claude Code.
fn claude(node: &TerminalDefinition, at: Path<'_>, report: &mut Report<'_>) {
    let is_claude = match &node.command {
        None => true,
        Some(CommandLine::Text(text)) => text.trim().is_empty() || text.to_lowercase().contains("claude"),
        Some(CommandLine::Argv(words)) => {
            words.is_empty() || words.iter().any(|word| word.to_lowercase().contains("claude"))
        }
    };
    if !is_claude {
        let hint = "for other programs use the type without `claude`: pty, tmux, wezterm";
        report.error_with_hint(
            at.key("command"),
            "the command of a node for Claude Code must contain 'claude'",
            hint,
        );
    }
}

fn chat(node: &ChatDefinition, file: &GraphFile, at: Path<'_>, report: &mut Report<'_>) {
    limits::seconds(node.response_timeout, at.key("response_timeout"), report);
    env(node.env.keys(), at, report);
    let mut known = true;
    for (index, name) in node.tools.iter().enumerate() {
        known &= tool(name, file, at.key("tools").index(index), report);
    }
    // Unknown tools would cause further, misleading messages.
    let Some(error) = nerve_node::chat::check(&node.settings()).err().filter(|_| known) else { return };
    let message = error.message.replace("chat.", "");
    let field = match error.message.strip_prefix("chat.") {
        Some(rest) => rest.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next().unwrap_or_default(),
        None => "model",
    };
    match error.hint {
        Some(hint) => report.error_with_hint(at.key(field), message, hint.replace("chat.", "")),
        None => report.error(at.key(field), message),
    }
}

/// Checks a tool of a model: a terminal, acp or bash node of the same graph. Returns false if there is no such node.
fn tool(name: &str, file: &GraphFile, at: Path<'_>, report: &mut Report<'_>) -> bool {
    match file.nodes.get(name) {
        Some(node)
            if node.terminal().is_some()
                || matches!(node, NodeDefinition::Acp(_) | NodeDefinition::Bash(_)) =>
        {
            return true;
        }
        Some(node) => {
            let message = format!("node '{name}' has type {}, which cannot be a tool", node.type_name());
            report.error_with_hint(at, message, "tools are terminals, acp and bash nodes");
        }
        None => {
            let message = format!("this graph has no node '{name}'");
            let hint = match nearest(name, file.nodes.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "tools must be nodes of the same graph: define it under `nodes`".to_string(),
            };
            report.error_with_hint(at, message, hint);
        }
    }
    false
}

fn env<'a>(names: impl Iterator<Item = &'a String>, at: Path<'_>, report: &mut Report<'_>) {
    for name in names.filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
        report.error(at.key("env").name(name), "the name of a variable must not be empty or contain `=`");
    }
}

fn nested(node: &NestedDefinition, at: Path<'_>, report: &mut Report<'_>) {
    match (&node.file, &node.graph) {
        (Some(_), Some(_)) => {
            report.error(at.key("file"), "a graph node has both `file` and `graph`: keep one")
        }
        (None, None) => report.error(at, "a graph node needs `file` or `graph`"),
        (Some(_), None) => {
            report.error_with_hint(
                at.key("file"),
                "files cannot be loaded here",
                "put the graph itself under `graph`",
            );
        }
        (None, Some(graph)) => {
            let source_map = nested_source_map(graph, report.source_map, at.key("graph"));
            let mut inner = Report::new(&source_map);
            inner.has_broken_steps = report.has_broken_steps;
            super::check(graph, &mut inner);
            report.problems.append(inner.problems);
        }
    }
}
