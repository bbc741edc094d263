//! Graphs and runs over the protocol, with a real engine.

use std::path::Path;

use nerve_client::{NerveClient, RunOptions};
use nerve_testkit::eventually;
use serde_json::{Value, json};

use crate::harness::{Client, TestServer};

/// Returns a graph of steps on its own one-shot shell. Each step: id, command, dependencies.
fn graph(id: &str, steps: &[(&str, &str, &[&str])]) -> Value {
    let steps: Vec<Value> = steps
        .iter()
        .map(|(id, command, after)| json!({ "id": id, "node": "sh", "input": command, "depends_on": after }))
        .collect();
    json!({ "graph": id, "nodes": { "sh": { "type": "bash" } }, "steps": steps })
}

fn merge(mut params: Value, more: Value) -> Value {
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// Returns a command that ends when the file exists.
fn wait_command(marker: &Path) -> String {
    format!("until [ -e {} ]; do sleep 0.01; done; echo went on", marker.display())
}

fn result_text(result: &Value) -> &str {
    result["text"].as_str().unwrap_or_else(|| panic!("{result}")).trim()
}

/// Runs a command and returns its failed result.
async fn request_failure(client: &mut Client, command: &str, params: Value) -> Value {
    let reply = client.request(command, params).await;
    assert_eq!(reply["success"], false, "{reply}");
    reply
}

/// Waits until a run has this status.
async fn wait_for_status(client: &mut Client, run: &str, status: &str) -> Value {
    let mut data = Value::Null;
    eventually("the run's status", async || {
        data = client.request_ok("GET_RUN", json!({ "run_id": run })).await;
        let now = data["state"].as_str().unwrap();
        assert!(now == status || ["running", "waiting"].contains(&now), "{data}");
        now == status
    })
    .await;
    data
}

#[tokio::test]
async fn graph_runs_with_events_and_lookup() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let mut watcher = server.client().await;
    watcher.request_ok("SUBSCRIBE", json!({ "run_id": "r1" })).await;
    let steps: [(&str, &str, &[&str]); 2] =
        [("a", "echo {{ input }}", &[]), ("b", "echo after {{ steps.a.text | trim }}", &["a"])];
    let params = merge(graph("hello", &steps), json!({ "input": "world", "run_id": "r1", "trace": true }));
    let data = client.request_ok("EXECUTE_GRAPH", params).await;
    assert_eq!(
        (&data["graph_id"], &data["run_id"], &data["state"]),
        (&json!("hello"), &json!("r1"), &json!("completed"))
    );
    assert_eq!(
        (result_text(&data["results"]["a"]), result_text(&data["results"]["b"])),
        ("world", "after world")
    );
    assert_eq!(data["trace"]["steps"].as_array().unwrap().len(), 2, "{data}");

    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("GRAPH_COMPLETED") {
        let event = watcher.line().await.unwrap();
        assert_eq!(
            (&event["data"]["run_id"], &event["data"]["graph_id"]),
            (&json!("r1"), &json!("hello")),
            "{event}"
        );
        let kind = event["event_type"].as_str().unwrap().to_string();
        if kind.starts_with("STEP") {
            assert_eq!(
                (&event["node_id"], &event["data"]["node_id"]),
                (&json!("sh"), &json!("sh")),
                "{event}"
            );
        }
        kinds.push(kind);
    }
    assert_eq!(
        kinds,
        [
            "GRAPH_STARTED",
            "STEP_STARTED",
            "STEP_COMPLETED",
            "STEP_STARTED",
            "STEP_COMPLETED",
            "GRAPH_COMPLETED"
        ]
    );

    let run = client.request_ok("GET_RUN", json!({ "run_id": "r1" })).await;
    assert_eq!(
        (&run["state"], &run["total_steps"], &run["done_steps"]),
        (&json!("completed"), &json!(2), &json!(2))
    );
    assert_eq!((&run["steps"][1]["step_id"], &run["steps"][1]["state"]), (&json!("b"), &json!("completed")));
    let runs = client.request_ok("LIST_RUNS", json!({})).await;
    assert_eq!(runs["runs"][0]["run_id"], "r1");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_of_run_precede_its_answer() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let nodes = json!({ "t": { "type": "template", "template": "x" } });
    for round in 0..300 {
        let steps = json!([{ "id": "a", "node": "t", "input": round }]);
        let id = client.send("EXECUTE_GRAPH", json!({ "graph": "g", "nodes": nodes, "steps": steps })).await;
        let mut last = Value::Null;
        loop {
            let line = client.line().await.unwrap();
            if line["request_id"] == id.as_str() {
                assert_eq!(line["success"], true, "{line}");
                break;
            }
            last = line["event_type"].clone();
        }
        assert_eq!(last, "GRAPH_COMPLETED");
    }
    server.stop().await;
}

#[tokio::test]
async fn graph_without_id_gets_a_generated_one() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    client.request_ok("CREATE_NODE", json!({ "node_id": "sh", "backend": "bash" })).await;
    let steps = json!([{ "step_id": "a", "node_id": "sh", "text": "echo one" }]);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let run = client.request_ok("EXECUTE_GRAPH", json!({ "steps": steps })).await;
        assert_eq!(result_text(&run["results"]["a"]), "one", "{run}");
        ids.push(run["graph_id"].as_str().unwrap().to_string());
    }
    assert!(ids[0].starts_with("graph-") && ids[0] != ids[1], "{ids:?}");
    server.stop().await;
}

#[tokio::test]
async fn deprecated_graph_format_runs_with_warnings() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    client.request_ok("CREATE_NODE", json!({ "node_id": "sh", "backend": "bash" })).await;
    let reply = client
        .request(
            "EXECUTE_DAG",
            json!({ "dag_id": "d", "tasks": [
                { "task_id": "a", "channel_id": "sh", "text": "echo one" },
                { "id": "b", "node_id": "sh", "text": "echo two", "depends_on": ["a"] },
            ] }),
        )
        .await;
    assert_eq!(reply["success"], true, "{reply}");
    assert_eq!(
        (result_text(&reply["data"]["results"]["a"]), result_text(&reply["data"]["results"]["b"])),
        ("one", "two")
    );
    let warnings = reply["warnings"].to_string();
    for old in ["EXECUTE_DAG", "dag_id", "tasks", "task_id", "channel_id"] {
        assert!(warnings.contains(&format!("{old} is deprecated")), "{warnings}");
    }
    server.stop().await;
}

#[tokio::test]
async fn failed_run_returns_partial_results() {
    let server = TestServer::start();
    let steps: [(&str, &str, &[&str]); 3] =
        [("a", "echo one", &[]), ("b", "exit 3", &["a"]), ("c", "echo never", &["b"])];
    let params = graph("fails", &steps);
    let reply = request_failure(
        &mut server.client().await,
        "EXECUTE_GRAPH",
        merge(params.clone(), json!({ "trace": true })),
    )
    .await;
    let data = &reply["data"];
    assert!(reply["error"].as_str().unwrap().contains("exit code 3"), "{reply}");
    assert_eq!(
        (&data["error_type"], &data["state"], &data["graph_id"]),
        (&json!("process_error"), &json!("failed"), &json!("fails"))
    );
    assert_eq!(result_text(&data["results"]["a"]), "one");
    assert_eq!(data["results"].get("c"), None, "{data}");
    assert_eq!(data["trace"]["state"], "failed", "{data}");

    // The same with the SDK's types.
    let client = NerveClient::connect(&server.socket).await.unwrap();
    let definition = params.as_object().unwrap().clone();
    let error = client.execute_graph(definition, &RunOptions::default()).await.unwrap_err();
    let run = error.server().unwrap().details.run.as_ref().unwrap();
    assert_eq!((run.status.as_str(), result_text(&run.results["a"])), ("failed", "one"));
    server.stop().await;
}

#[tokio::test]
async fn exceeded_budget_is_reported() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let steps: [(&str, &str, &[&str]); 2] = [("a", "echo one", &[]), ("b", "echo two", &["a"])];
    let params = merge(graph("poor", &steps), json!({ "budget": { "max_steps": 1 } }));
    let reply = request_failure(client, "EXECUTE_GRAPH", params).await;
    assert_eq!(
        (&reply["data"]["error_type"], &reply["data"]["exceeded"]["reason"]),
        (&json!("budget_exceeded"), &json!("Step limit exceeded: 1/1")),
        "{reply}"
    );
    assert_eq!(reply["data"]["exceeded"]["usage"]["steps_executed"], 1);
    assert_eq!(result_text(&reply["data"]["results"]["a"]), "one");
    server.stop().await;
}

#[tokio::test]
async fn run_is_cancelled_by_run_or_graph_id() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let mut other = server.client().await;
    other.request_ok("SUBSCRIBE", json!({ "types": ["STEP_STARTED"] })).await;
    let never = server.home.path().join("never");
    for (run, cancel) in [("r1", json!({ "run_id": "r1" })), ("r2", json!({ "graph_id": "long" }))] {
        let blocking_command = wait_command(&never);
        let steps: [(&str, &str, &[&str]); 2] = [("a", "echo one", &[]), ("b", &blocking_command, &["a"])];
        client.send("EXECUTE_GRAPH", merge(graph("long", &steps), json!({ "run_id": run }))).await;
        while other.wait_for_event("STEP_STARTED").await["data"]["step_id"] != "b" {}
        assert_eq!(
            other.request_ok("CANCEL_GRAPH", cancel).await,
            json!({ "cancelled": true, "runs": [run] })
        );
        let reply = client.reply().await;
        assert_eq!(
            (&reply["success"], &reply["data"]["state"]),
            (&json!(false), &json!("cancelled")),
            "{reply}"
        );
        assert_eq!(
            (&reply["data"]["error_type"], result_text(&reply["data"]["results"]["a"])),
            (&json!("cancelled"), "one")
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn run_continues_without_its_client() {
    let server = TestServer::start();
    let mut leaver = server.client().await;
    let mut client = server.client().await;
    client.request_ok("SUBSCRIBE", json!({ "run_id": "r1", "types": ["STEP_STARTED"] })).await;
    let marker = server.home.path().join("go");
    let blocking_command = wait_command(&marker);
    let steps: [(&str, &str, &[&str]); 2] = [("a", &blocking_command, &[]), ("b", "echo two", &["a"])];
    leaver.send("EXECUTE_GRAPH", merge(graph("g", &steps), json!({ "run_id": "r1" }))).await;
    client.wait_for_event("STEP_STARTED").await;
    drop(leaver);
    // A client that does not wait for its run.
    let detached = client
        .request_ok("EXECUTE_GRAPH", merge(graph("h", &steps), json!({ "run_id": "r2", "detach": true })))
        .await;
    assert_eq!(
        (&detached["run_id"], &detached["state"], &detached["total_steps"]),
        (&json!("r2"), &json!("running"), &json!(2))
    );
    std::fs::write(&marker, "").unwrap();
    for run in ["r1", "r2"] {
        assert_eq!(wait_for_status(&mut client, run, "completed").await["done_steps"], 2);
    }
    server.stop().await;
}

#[tokio::test]
async fn gate_is_answered() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let mut watcher = server.client().await;
    watcher
        .request_ok("SUBSCRIBE", json!({ "run_id": "r1", "types": ["GATE_ASKED", "GATE_ANSWERED"] }))
        .await;
    let graph = json!({ "graph": "ship", "run_id": "r1", "detach": true, "steps": [
        { "id": "ok", "gate": { "question": "Ship it?", "choices": ["yes", "no"] } },
    ] });
    client.request_ok("EXECUTE_GRAPH", graph).await;
    let question = watcher.wait_for_event("GATE_ASKED").await;
    assert_eq!(
        (&question["data"]["question"], &question["data"]["choices"]),
        (&json!("Ship it?"), &json!(["yes", "no"]))
    );
    let waiting = wait_for_status(client, "r1", "waiting").await;
    assert_eq!(
        (&waiting["gates"][0]["step_id"], &waiting["gates"][0]["question"]),
        (&json!("ok"), &json!("Ship it?"))
    );
    let wrong = request_failure(client, "ANSWER_GATE", json!({ "run_id": "r1", "choice": "maybe" })).await;
    assert_eq!(wrong["data"]["error_type"], "invalid_request_error", "{wrong}");
    let unknown_step = request_failure(
        client,
        "ANSWER_GATE",
        json!({ "run_id": "r1", "step_id": "other", "choice": "yes" }),
    )
    .await;
    assert_eq!(unknown_step["data"]["error_type"], "not_found_error", "{unknown_step}");
    client.request_ok("ANSWER_GATE", json!({ "run_id": "r1", "step_id": "ok", "choice": "yes" })).await;
    let answered = watcher.wait_for_event("GATE_ANSWERED").await;
    assert_eq!((&answered["data"]["choice"], &answered["data"]["by"]), (&json!("yes"), &json!("person")));
    wait_for_status(client, "r1", "completed").await;
    server.stop().await;
}

#[tokio::test]
async fn gate_default_answer_is_reported() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    client.request_ok("SUBSCRIBE", json!({ "types": ["GATE_ANSWERED"] })).await;
    let gate =
        json!({ "question": "Ship it?", "choices": ["yes", "no"], "default": "no", "timeout_seconds": 0.05 });
    client.send("EXECUTE_GRAPH", json!({ "graph": "ship", "steps": [{ "id": "ok", "gate": gate }] })).await;
    let answered = client.wait_for_event("GATE_ANSWERED").await;
    assert_eq!((&answered["data"]["choice"], &answered["data"]["by"]), (&json!("no"), &json!("default")));
    assert_eq!(client.reply().await["data"]["results"]["ok"], json!({ "choice": "no", "by": "default" }));
    server.stop().await;
}

#[tokio::test]
async fn next_server_resumes_interrupted_run() {
    let server = TestServer::start();
    let mut client = server.client().await;
    let marker = server.home.path().join("go");
    client.request_ok("SUBSCRIBE", json!({ "run_id": "r1", "types": ["STEP_STARTED"] })).await;
    let blocking_command = wait_command(&marker);
    let steps: [(&str, &str, &[&str]); 2] = [("a", "echo one", &[]), ("b", &blocking_command, &["a"])];
    client.send("EXECUTE_GRAPH", merge(graph("g", &steps), json!({ "run_id": "r1" }))).await;
    while client.wait_for_event("STEP_STARTED").await["data"]["step_id"] != "b" {}

    let server = server.restart().await;
    let mut client = server.client().await;
    assert_eq!(client.request_ok("GET_RUN", json!({ "run_id": "r1" })).await["state"], "interrupted");
    assert_eq!(client.request_ok("LIST_RUNS", json!({})).await["runs"][0]["state"], "interrupted");
    client.request_ok("SUBSCRIBE", json!({ "run_id": "r1" })).await;
    std::fs::write(&marker, "").unwrap();
    let data = client.request_ok("RESUME_RUN", json!({ "run_id": "r1" })).await;
    assert_eq!((result_text(&data["results"]["a"]), result_text(&data["results"]["b"])), ("one", "went on"));
    // The completed step is not run again.
    let run = client.request_ok("GET_RUN", json!({ "run_id": "r1" })).await;
    assert_eq!(
        (&run["steps"][0]["step_id"], &run["steps"][0]["state"]),
        (&json!("a"), &json!("reused")),
        "{run}"
    );
    let again = request_failure(&mut client, "RESUME_RUN", json!({ "run_id": "r1" })).await;
    assert_eq!(again["data"]["error_type"], "invalid_request_error", "{again}");
    server.stop().await;
}

#[tokio::test]
async fn graphs_are_registered_run_and_removed() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let steps: [(&str, &str, &[&str]); 1] = [("a", "echo {{ input.name }}", &[])];
    let definition = graph("greet", &steps);
    let created = client.request_ok("CREATE_GRAPH", json!({ "definition": definition })).await;
    assert_eq!((&created["graph_id"], &created["steps"]), (&json!("greet"), &json!(["a"])));
    let again = request_failure(client, "CREATE_GRAPH", definition.clone()).await;
    assert_eq!(again["data"]["error_type"], "already_exists_error", "{again}");
    // Nodes and graphs of a session share a namespace.
    let node = request_failure(client, "CREATE_NODE", json!({ "node_id": "greet", "backend": "bash" })).await;
    assert_eq!(node["data"]["error_type"], "already_exists_error", "{node}");

    let registered = client.request_ok("GET_GRAPH", json!({ "graph_id": "greet" })).await;
    assert_eq!(registered["definition"]["graph"], "greet", "{registered}");
    let list = client.request_ok("LIST_GRAPHS", json!({})).await;
    assert_eq!(
        (&list["graphs"], list["graphs_info"][0].get("definition")),
        (&json!(["greet"]), None),
        "{list}"
    );
    assert_eq!(client.request_ok("PING", json!({})).await["graphs"], 1);
    assert_eq!(client.request_ok("GET_SESSION", json!({})).await["graphs"], json!(["greet"]));

    let run =
        client.request_ok("RUN_GRAPH", json!({ "graph_id": "greet", "input": { "name": "you" } })).await;
    assert_eq!((&run["graph_id"], result_text(&run["results"]["a"])), (&json!("greet"), "you"));
    client.request_ok("DELETE_GRAPH", json!({ "graph_id": "greet" })).await;
    for command in ["RUN_GRAPH", "GET_GRAPH", "DELETE_GRAPH"] {
        let error = request_failure(client, command, json!({ "graph_id": "greet" })).await;
        assert_eq!(error["data"]["error_type"], "not_found_error", "{command}: {error}");
    }
    server.stop().await;
}

#[tokio::test]
async fn ten_thousand_steps_fit_one_request() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let steps: Vec<Value> =
        (0..10_000).map(|n| json!({ "id": format!("s{n}"), "node": "t", "input": n.to_string() })).collect();
    let nodes = json!({ "t": { "type": "template", "template": "<{{ input }}>" } });
    let params =
        json!({ "graph": "big", "nodes": nodes, "max_parallel": 8, "steps": steps, "run_id": "big" });
    let data = client.request_ok("EXECUTE_GRAPH", params).await;
    assert_eq!(
        (data["results"].as_object().unwrap().len(), &data["results"]["s9999"]),
        (10_000, &json!("<9999>"))
    );
    let run = client.request_ok("GET_RUN", json!({ "run_id": "big", "last": 3 })).await;
    assert_eq!((run["steps"].as_array().unwrap().len(), &run["done_steps"]), (3, &json!(10_000)));
    server.stop().await;
}

#[tokio::test]
async fn invalid_graph_runs_nothing() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    let nodes = json!({ "sh": { "type": "bash" } });
    let step = json!({ "id": "a", "node": "sh", "input": "true" });
    let cases = [
        ("EXECUTE_GRAPH", json!({ "graph": "g" }), "params.steps is missing"),
        ("EXECUTE_GRAPH", json!({ "graph": "g", "steps": 5 }), "steps"),
        ("EXECUTE_GRAPH", json!({ "graph": "g", "steps": ["a"] }), "steps"),
        ("EXECUTE_GRAPH", json!({ "graph": "g", "steps": [step], "nodes": [] }), "nodes"),
        (
            "EXECUTE_GRAPH",
            json!({ "graph": "g", "steps": [step], "nodes": nodes, "max_parallel": -1 }),
            "max_parallel",
        ),
        ("EXECUTE_GRAPH", json!({ "graph": "g", "steps": [step], "nodes": nodes, "stepz": 1 }), "stepz"),
        ("EXECUTE_GRAPH", json!({ "graph": "../g", "steps": [step], "nodes": nodes }), "../g"),
        ("EXECUTE_GRAPH", json!({ "graph": "g", "steps": [step], "nodes": nodes, "run_id": "../r" }), "../r"),
        (
            "EXECUTE_GRAPH",
            json!({ "graph": "g", "steps": [step], "nodes": nodes, "trace": 1 }),
            "params.trace",
        ),
        ("EXECUTE_GRAPH", json!({ "graph": "g", "steps": [step, step], "nodes": nodes }), "a"),
        ("CREATE_GRAPH", json!({ "definition": [1] }), "params.definition"),
        ("RUN_GRAPH", json!({ "graph_id": "absent" }), "absent"),
        ("GET_RUN", json!({ "run_id": "absent" }), "absent"),
        ("GET_RUN", json!({ "run_id": "../../etc/passwd" }), "../../etc/passwd"),
        ("RESUME_RUN", json!({ "run_id": "absent" }), "absent"),
        ("RESUME_RUN", json!({ "run_id": "../r" }), "../r"),
        ("CANCEL_GRAPH", json!({ "run_id": "absent" }), "absent"),
        ("CANCEL_GRAPH", json!({}), "run_id"),
        ("ANSWER_GATE", json!({ "run_id": "absent", "choice": "yes" }), "absent"),
        ("ANSWER_GATE", json!({ "run_id": "absent" }), "params.choice"),
        ("START_NODE", json!({ "node_id": "absent" }), "absent"),
        ("START_SESSION", json!({ "name": "absent" }), "absent"),
    ];
    for (command, params, word) in cases {
        let shown = format!("{command} {params}");
        let error = request_failure(client, command, params).await["error"].as_str().unwrap().to_string();
        assert!(error.contains(word), "{shown}: {error:?} lacks {word:?}");
    }
    client.send_raw(br#"{"command_type":"EXECUTE_GRAPH","params":[{"id":"a"}],"request_id":1}"#).await;
    let reply = client.reply().await;
    assert_eq!(reply["data"]["error_type"], "invalid_request_error", "{reply}");
    assert!(reply["error"].as_str().unwrap().contains("params"), "{reply}");
    assert_eq!(client.request_ok("LIST_RUNS", json!({})).await["runs"], json!([]));
    // A session's nodes are looked up when their step starts.
    let late =
        request_failure(client, "EXECUTE_GRAPH", json!({ "graph": "g", "steps": [step], "run_id": "late" }))
            .await;
    assert!(late["error"].as_str().unwrap().contains("no node 'sh'"), "{late}");
    let failed = wait_for_status(client, "late", "failed").await;
    for place in [&failed, &failed["steps"][0]] {
        let (error, hint) = (place["error"].as_str().unwrap(), place["hint"].as_str().unwrap());
        assert!(error.contains("no node 'sh'") && !error.contains(hint), "{failed}");
    }
    server.stop().await;
}

#[tokio::test]
async fn session_nodes_are_stopped_and_restarted() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    client.request_ok("CREATE_SESSION", json!({ "name": "work" })).await;
    let at = |more: Value| merge(json!({ "session_id": "work" }), more);
    let shell = json!({ "node_id": "sh", "command": ["bash", "--norc", "--noprofile"], "env": { "PS1": "$ ", "HISTFILE": "" } });
    client.request_ok("CREATE_NODE", at(shell)).await;
    client.request_ok("WAIT_NODE", at(json!({ "node_id": "sh", "timeout": 20 }))).await;
    let stopped = client.request_ok("STOP_SESSION", json!({ "name": "work" })).await;
    assert_eq!(stopped, json!({ "nodes": ["sh"], "failed": [] }));
    assert_eq!(client.request_ok("GET_NODE", at(json!({ "node_id": "sh" }))).await["state"], "stopped");
    assert_eq!(client.request_ok("GET_SESSION", json!({ "name": "work" })).await["nodes"], json!(["sh"]));
    let started = client.request_ok("START_SESSION", json!({ "name": "work" })).await;
    assert_eq!(started, json!({ "nodes": ["sh"], "failed": [] }));
    client.request_ok("WAIT_NODE", at(json!({ "node_id": "sh", "timeout": 20 }))).await;
    client.request_ok("STOP_SESSION", json!({ "name": "work" })).await;
    assert_eq!(client.request_ok("START_NODE", at(json!({ "node_id": "sh" }))).await["node_id"], "sh");
    let reply = client.request_ok("EXECUTE_INPUT", at(json!({ "node_id": "sh", "text": "echo back" }))).await;
    assert_eq!(result_text(&reply["response"]), "back");
    server.stop().await;
}
