//! Commands as HTTP resources.

use super::client::HttpServer;
use serde_json::{Value, json};

#[tokio::test]
async fn node_life_cycle() {
    let server = HttpServer::start();
    let made = server.ask("POST", "/nodes", json!({ "node_id": "sh", "backend": "bash" })).await;
    assert_eq!((made.status, made.header("location")), (201, Some("/nodes/sh")), "{made:?}");
    let answer = server.done("POST", "/nodes/sh/execute", json!({ "text": "echo hello" })).await;
    assert_eq!((&answer["response"]["output"], &answer["turn"]), (&json!("hello"), &json!(1)), "{answer}");
    let node = server.done("GET", "/nodes/sh", Value::Null).await;
    assert_eq!((&node["node_id"], &node["type"]), (&json!("sh"), &json!("bash")));
    let history = server.done("GET", "/nodes/sh/history?last=1", Value::Null).await;
    assert_eq!(history["entries"].as_array().unwrap().len(), 1, "{history}");
    assert_eq!(node["state"], "ready");
    server.done("DELETE", "/nodes/sh", Value::Null).await;
    let told = server.get("/nodes/sh").await.problem(404, "not_found_error");
    assert!(told.contains("'sh'"), "{told}");
    server.stop().await;
}

#[tokio::test]
async fn terminal_is_written_resized_and_read() {
    let server = HttpServer::start();
    server
        .done("POST", "/nodes", json!({ "node_id": "cat", "command": ["cat"], "profile": "generic" }))
        .await;
    server.done("POST", "/nodes/cat/resize", json!({ "cols": 60, "rows": 10 })).await;
    let written = server.done("POST", "/nodes/cat/write", json!({ "data": "over-http\r" })).await;
    assert_eq!(written["written"], 10);
    let deadline = tokio::time::Instant::now() + crate::harness::DEADLINE;
    loop {
        let buffer = server.done("GET", "/nodes/cat/buffer?lines=20", Value::Null).await;
        if buffer["buffer"].as_str().unwrap().matches("over-http").count() == 2 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{buffer}");
        tokio::task::yield_now().await;
    }
    server.done("DELETE", "/nodes/cat/buffer", Value::Null).await;
    server.done("POST", "/nodes/cat/interrupt", Value::Null).await;
    server
        .ask("POST", "/nodes/cat/resize", json!({ "cols": 0, "rows": 1 }))
        .await
        .problem(400, "invalid_request_error");
    server
        .ask("POST", "/nodes/cat/fork", json!({ "target_id": "d" }))
        .await
        .problem(400, "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn missing_history_is_empty_with_a_note() {
    let server = HttpServer::start();
    server.done("POST", "/nodes", json!({ "node_id": "quiet", "backend": "bash", "history": false })).await;
    // The format of the deprecated channel history.
    let wanted = json!({ "channel_id": "quiet", "server_name": "test", "entries": [], "total": 0, "note": "History was disabled for this channel" });
    let history = server.done("GET", "/channels/quiet/history", Value::Null).await;
    for (field, value) in wanted.as_object().unwrap() {
        assert_eq!(&history[field], value, "{history}");
    }
    let history = server.done("GET", "/nodes/quiet/history", Value::Null).await;
    assert_eq!(history["note"], "History was disabled for this node");
    server.stop().await;
}

#[tokio::test]
async fn sessions_hold_nodes_and_lists_are_paged() {
    let server = HttpServer::start();
    server.done("POST", "/sessions", json!({ "name": "work", "tags": ["x"] })).await;
    assert_eq!(server.done("GET", "/sessions/work", Value::Null).await["tags"], json!(["x"]));
    for id in ["a", "b", "c"] {
        server.done("POST", "/nodes?session=work", json!({ "node_id": id, "backend": "bash" })).await;
    }
    assert_eq!(server.done("GET", "/nodes", Value::Null).await["nodes"], json!([]));
    let first = server.done("GET", "/nodes?session=work&limit=2", Value::Null).await;
    assert_eq!(first["nodes"], json!(["a", "b"]));
    let next = first["next"].as_str().unwrap();
    // The last item of the page is gone: the next page begins after its position anyway.
    server.done("DELETE", "/nodes/b?session=work", Value::Null).await;
    let second = server.done("GET", &format!("/nodes?session=work&limit=2&cursor={next}"), Value::Null).await;
    assert_eq!((&second["nodes"], &second["next"]), (&json!(["c"]), &Value::Null));
    for bad in ["limit=0", "limit=1001", "limit=x", "cursor=zzz", "limits=1", "session=a&session=b"] {
        server.get(&format!("/nodes?{bad}")).await.problem(400, "invalid_request_error");
    }
    let both =
        server.ask("POST", "/nodes?session=work", json!({ "node_id": "d", "session_id": "default" })).await;
    both.problem(400, "invalid_request_error");
    server.done("POST", "/sessions/work/stop", Value::Null).await;
    server.done("POST", "/sessions/work/start", Value::Null).await;
    server.done("DELETE", "/sessions/work", Value::Null).await;
    server.get("/sessions/work").await.problem(404, "not_found_error");
    server.stop().await;
}

#[tokio::test]
async fn graphs_run_and_runs_are_listed() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let graph = json!({ "graph_id": "hello", "steps": [{ "id": "a", "node_id": "sh", "text": "echo {{ input | sh }}" }] });
    let made = server.ask("POST", "/graphs", graph.clone()).await;
    assert_eq!((made.status, made.header("location")), (201, Some("/graphs/hello")), "{made:?}");
    let run = server.done("POST", "/graphs/hello/run", json!({ "input": "world", "run_id": "r1" })).await;
    assert_eq!(
        (&run["status"], &run["results"]["a"]["text"]),
        (&json!("completed"), &json!("world")),
        "{run}"
    );
    let whole = server
        .ask("POST", "/runs", json!({ "definition": graph, "input": "x", "detach": true, "run_id": "r2" }))
        .await;
    assert_eq!(whole.status, 202, "{whole:?}");
    assert_eq!(server.done("GET", "/runs/r1", Value::Null).await["status"], "completed");
    let runs = server.done("GET", "/runs?limit=1", Value::Null).await;
    assert_eq!(runs["runs"][0]["run_id"], "r2", "{runs}");
    let cursor = runs["next"].as_str().unwrap();
    assert_eq!(
        server.done("GET", &format!("/runs?cursor={cursor}"), Value::Null).await["runs"][0]["run_id"],
        "r1"
    );
    let failing = json!({ "definition": { "graph": "f", "steps": [{ "id": "a", "node_id": "sh", "text": "exit 3" }] } });
    let failed = server.ask("POST", "/runs", failing).await;
    assert_eq!(failed.status, 422, "{failed:?}");
    assert_eq!(failed.json()["data"]["status"], "failed", "{failed:?}");
    server.ask("POST", "/runs/nobody/cancel", Value::Null).await.problem(404, "not_found_error");
    server.ask("POST", "/runs/r1/answer", json!({ "choice": "yes" })).await;
    server.done("DELETE", "/graphs/hello", Value::Null).await;
    assert_eq!(server.done("GET", "/graphs", Value::Null).await["graphs"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn async_execution_becomes_a_result() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let accepted =
        server.ask("POST", "/nodes/sh/execute", json!({ "text": "echo later", "async": true })).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let id = accepted.json()["result_id"].as_str().unwrap().to_string();
    let result = server.done("GET", &format!("/results/{id}?wait=true&timeout=10"), Value::Null).await;
    assert_eq!(result["response"]["output"], "later", "{result}");
    let all = server.done("GET", "/results?node=sh", Value::Null).await;
    assert_eq!(all["results"][0]["result_id"], id.as_str());
    assert_eq!(
        server.done("GET", "/recordings", Value::Null).await,
        json!({ "recordings": [], "next": null })
    );
    server.stop().await;
}

#[tokio::test]
async fn raw_command_is_answered_with_a_result() {
    let server = HttpServer::start();
    let line =
        json!({ "type": "command", "command_type": "LIST_CHANNELS", "params": {}, "request_id": "r7" });
    let reply = server.done("POST", "/api/command", line).await;
    assert_eq!(
        (&reply["type"], &reply["success"], &reply["request_id"]),
        (&json!("result"), &json!(true), &json!("r7"))
    );
    assert!(reply["warnings"][0].as_str().unwrap().contains("LIST_NODES"), "{reply}");
    // A failed command is a valid response.
    let failed = server
        .done("POST", "/api/command", json!({ "command_type": "GET_NODE", "params": { "node_id": "x" } }))
        .await;
    assert_eq!(
        (&failed["success"], &failed["data"]["error_type"]),
        (&json!(false), &json!("not_found_error"))
    );
    let subscribe = server.done("POST", "/api/command", json!({ "command_type": "SUBSCRIBE" })).await;
    assert!(subscribe["data"]["hint"].as_str().unwrap().contains("/events"), "{subscribe}");
    for bad in [json!([1, 2]), json!({ "no": "command" }), Value::Null] {
        let answer = server.ask("POST", "/api/command", bad).await;
        assert_eq!((answer.status, &answer.json()["type"]), (400, &json!("error")), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn path_traversal_in_names_is_rejected() {
    let server = HttpServer::start();
    for name in ["..%2f..%2fetc%2fpasswd", "%2e%2e", "a%2fb", "A", "a%00b", &"a".repeat(33), "%ff"] {
        for (method, path) in [
            ("GET", format!("/nodes/{name}/history")),
            ("GET", format!("/channels/{name}/history")),
            ("GET", format!("/nodes/x/history?server_name={name}")),
            ("GET", format!("/nodes/{name}")),
            ("DELETE", format!("/sessions/{name}")),
            ("GET", format!("/runs/{name}")),
            ("GET", format!("/results/{name}")),
            ("GET", format!("/graphs/{name}")),
        ] {
            let answer = server.ask(method, &path, Value::Null).await;
            assert!([400, 404].contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn exactly_the_documented_operations_exist() {
    let server = HttpServer::start();
    let document: Value = server.done("GET", "/openapi.json", Value::Null).await;
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let filled = path
            .split('/')
            .map(|word| if word.starts_with('{') { "nobody" } else { word })
            .collect::<Vec<_>>()
            .join("/");
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            if ["/events", "/api/shutdown"].contains(&path.as_str()) {
                continue;
            }
            let answer = server.ask(&method, &filled, Value::Null).await;
            let told = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(answer.status != 405 && !told.contains("there is no /"), "{method} {filled}: {answer:?}");
            assert_ne!(answer.status, 500, "{method} {filled}: {told}");
            seen += 1;
        }
        let other = server.ask("PUT", &filled, Value::Null).await;
        other.problem(405, "invalid_request_error");
        assert!(other.header("allow").is_some(), "{path}: {other:?}");
    }
    assert!(seen > 35, "{seen}");
    for path in ["/", "/node", "/nodes/", "/nodes/a/b", "/api", "/../nodes", "//nodes", "/Nodes"] {
        server.get(path).await.problem(404, "not_found_error");
    }
    server.stop().await;
}

#[tokio::test]
async fn path_that_is_not_utf8_is_reported() {
    let server = HttpServer::start();
    for path in ["/nodes/%ff", "/nodes/%C3%28/history", "/runs/%80", "/compat/agentapi/%ff/status"] {
        let told = server.get(path).await.problem(400, "invalid_request_error");
        assert!(told.contains("path"), "{path}: {told}");
    }
    server
        .ask("POST", "/nodes/%ff/execute", json!({ "text": "x" }))
        .await
        .problem(400, "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn traceparent_header_is_used() {
    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let server = HttpServer::start();
    server.bash("sh").await;
    let execute = async |parent: &str, text: &str| {
        let (head, body) = (server.head("POST", "/nodes/sh/execute"), json!({ "text": text }).to_string());
        let rest = format!("traceparent: {parent}\r\nContent-Length: {}\r\nConnection: close", body.len());
        server.raw(format!("{head}{rest}\r\n\r\n{body}")).await.json()
    };
    let done = execute(CALLER, "printenv TRACEPARENT").await;
    assert_eq!(done["response"]["text"], CALLER, "{done}");
    // An invalid one is ignored.
    let bad = execute("00-zz", "echo done").await;
    assert_eq!(bad["response"]["text"], "done", "{bad}");
    assert!(bad["warnings"].to_string().contains("traceparent"), "{bad}");
    server.stop().await;
}
