use nerve_api::framing::LineReader;
use nerve_client::{NerveClient, ResumeRun, RunOptions};
use serde_json::{Map, Value, json};

use super::{Peer, connected_client};

fn definition() -> Map<String, Value> {
    json!({"graph": "g", "steps": [{"id": "a", "node": "sh", "input": "ls"}]}).as_object().unwrap().clone()
}

#[tokio::test]
async fn graph_helpers_send_expected_commands() {
    let (client, mut peer) = connected_client().await;
    let ended =
        json!({"graph_id": "g", "run_id": "r", "state": "completed", "results": {"a": {"text": "done"}}});
    let started = json!({"graph_id": "g", "run_id": "r", "state": "running"});
    let server = async {
        let full_params = |detach: bool| {
            json!({"definition": definition(), "session_id": "work", "input": {"task": "x"}, "run_id": "r",
                "trace": true, "detach": detach, "keep_nodes": true})
        };
        peer.expect("EXECUTE_GRAPH", full_params(false), ended.clone()).await;
        peer.expect("EXECUTE_GRAPH", full_params(true), started.clone()).await;
        let by_id =
            |detach: bool| json!({"graph_id": "g", "trace": false, "detach": detach, "keep_nodes": false});
        peer.expect("RUN_GRAPH", by_id(false), ended.clone()).await;
        peer.expect("RUN_GRAPH", by_id(true), started.clone()).await;
        peer.expect(
            "CREATE_GRAPH",
            json!({"definition": definition(), "session_id": "work"}),
            json!({"graph_id": "g", "steps": ["a"]}),
        )
        .await;
        peer.expect(
            "GET_GRAPH",
            json!({"graph_id": "g"}),
            json!({"graph_id": "g", "definition": {"steps": []}}),
        )
        .await;
        peer.expect(
            "LIST_GRAPHS",
            json!({"session_id": "work"}),
            json!({"graphs": ["g"], "graphs_info": [{"graph_id": "g"}]}),
        )
        .await;
        peer.expect("DELETE_GRAPH", json!({"graph_id": "g", "session_id": "work"}), json!({})).await;
        peer.expect("CANCEL_GRAPH", json!({"graph_id": "g"}), json!({"cancelled": true, "runs": ["r", "s"]}))
            .await;
        peer.expect("CANCEL_GRAPH", json!({"run_id": "r"}), json!({"cancelled": true, "runs": ["r"]})).await;
        peer.expect("LIST_RUNS", json!({}), json!({"runs": [started]})).await;
        peer.expect("GET_RUN", json!({"run_id": "r", "last": 5, "plan": false}), started.clone()).await;
        peer.expect(
            "RESUME_RUN",
            json!({"run_id": "r", "definition": definition(), "trace": true, "detach": false}),
            ended.clone(),
        )
        .await;
        peer.expect("RESUME_RUN", json!({"run_id": "r", "trace": false, "detach": true}), started.clone())
            .await;
        peer.expect("ANSWER_GATE", json!({"run_id": "r", "step_id": "ok", "choice": "yes"}), started.clone())
            .await;
        peer.expect("ANSWER_GATE", json!({"run_id": "r", "choice": "no"}), started.clone()).await;
        peer.expect(
            "START_NODE",
            json!({"node_id": "a", "session_id": "work"}),
            json!({"node_id": "a", "type": "pty", "state": "starting"}),
        )
        .await;
        peer.expect(
            "START_SESSION",
            json!({"name": "work"}),
            json!({"nodes": ["a"], "failed": [{"node_id": "b", "error": "no such program"}]}),
        )
        .await;
        peer.expect("STOP_SESSION", json!({"name": "work"}), json!({"nodes": ["a"], "failed": []})).await;
    };
    let client_side = async {
        let options = RunOptions {
            session_id: Some("work".into()),
            input: json!({"task": "x"}),
            run_id: Some("r".into()),
            trace: true,
            keep_nodes: true,
            ..RunOptions::default()
        };
        let run = client.execute_graph(definition(), &options).await.unwrap();
        assert_eq!((run.status.as_str(), &run.results["a"]["text"]), ("completed", &json!("done")));
        assert_eq!(
            client.execute_graph_detached(definition(), &options).await.unwrap().status.as_str(),
            "running"
        );
        let none = RunOptions::default();
        assert_eq!(client.run_graph("g", &none).await.unwrap().run_id, "r");
        assert_eq!(client.run_graph_detached("g", &none).await.unwrap().run_id, "r");
        assert_eq!(client.create_graph(definition(), Some("work")).await.unwrap().steps, ["a"]);
        assert!(client.get_graph("g", None).await.unwrap().definition.is_object());
        assert_eq!(client.list_graphs(Some("work")).await.unwrap()[0].graph_id, "g");
        client.delete_graph("g", Some("work")).await.unwrap();
        assert_eq!(client.cancel_graph("g").await.unwrap(), ["r", "s"]);
        assert_eq!(client.cancel_run("r").await.unwrap(), ["r"]);
        assert_eq!(client.runs().await.unwrap()[0].run_id, "r");
        assert_eq!(client.run_status("r", Some(5)).await.unwrap().status.as_str(), "running");
        let resume = ResumeRun { run_id: "r".into(), ..ResumeRun::default() };
        let edited = ResumeRun { definition: Some(definition()), trace: true, ..resume.clone() };
        assert_eq!(client.resume_run(edited).await.unwrap().status.as_str(), "completed");
        assert_eq!(client.resume_run_detached(resume).await.unwrap().status.as_str(), "running");
        assert_eq!(client.answer_gate("r", Some("ok"), "yes").await.unwrap().run_id, "r");
        client.answer_gate("r", None, "no").await.unwrap();
        assert_eq!(client.start_node("a", Some("work")).await.unwrap().id(), "a");
        assert_eq!(client.start_session("work").await.unwrap().failed[0].node_id, "b");
        assert_eq!(client.stop_session("work").await.unwrap().nodes, ["a"]);
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn failed_run_carries_partial_results() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        peer.send(json!({"type": "result", "success": false, "error": "Token limit exceeded: 12/10", "request_id": request["request_id"],
            "data": {"error_type": "budget_exceeded", "graph_id": "g", "run_id": "r", "state": "failed", "tokens_used": 12,
                "results": {"a": {"text": "done"}},
                "exceeded": {"reason": "Token limit exceeded: 12/10", "budget": {"max_tokens": 10}, "usage": {"tokens_used": 12}}}}))
            .await;
        let request = peer.request().await;
        peer.send(json!({"type": "result", "success": false, "error": "no graph 'h'", "request_id": request["request_id"],
            "data": {"error_type": "not_found_error"}}))
            .await;
    };
    let client_side = async {
        let error = client.execute_graph(definition(), &RunOptions::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "Token limit exceeded: 12/10");
        let server = &error.server().unwrap().details;
        assert_eq!(server.error_type.as_str(), "budget_exceeded");
        assert_eq!(server.exceeded.as_ref().unwrap().usage["tokens_used"], 12);
        let run = server.run.as_ref().unwrap();
        assert_eq!((run.run_id.as_str(), run.status.as_str(), run.tokens_used), ("r", "failed", 12));
        assert_eq!(run.results["a"]["text"], "done");
        // The run never started.
        let error = client.run_graph("h", &RunOptions::default()).await.unwrap_err();
        assert_eq!(error.server().unwrap().details.run, None);
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn custom_stream_is_closed_with_the_client() {
    let (ours, theirs) = tokio::io::duplex(64);
    let client = NerveClient::over(ours);
    let (input, output) = tokio::io::split(theirs);
    let mut peer = Peer { lines: LineReader::new(input), output, _folder: None };
    let (pong, ()) = tokio::join!(client.ping(), async {
        peer.expect("PING", json!({}), json!({"pong": true})).await;
    });
    assert!(pong.unwrap().pong);
    drop(client);
    let frame = peer.lines.next().await.unwrap();
    assert_eq!(frame, nerve_api::framing::Frame::Eof { partial: vec![] });
}
