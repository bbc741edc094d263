//! Changes to the record of an asynchronous execution.

use nerve_api::reply::{NodeExplanation, ResultInfo, Turn, WebhookStatus};
use nerve_api::session_option;
use nerve_api::value::ResultStatus;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_types::activity::TsMs;

use crate::webhook::Webhook;

/// Returns the status of a webhook that was not called yet. It contains neither the secret nor the URL's path and query.
pub(crate) fn webhook_status(webhook: &Webhook) -> WebhookStatus {
    WebhookStatus { origin: webhook.origin(), signed: webhook.is_signed(), ..WebhookStatus::default() }
}

/// Records the outcome of an execution that ended at `at`. `is_stopped`: its node is
/// stopped, which interrupts a turn, too.
pub(crate) fn end(
    record: &mut ResultInfo,
    at: TsMs,
    outcome: Result<Response, EngineError>,
    is_stopped: bool,
) {
    let failure = |kind| match kind {
        Some(ErrorKind::Cancelled) => ResultStatus::Cancelled,
        Some(ErrorKind::Interrupted) if !is_stopped => ResultStatus::Cancelled,
        _ => ResultStatus::Failed,
    };
    record.ended_at = Some(at);
    match outcome {
        Ok(response) => {
            let Turn { response, turn, .. } = response.into();
            record.status = if response.success { ResultStatus::Done } else { failure(response.error_type) };
            unblock(record);
            record.delivery = Some(response.delivery);
            record.turn = Some(turn);
            record.response = Some(response);
        }
        Err(error) => {
            record.status = failure(Some(error.kind));
            record.error = Some(error.message);
            record.error_type = Some(error.kind);
            record.hint = error.hint;
            record.screen = error.screen;
            record.choices = error.choices.into();
            record.delivery = error.delivery;
            record.text = error.text.map(String::from);
        }
    }
}

/// Records that a dialog blocks the node of an execution, which continues when the dialog is answered.
pub(crate) fn block(record: &mut ResultInfo, why: NodeExplanation) {
    record.error = Some(format!("node '{}' is {}: {}", record.node_id, why.state, why.evidence));
    record.error_type = Some(ErrorKind::Blocked);
    let (node, option) = (&record.node_id, session_option(&record.session_id));
    record.hint = Some(format!(
        "answer the dialog: `nerve answer {node}{option} NUMBER`; the execution then continues"
    ));
    record.screen = Some(why.screen);
    record.choices = why.choices;
    record.delivery = why.turn.map(|turn| turn.delivery);
}

/// Records that no dialog blocks the node any more.
pub(crate) fn unblock(record: &mut ResultInfo) {
    (record.error, record.error_type, record.hint, record.screen) = (None, None, None, None);
    record.choices.clear();
    record.delivery = None;
}

/// Marks the execution as lost because its server ended. `how`: beginning of the message, such as "the server ended".
pub(crate) fn mark_lost(record: &mut ResultInfo, at: TsMs, how: &str) {
    record.status = ResultStatus::Lost;
    record.ended_at = Some(at);
    let (message, hint) = if record.started_at.is_some() {
        let hint = format!(
            "the turn may have continued: see 'nerve logs {0}' and 'nerve node read {0}'",
            record.node_id
        );
        (format!("{how} before the turn ended"), hint)
    } else {
        (format!("{how} before the turn began"), "run it again".to_string())
    };
    record.error = Some(message);
    record.error_type = Some(ErrorKind::Lost);
    record.hint = Some(hint);
}

/// Gives up the delivery of the webhook, unless it was delivered.
pub(crate) fn give_up_webhook(record: &mut ResultInfo, why: &str) {
    if let Some(webhook) = record.webhook.as_mut().filter(|webhook| !webhook.delivered) {
        webhook.gave_up.get_or_insert_with(|| why.to_string());
    }
}

/// Returns the record without the response, the screen and the text, for lists.
pub(super) fn summary(record: ResultInfo) -> ResultInfo {
    ResultInfo { turn: None, response: None, screen: None, text: None, ..record }
}
