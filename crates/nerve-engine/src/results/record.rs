//! The stored record of an execution.

use nerve_api::reply::{ResultInfo, WebhookStatus};
use nerve_api::value::Delivery;
pub use nerve_api::value::ResultStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::webhook::Webhook;
use nerve_node::command::Response;
use nerve_node::error::{EngineError, ErrorKind};

/// The stored record of an execution. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultRecord {
    /// The id.
    pub result_id: String,
    /// The node.
    pub node_id: String,
    /// The node's session.
    pub session_id: String,
    /// The state.
    pub status: ResultStatus,
    /// The beginning of the prompt.
    pub prompt: String,
    /// Time of the request.
    pub created_at: f64,
    /// Time the turn started.
    pub started_at: Option<f64>,
    /// Time the execution ended.
    pub ended_at: Option<f64>,
    /// The turn's response, as built by [`Response::into_value`].
    pub response: Option<Value>,
    /// Error, if there is no response.
    pub error: Option<RecordedError>,
    /// The webhook that is called at the end.
    pub webhook: Option<WebhookStatus>,
}

/// A stored [`EngineError`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedError {
    /// Message: what failed, and why.
    pub message: String,
    /// The kind.
    pub error_type: ErrorKind,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The screen of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// The choices of the open dialog.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Progress of the prompt's delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

/// Returns the status of a webhook that was not called yet. It contains neither the secret nor the URL's path and query.
pub(crate) fn webhook_status(webhook: &Webhook) -> WebhookStatus {
    WebhookStatus { origin: webhook.origin(), signed: webhook.is_signed(), ..WebhookStatus::default() }
}

impl From<EngineError> for RecordedError {
    fn from(error: EngineError) -> RecordedError {
        RecordedError {
            error_type: error.kind,
            message: error.message,
            hint: error.hint,
            screen: error.screen,
            choices: error.choices.into(),
            delivery: error.delivery,
        }
    }
}

impl ResultRecord {
    /// Records the outcome.
    pub(crate) fn end(&mut self, at: f64, outcome: Result<Response, EngineError>) {
        self.ended_at = Some(at);
        match outcome {
            Ok(response) => {
                let response = response.into_value();
                let succeeded = response.get("success").and_then(Value::as_bool).unwrap_or(false);
                self.status = if succeeded { ResultStatus::Done } else { ResultStatus::Failed };
                self.response = Some(response);
            }
            Err(error) => {
                self.status = ResultStatus::Failed;
                self.error = Some(error.into());
            }
        }
    }

    /// Marks the execution as lost because its server ended; `how` says how.
    pub(crate) fn lose(&mut self, at: f64, how: &str) {
        let has_started = self.started_at.is_some();
        self.status = ResultStatus::Lost;
        self.ended_at = Some(at);
        let (message, hint) = if has_started {
            let hint = format!(
                "the turn may have continued: see 'nerve server node history {0}' and 'nerve server node read {0}'",
                self.node_id
            );
            (format!("{how} before the turn ended"), hint)
        } else {
            (format!("{how} before the turn began"), "run it again".to_string())
        };
        self.error = Some(RecordedError {
            message,
            error_type: ErrorKind::Lost,
            hint: Some(hint),
            ..Default::default()
        });
    }

    /// Gives up the delivery of the webhook, unless it was delivered.
    pub(crate) fn give_up_webhook(&mut self, why: &str) {
        if let Some(webhook) = self.webhook.as_mut().filter(|webhook| !webhook.delivered) {
            webhook.gave_up.get_or_insert_with(|| why.to_string());
        }
    }

    /// Returns the record without response and screen, for lists.
    #[must_use]
    pub(crate) fn summary(mut self) -> ResultRecord {
        self.response = None;
        if let Some(error) = &mut self.error {
            error.screen = None;
        }
        self
    }
}

impl From<ResultRecord> for ResultInfo {
    fn from(record: ResultRecord) -> ResultInfo {
        let (message, error_type) =
            record.error.as_ref().map(|error| (error.message.clone(), error.error_type)).unzip();
        let RecordedError { hint, screen, choices, delivery, .. } = record.error.unwrap_or_default();
        let turn = record.response.as_ref().and_then(|response| response.get("turn")).and_then(Value::as_u64);
        ResultInfo {
            result_id: record.result_id,
            node_id: record.node_id,
            session_id: record.session_id,
            status: record.status,
            prompt: record.prompt,
            created_at: record.created_at,
            started_at: record.started_at,
            ended_at: record.ended_at,
            turn,
            response: record.response.and_then(|response| serde_json::from_value(response).ok()),
            error: message,
            error_type,
            hint,
            screen,
            choices,
            delivery,
            webhook: record.webhook,
        }
    }
}
