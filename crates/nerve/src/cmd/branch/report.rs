//! Prints a branch as text or JSON.

use std::path::PathBuf;

use anyhow::Result;
use nerve_core::fork::branch::Conversation;
use serde_json::{Value, json};

use super::environment::InheritedSettings;
use super::files::Files;
use super::plan::Plan;
use super::run::BranchResult;
use crate::cmd::node::execute;
use crate::out;

/// Prints the plan of a dry run.
pub(super) fn print_plan(
    plan: &Plan,
    (node, inherited): (&str, Option<&InheritedSettings>),
    instruction: &str,
    as_json: bool,
) -> Result<()> {
    if as_json {
        let mut data = data(plan, node, inherited);
        data["dry_run"] = true.into();
        data["instruction"] = instruction.into();
        return out::json(&data);
    }
    let (from, to) = files(plan);
    out::fields(&[
        ("recording", recording(plan)),
        ("snapshot", snapshot(plan)),
        ("files from", from),
        ("files to", to),
        ("conversation", conversation(plan)),
        ("command", out::sanitize(&shell_words::join(&plan.branch.command))),
        ("directory", plan.cwd.display().to_string()),
        ("environment", environment(plan, inherited)),
        ("proxy", proxy(plan, inherited)),
        ("node", format!("{node} on server '{}'", plan.server)),
        ("instruction", out::preview(instruction, 200)),
    ])
}

/// Prints notes on conversation and files that differ from the snapshot.
pub(super) fn print_notes(plan: &Plan) {
    if let Some(conversation) = conversation_difference(plan) {
        out::note(format_args!("conversation: {conversation}"));
    }
    if matches!(plan.files, Files::InPlace) {
        out::note(format_args!("using the current files in {}", plan.cwd.display()));
    }
}

/// Describes the new node's conversation unless it ends exactly at the snapshot.
pub(crate) fn conversation_difference(plan: &Plan) -> Option<String> {
    let is_cut = matches!(plan.branch.conversation, Conversation::Cut { .. } | Conversation::Imported { .. });
    (!is_cut).then(|| conversation(plan))
}

/// Prints the result.
pub(super) fn print_result(result: &BranchResult, as_json: bool) -> Result<()> {
    let BranchResult { plan, node, inherited, left_out, git, answer } = result;
    if as_json {
        let mut data = data(plan, node, Some(inherited));
        data["git_branch"] = json!(git);
        data["left_out"] = json!(left_out);
        if let Some(answer) = answer {
            data["response"] = serde_json::to_value(&answer.response)?;
        }
        return out::json(&data);
    }
    for what in left_out {
        out::warning(format_args!("not restored: {what}"));
    }
    if let Some(missing) = inherited.missing_note() {
        out::note(format_args!("node '{node}' runs {missing}"));
    }
    match answer {
        None => out::line(node),
        Some(answer) => {
            let on = git.as_ref().map(|git| format!(", on branch '{git}'")).unwrap_or_default();
            out::note(format_args!("node '{node}' works in {}{on}", plan.cwd.display()));
            execute::print(answer, false)
        }
    }
}

fn data(plan: &Plan, node: &str, inherited: Option<&InheritedSettings>) -> Value {
    let (kind, why) = match &plan.branch.conversation {
        Conversation::Cut { .. } | Conversation::Imported { .. } => ("cut", None),
        Conversation::Whole { .. } => ("whole", None),
        Conversation::New(why) => ("new", Some(why)),
    };
    let mut talk = json!({ "kind": kind, "about": conversation(plan), "why": why });
    if let Conversation::Cut { from, to, turns, of } = &plan.branch.conversation {
        talk["from"] = json!(from);
        talk["to"] = json!(to);
        talk["turns"] = json!(turns);
        talk["of"] = json!(of);
    }
    if let Conversation::Imported { from, to, turns, of } = &plan.branch.conversation {
        talk["from"] = json!(from);
        talk["to"] = json!(to);
        talk["turns"] = json!(turns);
        talk["of"] = json!(of);
    }
    let files = match &plan.files {
        Files::InPlace => Value::Null,
        Files::Restored { files, to, .. } => json!({
            "provider": files.provider, "source": files.source, "reference": files.reference, "to": to,
        }),
    };
    let snapshot = plan.snapshot.as_ref();
    json!({
        "recording": plan.is_recorded.then_some(&plan.recording),
        "snapshot": snapshot.map(|line| json!({
            "id": line.id, "label": line.label, "ts_ns": line.ts_ns, "anchor_byte": line.anchor_byte,
        })),
        "files": files,
        "conversation": talk,
        "command": plan.branch.command,
        "cwd": plan.cwd,
        "node_id": node,
        "session_id": plan.session,
        "server": plan.server,
        "environment": {
            "given": plan.overrides.env.keys().collect::<Vec<_>>(),
            "taken_over": inherited.map(|inherited| &inherited.env),
            "missing": inherited.map(|inherited| &inherited.missing),
        },
        "proxy": match &plan.overrides.proxy {
            Some(_) => Some("given"),
            None => inherited.and_then(|inherited| inherited.proxy.as_deref()),
        },
    })
}

fn recording(plan: &Plan) -> String {
    match plan.is_recorded {
        true => plan.recording.display().to_string(),
        false => "none: the session's data is deleted when it ends".to_string(),
    }
}

fn snapshot(plan: &Plan) -> String {
    match &plan.snapshot {
        None => "none: the end of the recording".to_string(),
        Some(line) => {
            let label = line.label.as_ref().map(|label| format!(" '{}'", out::sanitize(label)));
            format!("{}{} at byte {}", line.id, label.unwrap_or_default(), line.anchor_byte)
        }
    }
}

fn files(plan: &Plan) -> (String, String) {
    match &plan.files {
        Files::InPlace => ("current files".to_string(), "the recorded directory itself".to_string()),
        Files::Restored { files, to, branch, .. } => {
            let from = format!("{} of {}", files.reference, files.source.display());
            let on = if files.provider == "git" {
                format!(", a work tree on branch '{branch}'")
            } else {
                String::new()
            };
            (format!("{} {from}", files.provider), format!("{}{on}", to.display()))
        }
    }
}

/// Describes the new node's conversation.
fn conversation(plan: &Plan) -> String {
    match &plan.branch.conversation {
        Conversation::Cut { turns, of, from, to } => {
            let path = |path: &PathBuf| path.display().to_string();
            format!("{}: {} copied to {}", turn_count(*turns, *of), path(from), path(to))
        }
        Conversation::Imported { turns, of, from, to } => {
            format!("{}: {from} imported as {to}", turn_count(*turns, *of))
        }
        Conversation::Whole { id } => {
            let later = match plan.snapshot.as_ref().is_some_and(|line| line.kind != "end") {
                true => ", including those after the snapshot: this agent's conversations cannot be cut",
                false => "",
            };
            format!("a fork of {id} with all its messages{later}")
        }
        Conversation::New(why) => format!("a new one: {why}"),
    }
}

/// Describes the node's variables without their values.
fn environment(plan: &Plan, inherited: Option<&InheritedSettings>) -> String {
    let mut parts = Vec::new();
    let given: Vec<&str> = plan.overrides.env.keys().map(String::as_str).collect();
    if !given.is_empty() {
        parts.push(format!("{} as given", given.join(", ")));
    }
    match inherited {
        None => {
            parts.push(format!("those of the recorded node, if server '{}' still knows them", plan.server))
        }
        Some(inherited) => {
            if let Some(source) = inherited.inherit.as_ref().filter(|_| !inherited.env.is_empty()) {
                parts.push(format!("{} from node '{}'", inherited.env.join(", "), source.node_id));
            }
            parts.extend(inherited.missing_note());
        }
    }
    if parts.is_empty() { "the server's".to_string() } else { format!("the server's; {}", parts.join("; ")) }
}

fn proxy(plan: &Plan, inherited: Option<&InheritedSettings>) -> String {
    let taken = inherited.and_then(|inherited| inherited.proxy.as_ref());
    match (&plan.overrides.proxy, taken) {
        (Some(_), _) => "its own, as given".to_string(),
        (None, Some(kind)) => format!("its own to {kind}, with the settings of the recorded node's"),
        (None, None) if plan.overrides.no_proxy => "none, as requested".to_string(),
        (None, None) => String::new(),
    }
}

fn turn_count(turns: u64, of: u64) -> String {
    let some = if turns == of { "all" } else { "the first" };
    format!("{some} {turns} of {of} turns")
}
