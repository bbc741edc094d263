//! Tools that wait for an agent.

use std::time::Duration;

use nerve_api::reply::{AnswerReply, ErrorDetails, ResultInfo, Turn, TurnAccepted};
use nerve_api::request::{AnswerNode, ExecuteInput};
use nerve_api::value::ParserKind;
use nerve_api::{DEFAULT_SESSION, ErrorKind, EventMessage, EventType};
use serde_json::json;

use super::args;
use super::nodes::seconds;
use crate::call::{Call, WaitOutcome, describe_node_event};
use crate::tool_result::{Failure, MAX_TEXT, Success, object, truncate};

/// Events that are reported as progress of a turn.
const PROGRESS_EVENTS: [EventType; 3] =
    [EventType::NodeActivity, EventType::OutputChunk, EventType::NodeBlocked];
/// Fields of a response that repeat its text, or have details of it.
const REPEATED_FIELDS: [&str; 3] = ["raw", "sections", "attributes"];
/// Note in an answer that was shortened.
const TRUNCATED_NOTE: &str = "the answer was too long and is cut: nerve_read has the rest";
/// Withdrawing a prompt is immediate unless the server is stuck.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn execute(call: Call, args: args::Execute) -> Result<Success, Failure> {
    run_turn(call, args, None).await
}

/// Runs a turn. `parser`: `None` for the node's.
pub(super) async fn run_turn(
    call: Call,
    args: args::Execute,
    parser: Option<ParserKind>,
) -> Result<Success, Failure> {
    let params = ExecuteInput {
        session_id: args.session.clone(),
        parser,
        timeout: seconds("timeout", args.timeout)?,
        stream: call.wants_progress(),
        fail_if_busy: args.fail_if_busy,
        detach_on_timeout: args.detach_on_timeout,
        ..ExecuteInput::new(args.node_id.as_str(), args.text)
    };
    let describe = describe_events_of(&args.node_id, args.session.as_deref());
    let (client, progress) = call.start(&PROGRESS_EVENTS, Some(&args.node_id), None, &describe).await?;
    let turn = if args.interrupt_on_cancel {
        let params = ExecuteInput { is_async: true, ..params };
        let accepted: TurnAccepted = client.request_as(&params).await?;
        let id = &accepted.result_id;
        match call.follow(client.wait_for_result(id, None), progress).await? {
            WaitOutcome::Done(result) => turn_result(result)?,
            WaitOutcome::Disconnected => return Err(cancelled("its turn continues")),
            WaitOutcome::Cancelled => {
                // Cancels exactly this turn: turns of others may be queued before it.
                let cancellation = tokio::time::timeout(CANCEL_TIMEOUT, client.cancel_result(id)).await;
                let status = if matches!(cancellation, Ok(Ok(_))) {
                    "its turn was interrupted"
                } else {
                    "its turn may continue"
                };
                return Err(cancelled(status));
            }
        }
    } else {
        match call.follow(client.request_as(&params), progress).await? {
            WaitOutcome::Done(turn) => turn,
            WaitOutcome::Cancelled | WaitOutcome::Disconnected => {
                return Err(cancelled("its turn continues"));
            }
        }
    };
    Ok(turn_success(turn).warn(client.take_warnings()))
}

pub(super) async fn answer(call: Call, args: args::Answer) -> Result<Success, Failure> {
    if args.choice.is_some() == args.cancel {
        let failure = Failure::new("invalid_arguments", "give either choice or cancel");
        return Err(failure.hint("nerve_read shows the dialog and its choices"));
    }
    let params = AnswerNode {
        node_id: args.node_id.clone(),
        session_id: args.session.clone(),
        choice: args.choice,
        cancel: args.cancel,
        wait: args.wait,
        timeout: seconds("timeout", args.timeout)?,
        ..AnswerNode::default()
    };
    let describe = describe_events_of(&args.node_id, args.session.as_deref());
    let (client, progress) = call.start(&PROGRESS_EVENTS, Some(&args.node_id), None, &describe).await?;
    match call.follow(client.request(&params), progress).await? {
        WaitOutcome::Done(AnswerReply::Turn(turn)) => Ok(turn_success(*turn).warn(client.take_warnings())),
        WaitOutcome::Done(AnswerReply::Done(_)) => {
            let text = format!("The dialog of node '{}' is answered.", args.node_id);
            Ok(Success::new(&text, &json!({ "node_id": args.node_id, "answered": true })))
        }
        WaitOutcome::Cancelled | WaitOutcome::Disconnected => {
            Err(cancelled("the dialog may be answered, and the turn continues"))
        }
    }
}

/// Returns a function that describes the events of one node.
fn describe_events_of(
    node: &str,
    session: Option<&str>,
) -> impl Fn(&EventMessage) -> Option<String> + Send + Sync {
    let (node, session) = (node.to_string(), session.unwrap_or(DEFAULT_SESSION).to_string());
    move |event| {
        let is_own = event.node_id.as_deref() == Some(node.as_str())
            && event.session_id.as_deref().is_none_or(|of| of == session);
        if is_own { describe_node_event(event) } else { None }
    }
}

/// Extracts the turn from a result; one without an answer is a failure.
fn turn_result(result: ResultInfo) -> Result<Turn, Failure> {
    let ResultInfo {
        node_id,
        turn,
        response,
        error,
        error_type,
        hint,
        screen,
        choices,
        delivery,
        text,
        status,
        ..
    } = result;
    if let Some(response) = response {
        return Ok(Turn { response, node_id, turn: turn.unwrap_or_default() });
    }
    let message = error.unwrap_or_else(|| format!("the turn on node '{node_id}' ended as {status}"));
    let error_type = error_type.unwrap_or(ErrorKind::Internal);
    let details = ErrorDetails { hint, screen, choices, delivery, text, ..ErrorDetails::of(error_type) };
    Err(Failure::with_details(error_type, message, details))
}

fn turn_success(done: Turn) -> Success {
    let Turn { response, node_id, turn } = done;
    let (text, truncated) = truncate(response.text.trim_end(), MAX_TEXT);
    let mut shown = if text.is_empty() { "(no text)".to_string() } else { text.clone() };
    if truncated {
        shown.push_str(&format!("\n[{TRUNCATED_NOTE}]"));
    }
    if !response.success {
        let reason = response.error.as_deref().unwrap_or("the node did not complete the request");
        shown.push_str(&format!("\n[failed: {reason}]"));
    }
    if !response.is_complete {
        shown.push_str("\n[the answer may be incomplete]");
    }
    let mut data = object(&response);
    data.retain(|name, field| !field.is_null() && !REPEATED_FIELDS.contains(&name.as_str()));
    let exit_code = response.attributes.get("exit_code");
    data.extend(exit_code.map(|code| ("exit_code".to_string(), code.clone())));
    let failed = !response.success;
    let success = Success { text: shown, data, failed, ..Success::default() };
    let success = success.with("node_id", node_id).with("turn", turn).with("text", text);
    if truncated { success.with("truncated", TRUNCATED_NOTE) } else { success }
}

/// Creates the failure of a cancelled call, which is never sent to the client.
fn cancelled(status: &str) -> Failure {
    Failure::new(ErrorKind::Cancelled, format!("the call was cancelled; {status}"))
}
