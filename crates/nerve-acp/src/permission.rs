//! A dialog of the agent as a permission request to the client, and its answer.

use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_api::reply::NodeExplanation;
use nerve_api::request::{AnswerNode, NodeChoice};
use nerve_api::value::NodeState;
use nerve_client::{ClientError, RemoteNode};
use serde_json::{Value, json};

use crate::client::Version;
use crate::peer::{Peer, PeerRequest};
use crate::rpc_error::RpcError;
use crate::tool_call;
use crate::turn_updates::Call;
use crate::types::{PermissionKind, PermissionOption, PermissionOutcome, PermissionResponse};

/// Id of the option that closes a dialog without a choice.
const CANCEL: &str = "cancel";

/// Pause between two looks at a dialog that may still be drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(30);
/// Maximum number of looks after the first.
const DRAW_CHECKS: u32 = 20;

/// A permission request that waits for the client.
#[derive(Debug)]
pub(crate) struct Permission {
    pub(crate) dialog_id: String,
    choices: Vec<String>,
    request: PeerRequest,
}

/// Returns the state of a node. While it is blocked, looks again until two looks in a row see the same dialog with the same choices:
/// before that, the dialog may be half drawn. Returns the last look if [`DRAW_CHECKS`] are not enough.
///
/// # Errors
/// The node does not exist, or the nerve server cannot be reached.
pub(crate) async fn look_up(node: &RemoteNode) -> Result<NodeExplanation, ClientError> {
    let mut explanation = node.explain().await?;
    for _ in 0..DRAW_CHECKS {
        if explanation.state != NodeState::Blocked {
            break;
        }
        tokio::time::sleep(DRAW_INTERVAL).await;
        let previous = std::mem::replace(&mut explanation, node.explain().await?);
        if (&previous.choices, &previous.dialog_id) == (&explanation.choices, &explanation.dialog_id) {
            break;
        }
    }
    Ok(explanation)
}

impl Permission {
    /// Sends the request to the client. `running_call`: the tool call that the dialog is about, if one is known.
    pub(crate) async fn ask(
        peer: &Peer,
        session: &str,
        version: Version,
        dialog: &NodeExplanation,
        running_call: Option<&Call>,
    ) -> Permission {
        let dialog_id = dialog.dialog_id.clone().unwrap_or_default();
        let mut params = match version {
            Version::V1 => describe_request(&dialog_id, dialog, running_call),
            Version::V2 => describe_request_v2(dialog, running_call),
        };
        params["sessionId"] = session.into();
        params["options"] = json!(list_options(&dialog.choices));
        let request = peer.request("session/request_permission", params).await;
        Permission { dialog_id, choices: dialog.choices.clone(), request }
    }

    /// Returns true if the request is for this dialog and has its choices.
    pub(crate) fn is_for(&self, dialog: &NodeExplanation) -> bool {
        dialog.dialog_id.as_deref() == Some(&*self.dialog_id) && dialog.choices == self.choices
    }

    /// Waits for the response. Dropping the future loses nothing; it must not be called again after it has returned.
    pub(crate) async fn await_response(&mut self) -> Result<Value, RpcError> {
        let lost = |_| Err(RpcError::disconnected());
        (&mut self.request.response).await.unwrap_or_else(lost)
    }

    /// Returns the choice that the client selected; `None` closes the dialog without a choice.
    ///
    /// # Errors
    /// The client responded with an error, or with an option that it was not offered. The dialog then stays open for people.
    pub(crate) fn read_choice(
        &self,
        response: Result<Value, RpcError>,
    ) -> Result<Option<NodeChoice>, RpcError> {
        let response: PermissionResponse = serde_json::from_value(response?)
            .map_err(|error| RpcError::invalid_params(format!("invalid response: {error}")))?;
        let option = match response.outcome {
            PermissionOutcome::Selected { option_id } if option_id != CANCEL => option_id,
            PermissionOutcome::Selected { .. } | PermissionOutcome::Cancelled => return Ok(None),
        };
        let number = option.parse().ok().filter(|number| (1..=self.choices.len()).contains(number));
        let unknown = || RpcError::invalid_params(format!("unknown option '{option}'"));
        Ok(Some(NodeChoice::Number(number.ok_or_else(unknown)?)))
    }

    /// Withdraws the request.
    pub(crate) async fn withdraw(self, peer: &Peer) {
        peer.cancel_request(self.request.id).await;
    }
}

/// Describes a dialog as version 1 does: as a tool call. One without a tool has a call of its own.
fn describe_request(dialog_id: &str, dialog: &NodeExplanation, running_call: Option<&Call>) -> Value {
    let (id, content) = match running_call {
        Some(call) => (call.id.clone(), &call.content[..]),
        None => (format!("dialog-{dialog_id}"), &[][..]),
    };
    let mut update = tool_call::build_update(&id, content, &dialog_text(&dialog.screen), None);
    if running_call.is_none() {
        update.title = Some(describe_dialog(dialog.metadata.text("blocked")).to_string());
        update.kind = Some("other".into());
    }
    json!({ "toolCall": update })
}

/// Describes a dialog as version 2 does: with a title, its text, and the tool call that it is about.
fn describe_request_v2(dialog: &NodeExplanation, running_call: Option<&Call>) -> Value {
    let title = describe_dialog(dialog.metadata.text("blocked"));
    let mut params = json!({ "title": title, "description": dialog_text(&dialog.screen) });
    if let Some(call) = running_call {
        params["subject"] = json!({ "type": "tool_call", "toolCall": { "toolCallId": call.id } });
    }
    params
}

/// Answers a dialog, or closes it without a choice. Returns false if the answer had no effect: a person was faster, or another dialog is
/// open, or the same one is still shown.
///
/// # Errors
/// The node did not accept the answer for another reason.
pub(crate) async fn answer(
    node: &RemoteNode,
    dialog_id: String,
    choice: Option<NodeChoice>,
) -> Result<bool, ClientError> {
    let request = AnswerNode {
        node_id: node.id().to_string(),
        session_id: node.session().map(str::to_string),
        cancel: choice.is_none(),
        choice,
        dialog_id: Some(dialog_id),
        ..AnswerNode::default()
    };
    let no_effect_kinds = [ErrorKind::InvalidRequest, ErrorKind::Busy, ErrorKind::Blocked];
    match node.client().request(&request).await {
        Err(ClientError::Server(error)) if no_effect_kinds.contains(&error.details.error_type) => {
            tracing::info!(%error, "the answer had no effect on the dialog");
            Ok(false)
        }
        result => result.map(|_| true),
    }
}

/// Returns the options of a dialog; their ids are the positions of the choices, from 1. Without choices it can only be closed.
fn list_options(choices: &[String]) -> Vec<PermissionOption> {
    let to_option = |(index, choice): (usize, &String)| PermissionOption {
        option_id: (index + 1).to_string(),
        name: choice.clone(),
        kind: classify_choice(choice),
    };
    match choices {
        [] => vec![PermissionOption {
            option_id: CANCEL.to_string(),
            name: "Close the dialog".to_string(),
            kind: PermissionKind::RejectOnce,
        }],
        choices => choices.iter().enumerate().map(to_option).collect(),
    }
}

/// Derives the effect of a choice from its label: the first word shows whether it rejects, a phrase anywhere whether it lasts.
fn classify_choice(label: &str) -> PermissionKind {
    let label = label.to_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| label.contains(word));
    let first_word = label.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let reject_words =
        ["no", "reject", "deny", "cancel", "exit", "never", "stop", "decline", "abort", "quit"];
    let is_lasting = contains_any(&[
        "always",
        "don't ask",
        "do not ask",
        "don’t ask",
        "never",
        "auto mode",
        "during this session",
        "for this session",
    ]);
    match (reject_words.contains(&first_word), is_lasting) {
        (true, false) => PermissionKind::RejectOnce,
        (true, true) => PermissionKind::RejectAlways,
        (false, true) => PermissionKind::AllowAlways,
        (false, false) => PermissionKind::AllowOnce,
    }
}

/// Returns the title of a dialog that belongs to no tool call.
fn describe_dialog(kind: &str) -> &'static str {
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

/// Returns the dialog on a screen: the text below its last solid rule, without dashed rules. Returns the whole screen if there is no
/// solid rule or nothing below it.
fn dialog_text(screen: &str) -> String {
    let is_solid_rule = |line: &&str| line.chars().filter(|c| matches!(c, '─' | '▔' | '━')).count() >= 10;
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let start = lines.iter().rposition(is_solid_rule).map_or(0, |index| index + 1);
    let is_dashed_rule =
        |line: &str| !line.is_empty() && line.chars().all(|c| matches!(c, '╌' | '┄' | '┈' | ' '));
    let below =
        lines[start..].iter().filter(|line| !is_dashed_rule(line)).copied().collect::<Vec<_>>().join("\n");
    let text = if below.trim().is_empty() { lines.join("\n") } else { below };
    text.trim_matches('\n').to_string()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn labels_of_real_dialogs_have_kinds() {
        use PermissionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        for (label, kind) in [
            ("Yes", AllowOnce),
            ("Yes, I trust this folder", AllowOnce),
            ("Yes, and don't ask again for ls commands in /shop", AllowAlways),
            ("Yes, and always allow access to /shop from this project", AllowAlways),
            ("Yes, and switch to auto mode", AllowAlways),
            ("Yes, allow all edits during this session", AllowAlways),
            ("No, and tell Claude what to do differently (esc)", RejectOnce),
            ("No, exit", RejectOnce),
            ("Never allow", RejectAlways),
            ("Allow once", AllowOnce),
            ("Dark mode", AllowOnce),
            ("Note the change", AllowOnce),
        ] {
            assert_eq!(classify_choice(label), kind, "{label}");
        }
    }

    #[test]
    fn options_are_numbered_from_one() {
        let ids = |choices: &[&str]| -> Vec<String> {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            list_options(&choices).into_iter().map(|option| option.option_id).collect()
        };
        assert_eq!(ids(&["Yes", "No"]), ["1", "2"]);
        assert_eq!(ids(&[]), [CANCEL]);
    }

    #[test]
    fn only_offered_options_are_choices() {
        let (_, response) = oneshot::channel();
        let choices = vec!["Yes".to_string(), "No".to_string()];
        let dialog_id = "d".to_string();
        let permission = Permission { dialog_id, choices, request: PeerRequest { id: 1, response } };
        let selected = |id: &str| Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } }));
        assert_eq!(permission.read_choice(selected("2")).unwrap(), Some(NodeChoice::Number(2)));
        assert_eq!(permission.read_choice(selected(CANCEL)).unwrap(), None);
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        assert_eq!(permission.read_choice(Ok(cancelled)).unwrap(), None);
        for response in
            [selected("0"), selected("3"), selected("x"), Ok(json!({})), Err(RpcError::new(1, ""))]
        {
            assert!(permission.read_choice(response.clone()).is_err(), "{response:?}");
        }
    }

    #[test]
    fn dialog_is_below_the_last_rule() {
        let rule = "─".repeat(30);
        let screen = format!("> earlier\n{rule}\n Bash command\n╌╌╌╌\n\n   ls\n ❯ 1. Yes  \n   2. No\n\n");
        assert_eq!(dialog_text(&screen), " Bash command\n\n   ls\n ❯ 1. Yes\n   2. No");
        assert_eq!(dialog_text("no rule\n"), "no rule");
    }
}
