//! The graph of a fan-out: one step for each attempt, and one after it for its test.

use std::time::Duration;

use nerve_api::request::UsageLimits;
use serde_json::{Map, Value, json};

use crate::fan_out::FanOut;
use crate::store::Store;

/// Returns the definition. `timeout` limits each turn and each test, `budget` all of them together.
pub fn definition(fan_out: &FanOut, timeout: Duration, budget: Option<UsageLimits>) -> Map<String, Value> {
    // Digits of a long timeout do not matter.
    let limit = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let mut nodes = Map::new();
    let mut steps = Vec::new();
    let mut parallel = 0;
    for attempt in fan_out.open_attempts() {
        parallel += 1;
        steps.push(json!({
            "id": attempt.label, "node": attempt.node, "input": "{{ input.task }}", "on_dialog": "wait",
            "error_policy": { "timeout_ms": limit },
        }));
        if fan_out.test.is_none() {
            continue;
        }
        let (step, cwd) = (attempt.test_step(), attempt.worktree.join(&fan_out.subdirectory));
        nodes.insert(step.clone(), json!({ "type": "bash", "cwd": cwd, "timeout": timeout.as_secs_f64() }));
        let input = format!("{{{{ input.tests['{}'] }}}}", attempt.label);
        steps.push(json!({ "id": step, "node": step, "input": input, "depends_on": [attempt.label] }));
    }
    let budget = budget.map(|limits| {
        json!({
            "max_tokens": limits.max_tokens, "max_cost_usd": limits.max_cost_usd, "max_time_ms": limits.max_time_ms,
            "at_limit": limits.at_limit,
        })
    });
    let graph = json!({
        "graph": fan_out.name, "inputs": { "task": {}, "tests": {} }, "max_parallel": parallel.max(1),
        "on_failure": "finish", "nodes": nodes, "steps": steps, "budget": budget,
    });
    match graph {
        Value::Object(graph) => graph,
        _ => Map::new(),
    }
}

/// Returns the input of the graph: texts of users, which are no templates.
pub fn input(fan_out: &FanOut, store: &Store) -> Value {
    let mut tests = Map::new();
    for attempt in fan_out.open_attempts() {
        let Some(test) = &fan_out.test else { break };
        let (log, exit) = (store.test_log(&fan_out.name, attempt), store.test_exit(&fan_out.name, attempt));
        let command = test_command(test, &log.to_string_lossy(), &exit.to_string_lossy());
        tests.insert(attempt.label.clone(), command.into());
    }
    json!({ "task": fan_out.task, "tests": tests })
}

/// Returns the shell command that runs a test and stores its output and exit code, also if the test calls `exit`.
fn test_command(test: &str, log: &str, exit: &str) -> String {
    let quote = shell_words::quote;
    format!(
        "rm -f {}\nbash -c {} >{} 2>&1 </dev/null\ncode=$?\necho $code >{}\nexit $code",
        quote(exit),
        quote(test),
        quote(log),
        quote(exit)
    )
}
