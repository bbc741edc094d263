//! A dialog of the agent as a permission request to the client, and its answer.

use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_api::reply::NodeExplanation;
use nerve_api::request::{AnswerNode, NodeChoice};
use nerve_api::value::NodeState;
use nerve_client::{ClientError, RemoteNode};
use serde_json::{Value, json};

use crate::peer::{ClientRequest, Peer};
use crate::rpc_error::RpcError;
use crate::tool_call;
use crate::types::{PermissionKind, PermissionOption, PermissionOutcome, PermissionResponse, ToolStatus};

/// Id of the option that closes a dialog without a choice.
const CANCEL: &str = "cancel";

/// Pause between two looks at a dialog that may still be drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(30);
/// Maximum number of looks.
const DRAW_CHECKS: u32 = 20;

/// A permission request that waits for the client.
#[derive(Debug)]
pub(crate) struct Permission {
    pub(crate) dialog_id: String,
    choices: Vec<String>,
    request: ClientRequest,
}

/// Returns the state of a node. A dialog that is being drawn is awaited: its choices are complete when they are the same twice.
///
/// # Errors
/// The node does not exist, or the nerve server cannot be reached.
pub(crate) async fn look_up(node: &RemoteNode) -> Result<NodeExplanation, ClientError> {
    let mut seen = node.why().await?;
    for _ in 0..DRAW_CHECKS {
        if seen.state != NodeState::Blocked {
            break;
        }
        tokio::time::sleep(DRAW_INTERVAL).await;
        let again = node.why().await?;
        let is_same = (&again.choices, &again.dialog_id) == (&seen.choices, &seen.dialog_id);
        seen = again;
        if is_same {
            break;
        }
    }
    Ok(seen)
}

impl Permission {
    /// Asks the client. `tool_call`: id of the running tool call, if one is known.
    pub(crate) async fn ask(
        peer: &Peer,
        session: &str,
        dialog: &NodeExplanation,
        tool_call: Option<&str>,
    ) -> Permission {
        let dialog_id = dialog.dialog_id.clone().unwrap_or_default();
        let kind = dialog.metadata.text("blocked");
        let id = tool_call.map_or_else(|| format!("dialog-{dialog_id}"), str::to_string);
        let mut call = tool_call::output(&id, &dialog_text(&dialog.screen), ToolStatus::Pending);
        if tool_call.is_none() {
            call.title = Some(title(kind).to_string());
            call.kind = Some("other");
        }
        let options = options(&dialog.choices);
        let params = json!({ "sessionId": session, "toolCall": call, "options": options });
        let request = peer.request("session/request_permission", params).await;
        Permission { dialog_id, choices: dialog.choices.clone(), request }
    }

    /// Returns true if the request is for this dialog and has its choices.
    pub(crate) fn is_for(&self, dialog: &NodeExplanation) -> bool {
        dialog.dialog_id.as_deref() == Some(&*self.dialog_id) && dialog.choices == self.choices
    }

    /// Waits for the response. Cancel-safe. `None`: the client is gone.
    pub(crate) async fn response(&mut self) -> Option<Result<Value, RpcError>> {
        (&mut self.request.response).await.ok()
    }

    /// Withdraws the request.
    pub(crate) async fn withdraw(self, peer: &Peer) {
        peer.cancel_request(self.request.id).await;
    }
}

/// Answers a dialog as the client responded. Returns false if the client responded with an error, which leaves the dialog open for people.
///
/// # Errors
/// The node did not accept the answer. A dialog that closed or changed meanwhile is no error.
pub(crate) async fn answer(
    node: &RemoteNode,
    dialog_id: String,
    response: Result<Value, RpcError>,
) -> Result<bool, ClientError> {
    let outcome = response
        .map_err(|error| error.to_string())
        .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()))
        .map(|PermissionResponse { outcome }| outcome);
    let choice = match outcome {
        Ok(PermissionOutcome::Selected { option_id }) if option_id != CANCEL => match option_id.parse() {
            Ok(number) => Some(NodeChoice::Number(number)),
            Err(_) => {
                tracing::warn!(option_id, "the client selected an unknown option; the dialog stays open");
                return Ok(false);
            }
        },
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(error, "the client did not answer the dialog, which stays open");
            return Ok(false);
        }
    };
    close(node, Some(dialog_id), choice).await.map(|()| true)
}

/// Answers a dialog, or closes it without a choice.
///
/// # Errors
/// See [`answer`].
pub(crate) async fn close(
    node: &RemoteNode,
    dialog_id: Option<String>,
    choice: Option<NodeChoice>,
) -> Result<(), ClientError> {
    let request = AnswerNode {
        node_id: node.id().to_string(),
        session_id: node.session().map(str::to_string),
        cancel: choice.is_none(),
        choice,
        dialog_id,
        ..AnswerNode::default()
    };
    match node.client().request(&request).await {
        // Answered by a person meanwhile: the node reports the next dialog itself.
        Err(ClientError::Server(error))
            if matches!(error.details.error_type, ErrorKind::InvalidRequest | ErrorKind::Busy) =>
        {
            tracing::info!(%error, "the dialog was answered meanwhile");
            Ok(())
        }
        done => done.map(drop),
    }
}

/// Returns the options of a dialog; their ids are the positions of the choices, from 1. Without choices it can only be closed.
fn options(choices: &[String]) -> Vec<PermissionOption> {
    let option = |(at, choice): (usize, &String)| PermissionOption {
        option_id: (at + 1).to_string(),
        name: choice.clone(),
        kind: permission_kind(choice),
    };
    match choices {
        [] => vec![PermissionOption {
            option_id: CANCEL.to_string(),
            name: "Close the dialog".to_string(),
            kind: PermissionKind::RejectOnce,
        }],
        choices => choices.iter().enumerate().map(option).collect(),
    }
}

/// Derives the effect of a choice from its label.
fn permission_kind(label: &str) -> PermissionKind {
    let label = label.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| label.contains(word));
    let first = label.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let rejects = ["no", "reject", "deny", "cancel", "exit", "never", "stop", "decline", "abort", "quit"];
    let is_lasting = has(&[
        "always",
        "don't ask",
        "do not ask",
        "don’t ask",
        "never",
        "auto mode",
        "during this session",
        "for this session",
    ]);
    match (rejects.contains(&first), is_lasting) {
        (true, false) => PermissionKind::RejectOnce,
        (true, true) => PermissionKind::RejectAlways,
        (false, true) => PermissionKind::AllowAlways,
        (false, false) => PermissionKind::AllowOnce,
    }
}

/// Returns the title of a dialog that belongs to no tool call.
fn title(kind: &str) -> &'static str {
    match kind {
        "trust" => "Trust this folder?",
        "login" => "Log in to the agent",
        "theme" => "Choose a theme",
        "permission" => "Allow this action?",
        "limit" => "A usage limit is reached",
        "budget" => "A budget is used up",
        _ => "The agent asks",
    }
}

/// Returns the dialog on a screen: the text below its last solid rule, without dashed rules. Without a rule, the whole screen.
fn dialog_text(screen: &str) -> String {
    let is_rule = |line: &&str| line.chars().filter(|c| matches!(c, '─' | '▔' | '━')).count() >= 10;
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let start = lines.iter().rposition(is_rule).map_or(0, |at| at + 1);
    let is_dashed = |line: &str| !line.is_empty() && line.chars().all(|c| matches!(c, '╌' | '┄' | '┈' | ' '));
    let below = lines[start..].iter().filter(|line| !is_dashed(line)).copied().collect::<Vec<_>>().join("\n");
    let text = if below.trim().is_empty() { lines.join("\n") } else { below };
    text.trim_matches('\n').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_real_dialogs_have_kinds() {
        use PermissionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        for (label, kind) in [
            ("Yes", AllowOnce),
            ("Yes, I trust this folder", AllowOnce),
            ("Yes, and don't ask again for ls commands in /work", AllowAlways),
            ("Yes, and always allow access to /work from this project", AllowAlways),
            ("Yes, and switch to auto mode", AllowAlways),
            ("Yes, allow all edits during this session", AllowAlways),
            ("No, and tell Claude what to do differently (esc)", RejectOnce),
            ("No, exit", RejectOnce),
            ("Never allow", RejectAlways),
            ("Allow once", AllowOnce),
            ("Dark mode", AllowOnce),
            ("Note the change", AllowOnce),
        ] {
            assert_eq!(permission_kind(label), kind, "{label}");
        }
    }

    #[test]
    fn options_are_numbered_from_one() {
        let ids = |choices: &[&str]| -> Vec<String> {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            options(&choices).into_iter().map(|option| option.option_id).collect()
        };
        assert_eq!(ids(&["Yes", "No"]), ["1", "2"]);
        assert_eq!(ids(&[]), [CANCEL]);
    }

    #[test]
    fn dialog_is_below_the_last_rule() {
        let rule = "─".repeat(30);
        let screen = format!("> earlier\n{rule}\n Bash command\n╌╌╌╌\n\n   ls\n ❯ 1. Yes  \n   2. No\n\n");
        assert_eq!(dialog_text(&screen), " Bash command\n\n   ls\n ❯ 1. Yes\n   2. No");
        assert_eq!(dialog_text("no rule\n"), "no rule");
    }
}
