//! Graphs and runs: requests to commands, replies and events to lines, without an engine.

use std::path::PathBuf;
use std::time::Duration;

use nerve_api::RequestId;
use nerve_api::framing::MAX_LINE_BYTES;
use nerve_core::budget::{Budget, Exceeded, ResourceUsage};
use nerve_core::command::{
    Command, EngineEvent, EventKind, GateInfo, GraphEvent, GraphEventKind, GraphInfo, GraphSource, Reply,
    Response, RunEnded, RunInfo, RunStatus, RunStep,
};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::proxy::{ProxyKind, ProxySpec, TurnUsage};
use nerve_core::trace::ExecutionTrace;
use nerve_term::event::TsNs;
use nerve_term::parse::{Section, SectionKind, Tokens};
use serde_json::{Map, Value, json};

use super::{Answer, Request, changes_nothing, event, may_answer_much, may_end_with_much, request};

fn asked(command: &str, params: Value) -> Command {
    let line = json!({ "command_type": command, "params": params, "request_id": "r" }).to_string();
    match request(line.as_bytes()) {
        Ok(Request::Command { command, .. }) => command,
        other => panic!("{other:?}"),
    }
}

fn refused(command: &str, params: Value) -> Value {
    let line = json!({ "command_type": command, "params": params, "request_id": "r" }).to_string();
    parsed(&request(line.as_bytes()).unwrap_err())
}

fn parsed(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

fn answered(reply: Reply) -> Value {
    answered_with(Ok(reply), None)
}

fn answered_with(outcome: Result<Reply, EngineError>, last: Option<usize>) -> Value {
    let line = Answer { request_id: Some(RequestId::from("r")), command: None, warnings: Vec::new(), last }
        .outcome(outcome);
    assert!(line.len() <= MAX_LINE_BYTES + 1, "{} bytes", line.len());
    parsed(&line)
}

fn step(path: &str, state: &'static str) -> RunStep {
    RunStep {
        step: path.to_string(),
        node: "me".to_string(),
        state,
        started: TsNs(2_000_000_000),
        ended: Some(TsNs(3_000_000_000)),
        attempt: 1,
        tokens: 7,
        error: None,
    }
}

fn run(status: RunStatus) -> RunInfo {
    RunInfo {
        run: "r1".to_string(),
        graph: "g".to_string(),
        session: "default".to_string(),
        status,
        started: TsNs(1_000_000_000),
        ended: None,
        steps: vec![
            step("a", "completed"),
            step("b", "running"),
            step("b/c", "completed"),
            step("d", "skipped"),
        ],
        total: 5,
        done: 2,
        gates: vec![gate()],
        tokens: 14,
        error: None,
        journal: Some(PathBuf::from("/runs/r1.jsonl")),
        faults: vec!["disk full".to_string()],
    }
}

fn gate() -> GateInfo {
    GateInfo {
        step: "ok".to_string(),
        question: "Ship?".to_string(),
        choices: vec!["yes".to_string(), "no".to_string()],
        default: Some("no".to_string()),
        deadline: Some(TsNs(5_500_000_000)),
    }
}

fn ended(status: RunStatus, results: Value) -> RunEnded {
    let Value::Object(results) = results else { panic!("{results}") };
    RunEnded { info: run(status), results, error: None, trace: None }
}

#[test]
fn each_command_of_graphs_and_runs_reaches_the_engine_with_all_it_carries() {
    let definition = json!({ "graph": "g", "steps": [] });
    let whole = json!({ "graph_id": "g", "steps": [], "session_id": "w", "input": 1, "run_id": "r1", "trace": true, "keep_nodes": true });
    let Command::RunGraph(graph) = asked("EXECUTE_GRAPH", whole) else { panic!() };
    assert!(matches!(&graph.graph, GraphSource::Whole(graph) if *graph == definition), "{graph:?}");
    assert_eq!(
        (graph.session.as_deref(), &graph.input, graph.run.as_deref()),
        (Some("w"), &json!(1), Some("r1"))
    );
    assert!(graph.trace && graph.keep_nodes && !graph.detach);
    let named = json!({ "graph_id": "g", "detach": true });
    let Command::RunGraph(graph) = asked("RUN_GRAPH", named) else { panic!() };
    assert!(matches!(&graph.graph, GraphSource::Named(id) if id == "g"), "{graph:?}");
    assert!(graph.detach && graph.input.is_null() && graph.session.is_none());

    let create = asked("CREATE_GRAPH", json!({ "definition": definition, "session_id": "w" }));
    assert!(
        matches!(create, Command::CreateGraph { session: Some(s), graph } if s == "w" && graph == definition)
    );
    let Command::GetGraph(at) = asked("GET_GRAPH", json!({ "graph_id": "g" })) else { panic!() };
    assert_eq!((at.node.as_str(), at.session), ("g", None));
    let Command::DeleteGraph(at) = asked("DELETE_GRAPH", json!({ "graph_id": "g", "session_id": "w" }))
    else {
        panic!()
    };
    assert_eq!((at.node.as_str(), at.session.as_deref()), ("g", Some("w")));
    assert!(matches!(asked("LIST_GRAPHS", json!({})), Command::ListGraphs { session: None }));
    for (params, id) in [
        (json!({ "graph_id": "g" }), "g"),
        (json!({ "run_id": "r1" }), "r1"),
        (json!({ "graph_id": "g", "run_id": "r1" }), "r1"),
    ] {
        assert!(matches!(asked("CANCEL_GRAPH", params), Command::CancelGraph { id: found } if found == id));
    }
    assert!(matches!(asked("LIST_RUNS", json!({})), Command::ListRuns));
    assert!(matches!(asked("GET_RUN", json!({ "run_id": "r1" })), Command::GetRun { run } if run == "r1"));
    let resume = json!({ "run_id": "r1", "definition": definition, "trace": true });
    let Command::ResumeRun(resume) = asked("RESUME_RUN", resume) else { panic!() };
    assert_eq!(
        (resume.run.as_str(), resume.graph, resume.trace, resume.detach),
        ("r1", Some(definition), true, false)
    );
    let gate = asked("ANSWER_GATE", json!({ "run_id": "r1", "step_id": "a/ok", "choice": "yes" }));
    assert!(
        matches!(gate, Command::AnswerGate { run, step: Some(step), choice } if (run.as_str(), step.as_str(), choice.as_str()) == ("r1", "a/ok", "yes"))
    );
    assert!(
        matches!(asked("START_NODE", json!({ "node_id": "a" })), Command::StartNode(at) if at.node == "a")
    );
    assert!(
        matches!(asked("START_SESSION", json!({ "name": "w" })), Command::StartSession { name } if name == "w")
    );
    assert!(matches!(asked("STOP_SESSION", json!({})), Command::StopSession { name } if name == "default"));

    let neither = refused("CANCEL_GRAPH", json!({}));
    assert_eq!(neither["error"], "give either params.run_id or params.graph_id");
    assert_eq!(refused("EXECUTE_GRAPH", json!({}))["data"]["error_type"], "invalid_request_error");
    assert_eq!(refused("ANSWER_GATE", json!({ "run_id": "r" }))["request_id"], "r");
}

#[test]
fn a_client_that_leaves_ends_no_run() {
    let run = asked("RUN_GRAPH", json!({ "graph_id": "g" }));
    let resume = asked("RESUME_RUN", json!({ "run_id": "r" }));
    for command in [&run, &resume] {
        assert!(!changes_nothing(command) && !may_answer_much(command) && may_end_with_much(command));
    }
    for command in ["LIST_GRAPHS", "LIST_RUNS"] {
        let command = asked(command, json!({}));
        assert!(changes_nothing(&command) && may_answer_much(&command));
    }
}

#[test]
fn a_run_is_answered_with_its_latest_steps_and_its_gates() {
    let data = answered(Reply::Run(Box::new(run(RunStatus::Waiting))))["data"].take();
    assert_eq!(
        (&data["run_id"], &data["graph_id"], &data["status"]),
        (&json!("r1"), &json!("g"), &json!("waiting"))
    );
    assert_eq!(
        (&data["total_steps"], &data["done_steps"], data["steps"].as_array().unwrap().len()),
        (&json!(5), &json!(2), 4)
    );
    assert_eq!(
        data["steps"][1],
        json!({ "step_id": "b", "node_id": "me", "state": "running", "started_at": 2.0, "ended_at": 3.0, "attempt": 1, "tokens_used": 7, "error": null })
    );
    assert_eq!(
        data["gates"],
        json!([{ "step_id": "ok", "question": "Ship?", "choices": ["yes", "no"], "default": "no", "deadline": 5.5 }])
    );
    assert_eq!((&data["journal"], &data["faults"]), (&json!("/runs/r1.jsonl"), &json!(["disk full"])));

    let last = answered_with(Ok(Reply::Run(Box::new(run(RunStatus::Running)))), Some(1))["data"].take();
    assert_eq!((last["steps"].as_array().unwrap().len(), &last["steps"][0]["step_id"]), (1, &json!("d")));
    assert_eq!(last["done_steps"], 2);

    let runs =
        answered(Reply::Runs(vec![run(RunStatus::Completed), run(RunStatus::Interrupted)]))["data"].take();
    assert_eq!(
        (&runs["runs"][1]["status"], &runs["runs"][0]["done_steps"]),
        (&json!("interrupted"), &json!(2))
    );
    assert_eq!(runs["runs"][0].get("steps"), None);
}

#[test]
fn a_run_that_failed_is_an_error_with_its_results_and_its_budget() {
    let mut failed = ended(RunStatus::Failed, json!({ "a": { "text": "done" } }));
    let mut error = EngineError::new(ErrorKind::Budget, "Token limit exceeded: 12/10").hint("give it more");
    let budget = Budget { max_tokens: Some(10), max_cost_dollars: Some(0.5), ..Budget::default() };
    let usage = ResourceUsage::new();
    error =
        error.with_exceeded(Exceeded { reason: "Token limit exceeded: 12/10".to_string(), budget, usage });
    failed.error = Some(error);
    failed.trace = Some(Box::new(ExecutionTrace::new("g", TsNs(0))));
    let reply = answered(Reply::RunEnded(Box::new(failed)));
    assert_eq!((&reply["success"], &reply["error"]), (&json!(false), &json!("Token limit exceeded: 12/10")));
    let data = &reply["data"];
    assert_eq!((&data["error_type"], &data["hint"]), (&json!("budget_exceeded"), &json!("give it more")));
    assert_eq!(data["exceeded"]["budget"], json!({ "max_tokens": 10, "max_cost_dollars": 0.5 }));
    assert_eq!(data["exceeded"]["usage"]["tokens_used"], 0);
    assert_eq!(
        (&data["run_id"], &data["status"], &data["results"]["a"]["text"]),
        (&json!("r1"), &json!("failed"), &json!("done"))
    );
    assert_eq!(data["trace"]["graph_id"], "g");
    // The client's types read it.
    let typed: nerve_api::reply::ErrorDetails = serde_json::from_value(data.clone()).unwrap();
    assert_eq!(typed.run.unwrap().results["a"]["text"], "done");

    let done = answered(Reply::RunEnded(Box::new(ended(RunStatus::Completed, json!({ "a": 1 })))));
    assert_eq!(
        (&done["success"], &done["error"], &done["data"]["results"]),
        (&json!(true), &json!(null), &json!({ "a": 1 }))
    );
    assert_eq!(done["data"].get("trace"), None);
}

#[test]
fn what_no_line_holds_is_left_out_of_a_run_and_told() {
    let large = "x".repeat(MAX_LINE_BYTES);
    let mut traced = ended(RunStatus::Completed, json!({ "a": "kept" }));
    let mut trace = ExecutionTrace::new("g", TsNs(0));
    trace.error = Some(large.clone());
    traced.trace = Some(Box::new(trace));
    let reply = answered(Reply::RunEnded(Box::new(traced)));
    assert_eq!((&reply["success"], &reply["data"]["results"]["a"]), (&json!(true), &json!("kept")));
    assert_eq!(reply["data"].get("trace"), None);
    assert!(
        reply["warnings"][0].as_str().unwrap().starts_with("the trace is left out: message of 16"),
        "{reply}"
    );

    let reply = answered(Reply::RunEnded(Box::new(ended(RunStatus::Completed, json!({ "a": large })))));
    assert_eq!(reply["error"], "run 'r1' is completed, and its results are too large for an answer");
    assert_eq!((&reply["success"], &reply["data"]["error_type"]), (&json!(false), &json!("too_large")));
    assert_eq!(reply["data"]["hint"], "they are in its journal, /runs/r1.jsonl");
    assert_eq!((&reply["data"]["status"], &reply["data"]["results"]), (&json!("completed"), &json!({})));

    let mut failed = ended(RunStatus::Failed, json!({ "a": large }));
    failed.error = Some(EngineError::new(ErrorKind::Timeout, "step 'b' timed out"));
    let reply = answered(Reply::RunEnded(Box::new(failed)));
    assert_eq!(
        (&reply["error"], &reply["data"]["error_type"]),
        (&json!("step 'b' timed out"), &json!("timeout"))
    );
    assert!(reply["warnings"][0].as_str().unwrap().starts_with("the results are left out"), "{reply}");
}

#[test]
fn graphs_cancellations_and_lifecycles_are_answered() {
    let info = |id: &str| GraphInfo {
        id: id.to_string(),
        session: "default".to_string(),
        steps: vec!["a".to_string()],
        definition: json!({ "graph": id }),
    };
    let graph = answered(Reply::Graph(Box::new(info("g"))))["data"].take();
    assert_eq!(
        graph,
        json!({ "graph_id": "g", "session_id": "default", "steps": ["a"], "definition": { "graph": "g" } })
    );
    let graphs = answered(Reply::Graphs(vec![info("g"), info("h")]))["data"].take();
    assert_eq!((&graphs["graphs"], &graphs["graphs_info"][1]["graph_id"]), (&json!(["g", "h"]), &json!("h")));
    assert_eq!(graphs["graphs_info"][0].get("definition"), None);
    assert_eq!(
        answered(Reply::Cancelled { runs: vec![] })["data"],
        json!({ "cancelled": false, "runs": [] })
    );
    assert_eq!(
        answered(Reply::Cancelled { runs: vec!["r".into()] })["data"],
        json!({ "cancelled": true, "runs": ["r"] })
    );
    let lifecycle =
        Reply::Lifecycle { done: vec!["a".into()], failed: vec![("b".into(), "no program".into())] };
    assert_eq!(
        answered(lifecycle)["data"],
        json!({ "nodes": ["a"], "failed": [{ "node_id": "b", "error": "no program" }] })
    );
    let pong = answered(Reply::Pong { nodes: 1, graphs: 2, sessions: 3 })["data"].take();
    assert_eq!((&pong["nodes"], &pong["graphs"], &pong["sessions"]), (&json!(1), &json!(2), &json!(3)));
}

#[test]
fn a_turn_is_the_object_that_a_step_gives() {
    let response = Response {
        node: "me".to_string(),
        turn: 3,
        raw: "$ false".to_string(),
        text: "no".to_string(),
        sections: vec![Section {
            kind: SectionKind::Text,
            content: "no".to_string(),
            metadata: Default::default(),
        }],
        tokens: Some(Tokens { input: None, output: Some(5), total: None }),
        usage: Some(TurnUsage { input: 7, requests: 2, cost_usd: Some(0.5), ..TurnUsage::default() }),
        is_complete: true,
        is_ready: true,
        source: "screen",
        delivery: "started",
        ended_by: "mark".to_string(),
        bytes: (1, 9),
        time: (TsNs(1_000_000_000), TsNs(2_500_000_000)),
        attributes: [("exit_code".to_string(), "2".to_string())].into(),
    };
    let mut value = response.clone().into_value();
    let data = answered(Reply::Response(Box::new(response)))["data"].take();
    assert_eq!((&data["node_id"], &data["turn"]), (&json!("me"), &json!(3)));
    for field in ["node_id", "turn"] {
        value.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(data["response"], value);
    assert_eq!(value["error"], "the command ended with exit code 2");
    assert_eq!((&value["success"], &value["error_type"]), (&json!(false), &json!("process_error")));
    assert_eq!((&value["tokens"], &value["attributes"]["exit_code"]), (&json!({ "output": 5 }), &json!(2)));
    assert_eq!(value["attributes"]["sections"], value["sections"]);
    assert_eq!((&value["usage"]["input"], &value["usage"]["cost_usd"]), (&json!(7), &json!(0.5)));
}

#[test]
fn a_proxy_is_a_kind_or_settings() {
    let node = |proxy: Value| json!({ "node_id": "a", "proxy": proxy });
    let made = |proxy| match asked("CREATE_NODE", node(proxy)) {
        Command::CreateNode(spec) => *spec.proxy.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(made(json!("openai")), ProxySpec::new(ProxyKind::Openai));
    let settings = json!({ "kind": "anthropic", "prices": { "input": 3, "output": 15 }, "budget": { "max_cost_usd": 2 } });
    assert_eq!(made(settings).budget.max_cost_usd, Some(2.0));
    for (bad, says) in [
        (json!("gemini"), "params.proxy.kind: there is no proxy"),
        (json!({ "kind": "anthropic", "base_url": "host" }), "params.proxy.base_url"),
        (json!({ "kind": "anthropic", "base_url": "http://far.example" }), "in the clear"),
        (json!({ "kind": "anthropic", "api_key_env": "sk-ant-x" }), "params.proxy.api_key_env"),
        (json!({ "kind": "anthropic", "max_tokens": 3 }), "max_tokens"),
    ] {
        let error = refused("CREATE_NODE", node(bad))["error"].to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn every_event_of_a_run_says_which_run_and_graph() {
    let (step, node) = (|| "out/a".to_string(), || "me".to_string());
    let cases = [
        (
            GraphEventKind::Started { steps: 3, resumed: true },
            "GRAPH_STARTED",
            json!({ "steps": 3, "resumed": true }),
        ),
        (
            GraphEventKind::StepStarted { step: step(), node: node(), attempt: 2, queued: true },
            "STEP_STARTED",
            json!({ "step_id": "out/a", "node_id": "me", "attempt": 2, "queued": true }),
        ),
        (
            GraphEventKind::StepCompleted { step: step(), node: node(), how: "reused", ms: 12, tokens: 5 },
            "STEP_COMPLETED",
            json!({ "step_id": "out/a", "node_id": "me", "state": "reused", "duration_ms": 12, "tokens_used": 5 }),
        ),
        (
            GraphEventKind::StepFailed {
                step: step(),
                node: node(),
                error: "no".to_string(),
                error_type: "timeout",
                retry_in: Some(Duration::from_millis(1500)),
            },
            "STEP_FAILED",
            json!({ "step_id": "out/a", "node_id": "me", "error": "no", "error_type": "timeout", "retry_in": 1.5 }),
        ),
        (
            GraphEventKind::GateAsked(gate()),
            "GATE_ASKED",
            json!({ "step_id": "ok", "question": "Ship?", "choices": ["yes", "no"], "default": "no", "deadline": 5.5 }),
        ),
        (
            GraphEventKind::GateAnswered { step: step(), choice: "yes".to_string(), by: "person" },
            "GATE_ANSWERED",
            json!({ "step_id": "out/a", "choice": "yes", "by": "person" }),
        ),
        (
            GraphEventKind::Ended {
                status: RunStatus::Failed,
                ms: 3,
                tokens: 9,
                error: Some("no".to_string()),
            },
            "GRAPH_COMPLETED",
            json!({ "status": "failed", "duration_ms": 3, "tokens_used": 9, "error": "no" }),
        ),
    ];
    for (kind, name, more) in cases {
        let kind = GraphEvent { run: "r1".to_string(), graph: "g".to_string(), kind };
        let kind = EventKind::Graph(Box::new(kind));
        let session = Some("work".to_string());
        let message = event(EngineEvent { seq: 4, at: TsNs(1_000_000_000), node: None, session, kind });
        assert_eq!((message.event_type.as_str(), message.session_id.as_deref()), (name, Some("work")));
        let node = name.starts_with("STEP").then_some("me");
        assert_eq!(message.node_id.as_deref(), node, "{name}");
        let mut data: Map<String, Value> =
            json!({ "run_id": "r1", "graph_id": "g" }).as_object().unwrap().clone();
        data.extend(more.as_object().unwrap().clone());
        assert_eq!(message.data, Value::Object(data));
    }
}

#[test]
fn what_a_request_is_part_of_is_understood_or_left_out_with_a_warning() {
    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = |command: &str, params: Value| {
        let mut params = params;
        params["traceparent"] = CALLER.into();
        params["tracestate"] = "vendor=1".into();
        let context = match asked(command, params) {
            Command::ExecuteInput(execute) => execute.trace,
            Command::RunGraph(run) => run.parent,
            Command::RunCommand { trace, .. } => trace,
            other => panic!("{other:?}"),
        };
        let context = context.unwrap();
        assert_eq!(
            (context.traceparent().as_str(), context.tracestate()),
            (CALLER, Some("vendor=1")),
            "{command}"
        );
    };
    traced("EXECUTE_INPUT", json!({ "node_id": "a", "text": "hi" }));
    traced("RUN_COMMAND", json!({ "node_id": "a", "command": "ls" }));
    traced("RUN_GRAPH", json!({ "graph_id": "g" }));
    // Beside the fields of a graph it is none of them.
    traced("EXECUTE_GRAPH", json!({ "graph_id": "g", "steps": [] }));
    traced("EXECUTE_GRAPH", json!({ "definition": { "graph": "g", "steps": [] } }));

    let with = |parent: Value| {
        let params = json!({ "node_id": "a", "text": "hi", "traceparent": parent });
        let line = json!({ "command_type": "EXECUTE_INPUT", "params": params }).to_string();
        match request(line.as_bytes()).unwrap() {
            Request::Command { command: Command::ExecuteInput(execute), answer } => {
                (execute.trace, answer.warnings)
            }
            other => panic!("{other:?}"),
        }
    };
    let (none, warnings) = with("00-nonsense".into());
    assert!(
        none.is_none() && warnings[0].contains("traceparent") && warnings[0].contains("00-nonsense"),
        "{warnings:?}"
    );
    for nothing in [Value::Null, "".into()] {
        assert_eq!(with(nothing), (None, Vec::new()));
    }
    let long = with("x".repeat(100_000).into()).1;
    assert!(long[0].len() < 300, "{}", long[0].len());
}
