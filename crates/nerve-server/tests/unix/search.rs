//! SEARCH over the protocol.

use nerve_types::files::{Lock, private_folder};
use serde_json::{Value, json};

use crate::harness::{Client, DEADLINE, TestServer, paths};

/// Runs a turn of a bash node `b`, in whose answer is `word42`.
async fn run_turn(client: &mut Client) {
    client.request_ok("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    let turn = json!({ "node_id": "b", "text": "echo word$((40 + 2))" });
    client.request_ok("EXECUTE_INPUT", turn).await;
}

/// Returns kinds and texts of the hits, newest first.
async fn search(client: &mut Client, params: Value) -> Vec<(String, String)> {
    let found = client.request_ok("SEARCH", params).await;
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| (text(&hit["kind"]), text(&hit["text"]))).collect()
}

#[tokio::test]
async fn prompt_and_answer_are_found() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    run_turn(client).await;
    let found = client.request_ok("SEARCH", json!({ "pattern": "word42" })).await;
    assert_eq!(
        (&found["unsearched"], &found["unsearched_count"], &found["was_rebuilt"]),
        (&json!([]), &json!(0), &json!(false)),
        "{found}"
    );
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["kind"], &hit["node_id"], &hit["session_id"], &hit["server_name"], &hit["turn"]),
        (&json!("answer"), &json!("b"), &json!("default"), &json!("test"), &json!(1)),
        "{found}"
    );
    assert_eq!((&hit["text"], &hit["matches"]), (&json!("word42"), &json!([[0, 6]])), "{found}");
    assert!(hit["happened_at"].as_str().unwrap().ends_with('Z'), "{found}");

    let prompt = ("prompt".to_string(), "echo word$((40 + 2))".to_string());
    let answer = ("answer".to_string(), "word42".to_string());
    let both = search(client, json!({ "pattern": "word" })).await;
    assert!(both.len() == 2 && both.contains(&prompt) && both.contains(&answer), "{both:?}");
    for (params, wanted) in [
        (json!({ "pattern": "word", "kinds": ["prompt", "tool"] }), vec![&prompt]),
        (json!({ "pattern": "word", "kinds": "answer" }), vec![&answer]),
        (json!({ "pattern": "/^word[0-9]+$/" }), vec![&answer]),
        (json!({ "pattern": "/WORD/" }), vec![]),
        (json!({ "pattern": "WORD42", "node_id": "b", "session_id": "default" }), vec![&answer]),
        (json!({ "pattern": "word42", "since": "2020-01-01T00:00:00Z" }), vec![&answer]),
        (json!({ "pattern": "word42", "since": "2100-01-01T00:00:00+02:00" }), vec![]),
    ] {
        let found = search(client, params.clone()).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{params}");
    }
    assert_eq!(search(client, json!({ "pattern": "word", "limit": 1 })).await.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn invalid_searches_fail_with_hints() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    run_turn(client).await;
    for (params, error_type) in [
        (json!({ "pattern": " " }), "invalid_request_error"),
        (json!({ "pattern": "/(/" }), "invalid_request_error"),
        (json!({ "pattern": "x".repeat(5000) }), "invalid_request_error"),
        (json!({ "pattern": "x", "limit": 0 }), "invalid_request_error"),
        (json!({ "pattern": "x", "limit": 1001 }), "invalid_request_error"),
        (json!({ "pattern": "x", "since": "soon" }), "invalid_request_error"),
        (json!({ "pattern": "x", "node_id": "c" }), "not_found_error"),
        (json!({ "pattern": "x", "session_id": "work" }), "not_found_error"),
    ] {
        let reply = client.request("SEARCH", params.clone()).await;
        assert_eq!((&reply["success"], &reply["data"]["error_type"]), (&json!(false), &json!(error_type)));
        assert!(reply["data"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{params}: {reply}");
    }
    let error = client.request_err("SEARCH", json!({})).await;
    assert!(error.contains("params.pattern is missing"), "{error}");
    let error = client.request_err("SEARCH", json!({ "pattern": "x", "kinds": ["dream"] })).await;
    assert!(error.contains("params.kinds") && error.contains("prompt, answer, tool, screen"), "{error}");
    assert_eq!(search(client, json!({ "pattern": "x", "limit": 1000 })).await, []);
    server.stop().await;
}

#[tokio::test]
async fn other_requests_are_served_during_searches() {
    let server = TestServer::start();
    let (searcher, other) = (&mut server.client().await, &mut server.client().await);
    run_turn(other).await;
    let folder = paths(server.home.path()).data.search;
    private_folder(&folder).unwrap();
    // Nothing opens the index while this lock is held, so the searches cannot end. The last one waits for the others.
    let lock = Lock::take(&folder.join("lock"), DEADLINE).unwrap();
    for _ in 0..3 {
        searcher.send("SEARCH", json!({ "pattern": "/word42/" })).await;
    }
    // The server and this test share one thread, which a search in it would block.
    assert_eq!(searcher.request_ok("PING", json!({})).await["pong"], true);
    assert_eq!(other.request_ok("PING", json!({})).await["pong"], true);
    drop(lock);
    for _ in 0..3 {
        let reply = searcher.reply().await;
        assert_eq!(reply["data"]["hits"][0]["text"], "word42", "{reply}");
    }
    server.stop().await;
}
