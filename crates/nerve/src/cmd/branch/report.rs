//! Prints a branch as text or JSON.

use anyhow::Result;
use nerve_api::reply::BranchCreated;
use nerve_commands::node_command::execute;
use nerve_engine::branches::{FileSource, InheritedSettings, Plan, missing_note};

use crate::out;

/// Prints the plan of a dry run.
pub(super) fn print_plan(
    plan: &Plan,
    node: &str,
    inherited: Option<&InheritedSettings>,
    instruction: &str,
    as_json: bool,
) -> Result<()> {
    if as_json {
        let plan = plan.reply(node, inherited);
        let data = BranchCreated { dry_run: true, instruction: Some(instruction.to_string()), ..plan };
        return out::json(&data);
    }
    let (from, to) = files(plan);
    out::fields(&[
        ("recording", recording(plan)),
        ("snapshot", snapshot(plan)),
        ("files from", from),
        ("files to", to),
        ("conversation", plan.conversation_text()),
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
    if let Some(conversation) = plan.conversation_difference() {
        out::note(format_args!("conversation: {conversation}"));
    }
    if matches!(plan.files, FileSource::InPlace) {
        out::note(format_args!("using the current files in {}", plan.cwd.display()));
    }
}

/// Prints the result.
pub(super) fn print_result(branch: &BranchCreated, as_json: bool) -> Result<()> {
    if as_json {
        return out::json(branch);
    }
    for file in &branch.left_out {
        out::warning(format_args!("not restored: {file}"));
    }
    let node = &branch.node_id;
    if let Some(missing) = branch.environment.missing.as_deref().and_then(missing_note) {
        out::note(format_args!("node '{node}' runs {missing}"));
    }
    match &branch.response {
        None => out::line(node),
        Some(response) => {
            let on = branch.git_branch.as_ref().map(|git| format!(", on branch '{git}'")).unwrap_or_default();
            out::note(format_args!("node '{node}' works in {}{on}", branch.cwd));
            execute::print_response(response)
        }
    }
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
        FileSource::InPlace => ("current files".to_string(), "the recorded directory itself".to_string()),
        FileSource::Restored { files, to, branch, .. } => {
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

/// Describes the node's variables without their values.
fn environment(plan: &Plan, inherited: Option<&InheritedSettings>) -> String {
    let mut parts = Vec::new();
    let names: Vec<&str> = plan.overrides.env.keys().map(String::as_str).collect();
    if !names.is_empty() {
        parts.push(format!("{} as given", names.join(", ")));
    }
    match inherited {
        None => {
            parts.push(format!("those of the recorded node, if server '{}' still knows them", plan.server))
        }
        Some(inherited) => {
            if let Some(source) = inherited.inherit.as_ref().filter(|_| !inherited.env.is_empty()) {
                parts.push(format!("{} from node '{}'", inherited.env.join(", "), source.node_id));
            }
            parts.extend(missing_note(&inherited.missing));
        }
    }
    if parts.is_empty() { "the server's".to_string() } else { format!("the server's; {}", parts.join("; ")) }
}

fn proxy(plan: &Plan, inherited: Option<&InheritedSettings>) -> String {
    let inherited_proxy = inherited.and_then(|inherited| inherited.proxy);
    match (&plan.overrides.proxy, inherited_proxy) {
        (Some(_), _) => "its own, as given".to_string(),
        (None, Some(kind)) => format!("its own to {kind}, with the settings of the recorded node's"),
        (None, None) if plan.overrides.no_proxy => "none, as requested".to_string(),
        (None, None) => String::new(),
    }
}
