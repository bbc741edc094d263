//! Budgets: that of a graph stops a running turn, that of a proxy rejects requests.

use nerve_api::reply::{RunEnded, RunReply};
use nerve_api::request::{ExecuteGraph, GetRun, RunOptions};
use nerve_api::value::RunStatus;
use nerve_node::proxy::{Provider, ProxyBudget, ProxySettings};
use nerve_testkit::within_deadline;
use serde_json::{Value, json};

use super::harness::ProxyHarness;

/// Runs a graph until it completes or fails.
async fn run(harness: &ProxyHarness, graph: Value) -> RunEnded {
    let definition = graph.as_object().unwrap().clone();
    let request = ExecuteGraph {
        definition,
        options: RunOptions { trace: true, ..RunOptions::default() },
        detach: false,
    };
    match harness.nodes.engine.execute_graph(request, Default::default()).await {
        Ok(RunReply::Ended(ended)) => *ended,
        Err(error) => {
            let message = error.to_string();
            let ended = *error.details.unwrap().ended.unwrap();
            assert!(!message.is_empty() && ended.status != RunStatus::Completed, "{ended:?}");
            ended
        }
        other => panic!("{other:?}"),
    }
}

fn graph(harness: &ProxyHarness, budget: &Value, steps: &Value) -> Value {
    json!({
        "graph": "g",
        "budget": budget,
        "nodes": { "a": {
            "type": "pty", "command": ["bash", "--norc", "--noprofile"], "profile": "caller", "record": false,
            "proxy": { "kind": "anthropic", "base_url": harness.model.url(), "prices": { "input": 3, "output": 15 } },
        } },
        "steps": steps,
    })
}

#[tokio::test]
async fn exhausted_graph_budget_stops_the_turn() {
    let harness = ProxyHarness::new().await;
    let script = harness.script();
    let steps = json!([{ "id": "s", "node": "a", "input": format!("{script} one; sleep 1000") }, { "id": "t", "node": "a", "input": "echo", "depends_on": "s" }]);
    for (budget, expected) in [
        (json!({ "max_tokens": 1 }), "Token limit exceeded"),
        (json!({ "max_cost_usd": 0.000_001 }), "Cost limit exceeded"),
        (json!({ "max_api_calls": 1 }), "API call limit exceeded"),
    ] {
        let run = run(&harness, graph(&harness, &budget, &steps));
        let ended = within_deadline("the turn is stopped", run).await;
        assert_eq!(ended.status, RunStatus::Failed, "{ended:?}");
        let run = GetRun { run_id: ended.run_id.clone(), ..GetRun::default() };
        let error = harness.nodes.engine.get_run(run, Default::default()).await.unwrap().error.unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(harness.model.requests().len(), 3);
}

#[tokio::test]
async fn usage_of_a_step_is_traced_and_counted_once() {
    let harness = ProxyHarness::new().await;
    let script = harness.script();
    let steps = json!([{ "id": "s", "node": "a", "input": format!("{script} one; {script} two") }]);
    let ended = run(&harness, graph(&harness, &json!({ "max_tokens": 1_000_000 }), &steps)).await;
    assert_eq!(ended.status.as_str(), "completed", "{ended:?}");
    let trace = ended.trace.unwrap();
    let step = &trace["steps"][0];
    let usage = &step["output"]["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(count("requests"), 2);
    let total = count("input") + count("output") + count("cache_read") + count("cache_write");
    assert!(total > 0);
    assert_eq!((&step["tokens_used"], &trace["total_tokens"]), (&json!(total), &json!(total)));
    let cost = usage["cost_usd"].as_f64().unwrap();
    let total_cost = trace["total_cost_usd"].as_f64().unwrap();
    assert!((total_cost - cost).abs() < 1e-8, "{total_cost} {cost}");
    assert!((step["metadata"]["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-8);
}

#[tokio::test]
async fn proxy_budget_rejects_requests() {
    let harness = ProxyHarness::new().await;
    let budget = ProxyBudget { max_requests: Some(1), ..ProxyBudget::default() };
    harness
        .create(harness.spec("a", ProxySettings { budget, ..harness.proxy(Provider::Anthropic) }))
        .await
        .unwrap();
    let script = harness.script();
    let first = harness.nodes.ask("a", &format!("{script} one")).await;
    assert_eq!(first.usage.unwrap().requests, 1);
    let second = harness.nodes.ask("a", &format!("{script} two")).await;
    assert!(
        second.text.contains("402") && second.text.contains("budget of the nerve proxy is used up"),
        "{}",
        second.text
    );
    assert_eq!(second.usage.unwrap().requests, 0, "a rejected request was counted");
    assert_eq!(harness.metadata("a", "proxy_refused").await.as_deref(), Some("1"));
    harness.nodes.stop("a").await;
}
