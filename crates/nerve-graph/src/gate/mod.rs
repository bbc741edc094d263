//! A gate: a step that ends when a person has answered.

pub mod open_gates;
pub(crate) mod question;

use std::time::Duration;

use serde_json::Value;

/// A step that asks a person a question: the input, or its own if the input is null.
///
/// Its result is `{"choice": "yes", "by": "person"}`. `by` is `default` if the default choice was used.
#[derive(Debug)]
pub struct Gate {
    id: String,
    question: String,
    choices: Vec<String>,
    default: Option<String>,
    timeout: Option<Duration>,
}

impl Gate {
    /// Creates a gate that accepts any answer and waits without a deadline.
    pub fn new(id: impl Into<String>, question: impl Into<String>) -> Gate {
        Gate { id: id.into(), question: question.into(), choices: Vec::new(), default: None, timeout: None }
    }

    /// Accepts only these answers.
    #[must_use]
    pub fn choices<I: IntoIterator<Item: Into<String>>>(mut self, choices: I) -> Gate {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the answer that is used if none arrives in time.
    #[must_use]
    pub fn default_choice(mut self, choice: impl Into<String>) -> Gate {
        self.default = Some(choice.into());
        self
    }

    /// Sets how long to wait for an answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Gate {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the gate's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the question for this input.
    fn question(&self, input: &Value) -> String {
        match input {
            Value::Null => self.question.clone(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}
