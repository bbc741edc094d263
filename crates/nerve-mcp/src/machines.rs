//! Nodes of other machines: tools take `MACHINE/SESSION/NODE`, and the list of nodes includes those of all machines.

use std::time::Duration;

use nerve_api::reply::NodeInfo;
use nerve_machine::connect::{CONNECT_TIMEOUT, MachineReply};
use nerve_machine::{MachineError, Machines};
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::link::{ConnectError, Link};
use crate::tool_result::Failure;

/// Time limit for a machine's list, which includes the connection.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Arguments that name a node.
const NODE_ARGUMENTS: [&str; 2] = ["node_id", "source_id"];

/// Replaces a long address in the arguments of a call by the node and its session. Returns the link to the server of the machine;
/// `None` for a node of this one.
///
/// # Errors
/// The machine is not in the list, or the arguments name another session.
pub(crate) fn resolve(machines: &Machines, arguments: &mut JsonObject) -> Result<Option<Link>, Failure> {
    let node = NODE_ARGUMENTS.iter().find_map(|name| Some((*name, arguments.get(*name)?.as_str()?)));
    let Some((argument, mut node)) = node.map(|(name, node)| (name, node.to_string())) else {
        return Ok(None);
    };
    let given = node.clone();
    let mut server = String::new();
    machines.resolve_node(&mut node, &mut server).map_err(failure)?;
    let Some((session, name)) = node.split_once('/').filter(|_| node != given) else { return Ok(None) };
    if arguments.get("session").and_then(Value::as_str).is_some_and(|other| other != session) {
        let message = format!("{argument} '{given}' is not in the session of the arguments");
        return Err(Failure::new("invalid_arguments", message).hint("omit 'session'"));
    }
    arguments.insert("session".to_string(), session.into());
    arguments.insert(argument.to_string(), name.into());
    let Some(machine) = machines.find_server(&server).map_err(failure)? else { return Ok(None) };
    let machines = machines.clone();
    Ok(Some(Link::connecting(move || {
        let (machines, machine) = (machines.clone(), machine.clone());
        async move {
            let connected = machines.connect(&machine, CONNECT_TIMEOUT).await;
            connected.map_err(|error| ConnectError { message: error.message, hint: error.hint })
        }
    })))
}

/// Lists the nodes of all machines. A machine that does not reply is an entry with the reason.
///
/// # Errors
/// The list of machines is damaged.
pub(crate) async fn list_nodes(machines: &Machines) -> Result<Vec<MachineReply<Vec<NodeInfo>>>, Failure> {
    let machines = machines.clone();
    // The requests to several machines are one task, which stays on its thread.
    let listed = tokio::task::spawn_blocking(move || {
        let query =
            machines.query_all(LIST_TIMEOUT, |_, client| async move { client.list_all_nodes().await });
        Handle::current().block_on(query)
    });
    let listed = listed.await.map_err(|error| Failure::new("internal_error", error.to_string()))?;
    listed.map_err(failure)
}

fn failure(error: MachineError) -> Failure {
    let failure = Failure::new(error.kind, error.message);
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use nerve_machine::Machine;
    use serde_json::json;

    use super::*;

    #[test]
    fn long_address_becomes_node_and_session() {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machines::new(folder.path(), folder.path());
        machines.add(Machine { name: "work".to_string(), ..Machine::unnamed("ssh://h") }).unwrap();
        let resolve = |arguments: Value| {
            let Value::Object(mut arguments) = arguments else { panic!("no object") };
            let link = resolve(&machines, &mut arguments);
            link.map(|link| (link.is_some(), Value::Object(arguments))).map_err(|failure| failure.error_type)
        };
        let same = json!({ "node_id": "me", "session": "night" });
        assert_eq!(resolve(same.clone()).ok(), Some((false, same)));
        assert_eq!(resolve(json!({})).ok(), Some((false, json!({}))));
        let here = json!({ "node_id": "me", "session": "night" });
        assert_eq!(resolve(json!({ "node_id": "work/night/me" })).ok(), Some((true, here.clone())));
        assert_eq!(resolve(json!({ "node_id": "local/night/me" })).ok(), Some((false, here)));
        let forked = json!({ "source_id": "me", "session": "night" });
        assert_eq!(resolve(json!({ "source_id": "work/night/me" })).ok(), Some((true, forked)));
        let other = json!({ "node_id": "work/night/me", "session": "day" });
        assert_eq!(resolve(other).err(), Some("invalid_arguments"));
        assert_eq!(resolve(json!({ "node_id": "home/night/me" })).err(), Some("not_found_error"));
    }
}
