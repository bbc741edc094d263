//! The nodes of a graph.

use nerve_record::name;

use super::super::origin::{Path, Report};
use super::super::types::{
    CommandDefinition, GraphFile, NestedDefinition, NodeDefinition, TerminalDefinition,
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
            NodeDefinition::Claude(node) | NodeDefinition::Pty(node) => terminal(node, at, report),
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
