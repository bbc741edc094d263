//! Metrics for Prometheus.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nerve_testkit::skip;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::client::{HttpServer, read_head};

/// Parses the samples by name and labels; panics on lines that are not in the text format.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut family = (String::new(), String::new());
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_ne!(name, family.0, "twice");
            family = (name.to_string(), kind.to_string());
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let name = sample.split('{').next().unwrap();
        let of_histogram =
            ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(&family.0));
        assert!(name == family.0 || (family.1 == "histogram" && of_histogram), "{line} after {family:?}");
        assert_eq!(family.1 == "counter", name.ends_with("_total"), "{line}");
        assert!(samples.insert(sample.to_string(), value.parse().unwrap()).is_none(), "twice: {line}");
    }
    samples
}

async fn page(server: &HttpServer) -> String {
    let response = server.get("/metrics").await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4"));
    String::from_utf8(response.body).unwrap()
}

#[tokio::test]
async fn metrics_count_turns_runs_and_requests() {
    let server = HttpServer::start();
    let host = server.address;
    let refused =
        server.raw(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await;
    refused.problem(401, "authentication_error");

    let before = samples(&page(&server).await);
    let of = |samples: &BTreeMap<String, f64>, name: &str| samples.get(name).copied().unwrap_or_default();
    assert_eq!(of(&before, &format!("nerve_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);
    assert!(of(&before, "process_resident_memory_bytes") > 1e6 && of(&before, "process_open_fds") > 3.0);
    assert!(of(&before, "nerve_connections{transport=\"http\"}") >= 1.0, "{before:?}");

    server.bash("sh").await;
    server.request_ok("POST", "/nodes", json!({ "node_id": "cat", "command": ["cat"] })).await;
    server.request_ok("POST", "/nodes/sh/execute", json!({ "text": "echo 123456789" })).await;
    server.request_ok("POST", "/nodes/sh/execute", json!({ "text": "sleep 0.2; exit 3" })).await;
    server
        .request("POST", "/nodes/sh/execute", json!({ "text": "sleep 60", "timeout": 0.3 }))
        .await
        .problem(504, "timeout");
    let steps = json!([{ "id": "one", "node": "sh", "input": "echo a" }, { "id": "two", "node": "sh", "input": "exit 1", "depends_on": ["one"] }]);
    server.request("POST", "/runs", json!({ "definition": { "graph": "g", "steps": steps } })).await;
    server.request("POST", "/api/command", json!({ "command_type": "NONSENSE" })).await;
    let mut events = server.connect().await;
    events.write_all(format!("{}\r\n", server.head("GET", "/events")).as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut events).await.0, 200);

    let text = page(&server).await;
    let after = samples(&text);
    let increase = |name: &str| of(&after, name) - of(&before, name);
    for (name, count) in [
        ("nerve_nodes{backend=\"bash\",state=\"ready\"}", 1.0),
        ("nerve_turns_started_total{backend=\"bash\"}", 5.0),
        ("nerve_turn_duration_seconds_count{backend=\"bash\",outcome=\"completed\"}", 2.0),
        ("nerve_turn_duration_seconds_count{backend=\"bash\",outcome=\"process_error\"}", 2.0),
        ("nerve_turn_duration_seconds_count{backend=\"bash\",outcome=\"timeout\"}", 1.0),
        ("nerve_turn_duration_seconds_bucket{backend=\"bash\",outcome=\"timeout\",le=\"0.1\"}", 0.0),
        ("nerve_turn_duration_seconds_bucket{backend=\"bash\",outcome=\"timeout\",le=\"1800\"}", 1.0),
        ("nerve_graph_runs_started_total", 1.0),
        ("nerve_graph_run_duration_seconds_count{status=\"failed\"}", 1.0),
        ("nerve_graph_steps_started_total", 2.0),
        ("nerve_graph_steps_total{status=\"completed\"}", 1.0),
        ("nerve_graph_steps_total{status=\"failed\"}", 1.0),
        ("nerve_requests_total{command=\"EXECUTE_INPUT\",outcome=\"ok\"}", 2.0),
        ("nerve_requests_total{command=\"EXECUTE_INPUT\",outcome=\"timeout\"}", 1.0),
        ("nerve_requests_total{command=\"unknown\",outcome=\"invalid_request_error\"}", 1.0),
        ("nerve_events_published_total{type=\"NODE_CREATED\"}", 2.0),
    ] {
        assert_eq!(increase(name), count, "{name}\n{text}");
    }
    assert!(increase("nerve_node_output_bytes_total") >= 12.0, "{text}");
    let duration_sum = increase("nerve_turn_duration_seconds_sum{backend=\"bash\",outcome=\"timeout\"}");
    assert!((0.25..10.0).contains(&duration_sum), "{duration_sum}");
    assert!(of(&after, "nerve_connections{transport=\"http\"}") >= 2.0);
    assert!(
        !text.contains("\"sh\"") && !text.contains("\"g\""),
        "label contains a node or graph name: {text}"
    );
    server.stop().await;
}

#[tokio::test]
async fn official_parser_accepts_the_page() {
    let folder = match std::env::var_os("NERVE_TEST_PYPI") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pypi"),
    };
    // Not canonicalized: the interpreter finds its packages relative to its own path.
    let python = std::path::absolute(folder.join("bin/python")).unwrap();
    if !python.exists() {
        return skip("official_parser_accepts_the_page", "PyPI packages missing: cargo xtask setup");
    }
    let server = HttpServer::start();
    server.bash("sh").await;
    server.request_ok("POST", "/nodes/sh/execute", json!({ "text": "echo a" })).await;
    let page = page(&server).await;
    let program = "import sys; from prometheus_client.parser import text_string_to_metric_families as parse\n\
                   print(*sorted(family.name for family in parse(sys.stdin.read())))";
    let mut parser = Command::new(python)
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    parser.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    for name in ["nerve_turn_duration_seconds", "nerve_requests", "nerve_nodes", "process_open_fds"] {
        assert!(names.split_whitespace().any(|found| found == name), "{name}: {names}");
    }
    assert_ne!(server.request_ok("GET", "/nodes", Value::Null).await, Value::Null);
    server.stop().await;
}
