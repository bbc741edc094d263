//! The output of `nerve cluster status`.

use anyhow::Result;
use nerve_commands::failure::{FAILED, Failure};
use nerve_commands::out;
use nerve_commands::run_display::format_duration;
use nerve_member::{MemberInfo, MemberState, MembershipStatus};
use serde_json::json;

/// Prints the members and the state of this machine. Fails unless this machine is a member.
pub(crate) fn print(status: &MembershipStatus, as_json: bool) -> Result<()> {
    if as_json {
        print_json(status)?;
    } else {
        print_members(status)?;
    }
    match &status.server {
        Some(server) if server.state == MemberState::Member => {
            if let Some(problem) = server.problem.as_ref().filter(|_| !as_json) {
                out::warning(problem);
            }
            Ok(())
        }
        Some(server) => {
            let problem = server.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
            let message = format!("this machine is not a member: it is {}{problem}", name(server.state));
            let hint = match server.state {
                MemberState::IdentityConflict => {
                    "another machine has a copy of this state directory: remove cluster/machine.json on one of them, then run 'nerve server restart' there"
                }
                MemberState::Joining if server.problem.is_none() => {
                    "the lease of its last process must end first: run 'nerve cluster status' again in a few seconds"
                }
                _ => "check the broker: nerve doctor",
            };
            Err(Failure::new(FAILED, message).hint(hint).into())
        }
        None => {
            let server = &status.config.server;
            let message = format!("this machine is not a member: its server '{server}' is not running");
            Err(Failure::new(FAILED, message).hint(format!("nerve server start --name {server}")).into())
        }
    }
}

fn print_json(status: &MembershipStatus) -> Result<()> {
    let error = status.members.as_ref().err();
    out::json(&json!({
        "cluster_name": status.config.cluster.to_string(),
        "machine_name": status.config.machine,
        "machine_id": status.machine_id,
        "server": status.server,
        "members": status.members.as_ref().ok().map(|list| &list.members),
        "unsupported": status.members.as_ref().map_or(0, |list| list.unsupported),
        "error": error.map(ToString::to_string),
        "hint": error.map(nerve_member::MemberError::hint),
    }))
}

fn print_members(status: &MembershipStatus) -> Result<()> {
    let known = status.server.as_ref().map(|server| &server.list.members);
    let (members, are_current) = match &status.members {
        Ok(list) => {
            if list.unsupported > 0 {
                out::warning(format_args!("{} members have a later version of nerve", list.unsupported));
            }
            for name in list.shared_names() {
                out::warning(format_args!(
                    "several members are named '{name}': 'on: {name}' runs on any of them"
                ));
            }
            (Some(&list.members), true)
        }
        Err(error) => {
            out::warning(error);
            out::hint(error.hint());
            (known, false)
        }
    };
    let Some(members) = members.filter(|members| !members.is_empty()) else {
        out::note("no members known");
        return Ok(());
    };
    if !are_current {
        out::note("the last members that the server saw:");
    }
    let row = |member: &MemberInfo| {
        let age = |ms: u64| if are_current { format_duration(ms as f64 / 1_000.0) } else { String::new() };
        let is_own = Some(member.machine_id) == status.machine_id;
        let id = member.machine_id.to_string();
        vec![
            member.machine_name.clone(),
            id.get(..8).unwrap_or(&id).to_string(),
            member.boot.to_string(),
            age(member.lease_age_ms),
            age(member.member_for_ms),
            member.version.clone(),
            member.slots.to_string(),
            member.labels.iter().cloned().collect::<Vec<_>>().join(" "),
            if is_own { "this machine" } else { "" }.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = members.iter().map(row).collect();
    out::table_with_numbers(
        &["machine", "id", "starts", "lease age", "member for", "version", "slots", "labels", ""],
        &rows,
        &["starts", "slots"],
    )
}

/// Returns the state as a part of a sentence.
fn name(state: MemberState) -> &'static str {
    match state {
        MemberState::Joining => "joining",
        MemberState::Member => "a member",
        MemberState::Suspended => "suspended",
        MemberState::IdentityConflict => "in conflict with another machine of the same id",
    }
}
