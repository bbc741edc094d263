//! Domain types as replies. This is the only place that converts them.

use nerve_api::reply::{
    BudgetExceeded, ErrorDetails, GateInfo, NodeDetails, NodeExplanation, NodeInfo, ResultInfo, RunningTurn,
    SessionInfo, Turn, TurnResponse, WebhookAttempt, WebhookStatus,
};
use nerve_types::TsNs;
use serde_json::{Map, Value, json};

use crate::budget::Exceeded;
use crate::command;
use crate::error::EngineError;
use crate::results::{RecordedError, ResultRecord, WebhookRecord};
use crate::session::DEFAULT;

/// Limit of an error message in bytes. It may repeat a name that is megabytes long.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// Returns a time in seconds since the Unix epoch, exact to well under a microsecond until the year 2100.
pub fn seconds(time: TsNs) -> f64 {
    time.0 as f64 / 1e9
}

impl From<command::NodeInfo> for NodeInfo {
    fn from(info: command::NodeInfo) -> NodeInfo {
        let command::NodeInfo { id, session, kind, state, persistent, metadata } = info;
        let mut metadata: Map<String, Value> =
            metadata.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
        // The default session has no name in the engine's references.
        let session = if session.is_empty() { DEFAULT.to_string() } else { session };
        metadata.insert("session".to_string(), Value::from(session));
        NodeInfo { id, kind: kind.to_string(), state: state.as_str().to_string(), persistent, metadata }
    }
}

impl From<command::NodeInfo> for NodeDetails {
    fn from(info: command::NodeInfo) -> NodeDetails {
        NodeInfo::from(info).into()
    }
}

impl From<command::Explanation> for NodeExplanation {
    fn from(explanation: command::Explanation) -> NodeExplanation {
        let command::Explanation { info, evidence, source, offset, choices, screen, turn } = explanation;
        let info = NodeInfo::from(info);
        NodeExplanation {
            node_id: info.id,
            state: info.state,
            evidence,
            source: source.to_string(),
            offset,
            choices,
            screen,
            turn: turn.map(|(turn, delivery)| RunningTurn { turn, delivery: delivery.to_string() }),
            metadata: info.metadata,
        }
    }
}

impl From<command::SessionInfo> for SessionInfo {
    fn from(info: command::SessionInfo) -> SessionInfo {
        let command::SessionInfo { name, description, tags, nodes, graphs, created } = info;
        SessionInfo { name, description, tags, nodes, graphs, created_at: seconds(created) }
    }
}

impl From<command::GateInfo> for GateInfo {
    fn from(gate: command::GateInfo) -> GateInfo {
        let command::GateInfo { step, question, choices, default, deadline } = gate;
        GateInfo { step_id: step, question, choices, default, deadline: deadline.map(seconds) }
    }
}

/// Converts a finished turn into the object that a step of a graph returns too.
impl From<command::Response> for Turn {
    fn from(response: command::Response) -> Turn {
        let (node_id, turn) = (response.node.clone(), response.turn);
        // The fields are those of the reply, so this cannot fail.
        let response = serde_json::from_value(response.into_value()).unwrap_or_else(|error| TurnResponse {
            error: Some(error.to_string()),
            ..TurnResponse::default()
        });
        Turn { response, node_id, turn }
    }
}

impl From<ResultRecord> for ResultInfo {
    fn from(record: ResultRecord) -> ResultInfo {
        let error = record.error.unwrap_or_default();
        let RecordedError { message, error_type, hint, screen, choices, delivery } = error;
        let turn = record.response.as_ref().and_then(|response| response.get("turn")).and_then(Value::as_u64);
        ResultInfo {
            result_id: record.result_id,
            node_id: record.node_id,
            session_id: record.session_id,
            status: record.status.as_str().to_string(),
            prompt: record.prompt,
            created_at: record.created_at,
            started_at: record.started_at,
            ended_at: record.ended_at,
            turn,
            response: record.response.and_then(|response| serde_json::from_value(response).ok()),
            error: Some(message).filter(|message| !message.is_empty()),
            error_type: Some(error_type).filter(|error_type| !error_type.is_empty()),
            hint,
            screen,
            choices,
            delivery,
            webhook: record.webhook.map(webhook),
        }
    }
}

fn webhook(record: WebhookRecord) -> WebhookStatus {
    let WebhookRecord { origin, signed, delivered, attempts, gave_up } = record;
    let attempts = attempts.into_iter().map(|attempt| WebhookAttempt {
        at: attempt.at,
        status: attempt.status,
        error: attempt.error,
    });
    WebhookStatus { origin, signed, delivered, attempts: attempts.collect(), gave_up }
}

impl EngineError {
    /// Splits the error into its message, cut to 16 KiB, and its details.
    pub fn into_reply(self) -> (String, ErrorDetails) {
        let EngineError { kind, mut message, hint, screen, choices, delivery, details } = self;
        if message.len() > LONGEST_MESSAGE {
            let end = (0..=LONGEST_MESSAGE).rev().find(|&end| message.is_char_boundary(end));
            message.truncate(end.unwrap_or(0));
            message.push('…');
        }
        let (exceeded, run) = details.map_or((None, None), |run| (run.exceeded, run.ended));
        let details = ErrorDetails {
            error_type: kind.as_str().to_string(),
            hint,
            screen,
            choices: choices.into(),
            delivery: delivery.map(str::to_string),
            exceeded: exceeded.map(BudgetExceeded::from),
            run,
        };
        (message, details)
    }
}

impl From<Exceeded> for BudgetExceeded {
    fn from(exceeded: Exceeded) -> BudgetExceeded {
        let Exceeded { reason, budget, usage } = exceeded;
        let limits = [
            ("max_tokens", budget.max_tokens.map(Value::from)),
            ("max_time_seconds", budget.max_time_seconds.map(Value::from)),
            ("max_steps", budget.max_steps.map(Value::from)),
            ("max_api_calls", budget.max_api_calls.map(Value::from)),
            ("max_cost_dollars", budget.max_cost_dollars.map(Value::from)),
        ];
        let budget =
            limits.into_iter().filter_map(|(name, limit)| Some((name.to_string(), limit?))).collect();
        let usage = json!({
            "tokens_used": usage.tokens_used(), "steps_executed": usage.steps_executed(),
            "api_calls": usage.api_calls(), "cost_dollars": usage.cost_dollars(),
            "start_time": seconds(usage.start_time()), "elapsed_seconds": usage.elapsed().as_secs_f64(),
        });
        let usage = match usage {
            Value::Object(usage) => usage,
            _ => Map::new(),
        };
        BudgetExceeded { reason, budget, usage }
    }
}
