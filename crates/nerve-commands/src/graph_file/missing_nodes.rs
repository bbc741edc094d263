//! Finds nodes that steps name but that do not exist. They may be created during the run, or be misspelled.

use std::collections::BTreeSet;

use nerve_api::reply::SessionInfo;
use nerve_graph::file::{GraphFile, NodeDefinition};

use crate::out;

/// Warns about each node that is neither in the graph nor in its session.
pub fn warn(file: &GraphFile, session: &SessionInfo) {
    let known = session.nodes.iter().chain(&session.graphs).map(String::as_str).collect();
    for node in missing(file, &known) {
        out::warning(format_args!(
            "no node '{}' in the graph or the session; a run needs it",
            out::preview(node, 100)
        ));
    }
}

/// Returns the missing nodes of a graph and its nested graphs. `outer` are the names known outside the graph.
fn missing<'a>(file: &'a GraphFile, outer: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut known = outer.clone();
    known.extend(file.nodes.keys().map(String::as_str));
    let fallback = |step: &'a nerve_graph::file::StepDefinition| {
        step.error_policy.as_ref().and_then(|policy| policy.fallback_node.as_deref())
    };
    let referenced =
        file.steps.iter().flat_map(|step| step.node.as_deref().into_iter().chain(fallback(step)));
    let mut missing: BTreeSet<&str> = referenced.filter(|node| !known.contains(node)).collect();
    for node in file.nodes.values() {
        if let NodeDefinition::Graph(node) = node
            && let Some(inner) = &node.graph
        {
            missing.append(&mut self::missing(inner, &known));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_nested_graphs_and_session() {
        let text = "graph: g\nnodes:\n  a: {type: bash}\n  n:\n    type: graph\n    graph: {graph: i, steps: [{id: s, node: a}, \
            {id: t, node: deep, depends_on: [s]}]}\nsteps:\n  - {id: s, node: a}\n  - {id: t, node: here}\n  - {id: u, node: n}\n  \
            - {id: v, node: gone, error_policy: {on_error: fallback, fallback_node: other}}\n";
        let file = GraphFile::from_yaml(text, "g.yaml").unwrap_or_else(|error| panic!("{error}"));
        let known = BTreeSet::from(["here"]);
        assert_eq!(missing(&file, &known).into_iter().collect::<Vec<_>>(), ["deep", "gone", "other"]);
    }
}
