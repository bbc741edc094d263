//! `nerve ls --all-machines`: the nodes of this machine and of all others in one list.

use std::time::Duration;

use anyhow::Result;
use nerve_api::reply::NodeInfo;
use nerve_machine::Machines;
use nerve_machine::connect::MachineReply;
use nerve_machine::machine::LOCAL;
use serde_json::{Value, json};

use super::all_nodes::{NamedServer, ServerNodes, as_value, list, list_all};
use super::list::{COLUMNS, STATE, format_row, print_rows};
use crate::machine_command::{format_contact, reply_json};

/// Time limit for a machine's list, which includes the connection.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(5);
/// Columns that precede [`COLUMNS`].
const LOCATION_COLUMNS: [&str; 3] = ["machine", "server", "session"];

/// Prints the nodes of the servers on this machine and of all machines in the list, which are queried in parallel. A machine that does
/// not reply has a row with the reason. `session`: prints only nodes of sessions with this name.
///
/// # Errors
/// The list of machines is damaged, or standard output cannot be written.
pub async fn print(
    machines: &Machines,
    servers: &[NamedServer],
    session: Option<&str>,
    is_json: bool,
) -> Result<()> {
    let others = machines.query_all(MACHINE_TIMEOUT, |machine, client| async move {
        list(machine.server_name(), &client, session).await
    });
    let (here, others) = tokio::join!(list_all(servers, session), others);
    let (others, error) = match others {
        Ok(others) => (others, None),
        // The nodes of this machine do not depend on the list.
        Err(error) => (Vec::new(), Some(error)),
    };
    match is_json {
        true => print_json(&here, &others)?,
        false => print_table(&here, &others)?,
    }
    error.map_or(Ok(()), |error| Err(error.into()))
}

fn print_table(here: &[ServerNodes], others: &[MachineReply<ServerNodes>]) -> Result<()> {
    let mut rows: Vec<Vec<String>> = here.iter().flat_map(|server| server_rows(LOCAL, server)).collect();
    for reply in others {
        match &reply.outcome {
            Ok(server) => rows.extend(server_rows(&reply.machine.name, server)),
            Err(_) => rows.push(unreachable_row(reply)),
        }
    }
    print_rows(&[&LOCATION_COLUMNS[..], &COLUMNS].concat(), rows)
}

fn server_rows(machine: &str, nodes: &ServerNodes) -> Vec<Vec<String>> {
    let row = |node: &NodeInfo| {
        let server = nodes.server.clone().unwrap_or_default();
        let location = vec![machine.to_string(), server, node.metadata.session_id.clone()];
        [location, format_row(node)].concat()
    };
    nodes.running.iter().chain(&nodes.stopped).map(row).collect()
}

/// Returns the row of a machine that did not reply: since when, and why.
fn unreachable_row(reply: &MachineReply<ServerNodes>) -> Vec<String> {
    let mut row = vec![String::new(); LOCATION_COLUMNS.len() + COLUMNS.len()];
    row[0].clone_from(&reply.machine.name);
    let reason = reply.outcome.as_ref().err().map(|error| error.message.as_str()).unwrap_or_default();
    row[LOCATION_COLUMNS.len() + STATE] =
        format!("unreachable, {}: {reason}", format_contact(reply.last_contact));
    row
}

fn print_json(here: &[ServerNodes], others: &[MachineReply<ServerNodes>]) -> Result<()> {
    let listed =
        others.iter().filter_map(|reply| Some((reply.machine.name.as_str(), reply.outcome.as_ref().ok()?)));
    let all: Vec<(&str, &ServerNodes)> = here.iter().map(|server| (LOCAL, server)).chain(listed).collect();
    let collect = |pick: fn(&ServerNodes) -> &Vec<NodeInfo>| -> Result<Vec<Value>> {
        let mut values = Vec::new();
        for (machine, server) in &all {
            for node in pick(server) {
                let mut value = as_value(server.server.as_deref(), node)?;
                value["machine_name"] = (*machine).into();
                values.push(value);
            }
        }
        Ok(values)
    };
    let (running, stopped) = (collect(|server| &server.running)?, collect(|server| &server.stopped)?);
    let machines: Vec<Value> = others.iter().map(reply_json).collect();
    crate::out::json(&json!({ "machines": machines, "nodes_info": running, "stopped": stopped }))
}
