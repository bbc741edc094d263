//! Shares: sessions that read one node and nothing else, over any transport.

use nerve_testkit::within_deadline;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use super::client::{HttpServer, read_head};
use super::web::Browser;

/// The operations that a share of a node permits, with the query `session`.
const READABLE: [&str; 4] = ["/nodes/me", "/nodes/me/explain", "/nodes/me/transcript", "/nodes/me/terminal"];

async fn server() -> HttpServer {
    let server = HttpServer::start();
    for node in ["me", "other"] {
        server.bash(node).await;
    }
    server
}

#[tokio::test]
async fn share_permits_none_of_the_other_operations() {
    let server = server().await;
    let visitor = Browser::visitor(&server, "me").await;
    let document = server.get("/openapi.json").await.json();
    for (pattern, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for node in ["me", "other"] {
                let segments = pattern.split('/').map(|part| if part.starts_with('{') { node } else { part });
                let path = segments.collect::<Vec<_>>().join("/");
                let is_permitted = operation["security"] == json!([])
                    || (method == "get" && READABLE.contains(&path.as_str()));
                let (method, path) = (method.to_uppercase(), format!("{path}?session=default"));
                let response = visitor.send(&method, &path, json!({})).await;
                assert_eq!(response.status != 403, is_permitted, "{method} {path}: {response:?}");
            }
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn parameters_of_a_permitted_operation_lead_to_no_other_node() {
    let server = server().await;
    let visitor = Browser::visitor(&server, "me").await;
    let names = ["node", "node_id", "recording", "session_id", "server_name", "name", "run_id", "result_id"];
    for path in READABLE {
        for name in names {
            let response = visitor.get(&format!("{path}?session=default&{name}=other")).await;
            assert_eq!(response.status, 400, "{path} {name}: {response:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn sockets_of_other_nodes_are_refused_to_a_share() {
    let server = server().await;
    let visitor = Browser::visitor(&server, "me").await;
    let upgrade = format!(
        "Origin: http://{}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        server.address
    );
    let status = async |path: &str| {
        let head = visitor.head("GET", path, &upgrade);
        server.raw(format!("{head}\r\n")).await.status
    };
    for path in [
        "/api/events",
        "/events",
        "/events?session=default&node=other",
        "/nodes/other/terminal?session=default",
        "/nodes/me/terminal?session=other",
    ] {
        assert_eq!(status(path).await, 403, "{path}");
    }
    assert_eq!(status("/events?session=default&node=me").await, 101);
    // A permitted request: the shell has no terminal to show.
    assert_eq!(status("/nodes/me/terminal?session=default").await, 400);
    server.stop().await;
}

#[tokio::test]
async fn event_stream_of_a_share_has_only_events_of_its_node() {
    let server = server().await;
    let visitor = Browser::visitor(&server, "me").await;
    let mut stream = server.connect().await;
    let head = visitor.head("GET", "/events?session=default&node=me&since=0", "\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (status, head) = read_head(&mut stream).await;
    assert_eq!(status, 200, "{head}");
    for node in ["other", "me"] {
        let prompt = json!({ "text": "echo done", "async": true });
        server.request_ok("POST", &format!("/nodes/{node}/execute"), prompt).await;
    }
    let mut types = Vec::new();
    while types.last().is_none_or(|last| last != "RESULT_READY") {
        let mut line = String::new();
        within_deadline("an event", stream.read_line(&mut line)).await.unwrap();
        let Some(event) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["node_id"], "me", "{event}");
        types.push(event["event_type"].as_str().unwrap().to_string());
    }
    server.stop().await;
}
