//! What of a graph file is not for the disk: the values of variables whose names look secret. A run that is resumed has them from its
//! server's environment.

use serde_json::Value;

use crate::session::store::is_secret;

/// Takes secret values out, in nested graphs too.
pub(crate) fn without_secrets(mut definition: Value) -> Value {
    let mut graphs = vec![&mut definition];
    while let Some(graph) = graphs.pop() {
        let nodes = graph.get_mut("nodes").and_then(Value::as_object_mut);
        for (_, node) in nodes.into_iter().flatten() {
            forget(node);
            graphs.extend(node.get_mut("graph"));
        }
    }
    definition
}

/// Takes the secret values of one node out.
pub(super) fn forget(node: &mut Value) {
    if let Some(env) = node.get_mut("env").and_then(Value::as_object_mut) {
        env.retain(|name, _| !is_secret(name));
    }
}
