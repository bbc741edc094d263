//! The nodes of a graph.

use nerve_record::name;

use super::super::source_map::{Path, Report};
use super::super::suggestion::near;
use super::super::types::{
    ChatDefinition, CommandDefinition, GraphFile, NestedDefinition, NodeDefinition, TerminalDefinition,
};
use super::{limits, origin_of};

pub(super) fn check(file: &GraphFile, report: &mut Report<'_>) {
    let nodes = Path::Root.key("nodes");
    for (name, definition) in &file.nodes {
        if let Err(error) = name::check("node", name) {
            report.say(nodes.name(name), error.to_string());
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
            NodeDefinition::Bash(node) => {
                limits::seconds(node.timeout, at.key("timeout"), report);
                env(node.env.keys(), at, report);
            }
            // Its names are checked with those of the steps.
            NodeDefinition::Template(_) => {}
            NodeDefinition::Graph(node) => nested(node, at, report),
        }
    }
}

fn terminal(node: &TerminalDefinition, at: Path<'_>, report: &mut Report<'_>) {
    limits::seconds(node.ready_timeout, at.key("ready_timeout"), report);
    limits::seconds(node.response_timeout, at.key("response_timeout"), report);
    env(node.env.keys(), at, report);
    for (field, size) in [("cols", node.cols), ("rows", node.rows)] {
        if size == Some(0) {
            report.say(at.key(field), format!("a terminal has at least 1 of {field}"));
        }
    }
    let command = at.key("command");
    match &node.command {
        Some(CommandDefinition::Text(text)) => match shell_words::split(text) {
            Ok(words) if words.is_empty() => report.say(command, "the command is empty"),
            Ok(_) => {}
            Err(_) => report.say(command, "a quote in the command is not closed"),
        },
        Some(CommandDefinition::Words(words)) if words.first().is_none_or(String::is_empty) => {
            report.say(command, "the command is empty");
        }
        _ => {}
    }
    if node.pane.is_some() {
        pane(node, at, report);
    }
    if let Some(proxy) = &node.proxy {
        super::super::proxy::check(proxy, at.key("proxy"), report);
    }
}

/// What is meant for a new pane means nothing to one that is there.
fn pane(node: &TerminalDefinition, at: Path<'_>, report: &mut Report<'_>) {
    let given = [
        ("command", node.command.is_some()),
        ("cwd", node.cwd.is_some()),
        ("env", !node.env.is_empty()),
        ("tmux_session", node.tmux_session.is_some()),
        ("proxy", node.proxy.is_some()),
    ];
    for (field, _) in given.into_iter().filter(|(_, given)| *given) {
        let message = format!("`{field}` is for a new pane; with `pane` it is one that is there already");
        report.advise(at.key(field), message, "keep one of them");
    }
}

/// Nodes for Claude Code run just that (seed channel-history §5.7).
fn claude(node: &TerminalDefinition, at: Path<'_>, report: &mut Report<'_>) {
    let is_claude = match &node.command {
        None => true,
        Some(CommandDefinition::Text(text)) => {
            text.trim().is_empty() || text.to_lowercase().contains("claude")
        }
        Some(CommandDefinition::Words(words)) => {
            words.is_empty() || words.iter().any(|word| word.to_lowercase().contains("claude"))
        }
    };
    if !is_claude {
        let hint = "other programs have the same type without `claude`: pty, tmux, wezterm";
        report.advise(at.key("command"), "the command of a node for Claude Code must contain 'claude'", hint);
    }
}

fn chat(node: &ChatDefinition, file: &GraphFile, at: Path<'_>, report: &mut Report<'_>) {
    limits::seconds(node.response_timeout, at.key("response_timeout"), report);
    env(node.env.keys(), at, report);
    let mut known = true;
    for (index, name) in node.tools.iter().enumerate() {
        known &= tool(name, file, at.key("tools").index(index), report);
    }
    // Of tools that are not there more would be said.
    let Some(error) = node.spec().check().err().filter(|_| known) else { return };
    let message = error.message.replace("chat.", "");
    let field = match error.message.strip_prefix("chat.") {
        Some(rest) => rest.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next().unwrap_or_default(),
        None => "model",
    };
    match error.hint {
        Some(hint) => report.advise(at.key(field), message, hint.replace("chat.", "")),
        None => report.say(at.key(field), message),
    }
}

/// A model uses nodes of its own graph, and only those that a command or a prompt can be given to. `false`: this is none.
fn tool(name: &str, file: &GraphFile, at: Path<'_>, report: &mut Report<'_>) -> bool {
    match file.nodes.get(name) {
        Some(node) if node.terminal().is_some() || matches!(node, NodeDefinition::Bash(_)) => return true,
        Some(node) => {
            let message = format!("node '{name}' cannot be a tool: it is of type {}", node.type_name());
            report.advise(at, message, "a model can use terminals and bash");
        }
        None => {
            let message = format!("there is no node '{name}' in this graph");
            let hint = match near(name, file.nodes.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "a model uses nodes of its own graph: put it under `nodes`".to_string(),
            };
            report.advise(at, message, hint);
        }
    }
    false
}

fn env<'a>(names: impl Iterator<Item = &'a String>, at: Path<'_>, report: &mut Report<'_>) {
    for name in names.filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
        report.say(at.key("env").name(name), "the name of a variable cannot be empty or have `=` in it");
    }
}

fn nested(node: &NestedDefinition, at: Path<'_>, report: &mut Report<'_>) {
    match (&node.file, &node.graph) {
        (Some(_), Some(_)) => report.say(at.key("file"), "a graph node has a file or a graph: keep one"),
        (None, None) => report.say(at, "a graph node needs `file` or `graph`"),
        (Some(_), None) => {
            report.advise(at.key("file"), "files are not read here", "put the graph itself under `graph`");
        }
        (None, Some(graph)) => {
            let origin = origin_of(graph, report.origin, at.key("graph"));
            let mut inner = Report::new(&origin);
            super::check(graph, &mut inner);
            report.problems.append(inner.problems);
        }
    }
}
