//! Errors as replies.

use nerve_api::reply::{BudgetExceeded, ErrorDetails};
use nerve_types::activity::TsMs;
use serde_json::{Map, Value, json};

use crate::budget::ExceededRunBudget;
use crate::error::EngineError;

/// Limit of an error message in bytes. It may repeat a name that is megabytes long.
const MAX_MESSAGE: usize = 16 * 1024;

impl EngineError {
    /// Splits the error into its message, cut to 16 KiB, and its details.
    pub fn into_reply(self) -> (String, ErrorDetails) {
        let EngineError { kind, mut message, hint, screen, choices, delivery, text, details } = self;
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push('…');
        }
        let (exceeded, run) = details.map_or((None, None), |run| (run.exceeded, run.ended));
        let details = ErrorDetails {
            error_type: kind,
            hint,
            screen,
            choices: choices.into(),
            delivery,
            text: text.map(String::from),
            exceeded: exceeded.map(BudgetExceeded::from),
            run,
        };
        (message, details)
    }
}

impl From<ExceededRunBudget> for BudgetExceeded {
    fn from(exceeded: ExceededRunBudget) -> BudgetExceeded {
        let ExceededRunBudget { reason, budget, usage } = exceeded;
        let limits = [
            ("max_tokens", budget.max_tokens.map(Value::from)),
            ("max_time_ms", budget.max_time_ms.map(Value::from)),
            ("max_steps", budget.max_steps.map(Value::from)),
            ("max_api_calls", budget.max_api_calls.map(Value::from)),
            ("max_cost_usd", budget.max_cost_usd.map(Value::from)),
        ];
        let budget =
            limits.into_iter().filter_map(|(name, limit)| Some((name.to_string(), limit?))).collect();
        let usage = json!({
            "tokens_used": usage.tokens_used(), "steps_executed": usage.steps_executed(),
            "api_calls": usage.api_calls(), "cost_usd": usage.cost_usd(),
            "started_at": TsMs::from(usage.start_time()), "elapsed_ms": nerve_types::millis(usage.elapsed()),
        });
        let usage = match usage {
            Value::Object(usage) => usage,
            _ => Map::new(),
        };
        BudgetExceeded { reason, budget, usage }
    }
}
