//! What is kept of an execution, as it stands in its file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::Response;
use crate::error::EngineError;
use crate::webhook::{Attempt, Webhook};

/// Where an execution is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultStatus {
    /// Others are before it.
    #[default]
    Queued,
    /// Its turn runs, or waits for the node.
    Running,
    /// The turn ended, and the node did what it was asked.
    Done,
    /// It did not, or somebody cancelled it.
    Failed,
    /// Its server ended before it did. What became of the turn is not known here.
    Lost,
}

impl ResultStatus {
    /// The name in files and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ResultStatus::Queued => "queued",
            ResultStatus::Running => "running",
            ResultStatus::Done => "done",
            ResultStatus::Failed => "failed",
            ResultStatus::Lost => "lost",
        }
    }

    /// Nothing comes after it.
    pub fn is_end(self) -> bool {
        !matches!(self, ResultStatus::Queued | ResultStatus::Running)
    }
}

/// What is kept of an execution. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultRecord {
    /// Its id.
    pub result_id: String,
    /// The node.
    pub node_id: String,
    /// The node's session.
    pub session_id: String,
    /// Where it is in its life.
    pub status: ResultStatus,
    /// How the prompt begins.
    pub prompt: String,
    /// When it was asked for.
    pub created_at: f64,
    /// When its turn came.
    pub started_at: Option<f64>,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// The turn's response, as [`Response::into_value`] has it.
    pub response: Option<Value>,
    /// Why there is none.
    pub error: Option<RecordedError>,
    /// Who is told of its end.
    pub webhook: Option<WebhookRecord>,
}

/// Why an execution has no response: an [`EngineError`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedError {
    /// What happened, to what.
    pub message: String,
    /// Which kind, as on the wire.
    pub error_type: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the terminal showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// The choices of the dialog that blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// How far the prompt came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
}

/// Who is told of the end, and what came of it. The secret is not kept, and of the URL neither path nor query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookRecord {
    /// Scheme, host and port.
    pub origin: String,
    /// There is a secret.
    pub signed: bool,
    /// Somebody has taken it.
    pub delivered: bool,
    /// All tries so far.
    pub attempts: Vec<Attempt>,
    /// Why it is not tried any more.
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
    /// The execution ended in this way.
    pub(crate) fn end(&mut self, at: f64, outcome: Result<Response, EngineError>) {
        self.ended_at = Some(at);
        match outcome {
            Ok(response) => {
                let response = response.into_value();
                let done = response.get("success").and_then(Value::as_bool).unwrap_or(false);
                self.status = if done { ResultStatus::Done } else { ResultStatus::Failed };
                self.response = Some(response);
            }
            Err(error) => {
                self.status = ResultStatus::Failed;
                self.error = Some(error.into());
            }
        }
    }

    /// Its server ended before it did: `how`, in words.
    pub(crate) fn lose(&mut self, at: f64, how: &str) {
        let begun = self.started_at.is_some();
        self.status = ResultStatus::Lost;
        self.ended_at = Some(at);
        let (message, hint) = if begun {
            let hint = format!(
                "the turn may have gone on: see 'nerve server node history {0}' and 'nerve server node read {0}'",
                self.node_id
            );
            (format!("{how} before the turn ended"), hint)
        } else {
            (format!("{how} before the turn began"), "ask again".to_string())
        };
        self.error = Some(RecordedError {
            message,
            error_type: "lost".to_string(),
            hint: Some(hint),
            ..Default::default()
        });
    }

    /// Nobody tries to deliver its webhook any more: `why`.
    pub(crate) fn give_up_webhook(&mut self, why: &str) {
        if let Some(webhook) = self.webhook.as_mut().filter(|webhook| !webhook.delivered) {
            webhook.gave_up.get_or_insert_with(|| why.to_string());
        }
    }

    /// The same without its response: as it is listed.
    #[must_use]
    pub(crate) fn summary(mut self) -> ResultRecord {
        self.response = None;
        if let Some(error) = &mut self.error {
            error.screen = None;
        }
        self
    }
}
