//! The output of `nerve cluster status`.

use anyhow::Result;
use nerve_commands::failure::{FAILED, Failure};
use nerve_commands::out;
use nerve_commands::run_display::format_duration;
use nerve_member::{AwayMember, DrainState, MemberInfo, MemberList, MemberState, MembershipStatus};
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
        "away": status.members.as_ref().ok().map(|list| &list.away),
        "unsupported": status.members.as_ref().map_or(0, |list| list.unsupported),
        "error": error.map(ToString::to_string),
        "hint": error.map(nerve_member::MemberError::hint),
    }))
}

fn print_members(status: &MembershipStatus) -> Result<()> {
    let known = status.server.as_ref().map(|server| &server.list);
    let (list, are_current) = match &status.members {
        Ok(list) => {
            if list.unsupported > 0 {
                out::warning(format_args!("{} members have a later version of nerve", list.unsupported));
            }
            for name in list.shared_names() {
                out::warning(format_args!(
                    "several members are named '{name}': 'on: {name}' selects the one that joined with it"
                ));
            }
            (Some(list), true)
        }
        Err(error) => {
            out::warning(error);
            out::hint(error.hint());
            (known, false)
        }
    };
    let is_empty = |list: &&MemberList| list.members.is_empty() && list.away.is_empty();
    let Some(list) = list.filter(|list| !is_empty(list)) else {
        out::note("no members known");
        return Ok(());
    };
    if !are_current {
        out::note("the last members that the server saw:");
    }
    let row = |member: &MemberInfo| {
        let age = |ms: u64| if are_current { format_duration(ms as f64 / 1_000.0) } else { String::new() };
        vec![
            member.machine_name.clone(),
            short(member.machine_id.to_string()),
            member.boot.to_string(),
            age(member.lease_age_ms),
            age(member.member_for_ms),
            member.version.clone(),
            steps(member, are_current),
            member.labels.iter().cloned().collect::<Vec<_>>().join(" "),
            remarks(Some(member.machine_id) == status.machine_id, drain(member)),
        ]
    };
    let mut rows: Vec<Vec<String>> = list.members.iter().map(row).collect();
    rows.extend(list.away.iter().map(away_row));
    out::table_with_numbers(
        &["machine", "id", "starts", "lease age", "member for", "version", "steps", "labels", ""],
        &rows,
        &["starts", "steps"],
    )
}

fn away_row(away: &AwayMember) -> Vec<String> {
    let remark = if away.is_drained { "away, drained" } else { "away" };
    let mut row = vec![away.machine_name.clone(), short(away.machine_id.to_string())];
    row.resize(8, String::new());
    row.push(remark.to_string());
    row
}

/// Returns the slots of a member, with those that are in use if that is known.
fn steps(member: &MemberInfo, are_current: bool) -> String {
    let running = if are_current { format!("{}/", member.running_steps) } else { String::new() };
    format!("{running}{}", member.slots)
}

fn short(id: String) -> String {
    id.get(..8).map_or(id.clone(), str::to_string)
}

/// Returns the state of a drain as a remark.
fn drain(member: &MemberInfo) -> &'static str {
    match member.drain {
        None => "",
        Some(DrainState::Requested | DrainState::Draining) => "draining",
        Some(DrainState::Drained) => "drained",
    }
}

fn remarks(is_own: bool, drain: &str) -> String {
    let own = if is_own { "this machine" } else { "" };
    [own, drain].into_iter().filter(|remark| !remark.is_empty()).collect::<Vec<_>>().join(", ")
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
