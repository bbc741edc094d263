//! Snapshots and branches as HTTP resources.

use std::fs;

use serde_json::{Value, json};

use super::client::HttpServer;
use crate::snapshots::record;

#[tokio::test]
async fn snapshots_and_branches_are_resources() {
    let server = HttpServer::start();
    record(server.home());
    let listed = server.request_ok("GET", "/snapshots?recording=0195e3a1", Value::Null).await;
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 2, "{listed}");
    let to = server.home().join("restored");
    let params = json!({ "snapshot_id": 1, "recording": "0195e3a1", "to": to });
    server.request_ok("POST", "/snapshots/restore", params.clone()).await;
    assert_eq!(fs::read_to_string(to.join("sub/file")).unwrap(), "old\n");
    let again = server.request("POST", "/snapshots/restore", params).await;
    assert!(again.problem(400, "invalid_request_error").contains("is not empty"));
    let unknown = json!({ "snapshot_id": 3, "recording": "0195e3a1", "to": server.home().join("other") });
    server.request("POST", "/snapshots/restore", unknown).await.problem(404, "not_found_error");
    let taken = server.request("POST", "/snapshots", json!({ "node_id": "x" })).await;
    taken.problem(404, "not_found_error");
    let listed = server.request_ok("GET", "/branches", Value::Null).await;
    assert_eq!(listed["branches"], json!([]));
    let branch = json!({ "recording": "ffff", "instruction": "Continue" });
    server.request("POST", "/branches", branch).await.problem(404, "not_found_error");
    server.request("DELETE", "/branches/none?force=true", Value::Null).await.problem(404, "not_found_error");
    server.stop().await;
}
