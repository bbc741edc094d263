//! Budgets: a graph's, which stops a turn in its middle, and the proxy's own, which refuses.

use std::time::{Duration, Instant};

use nerve_api::reply::{RunEnded, RunReply};
use nerve_api::request::{ExecuteGraph, GetRun};
use nerve_core::proxy::{ProxyBudget, ProxyKind, ProxySpec};
use serde_json::{Value, json};

use super::harness::Scene;

/// Runs a graph to its end, whatever that is.
async fn run(scene: &Scene, graph: Value) -> RunEnded {
    let definition = graph.as_object().unwrap().clone();
    let request = ExecuteGraph { definition, trace: true, ..ExecuteGraph::default() };
    match scene.stage.engine.execute_graph(request, Default::default()).await {
        Ok(RunReply::Ended(ended)) => *ended,
        Err(error) => {
            let message = error.to_string();
            let ended = *error.details.unwrap().ended.unwrap();
            assert!(!message.is_empty() && ended.status != "completed", "{ended:?}");
            ended
        }
        other => panic!("{other:?}"),
    }
}

fn graph(scene: &Scene, budget: &Value, steps: &Value) -> Value {
    json!({
        "graph": "g",
        "budget": budget,
        "nodes": { "a": {
            "type": "pty", "command": ["bash", "--norc", "--noprofile"], "profile": "caller", "record": false,
            "proxy": { "kind": "anthropic", "base_url": scene.model.url(), "prices": { "input": 3, "output": 15 } },
        } },
        "steps": steps,
    })
}

#[tokio::test]
async fn a_turn_in_which_a_graphs_tokens_are_used_up_is_stopped() {
    let scene = Scene::new().await;
    let ask = scene.ask();
    let long = json!([{ "id": "s", "node": "a", "input": format!("{ask} one; sleep 300") }, { "id": "t", "node": "a", "input": "echo", "depends_on": "s" }]);
    for (budget, says) in [
        (json!({ "max_tokens": 1 }), "Token limit exceeded"),
        (json!({ "max_cost_dollars": 0.000_001 }), "Cost limit exceeded"),
        (json!({ "max_api_calls": 1 }), "API call limit exceeded"),
    ] {
        let began = Instant::now();
        let ended = run(&scene, graph(&scene, &budget, &long)).await;
        assert_eq!(ended.status, "failed", "{ended:?}");
        let run = GetRun { run_id: ended.run_id.clone(), last: None };
        let error = scene.stage.engine.get_run(run, Default::default()).await.unwrap().error.unwrap();
        assert!(error.contains(says), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60), "the turn would take five minutes");
    }
    assert_eq!(scene.model.requests().len(), 3);
}

#[tokio::test]
async fn what_a_step_used_is_in_its_trace_and_counted_once() {
    let scene = Scene::new().await;
    let ask = scene.ask();
    let steps = json!([{ "id": "s", "node": "a", "input": format!("{ask} one; {ask} two") }]);
    let ended = run(&scene, graph(&scene, &json!({ "max_tokens": 1_000_000 }), &steps)).await;
    assert_eq!(ended.status, "completed", "{ended:?}");
    let trace = ended.trace.unwrap();
    let step = &trace["steps"][0];
    let usage = &step["output"]["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(count("requests"), 2);
    let total = count("input") + count("output") + count("cache_read") + count("cache_write");
    assert!(total > 0);
    assert_eq!((&step["tokens_used"], &trace["total_tokens"]), (&json!(total), &json!(total)));
    let cost = usage["cost_usd"].as_f64().unwrap();
    let total_cost = trace["total_cost"].as_f64().unwrap();
    assert!((total_cost - cost).abs() < 1e-8, "{total_cost} {cost}");
    assert!((step["metadata"]["cost_dollars"].as_f64().unwrap() - cost).abs() < 1e-8);
}

#[tokio::test]
async fn its_own_budget_refuses() {
    let scene = Scene::new().await;
    let budget = ProxyBudget { max_requests: Some(1), ..ProxyBudget::default() };
    scene.create(scene.spec("a", ProxySpec { budget, ..scene.proxy(ProxyKind::Anthropic) })).await.unwrap();
    let ask = scene.ask();
    let first = scene.stage.ask("a", &format!("{ask} one")).await;
    assert_eq!(first.usage.unwrap().requests, 1);
    let second = scene.stage.ask("a", &format!("{ask} two")).await;
    assert!(
        second.text.contains("402") && second.text.contains("budget of the nerve proxy is used up"),
        "{}",
        second.text
    );
    assert_eq!(second.usage.unwrap().requests, 0, "a refused one used nothing");
    assert_eq!(scene.fact("a", "proxy_refused").await.as_deref(), Some("1"));
    scene.stage.stop("a").await;
}
