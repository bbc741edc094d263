//! Commands as HTTP resources.

use nerve_testkit::eventually;
use serde_json::{Value, json};

use super::client::HttpServer;

#[tokio::test]
async fn node_is_created_used_and_removed() {
    let server = HttpServer::start();
    let created = server.request("POST", "/nodes", json!({ "node_id": "sh", "backend": "bash" })).await;
    assert_eq!((created.status, created.header("location")), (201, Some("/nodes/sh")), "{created:?}");
    let response = server.request_ok("POST", "/nodes/sh/execute", json!({ "text": "echo hello" })).await;
    assert_eq!(
        (&response["response"]["text"], &response["turn"]),
        (&json!("hello"), &json!(1)),
        "{response}"
    );
    let node = server.request_ok("GET", "/nodes/sh", Value::Null).await;
    assert_eq!((&node["node_id"], &node["type"]), (&json!("sh"), &json!("bash")));
    let history = server.request_ok("GET", "/nodes/sh/history?last=1", Value::Null).await;
    assert_eq!(history["entries"].as_array().unwrap().len(), 1, "{history}");
    assert_eq!(node["state"], "ready");
    server.request_ok("DELETE", "/nodes/sh", Value::Null).await;
    assert_eq!(server.request_ok("GET", "/nodes/sh", Value::Null).await["state"], "stopped");
    let started = server.request_ok("POST", "/nodes/sh/start", Value::Null).await;
    assert_eq!((&started["node_id"], &started["state"]), (&json!("sh"), &json!("ready")));
    server.request("DELETE", "/stopped-nodes/sh", Value::Null).await.problem(400, "invalid_request_error");
    server.request_ok("DELETE", "/nodes/sh", Value::Null).await;
    server.request_ok("DELETE", "/stopped-nodes/sh", Value::Null).await;
    let detail = server.get("/nodes/sh").await.problem(404, "not_found_error");
    assert!(detail.contains("'sh'"), "{detail}");
    server.stop().await;
}

#[tokio::test]
async fn terminal_is_written_resized_and_read() {
    let server = HttpServer::start();
    server
        .request_ok("POST", "/nodes", json!({ "node_id": "cat", "command": ["cat"], "profile": "generic" }))
        .await;
    server.request_ok("POST", "/nodes/cat/resize", json!({ "cols": 60, "rows": 10 })).await;
    let written = server.request_ok("POST", "/nodes/cat/write", json!({ "data": "over-http\r" })).await;
    assert_eq!(written["written"], 10);
    eventually("cat repeats the line", async || {
        let buffer = server.request_ok("GET", "/nodes/cat/buffer?lines=20", Value::Null).await;
        buffer["buffer"].as_str().unwrap().matches("over-http").count() == 2
    })
    .await;
    server.request_ok("DELETE", "/nodes/cat/buffer", Value::Null).await;
    server.request_ok("POST", "/nodes/cat/interrupt", Value::Null).await;
    server
        .request("POST", "/nodes/cat/resize", json!({ "cols": 0, "rows": 1 }))
        .await
        .problem(400, "invalid_request_error");
    server
        .request("POST", "/nodes/cat/fork", json!({ "target_id": "d" }))
        .await
        .problem(400, "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn missing_history_is_empty_with_a_note() {
    let server = HttpServer::start();
    server
        .request_ok("POST", "/nodes", json!({ "node_id": "quiet", "backend": "bash", "history": false }))
        .await;
    // The format of the deprecated channel history.
    let expected = json!({ "channel_id": "quiet", "server_name": "test", "entries": [], "total": 0, "note": "History was disabled for this channel" });
    let history = server.request_ok("GET", "/channels/quiet/history", Value::Null).await;
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&history[field], value, "{history}");
    }
    let history = server.request_ok("GET", "/nodes/quiet/history", Value::Null).await;
    assert_eq!(history["note"], "History was disabled for this node");
    server.stop().await;
}

#[tokio::test]
async fn sessions_hold_nodes_and_lists_are_paged() {
    let server = HttpServer::start();
    server.request_ok("POST", "/sessions", json!({ "name": "work", "tags": ["x"] })).await;
    assert_eq!(server.request_ok("GET", "/sessions/work", Value::Null).await["tags"], json!(["x"]));
    for id in ["a", "b", "c"] {
        server.request_ok("POST", "/nodes?session=work", json!({ "node_id": id, "backend": "bash" })).await;
    }
    assert_eq!(server.request_ok("GET", "/nodes", Value::Null).await["nodes"], json!([]));
    let first = server.request_ok("GET", "/nodes?session=work&limit=2", Value::Null).await;
    assert_eq!(first["nodes"], json!(["a", "b"]));
    let next = first["next"].as_str().unwrap();
    // The last item of the page is gone: the next page begins after its position anyway.
    server.request_ok("DELETE", "/nodes/b?session=work", Value::Null).await;
    let second =
        server.request_ok("GET", &format!("/nodes?session=work&limit=2&cursor={next}"), Value::Null).await;
    assert_eq!((&second["nodes"], &second["next"]), (&json!(["c"]), &Value::Null));
    for bad in ["limit=0", "limit=1001", "limit=x", "cursor=zzz", "limits=1", "session=a&session=b"] {
        server.get(&format!("/nodes?{bad}")).await.problem(400, "invalid_request_error");
    }
    let both = server
        .request("POST", "/nodes?session=work", json!({ "node_id": "d", "session_id": "default" }))
        .await;
    both.problem(400, "invalid_request_error");
    server.request_ok("POST", "/sessions/work/stop", Value::Null).await;
    server.request_ok("POST", "/sessions/work/start", Value::Null).await;
    server.request_ok("DELETE", "/sessions/work", Value::Null).await;
    server.get("/sessions/work").await.problem(404, "not_found_error");
    server.stop().await;
}

#[tokio::test]
async fn graphs_run_and_runs_are_listed() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let graph = json!({ "graph_id": "hello", "steps": [{ "id": "a", "node_id": "sh", "text": "echo {{ input | sh }}" }] });
    let created = server.request("POST", "/graphs", graph.clone()).await;
    assert_eq!((created.status, created.header("location")), (201, Some("/graphs/hello")), "{created:?}");
    let run =
        server.request_ok("POST", "/graphs/hello/run", json!({ "input": "world", "run_id": "r1" })).await;
    assert_eq!(
        (&run["state"], &run["results"]["a"]["text"]),
        (&json!("completed"), &json!("world")),
        "{run}"
    );
    let accepted_run = server
        .request(
            "POST",
            "/runs",
            json!({ "definition": graph, "input": "x", "detach": true, "run_id": "r2" }),
        )
        .await;
    assert_eq!(accepted_run.status, 202, "{accepted_run:?}");
    assert_eq!(server.request_ok("GET", "/runs/r1", Value::Null).await["state"], "completed");
    let runs = server.request_ok("GET", "/runs?limit=1", Value::Null).await;
    assert_eq!(runs["runs"][0]["run_id"], "r2", "{runs}");
    let cursor = runs["next"].as_str().unwrap();
    assert_eq!(
        server.request_ok("GET", &format!("/runs?cursor={cursor}"), Value::Null).await["runs"][0]["run_id"],
        "r1"
    );
    let failing = json!({ "definition": { "graph": "f", "steps": [{ "id": "a", "node_id": "sh", "text": "exit 3" }] } });
    let failed = server.request("POST", "/runs", failing).await;
    assert_eq!(failed.status, 422, "{failed:?}");
    assert_eq!(failed.json()["data"]["state"], "failed", "{failed:?}");
    server.request("POST", "/runs/absent/cancel", Value::Null).await.problem(404, "not_found_error");
    server.request("POST", "/runs/r1/answer", json!({ "choice": "yes" })).await;
    server.request_ok("DELETE", "/graphs/hello", Value::Null).await;
    assert_eq!(server.request_ok("GET", "/graphs", Value::Null).await["graphs"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn async_execution_becomes_a_result() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let accepted =
        server.request("POST", "/nodes/sh/execute", json!({ "text": "echo later", "async": true })).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let id = accepted.json()["result_id"].as_str().unwrap().to_string();
    let result = server.request_ok("GET", &format!("/results/{id}?wait=true&timeout=10"), Value::Null).await;
    assert_eq!(result["response"]["text"], "later", "{result}");
    let all = server.request_ok("GET", "/results?node=sh", Value::Null).await;
    assert_eq!(all["results"][0]["result_id"], id.as_str());
    assert_eq!(
        server.request_ok("GET", "/recordings", Value::Null).await,
        json!({ "recordings": [], "next": null })
    );
    let prune = json!({ "max_size": 0, "dry_run": true });
    let pruned = server.request_ok("POST", "/recordings/prune", prune).await;
    assert_eq!((&pruned["total"], &pruned["dry_run"]), (&json!(0), &json!(true)), "{pruned}");
    server.stop().await;
}

#[tokio::test]
async fn path_and_body_are_read_as_one_request() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let execute = async |body: &str| {
        let head = server.head("POST", "/nodes/sh/execute?session=default");
        server.raw(format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())).await
    };
    // The body may repeat a value of the URL. Of a repeated name the last value counts, and null is absent.
    let turn = execute(
        r#"{"node_id":"sh","session_id":"default","text":"echo 1","text":"echo last","webhook":null}"#,
    )
    .await
    .json();
    assert_eq!(turn["response"]["text"], "last", "{turn}");
    let old = execute(r#"{"channel_id":"other","input":"echo old"}"#).await.json();
    assert_eq!(old["response"]["text"], "old", "{old}");
    let warnings = ["channel_id is deprecated, use node_id", "input is deprecated, use text"];
    assert_eq!(old["warnings"], json!(warnings), "{old}");
    let deep = format!(r#"{{"text":"x","unknown":{}{}}}"#, "[".repeat(127), "]".repeat(127));
    for (body, detail) in [
        (r#"{"node_id":"b","text":"x"}"#, "node_id: the values in body and URL differ"),
        ("{\n \"text\":\n [1]}", "params.text: invalid type: list, expected a string"),
        (r#"{"text":null}"#, "params.text is missing: EXECUTE_INPUT needs it"),
        (
            r#"{"text":"x","conversation":{"history":[{"role":"user","content":1}]}}"#,
            "params.conversation: history[0]: invalid type: integer `1`, expected a string",
        ),
        (r#"{"text":"x","webhook":{"url":[]}}"#, "params.webhook: invalid type: list, expected a string"),
        (
            r#"[{"text":"x"}]"#,
            "body: expected a JSON object: invalid type: sequence, expected a map at line 1 column 0",
        ),
        (r#"{"text":"x"} {}"#, "body: expected a JSON object: trailing characters at line 1 column 14"),
        (
            r#"{"text":"x","unknown":1e999}"#,
            "body: expected a JSON object: number out of range at line 1 column 27",
        ),
        (&deep, "body: nested deeper than 127 levels"),
    ] {
        let problem = execute(body).await.problem(400, "invalid_request_error");
        assert_eq!(problem.trim_end(), detail, "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn raw_command_is_answered_with_a_result() {
    let server = HttpServer::start();
    let line =
        json!({ "type": "command", "command_type": "LIST_CHANNELS", "params": {}, "request_id": "r7" });
    let reply = server.request_ok("POST", "/api/command", line).await;
    assert_eq!(
        (&reply["type"], &reply["success"], &reply["request_id"]),
        (&json!("result"), &json!(true), &json!("r7"))
    );
    assert!(reply["warnings"][0].as_str().unwrap().contains("LIST_NODES"), "{reply}");
    // A failed command is a valid response.
    let failed = server
        .request_ok(
            "POST",
            "/api/command",
            json!({ "command_type": "GET_NODE", "params": { "node_id": "x" } }),
        )
        .await;
    assert_eq!(
        (&failed["success"], &failed["data"]["error_type"]),
        (&json!(false), &json!("not_found_error"))
    );
    let subscribe = server.request_ok("POST", "/api/command", json!({ "command_type": "SUBSCRIBE" })).await;
    assert!(subscribe["data"]["hint"].as_str().unwrap().contains("/events"), "{subscribe}");
    for bad in [json!([1, 2]), json!({ "no": "command" }), Value::Null] {
        let response = server.request("POST", "/api/command", bad).await;
        assert_eq!((response.status, &response.json()["type"]), (400, &json!("error")), "{response:?}");
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
            let response = server.request(method, &path, Value::Null).await;
            assert!([400, 404].contains(&response.status), "{method} {path}: {response:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn exactly_the_documented_operations_exist() {
    let server = HttpServer::start();
    let document: Value = server.request_ok("GET", "/openapi.json", Value::Null).await;
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let concrete_path = path
            .split('/')
            .map(|word| if word.starts_with('{') { "absent" } else { word })
            .collect::<Vec<_>>()
            .join("/");
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            if ["/events", "/api/shutdown"].contains(&path.as_str()) {
                continue;
            }
            let response = server.request(&method, &concrete_path, Value::Null).await;
            let body = String::from_utf8_lossy(&response.body).into_owned();
            assert!(
                response.status != 405 && !body.contains("no path /"),
                "{method} {concrete_path}: {response:?}"
            );
            assert_ne!(response.status, 500, "{method} {concrete_path}: {body}");
            count += 1;
        }
        let other = server.request("PUT", &concrete_path, Value::Null).await;
        match path.starts_with("/v1/") {
            true => assert_eq!(
                (other.status, &other.json()["error"]["code"]),
                (405, &json!("invalid_request_error"))
            ),
            false => drop(other.problem(405, "invalid_request_error")),
        }
        assert!(other.header("allow").is_some(), "{path}: {other:?}");
    }
    assert!(count > 35, "{count}");
    for path in ["/", "/node", "/nodes/", "/nodes/a/b", "/api", "/../nodes", "//nodes", "/Nodes"] {
        server.get(path).await.problem(404, "not_found_error");
    }
    server.stop().await;
}

#[tokio::test]
async fn path_that_is_not_utf8_is_reported() {
    let server = HttpServer::start();
    for path in ["/nodes/%ff", "/nodes/%C3%28/history", "/runs/%80", "/compat/agentapi/%ff/status"] {
        let detail = server.get(path).await.problem(400, "invalid_request_error");
        assert!(detail.contains("path"), "{path}: {detail}");
    }
    server
        .request("POST", "/nodes/%ff/execute", json!({ "text": "x" }))
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
    let turn = execute(CALLER, "printenv TRACEPARENT").await;
    assert_eq!(turn["response"]["text"], CALLER, "{turn}");
    // An invalid one is ignored.
    let bad = execute("00-zz", "echo done").await;
    assert_eq!(bad["response"]["text"], "done", "{bad}");
    assert!(bad["warnings"].to_string().contains("traceparent"), "{bad}");
    server.stop().await;
}

#[tokio::test]
async fn texts_are_searched() {
    let server = HttpServer::start();
    server.bash("sh").await;
    server.request_ok("POST", "/nodes/sh/execute", json!({ "text": "echo word$((40 + 2))" })).await;
    let found =
        server.request_ok("GET", "/search?pattern=word&kinds=answer,tool&node=sh&limit=5", Value::Null).await;
    assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found["hits"][0]["kind"], &found["hits"][0]["text"]), (&json!("answer"), &json!("word42")));
    let found =
        server.request_ok("GET", "/search?pattern=%2Fword.*%5C%28%2F&session=default", Value::Null).await;
    assert_eq!(found["hits"][0]["kind"], "prompt", "{found}");
    for (query, status, error_type) in [
        ("", 400, "invalid_request_error"),
        ("?pattern=%2F(%2F", 400, "invalid_request_error"),
        ("?pattern=x&limit=0", 400, "invalid_request_error"),
        ("?pattern=x&since=soon", 400, "invalid_request_error"),
        ("?pattern=x&node=absent", 404, "not_found_error"),
    ] {
        server.get(&format!("/search{query}")).await.problem(status, error_type);
    }
    server.stop().await;
}
