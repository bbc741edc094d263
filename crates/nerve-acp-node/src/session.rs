//! The session of an agent: its running turn and the permissions that it requests. No I/O, no clock.

use std::collections::VecDeque;

use nerve_acp_protocol::rpc_error::{INVALID_REQUEST, RpcError};
use nerve_acp_protocol::types::{PermissionOutcome, PermissionParams, SessionUpdate};
use nerve_node::turn_state::OpenDialog;
use nerve_types::activity::TsMs;
use nerve_types::text::one_line;
use serde_json::Value;

use crate::turn_content::{Effect, TurnContent, output_text};

/// Maximum number of permission requests without an answer. The first one is shown.
const MAX_REQUESTS: usize = 32;
/// Maximum number of options of a request.
const MAX_OPTIONS: usize = 64;
/// Maximum length of the id of an option, in bytes.
const MAX_ID: usize = 1024;
/// Maximum length of a question and of a choice, in characters.
const MAX_LABEL: usize = 200;
/// Maximum length of the details of a request, in characters.
const MAX_DETAILS: usize = 16 << 10;

/// The state of a session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Id of the session at the agent.
    pub(crate) id: String,
    turn: Option<TurnContent>,
    requests: VecDeque<PermissionRequest>,
    /// The running turn is being cancelled, so that every permission is cancelled, too.
    is_cancelling: bool,
    /// Number of requests so far.
    count: u64,
}

/// A permission request without an answer.
#[derive(Debug)]
struct PermissionRequest {
    /// JSON-RPC id.
    id: Value,
    dialog: OpenDialog,
    /// The arguments and the content of the tool call.
    details: String,
    /// Ids of the choices.
    options: Vec<String>,
}

/// The immediate answer to a permission request.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// A person decides.
    Wait,
    /// The turn is being cancelled.
    Cancelled,
    /// The request is invalid.
    Refuse(RpcError),
}

impl Session {
    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = Some(TurnContent::default());
        self.is_cancelling = false;
    }

    /// Ends the turn. Returns its content, and the requests that are cancelled, because the agent does not wait for them.
    pub(crate) fn end_turn(&mut self, at: TsMs) -> (TurnContent, Option<Effect>, Vec<Value>) {
        let mut content = self.turn.take().unwrap_or_default();
        let last = content.flush_thought(at);
        (content, last, self.take_requests())
    }

    /// Cancels the turn. Returns the requests that are cancelled with it, or `None` if no turn runs.
    pub(crate) fn cancel_turn(&mut self) -> Option<Vec<Value>> {
        self.turn.as_ref()?;
        self.is_cancelling = true;
        Some(self.take_requests())
    }

    /// Returns true if the running turn is being cancelled.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.is_cancelling
    }

    /// Adds an update to the running turn. Updates between turns are ignored: the earlier turns of a loaded session, for example.
    pub(crate) fn on_update(&mut self, update: SessionUpdate, at: TsMs) -> Vec<Effect> {
        self.turn.as_mut().map_or(Vec::new(), |turn| turn.on_update(update, at))
    }

    /// Adds a permission request. Its tool call may be new, too.
    pub(crate) fn on_request(
        &mut self,
        id: Value,
        params: PermissionParams,
        at: TsMs,
    ) -> (Decision, Vec<Effect>) {
        let PermissionParams { session_id, tool_call, options } = params;
        let refuse = |why: &str| (Decision::Refuse(RpcError::new(INVALID_REQUEST, why)), Vec::new());
        if session_id != self.id {
            return refuse("unknown session");
        }
        let Some(turn) = &mut self.turn else { return refuse("no prompt is running") };
        if options.is_empty() || options.len() > MAX_OPTIONS {
            return refuse("a permission needs between 1 and 64 options");
        }
        if options.iter().any(|option| option.option_id.len() > MAX_ID) {
            return refuse("the id of an option exceeds 1024 bytes");
        }
        let (output, call_id) = (output_text(&tool_call), tool_call.tool_call_id.clone());
        let effects = turn.on_update(SessionUpdate::ToolCallUpdate(tool_call), at);
        if self.is_cancelling {
            return (Decision::Cancelled, effects);
        }
        if self.requests.len() >= MAX_REQUESTS {
            let error = RpcError::new(INVALID_REQUEST, "too many permissions wait for an answer");
            return (Decision::Refuse(error), effects);
        }
        self.count += 1;
        let title = turn.call_property(&call_id, "label").unwrap_or("permission");
        // An earlier update may have had the arguments.
        let input = turn.call_property(&call_id, "args").map(render);
        let details = input.into_iter().chain(output).collect::<Vec<_>>().join("\n");
        let details = details.chars().take(MAX_DETAILS).collect();
        let question = shorten(title);
        let choices = options.iter().map(|option| shorten(&option.name)).collect();
        let options = options.into_iter().map(|option| option.option_id).collect();
        let dialog = OpenDialog { id: format!("acp-{}", self.count), choices, question };
        self.requests.push_back(PermissionRequest { id, dialog, details, options });
        (Decision::Wait, effects)
    }

    /// Withdraws a permission request of the agent. Returns true if it was waiting.
    pub(crate) fn withdraw(&mut self, id: &Value) -> bool {
        let count = self.requests.len();
        self.requests.retain(|request| request.id != *id);
        self.requests.len() < count
    }

    /// Returns the dialog that is shown: that of the first request.
    pub(crate) fn dialog(&self) -> Option<OpenDialog> {
        self.requests.front().map(|request| request.dialog.clone())
    }

    /// Answers a dialog. Returns the id of its request and the outcome; `None` if it is not open any more. `picked`: position of the
    /// choice, `None` for no choice.
    pub(crate) fn answer(
        &mut self,
        dialog: &str,
        picked: Option<usize>,
    ) -> Option<(Value, PermissionOutcome)> {
        self.requests.front().filter(|request| request.dialog.id == dialog)?;
        let request = self.requests.pop_front()?;
        let option = picked.and_then(|picked| request.options.get(picked));
        let select = |id: &String| PermissionOutcome::Selected { option_id: id.clone() };
        let outcome = option.map_or(PermissionOutcome::Cancelled, select);
        Some((request.id, outcome))
    }

    /// Returns the answer of the running turn so far, and the open dialog, as text.
    pub(crate) fn text(&self) -> String {
        let mut parts: Vec<String> = self.turn.iter().map(TurnContent::text).collect();
        if let Some(PermissionRequest { dialog, details, .. }) = self.requests.front() {
            parts.push(dialog.question.clone());
            parts.push(details.clone());
            let choice = |(at, choice): (usize, &String)| format!("{}. {choice}", at + 1);
            parts.extend(dialog.choices.iter().enumerate().map(choice));
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    fn take_requests(&mut self) -> Vec<Value> {
        self.requests.drain(..).map(|request| request.id).collect()
    }
}

/// Returns a label in one line.
fn shorten(label: &str) -> String {
    one_line(label).chars().take(MAX_LABEL).collect()
}

/// Renders arguments for people: one line per field of a JSON object, other texts as they are.
fn render(args: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(args) else { return args.to_string() };
    let line = |(name, value): (String, Value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        value => format!("{name}: {value}"),
    };
    fields.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    const AT: TsMs = TsMs(1);

    fn session() -> Session {
        let mut session = Session { id: "s".to_string(), ..Session::default() };
        session.begin_turn();
        session
    }

    fn request(session: &str) -> PermissionParams {
        from_value(json!({
            "sessionId": session,
            "toolCall": { "toolCallId": "a", "title": "touch x", "rawInput": { "command": "touch x" } },
            "options": [
                { "optionId": "once", "name": "Allow", "kind": "allow_once" },
                { "optionId": "no", "name": "Reject", "kind": "reject_once" },
            ],
        }))
        .unwrap()
    }

    #[test]
    fn requests_are_shown_one_after_the_other() {
        let mut session = session();
        assert_eq!(session.on_request(json!(1), request("s"), AT).0, Decision::Wait);
        assert_eq!(session.on_request(json!("b"), request("s"), AT).0, Decision::Wait);
        let first = session.dialog().unwrap();
        assert_eq!(
            (first.question.as_str(), &first.choices[..]),
            ("touch x", &["Allow".to_string(), "Reject".to_string()][..])
        );
        assert!(session.text().contains("command: touch x"), "{}", session.text());
        let outcome = PermissionOutcome::Selected { option_id: "no".to_string() };
        assert_eq!(session.answer(&first.id, Some(1)), Some((json!(1), outcome)));
        assert_eq!(session.answer(&first.id, Some(1)), None, "the second one is another dialog");
        let second = session.dialog().unwrap();
        assert_ne!(second.id, first.id);
        assert_eq!(session.answer(&second.id, None), Some((json!("b"), PermissionOutcome::Cancelled)));
        assert!(session.dialog().is_none());
    }

    #[test]
    fn cancelled_turn_cancels_its_requests() {
        let mut session = session();
        session.on_request(json!(1), request("s"), AT);
        assert_eq!(session.cancel_turn(), Some(vec![json!(1)]));
        assert_eq!(session.on_request(json!(2), request("s"), AT).0, Decision::Cancelled);
        assert!(session.dialog().is_none());
        session.end_turn(AT);
        assert_eq!(session.cancel_turn(), None);
        session.begin_turn();
        assert_eq!(session.on_request(json!(3), request("s"), AT).0, Decision::Wait);
    }

    #[test]
    fn withdrawn_request_has_no_dialog() {
        let mut session = session();
        session.on_request(json!(1), request("s"), AT);
        assert!(!session.withdraw(&json!(2)));
        assert!(session.withdraw(&json!(1)));
        assert!(session.dialog().is_none());
    }

    #[test]
    fn unexpected_requests_are_refused() {
        let refused = |session: &mut Session, params| matches!(session.on_request(json!(1), params, AT), (Decision::Refuse(_), effects) if effects.is_empty());
        let mut session = session();
        assert!(refused(&mut session, request("other")));
        assert!(refused(&mut session, PermissionParams { options: Vec::new(), ..request("s") }));
        session.end_turn(AT);
        assert!(refused(&mut session, request("s")));
    }

    #[test]
    fn number_of_requests_is_bounded() {
        let mut session = session();
        let decide = |session: &mut Session, id: usize| session.on_request(json!(id), request("s"), AT).0;
        for id in 0..MAX_REQUESTS {
            assert_eq!(decide(&mut session, id), Decision::Wait);
        }
        assert!(matches!(decide(&mut session, MAX_REQUESTS), Decision::Refuse(_)));
        assert_eq!(session.end_turn(AT).2.len(), MAX_REQUESTS);
    }

    #[test]
    fn updates_between_turns_are_ignored() {
        let mut session = Session::default();
        let update = SessionUpdate::message("an earlier answer");
        assert_eq!(session.on_update(update, AT), []);
        assert_eq!(session.text(), "");
    }
}
