//! Budgets: a graph's, which stops a turn in its middle, and the proxy's own, which refuses.

use std::time::{Duration, Instant};

use nerve_core::command::{Command, GraphSource, Reply, RunGraph, RunStatus};
use nerve_core::proxy::{ProxyBudget, ProxyKind, ProxySpec};
use serde_json::{Value, json};

use super::scene::Scene;

async fn run(scene: &Scene, graph: Value) -> nerve_core::command::RunEnded {
    let run = RunGraph {
        graph: GraphSource::Whole(graph),
        session: None,
        input: Value::Null,
        run: None,
        trace: true,
        detach: false,
        keep_nodes: false,
        parent: None,
    };
    match scene.stage.engine.execute(Command::RunGraph(Box::new(run))).await.unwrap() {
        Reply::RunEnded(ended) => *ended,
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
        assert_eq!(ended.info.status, RunStatus::Failed, "{ended:?}");
        let error = ended.info.error.clone().unwrap();
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
    assert_eq!(ended.info.status, RunStatus::Completed, "{ended:?}");
    let trace = ended.trace.unwrap();
    let usage = &trace.steps[0].output["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(count("requests"), 2);
    let total = count("input") + count("output") + count("cache_read") + count("cache_write");
    assert!(total > 0);
    assert_eq!((trace.steps[0].tokens_used, trace.total_tokens), (total, total));
    let cost = usage["cost_usd"].as_f64().unwrap();
    assert!((trace.total_cost - cost).abs() < 1e-8, "{} {cost}", trace.total_cost);
    assert!((trace.steps[0].metadata["cost_dollars"].as_f64().unwrap() - cost).abs() < 1e-8);
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
