//! Finds the nodes that a graph expects from its session.

use std::collections::HashSet;

use super::super::source_map::{Path, Report};
use super::super::types::{GraphFile, NodeDefinition};
use super::nested_source_map;
use nerve_types::suggestion::nearest;

/// Reports the nodes of steps that neither the graph nor `outer`, the enclosing graphs, define.
pub(in super::super) fn find(file: &GraphFile, outer: &HashSet<&str>, report: &mut Report<'_>) {
    let is_graph = |definition: &NodeDefinition| matches!(definition, NodeDefinition::Graph(_));
    let known: HashSet<&str> = outer.iter().copied().chain(file.nodes.keys().map(String::as_str)).collect();
    let steps = Path::Root.key("steps");
    for (index, step) in file.steps.iter().enumerate() {
        let at = steps.index(index);
        let policy = at.key("error_policy");
        let fallback = step.error_policy.as_ref().and_then(|policy| policy.fallback_node.as_ref());
        let used = [(step.node.as_ref(), at.key("node")), (fallback, policy.key("fallback_node"))];
        for (node, at) in used {
            let Some(node) = node.filter(|node| !known.contains(node.as_str())) else { continue };
            let message = format!("step '{}' uses node '{node}', which the file does not define", step.id);
            let hint = match nearest(node, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "the session must have it".to_string(),
            };
            report.error_with_hint(at, message, hint);
        }
    }
    // A nested graph sees the nodes around it, but not the graphs.
    let visible = file.nodes.iter().filter(|(_, definition)| !is_graph(definition));
    let visible: HashSet<&str> =
        outer.iter().copied().chain(visible.map(|(name, _)| name.as_str())).collect();
    let nodes = Path::Root.key("nodes");
    for (name, definition) in &file.nodes {
        let NodeDefinition::Graph(node) = definition else { continue };
        let Some(graph) = &node.graph else { continue };
        let at = nodes.key(name);
        let source_map = nested_source_map(graph, report.source_map, at.key("graph"));
        let mut inner = Report::new(&source_map);
        find(graph, &visible, &mut inner);
        report.problems.append(inner.problems);
    }
}
