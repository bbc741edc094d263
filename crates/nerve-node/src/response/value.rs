//! A finished turn as the reply to EXECUTE_INPUT and as the result of a graph step.

use nerve_api::reply::{Turn, TurnResponse};
use nerve_types::activity::TsMs;
use serde_json::{Value, json};

use super::{Response, TurnFailure};

impl From<Response> for Turn {
    fn from(turn: Response) -> Turn {
        let (failure, interrupted) = (turn.failure(), turn.is_interrupted());
        let success = failure.is_none();
        let (error, error_type, hint) = match failure {
            Some(TurnFailure { kind, message, hint }) => (Some(message), Some(kind), hint),
            None => (None, None, None),
        };
        let mut attributes = turn.attributes;
        let mut add = |name: &str, value: Value| attributes.insert(name.to_string(), value);
        add("ended_by", turn.ended_by.into());
        add("bytes", json!(turn.bytes));
        add("started_at", TsMs::from(turn.time.start).iso().into());
        add("ended_at", TsMs::from(turn.time.end).iso().into());
        if !turn.warnings.is_empty() {
            add("warnings", turn.warnings.into());
        }
        // The same text is not repeated.
        let raw = if turn.raw == turn.text { String::new() } else { turn.raw };
        let response = TurnResponse {
            raw,
            text: turn.text,
            sections: turn.sections,
            tokens: turn.tokens,
            usage: turn.usage,
            is_complete: turn.is_complete,
            is_ready: turn.is_ready,
            source: turn.source,
            delivery: turn.delivery,
            interrupted,
            success,
            error,
            error_type,
            hint,
            attributes,
        };
        Turn { response, node_id: turn.node, turn: turn.turn }
    }
}

impl Response {
    /// Converts the response into the result of a graph step: one object, with `success: false` if the turn ended in a failure.
    pub fn into_value(self) -> Value {
        Turn::from(self).into_value()
    }
}
