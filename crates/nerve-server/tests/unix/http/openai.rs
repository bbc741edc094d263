//! Nodes as models of OpenAI's API, over a shell that runs each prompt: answers, and refused requests.

use nerve_testkit::eventually;
use serde_json::{Value, json};

use super::client::{HttpResponse, HttpServer};

const CHAT: &str = "/v1/chat/completions";

fn request(model: &str, text: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": text }] })
}

/// Checks that a response is an error of this status with this code, and returns it.
fn error(response: &HttpResponse, status: u16, code: &str) -> Value {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    let error = response.json()["error"].take();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    error
}

#[tokio::test]
async fn shell_is_a_model() {
    let server = HttpServer::start();
    server.bash("sh").await;
    server.request_ok("POST", "/sessions", json!({ "name": "work" })).await;
    let other = json!({ "node_id": "sh", "backend": "bash", "session_id": "work" });
    server.request_ok("POST", "/nodes", other).await;
    let models = server.request_ok("GET", "/v1/models", Value::Null).await;
    let ids: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!((&models["object"], ids), (&json!("list"), vec![&json!("sh"), &json!("work/sh")]));
    for id in ["sh", "work%2Fsh", "sh:fork"] {
        let model = server.request_ok("GET", &format!("/v1/models/{id}"), Value::Null).await;
        assert_eq!((&model["id"], &model["object"]), (&json!(id.replace("%2F", "/")), &json!("model")));
    }
    for model in ["sh", "work/sh"] {
        let answer = server.request_ok("POST", CHAT, request(model, "echo hello")).await;
        let choice = &answer["choices"][0];
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&json!("hello"), &json!("stop"))
        );
        assert!(
            answer["id"].as_str().unwrap().starts_with("chatcmpl-") && answer["created"].is_u64(),
            "{answer}"
        );
    }
    // A node that runs its input gets no instructions and no earlier messages.
    let mut instructed = request("sh:node", "echo hello");
    instructed["messages"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({ "role": "system", "content": "echo no" }));
    error(&server.request("POST", CHAT, instructed).await, 400, "invalid_request_error");
    let failed = error(
        &server.request("POST", CHAT, request("sh:node", "echo partly; exit 3")).await,
        422,
        "process_error",
    );
    assert_eq!(failed["nerve"]["node_id"], "sh", "{failed}");
    let mut sampled = request("sh:node", "echo again");
    (sampled["temperature"], sampled["max_tokens"]) = (json!(0.2), json!(null));
    let response = server.request("POST", CHAT, sampled).await;
    assert_eq!((response.status, response.header("x-nerve-ignored-parameters")), (200, Some("temperature")));
    server.stop().await;
}

#[tokio::test]
async fn answer_is_streamed_while_it_grows() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let go = server.home().join("go");
    let command = format!("echo first; until [ -e {} ]; do sleep 0.01; done; echo second", go.display());
    let mut body = request("sh", &command);
    body["stream"] = json!(true);
    let head = format!(
        "{}Content-Length: {}\r\nConnection: close\r\n\r\n",
        server.head("POST", CHAT),
        body.to_string().len()
    );
    let mut stream = server.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, format!("{head}{body}").as_bytes()).await.unwrap();
    let mut seen = String::new();
    read_until(&mut stream, &mut seen, "first").await;
    std::fs::write(go, "").unwrap();
    read_until(&mut stream, &mut seen, "[DONE]").await;
    assert!(seen.contains("text/event-stream") && seen.find("first") < seen.find("second"), "{seen}");
    assert_eq!(seen.matches("\"finish_reason\":\"stop\"").count(), 1, "{seen}");
    server.stop().await;
}

async fn read_until(stream: &mut (impl tokio::io::AsyncBufRead + Unpin), seen: &mut String, word: &str) {
    let reading = async {
        while !seen.contains(word) {
            let count = tokio::io::AsyncBufReadExt::read_line(stream, seen).await.unwrap();
            assert!(count > 0, "the stream ended before {word}: {seen}");
        }
    };
    nerve_testkit::within_deadline(word, reading).await;
}

#[tokio::test]
async fn errors_have_the_format_of_the_api() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let post = async |body: Value| server.request("POST", CHAT, body).await;
    for model in ["absent", "absent/sh", "sh:guess", "x:new", "", "../x", "a/b/c", &"x".repeat(1000)] {
        let refused = error(&post(request(model, "echo hi")).await, 404, "model_not_found");
        assert_eq!(refused["param"], "model", "{refused}");
    }
    error(&server.get("/v1/models/absent").await, 404, "model_not_found");
    error(&server.get("/v1/embeddings").await, 404, "not_found_error");
    error(&server.get("/v1/models?token=x").await, 400, "invalid_request_error");
    let wrong_method = server.get(CHAT).await;
    assert_eq!(wrong_method.header("allow"), Some("POST"));
    error(&wrong_method, 405, "invalid_request_error");
    let head = format!("GET /v1/models HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.address);
    let anonymous = server.raw(format!("{head}\r\n")).await;
    error(&anonymous, 401, "invalid_api_key");
    assert!(anonymous.header("www-authenticate").is_some());
    let foreign = server.raw(format!("{head}Origin: http://other.example\r\n\r\n")).await;
    error(&foreign, 403, "permission_error");
    let mut tools = request("sh", "echo hi");
    tools["tools"] = json!([{ "type": "function" }]);
    assert_eq!(error(&post(tools).await, 400, "unsupported_parameter")["param"], "tools");
    let image = json!([{ "type": "image_url", "image_url": { "url": "data:" } }]);
    let image = json!({ "model": "sh", "messages": [{ "role": "user", "content": image }] });
    assert_eq!(error(&post(image).await, 400, "unsupported_parameter")["param"], "messages[0].content[0]");
    error(&post(request("sh:fork", "echo hi")).await, 400, "invalid_request_error");
    let huge = format!("{}Content-Length: 900000000\r\nConnection: close\r\n\r\n", server.head("POST", CHAT));
    error(&server.raw(huge).await, 413, "too_large");
    std::fs::write(server.home().join("openai.toml"), "mode = \"guess\"").unwrap();
    let invalid = error(&post(request("sh", "echo hi")).await, 500, "invalid_settings");
    assert!(invalid["message"].as_str().unwrap().contains("openai.toml"), "{invalid}");
    // Nothing was executed.
    let history = server.request_ok("GET", "/nodes/sh/history", Value::Null).await;
    assert_eq!(history["entries"], json!([]), "{history}");
    server.stop().await;
}

#[tokio::test]
async fn number_of_new_nodes_is_limited() {
    let server = HttpServer::start();
    std::fs::write(server.home().join("openai.toml"), "[new.shell]\nbackend = \"bash\"\n").unwrap();
    let go = server.home().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo done", go.display());
    let call = async || server.request("POST", CHAT, request("shell:new", &command)).await;
    let calls = async || tokio::join!(call(), call(), call(), call(), call(), call(), call(), call());
    let nodes =
        async || server.request_ok("GET", "/nodes", Value::Null).await["nodes"].as_array().unwrap().len();
    let full = async {
        eventually("all nodes", async || nodes().await == 8).await;
        let refused = call().await;
        std::fs::write(&go, "").unwrap();
        refused
    };
    let (refused, calls) = tokio::join!(full, calls());
    error(&refused, 429, "busy");
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    assert_eq!(calls.0.json()["choices"][0]["message"]["content"], "done", "{:?}", calls.0);
    eventually("the nodes are removed", async || {
        let list = server.request_ok("GET", "/nodes", Value::Null).await;
        list["nodes"] == json!([]) && list["stopped"] == json!([])
    })
    .await;
    // A node's place is free shortly after the node has gone from the list.
    eventually("a new node", async || call().await.status == 200).await;
    server.stop().await;
}

#[tokio::test]
async fn disconnect_interrupts_the_turn() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let state = async || server.request_ok("GET", "/nodes/sh", Value::Null).await["state"].take();
    for stream in [false, true] {
        let mut body = request("sh:node", "sleep 1000");
        body["stream"] = json!(stream);
        let body = body.to_string();
        let head = format!("{}Content-Length: {}\r\n\r\n", server.head("POST", CHAT), body.len());
        let mut connection = server.connect().await;
        tokio::io::AsyncWriteExt::write_all(&mut connection, format!("{head}{body}").as_bytes())
            .await
            .unwrap();
        eventually("the turn begins", async || state().await == "busy").await;
        drop(connection);
        eventually("the turn is interrupted", async || state().await == "ready").await;
    }
    server.stop().await;
}
