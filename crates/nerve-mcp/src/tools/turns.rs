//! Tools that wait for an agent.

use std::time::Duration;

use nerve_api::reply::{AnswerReply, ResultInfo, Turn, TurnAccepted, TurnResponse};
use nerve_api::request::{AnswerNode, ExecuteInput};
use nerve_api::{EventMessage, EventType};
use nerve_client::NerveClient;
use serde_json::{Map, Value, json};

use super::args;
use super::nodes::seconds;
use crate::call::{Call, News, Waited, of_node};
use crate::link::Listening;
use crate::outcome::{Failure, MAX_TEXT, Success, cut};

/// What is told of a turn while it runs.
const NEWS: [EventType; 3] = [EventType::NodeActivity, EventType::OutputChunk, EventType::NodeBlocked];
/// The session that is meant where none is named.
const DEFAULT_SESSION: &str = "default";
/// What is said of an answer that is cut.
const CUT: &str = "the answer was too long and is cut: nerve_read has the rest";
/// Taking a prompt back takes no time unless the server is stuck.
const TAKE_BACK: Duration = Duration::from_secs(5);

pub(super) async fn execute(call: Call) -> Result<Success, Failure> {
    let given = call.arguments()?;
    take_turn(&call, given).await
}

pub(super) async fn take_turn(call: &Call, given: args::Execute) -> Result<Success, Failure> {
    let params = ExecuteInput {
        session_id: given.session.clone(),
        timeout: seconds("timeout", given.timeout)?,
        stream: call.wants_progress(),
        fail_if_busy: given.fail_if_busy,
        detach_on_timeout: given.detach_on_timeout,
        ..ExecuteInput::new(given.node_id.as_str(), given.text)
    };
    let words = news_of(&given.node_id, given.session.as_deref());
    let (client, news) = start(call, &given.node_id, &words).await?;
    let done = if given.interrupt_on_cancel {
        let asked = ExecuteInput { is_async: true, ..params };
        let accepted: TurnAccepted = client.request_as(&asked).await?;
        let id = &accepted.result_id;
        match call.follow(client.wait_for_result(id, None), news).await? {
            Waited::Done(result) => finished(result)?,
            Waited::Left => return Err(cancelled("its turn goes on")),
            Waited::Cancelled => {
                // That and no other turn: those of others may come before it on the same node.
                let taken = tokio::time::timeout(TAKE_BACK, client.cancel_result(id)).await;
                let what = if matches!(taken, Ok(Ok(_))) {
                    "its turn was interrupted"
                } else {
                    "its turn may go on"
                };
                return Err(cancelled(what));
            }
        }
    } else {
        match call.follow(client.request_as(&params), news).await? {
            Waited::Done(done) => done,
            Waited::Cancelled | Waited::Left => return Err(cancelled("its turn goes on")),
        }
    };
    Ok(answered(done).warn(client.take_warnings()))
}

pub(super) async fn answer(call: Call) -> Result<Success, Failure> {
    let given: args::Answer = call.arguments()?;
    if given.choice.is_some() == given.cancel {
        let failure = Failure::new("invalid_arguments", "give a choice, or cancel, and not both");
        return Err(failure.hint("nerve_read shows the dialog and its choices"));
    }
    let params = AnswerNode {
        node_id: given.node_id.clone(),
        session_id: given.session.clone(),
        choice: given.choice.map(Into::into),
        cancel: given.cancel,
        wait: given.wait,
        timeout: seconds("timeout", given.timeout)?,
    };
    let words = news_of(&given.node_id, given.session.as_deref());
    let (client, news) = start(&call, &given.node_id, &words).await?;
    match call.follow(client.request(&params), news).await? {
        Waited::Done(AnswerReply::Turn(turn)) => Ok(answered(*turn).warn(client.take_warnings())),
        Waited::Done(AnswerReply::Done(_)) => {
            let text = format!("The dialog of node '{}' is answered.", given.node_id);
            Ok(Success::new(text, json!({ "node_id": given.node_id, "answered": true })))
        }
        Waited::Cancelled | Waited::Left => {
            Err(cancelled("the dialog may be answered, and the turn goes on"))
        }
    }
}

/// A connection, with the node's events if the client wants to be told.
async fn start<'a>(
    call: &Call,
    node: &str,
    words: &'a (impl Fn(&EventMessage) -> Option<String> + Send + Sync),
) -> Result<(NerveClient, Option<News<'a>>), Failure> {
    if !call.wants_progress() {
        return Ok((call.link.client().await?, None));
    }
    let Listening { client, events } = call.link.listening(&NEWS, Some(node), None).await?;
    Ok((client, Some(News { events, words })))
}

/// What is told of a node's events, and of no other's.
fn news_of(node: &str, session: Option<&str>) -> impl Fn(&EventMessage) -> Option<String> + Send + Sync {
    let (node, session) = (node.to_string(), session.unwrap_or(DEFAULT_SESSION).to_string());
    move |event| {
        let ours = event.node_id.as_deref() == Some(node.as_str())
            && event.session_id.as_deref().is_none_or(|of| of == session);
        if ours { of_node(event) } else { None }
    }
}

/// The turn of a result that has ended; one that did not come to an answer is a failure.
fn finished(result: ResultInfo) -> Result<Turn, Failure> {
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
        status,
        ..
    } = result;
    if let Some(response) = response {
        return Ok(Turn { response, node_id, turn: turn.unwrap_or_default() });
    }
    let message = error.unwrap_or_else(|| format!("the turn on node '{node_id}' ended as {status}"));
    let more = delivery.map(|delivery| ("delivery".to_string(), json!(delivery)));
    let error_type = error_type.unwrap_or_else(|| "internal_error".to_string());
    let screen = screen.map(Into::into);
    Err(Failure { message, error_type, hint, screen, choices, more: Box::new(Map::from_iter(more)) })
}

fn answered(done: Turn) -> Success {
    let Turn { response, node_id, turn } = done;
    let (text, truncated) = cut(response.text.trim_end(), MAX_TEXT);
    let mut shown = if text.is_empty() { "(no text)".to_string() } else { text.clone() };
    if truncated {
        shown.push_str(&format!("\n[{CUT}]"));
    }
    if !response.success {
        let why = response.error.as_deref().unwrap_or("the node did not do what it was asked");
        shown.push_str(&format!("\n[failed: {why}]"));
    }
    if !response.is_complete {
        shown.push_str("\n[the end of the answer was not seen]");
    }
    let mut data = Map::new();
    let facts = [
        ("node_id", json!(node_id)),
        ("turn", json!(turn)),
        ("text", json!(text)),
        ("truncated", json!(truncated.then_some(CUT))),
        ("success", json!(response.success)),
        ("is_complete", json!(response.is_complete)),
        ("is_ready", json!(response.is_ready)),
        ("source", json!(response.source)),
        ("delivery", json!(response.delivery)),
        ("tokens", json!(response.tokens)),
        ("error", json!(response.error)),
        ("error_type", json!(response.error_type)),
    ];
    data.extend(
        facts.into_iter().filter(|(_, fact)| !fact.is_null()).map(|(name, fact)| (name.to_string(), fact)),
    );
    data.extend(extras(&response));
    Success { failed: !response.success, ..Success::new(shown, Value::Object(data)) }
}

/// Facts that only some nodes have.
fn extras(response: &TurnResponse) -> impl Iterator<Item = (String, Value)> + '_ {
    let names = ["exit_code", "interrupted"];
    names.into_iter().filter_map(|name| Some((name.to_string(), response.attributes.get(name)?.clone())))
}

/// Nobody hears it: the answer of a cancelled request is not sent.
fn cancelled(what: &str) -> Failure {
    Failure::new("cancelled", format!("the call was cancelled; {what}"))
}
