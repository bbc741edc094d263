//! Removes secrets from graph definitions before they are stored: the values of variables that look secret. A resumed run takes
//! them from its server's environment.

use serde_json::Value;

use crate::session::store::is_secret;

/// Removes the secret values of all nodes, also in nested graphs.
pub fn without_secrets(mut definition: Value) -> Value {
    let mut graphs = vec![&mut definition];
    while let Some(graph) = graphs.pop() {
        let nodes = graph.get_mut("nodes").and_then(Value::as_object_mut);
        for (_, node) in nodes.into_iter().flatten() {
            redact_node(node);
            graphs.extend(node.get_mut("graph"));
        }
    }
    definition
}

/// Removes the secret values of one node.
pub(super) fn redact_node(node: &mut Value) {
    if let Some(env) = node.get_mut("env").and_then(Value::as_object_mut) {
        env.retain(|name, value| !is_secret(name, value.as_str().unwrap_or_default()));
    }
}
