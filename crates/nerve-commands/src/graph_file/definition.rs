//! The definition of a graph, as it is sent to a server.

use anyhow::{Context, Result};
use nerve_graph::file::{GraphFile, NodeDefinition};
use serde_json::{Map, Value};

/// Returns the definition to send. Nodes without a working directory get the current one, because the server has another.
///
/// # Errors
/// The current directory cannot be found, or is not UTF-8.
pub fn definition(mut file: GraphFile) -> Result<Map<String, Value>> {
    let cwd = std::env::current_dir().context("cannot find the current directory")?;
    let cwd = cwd.to_str().with_context(|| format!("{} is not UTF-8", cwd.display()))?;
    set_default_cwd(&mut file, cwd);
    match file.to_value() {
        Value::Object(definition) => Ok(definition),
        _ => anyhow::bail!("a graph is an object"),
    }
}

fn set_default_cwd(file: &mut GraphFile, cwd: &str) {
    for node in file.nodes.values_mut() {
        if let Some(node_cwd) = node.cwd_mut() {
            node_cwd.get_or_insert_with(|| cwd.to_string());
        }
        if let NodeDefinition::Graph(node) = node
            && let Some(graph) = &mut node.graph
        {
            set_default_cwd(graph, cwd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_default_cwd_in_nested_graphs() {
        let text = "graph: g\nnodes:\n  a: {type: bash}\n  b: {type: bash, cwd: /b}\n  t: {type: template, template: x}\n  \
            n:\n    type: graph\n    graph: {graph: i, nodes: {c: {type: pty}}, steps: [{id: s, node: c}]}\n\
            steps: [{id: s, node: a, input: x}]\n";
        let file = GraphFile::from_yaml(text, "g.yaml").unwrap_or_else(|error| panic!("{error}"));
        let definition = Value::Object(definition(file).unwrap_or_else(|error| panic!("{error}")));
        let cwd = std::env::current_dir().map(|cwd| cwd.display().to_string()).unwrap_or_default();
        assert_eq!(definition["nodes"]["a"]["cwd"], cwd.as_str());
        assert_eq!(definition["nodes"]["b"]["cwd"], "/b");
        assert_eq!(definition["nodes"]["n"]["graph"]["nodes"]["c"]["cwd"], cwd.as_str());
    }
}
