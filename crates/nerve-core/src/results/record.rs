//! The stored record of an execution.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::Response;
use crate::error::EngineError;
use crate::webhook::{Attempt, Webhook};

/// The state of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ResultStatus {
    /// Waiting for earlier executions.
    #[default]
    Queued,
    /// The turn is running, or waits for the node.
    Running,
    /// The turn ended successfully.
    Done,
    /// The turn failed or was cancelled.
    Failed,
    /// The server ended before the execution. The outcome of the turn is unknown.
    Lost,
}

impl ResultStatus {
    /// Returns the name in files and on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true if the state is final.
    pub fn is_end(self) -> bool {
        !matches!(self, ResultStatus::Queued | ResultStatus::Running)
    }
}

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
    pub webhook: Option<WebhookRecord>,
}

/// A stored [`EngineError`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedError {
    /// Message: what failed, and why.
    pub message: String,
    /// The kind, as on the wire.
    pub error_type: String,
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
    pub delivery: Option<String>,
}

/// The delivery of a webhook. The secret, and the URL's path and query are not stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookRecord {
    /// Scheme, host and port.
    pub origin: String,
    /// The webhook is signed with a secret.
    pub signed: bool,
    /// The receiver accepted the delivery.
    pub delivered: bool,
    /// All attempts so far.
    pub attempts: Vec<Attempt>,
    /// Reason for abandoning delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

impl From<&Webhook> for WebhookRecord {
    fn from(webhook: &Webhook) -> WebhookRecord {
        let (origin, signed) = (webhook.origin(), webhook.is_signed());
        WebhookRecord { origin, signed, ..WebhookRecord::default() }
    }
}

impl From<EngineError> for RecordedError {
    fn from(error: EngineError) -> RecordedError {
        RecordedError {
            error_type: error.kind.as_str().to_string(),
            message: error.message,
            hint: error.hint,
            screen: error.screen,
            choices: error.choices.into(),
            delivery: error.delivery.map(str::to_string),
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
            error_type: "lost".to_string(),
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
