//! Replies and errors as result messages.

use nerve_api::RequestId;
use nerve_api::framing::MAX_LINE_BYTES;
use nerve_api::reply::{ExecuteReply, ModelUsage, RunEnded, RunReply, Section, Tokens, Turn};
use nerve_api::value::{Delivery, ResponseSource, SectionKind};
use nerve_graph::trace::ExecutionTrace;
use nerve_node::budget::{ExceededRunBudget, RunBudget, RunUsage};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;
use nerve_types::{TimeSpan, TsNs};
use serde_json::{Map, Value, json};

use super::ReplyContext;

fn context() -> ReplyContext {
    ReplyContext { request_id: Some(RequestId::from("r")), ..ReplyContext::default() }
}

fn parsed(line: &[u8]) -> Value {
    assert!(line.len() <= MAX_LINE_BYTES + 1, "{} bytes", line.len());
    serde_json::from_slice(line).unwrap()
}

fn answered(run: RunEnded) -> Value {
    parsed(&context().outcome_line(Ok(Box::new(RunReply::Ended(Box::new(run))))))
}

fn failed_with(run: RunEnded, mut error: EngineError) -> Value {
    error.details.get_or_insert_default().ended = Some(Box::new(run));
    parsed(&context().outcome_line(Err(error)))
}

fn ended(status: &str, results: Value) -> RunEnded {
    let Value::Object(results) = results else { panic!("{results}") };
    RunEnded {
        graph_id: "g".to_string(),
        run_id: "r1".to_string(),
        status: status.parse().unwrap(),
        results,
        started_at: TsMs(1000),
        tokens_used: 14,
        journal: Some("/runs/r1.jsonl".to_string()),
        faults: vec!["disk full".to_string()],
        ..RunEnded::default()
    }
}

#[test]
fn failed_runs_are_errors_with_results_and_budget() {
    let mut failed = ended("failed", json!({ "a": { "text": "done" } }));
    let mut error = EngineError::new(ErrorKind::Budget, "Token limit exceeded: 12/10").hint("give it more");
    let budget = RunBudget { max_tokens: Some(10), max_cost_usd: Some(0.5), ..RunBudget::default() };
    let usage = RunUsage::new();
    error = error.with_exceeded(ExceededRunBudget {
        reason: "Token limit exceeded: 12/10".to_string(),
        budget,
        usage,
    });
    failed.trace = Some(ExecutionTrace::new("g", TsNs(0)).to_dict());
    let reply = failed_with(failed, error);
    assert_eq!((&reply["success"], &reply["error"]), (&json!(false), &json!("Token limit exceeded: 12/10")));
    let data = &reply["data"];
    assert_eq!((&data["error_type"], &data["hint"]), (&json!("budget_exceeded"), &json!("give it more")));
    assert_eq!(data["exceeded"]["budget"], json!({ "max_tokens": 10, "max_cost_usd": 0.5 }));
    assert_eq!(data["exceeded"]["usage"]["tokens_used"], 0);
    assert_eq!(
        (&data["run_id"], &data["state"], &data["results"]["a"]["text"]),
        (&json!("r1"), &json!("failed"), &json!("done"))
    );
    assert_eq!(data["trace"]["graph_id"], "g");
    // The client's types read it.
    let typed: nerve_api::reply::ErrorDetails = serde_json::from_value(data.clone()).unwrap();
    assert_eq!(typed.run.unwrap().results["a"]["text"], "done");

    let done = answered(ended("completed", json!({ "a": 1 })));
    assert_eq!(
        (&done["success"], &done["error"], &done["data"]["results"]),
        (&json!(true), &json!(null), &json!({ "a": 1 }))
    );
    assert_eq!(done["data"].get("trace"), None);
}

#[test]
fn trace_and_results_are_left_out_of_long_messages() {
    let large = "x".repeat(MAX_LINE_BYTES);
    let mut traced = ended("completed", json!({ "a": "kept" }));
    let mut trace = ExecutionTrace::new("g", TsNs(0));
    trace.error = Some(large.clone());
    traced.trace = Some(trace.to_dict());
    let reply = answered(traced);
    assert_eq!((&reply["success"], &reply["data"]["results"]["a"]), (&json!(true), &json!("kept")));
    assert_eq!(reply["data"].get("trace"), None);
    assert!(reply["warnings"][0].as_str().unwrap().starts_with("trace omitted"), "{reply}");

    let reply = answered(ended("completed", json!({ "a": large })));
    assert!(reply["error"].as_str().unwrap().contains("'r1'"), "{reply}");
    assert_eq!((&reply["success"], &reply["data"]["error_type"]), (&json!(false), &json!("too_large")));
    assert!(reply["data"]["hint"].as_str().unwrap().ends_with("/runs/r1.jsonl"), "{reply}");
    assert_eq!((&reply["data"]["state"], &reply["data"]["results"]), (&json!("completed"), &json!({})));

    let failed = ended("failed", json!({ "a": large }));
    let reply = failed_with(failed, EngineError::timeout("step 'b' timed out"));
    assert_eq!(
        (&reply["error"], &reply["data"]["error_type"]),
        (&json!("step 'b' timed out"), &json!("timeout"))
    );
    assert!(reply["warnings"][0].as_str().unwrap().starts_with("results omitted"), "{reply}");
}

#[test]
fn turns_look_like_results_of_steps() {
    let response = Response {
        node: "me".to_string(),
        turn: 3,
        raw: "$ false".to_string(),
        text: "no".to_string(),
        sections: vec![Section::new(SectionKind::Text, "no")],
        tokens: Some(Tokens { input: None, output: Some(5), total: None }),
        usage: Some(ModelUsage {
            tokens: TokenUsage { input: 7, ..TokenUsage::default() },
            requests: 2,
            cost_usd: Some(0.5),
        }),
        is_complete: true,
        is_ready: true,
        is_agent: false,
        missing_text: None,
        source: ResponseSource::Screen,
        delivery: Delivery::Started,
        ended_by: "mark".to_string(),
        bytes: 1..9,
        time: TimeSpan { start: TsNs(1_000_000_000), end: TsNs(2_500_000_000) },
        attributes: Map::from_iter([("exit_code".to_string(), 2.into())]),
        warnings: Vec::new(),
    };
    let mut value = response.clone().into_value();
    let data = parsed(
        &context().outcome_line(Ok(Box::new(ExecuteReply::Turn(Box::new(Turn::from(response)))))),
    )["data"]
        .take();
    assert_eq!((&data["node_id"], &data["turn"]), (&json!("me"), &json!(3)));
    for field in ["node_id", "turn"] {
        value.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(data["response"], value);
    assert!(value["error"].as_str().unwrap().contains("exit code 2"), "{value}");
    assert_eq!((&value["success"], &value["error_type"]), (&json!(false), &json!("process_error")));
    assert_eq!((&value["tokens"], &value["attributes"]["exit_code"]), (&json!({ "output": 5 }), &json!(2)));
    assert_eq!(
        (value.get("output"), value["attributes"].get("sections")),
        (None, None),
        "the text is there once"
    );
    assert_eq!((&value["usage"]["input"], &value["usage"]["cost_usd"]), (&json!(7), &json!(0.5)));
}
