use nerve_api::reply::{
    BudgetExceeded, ErrorDetails, GateInfo, GraphInfo, GraphList, NodesChanged, ResultInfo, RunEnded,
    RunInfo, RunStep, RunsCancelled, SessionInfo,
};
use nerve_api::request::{
    self, AnswerGate, CancelGraph, CreateGraph, ExecuteGraph, GetGraph, GetRun, ListGraphs, ResumeRun,
    RunGraph, Subscribe,
};
use nerve_api::value::{ResultStatus, RunStatus, StepState};
use nerve_api::{ErrorKind, EventMessage, EventType, RawRequest, RequestName, decode_request};
use nerve_types::activity::TsMs;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn line(command: &str, params: Value) -> Vec<u8> {
    json!({"command_type": command, "params": params, "request_id": 1}).to_string().into_bytes()
}

fn try_read<P: DeserializeOwned>(line: &[u8]) -> Result<P, String> {
    let RawRequest { command, params, .. } = decode_request(line).unwrap();
    request::read(command, &params)
}

fn read<P: DeserializeOwned>(command: &str, params: Value) -> P {
    try_read(&line(command, params)).unwrap()
}

fn read_error<P: DeserializeOwned + std::fmt::Debug>(command: &str, params: Value) -> String {
    try_read::<P>(&line(command, params)).unwrap_err()
}

#[test]
fn graph_is_accepted_inline_or_as_definition() {
    let steps = json!([{"id": "a", "node_id": "sh", "text": "hi"}]);
    let inline: ExecuteGraph = read(
        "EXECUTE_GRAPH",
        json!({"graph_id": "g", "steps": steps, "max_parallel": 2, "nodes": {"sh": {"type": "bash"}},
            "session_id": "work", "input": {"task": "x"}, "run_id": "r1", "trace": true, "detach": true, "keep_nodes": true}),
    );
    let graph = json!({"graph": "g", "steps": steps, "max_parallel": 2, "nodes": {"sh": {"type": "bash"}}});
    assert_eq!(json!(inline.definition), graph);
    let options = &inline.options;
    assert_eq!(
        (options.session_id.as_deref(), options.run_id.as_deref(), &options.input),
        (Some("work"), Some("r1"), &json!({"task": "x"}))
    );
    assert!(options.trace && inline.detach && options.keep_nodes);

    let with_definition: ExecuteGraph = read("EXECUTE_GRAPH", json!({"definition": graph, "input": null}));
    assert_eq!(json!(with_definition.definition), graph);
    let options = with_definition.options;
    assert_eq!((options.session_id, options.run_id, options.input), (None, None, Value::Null));
    assert!(!options.trace && !with_definition.detach && !options.keep_nodes);

    // The serialized form is read back unchanged.
    let serialized = serde_json::to_value(&inline).unwrap();
    assert_eq!(serialized["definition"], graph);
    assert_eq!(read::<ExecuteGraph>("EXECUTE_GRAPH", serialized), inline);

    // CREATE_GRAPH has no such options, so the fields stay in the definition and its validation rejects them.
    let created: CreateGraph = read(
        "CREATE_GRAPH",
        json!({"graph": "g", "graph_id": "h", "steps": [], "trace": true, "session_id": "w"}),
    );
    assert_eq!(json!(created.definition), json!({"graph": "g", "graph_id": "h", "steps": [], "trace": true}));
    assert_eq!(created.session_id.as_deref(), Some("w"));
}

#[test]
fn deprecated_graph_names_are_translated_and_warned_once() {
    let old = line(
        "EXECUTE_DAG",
        json!({"dag_id": "d", "tasks": [
            {"task_id": "a", "channel_id": "me", "text": "1"},
            {"task_id": "b", "channel_id": "me", "text": "2", "depends_on": ["a"]},
            "no step",
        ]}),
    );
    let request = decode_request(&old).unwrap();
    assert_eq!(request.command, RequestName::ExecuteGraph);
    assert_eq!(
        request.warnings,
        [
            "EXECUTE_DAG is deprecated, use EXECUTE_GRAPH",
            "dag_id is deprecated, use graph_id",
            "tasks is deprecated, use steps",
            "steps: task_id is deprecated, use step_id",
            "steps: channel_id is deprecated, use node_id",
        ]
    );
    let params: ExecuteGraph = try_read(&old).unwrap();
    assert_eq!(
        json!(params.definition),
        json!({"graph": "d", "steps": [
            {"text": "1", "step_id": "a", "node_id": "me"},
            {"text": "2", "depends_on": ["a"], "step_id": "b", "node_id": "me"},
            "no step",
        ]})
    );
    let cancel = line("CANCEL_DAG", json!({"dag_id": "d"}));
    assert_eq!(decode_request(&cancel).unwrap().warnings.len(), 2);
    assert_eq!(try_read::<CancelGraph>(&cancel).unwrap().graph_id.as_deref(), Some("d"));
    for command in ["GET_GRAPH", "DELETE_GRAPH", "RUN_GRAPH"] {
        let old = line(command, json!({"dag_id": "d"}));
        let warnings = decode_request(&old).unwrap().warnings;
        assert_eq!(warnings, ["dag_id is deprecated, use graph_id"], "{command}");
        assert_eq!(try_read::<GetGraph>(&old).unwrap().graph_id, "d");
    }
    // The current name takes precedence over the deprecated one.
    let params: ExecuteGraph =
        read("EXECUTE_GRAPH", json!({"tasks": [1], "steps": [2], "dag_id": "old", "graph_id": "new"}));
    assert_eq!(json!(params.definition), json!({"graph": "new", "steps": [2]}));
}

#[test]
fn invalid_graph_params_are_named() {
    let steps = json!([]);
    let cases = [
        (json!({}), "params.steps is missing: EXECUTE_GRAPH needs it"),
        (json!({"graph_id": "g", "steps": null}), "params.steps is missing: EXECUTE_GRAPH needs it"),
        (json!({"definition": [1]}), "params.definition: invalid type: list, expected an object"),
        (
            json!({"definition": "steps: []"}),
            "params.definition: invalid type: string \"steps: []\", expected an object",
        ),
        (
            json!({"definition": {}, "steps": []}),
            "params: a graph is given as definition and by its steps: leave out one",
        ),
        (
            json!({"steps": steps, "trace": "yes"}),
            "params.trace: invalid type: string \"yes\", expected true or false",
        ),
        (
            json!({"steps": steps, "detach": 1}),
            "params.detach: invalid type: integer `1`, expected true or false",
        ),
        (
            json!({"steps": steps, "keep_nodes": {}}),
            "params.keep_nodes: invalid type: object, expected true or false",
        ),
        (json!({"steps": steps, "run_id": 7}), "params.run_id: invalid type: integer `7`, expected a string"),
        (
            json!({"steps": steps, "session_id": ["a"]}),
            "params.session_id: invalid type: list, expected a string",
        ),
    ];
    for (params, message) in cases {
        assert_eq!(read_error::<ExecuteGraph>("EXECUTE_GRAPH", params), message);
    }
    assert_eq!(
        read_error::<CreateGraph>("CREATE_GRAPH", json!({"graph_id": "g"})),
        "params.steps is missing: CREATE_GRAPH needs it"
    );
    assert_eq!(
        read_error::<RunGraph>("RUN_GRAPH", json!({"input": "x"})),
        "params.graph_id is missing: RUN_GRAPH needs it"
    );
    assert_eq!(
        read_error::<GetRun>("GET_RUN", json!({"run_id": "r", "last": -1})),
        "params.last: invalid value: integer `-1`, expected a whole number, not negative"
    );
    assert_eq!(
        read_error::<AnswerGate>("ANSWER_GATE", json!({"run_id": "r", "choice": 1})),
        "params.choice: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        read_error::<AnswerGate>("ANSWER_GATE", json!({"run_id": "r"})),
        "params.choice is missing: ANSWER_GATE needs it"
    );
    assert_eq!(
        read_error::<ResumeRun>("RESUME_RUN", json!({"run_id": "r", "definition": "x"})),
        "params.definition: invalid type: string \"x\", expected an object"
    );
    let body = decode_request(br#"{"command_type":"EXECUTE_GRAPH","params":[{"id":"a"}]}"#).unwrap_err();
    assert_eq!(body.message, "params: expected an object, got a list");
}

#[test]
fn ten_thousand_inline_steps_are_read() {
    let steps: Vec<Value> =
        (0..10_000).map(|n| json!({"id": format!("s{n}"), "node": "sh", "input": n})).collect();
    let params: ExecuteGraph = read("EXECUTE_GRAPH", json!({"graph": "big", "steps": steps}));
    assert_eq!(params.definition["steps"], json!(steps));
}

#[test]
fn other_graph_commands_are_read() {
    let run: RunGraph =
        read("RUN_GRAPH", json!({"graph_id": "g", "input": [1], "trace": true, "keep_nodes": true}));
    assert_eq!((run.graph_id.as_str(), &run.options.input), ("g", &json!([1])));
    assert!(run.options.trace && run.options.keep_nodes && !run.detach);
    assert_eq!(read::<ListGraphs>("LIST_GRAPHS", json!({})), ListGraphs::default());
    assert_eq!(read::<GetRun>("GET_RUN", json!({"run_id": "r", "last": 3})).last, Some(3));
    let resume: ResumeRun =
        read("RESUME_RUN", json!({"run_id": "r", "definition": {"steps": []}, "detach": true}));
    assert!(resume.detach && !resume.trace && resume.definition.is_some());
    let gate: AnswerGate = read("ANSWER_GATE", json!({"run_id": "r", "choice": "yes"}));
    assert_eq!((gate.step_id, gate.choice.as_str()), (None, "yes"));
    assert_eq!(read::<CancelGraph>("CANCEL_GRAPH", json!({"run_id": "r"})).run_id.as_deref(), Some("r"));
    let events: Subscribe = read("SUBSCRIBE", json!({"run_id": "r"}));
    assert_eq!(events.run_id.as_deref(), Some("r"));
}

#[test]
fn failed_run_error_carries_results() {
    let run = RunEnded {
        graph_id: "g".into(),
        run_id: "r".into(),
        status: RunStatus::Failed,
        results: json!({"a": {"text": "done"}}).as_object().unwrap().clone(),
        tokens_used: 12,
        ..RunEnded::default()
    };
    let exceeded = BudgetExceeded {
        reason: "Token limit exceeded: 12/10".into(),
        budget: json!({"max_tokens": 10}).as_object().unwrap().clone(),
        ..BudgetExceeded::default()
    };
    let data = ErrorDetails {
        exceeded: Some(exceeded),
        run: Some(Box::new(run)),
        ..ErrorDetails::of(ErrorKind::Budget)
    };
    let wire = serde_json::to_value(&data).unwrap();
    assert_eq!(
        wire,
        json!({"error_type": "budget_exceeded", "graph_id": "g", "run_id": "r", "state": "failed",
            "results": {"a": {"text": "done"}}, "started_at": "1970-01-01T00:00:00.000Z", "ended_at": null, "tokens_used": 12, "journal": null,
            "exceeded": {"reason": "Token limit exceeded: 12/10", "budget": {"max_tokens": 10}, "usage": {}}})
    );
    assert_eq!(serde_json::from_value::<ErrorDetails>(wire).unwrap(), data);
    // Other errors have no run.
    let other = ErrorDetails::of(ErrorKind::Timeout);
    assert_eq!(serde_json::to_value(&other).unwrap(), json!({"error_type": "timeout"}));
    assert_eq!(serde_json::from_value::<ErrorDetails>(json!({"error_type": "timeout"})).unwrap(), other);
}

#[test]
fn run_results_serialize_as_documented() {
    let ended = RunEnded {
        graph_id: "g".into(),
        run_id: "r".into(),
        status: RunStatus::Completed,
        trace: Some(json!({"steps": []})),
        ..RunEnded::default()
    };
    let wire = serde_json::to_value(&ended).unwrap();
    for field in ["graph_id", "run_id", "state", "results", "trace"] {
        assert!(wire.get(field).is_some(), "{field}");
    }
    assert_eq!(serde_json::from_value::<RunEnded>(wire).unwrap(), ended);
    let info = RunInfo {
        run_id: "r".into(),
        graph_id: "g".into(),
        status: RunStatus::Waiting,
        steps: vec![RunStep {
            step_id: "outer/each[3]".into(),
            state: StepState::Running,
            ..RunStep::default()
        }],
        gates: vec![GateInfo { step_id: "ok".into(), question: "Ship?".into(), ..GateInfo::default() }],
        ..RunInfo::default()
    };
    assert_eq!(serde_json::from_value::<RunInfo>(serde_json::to_value(&info).unwrap()).unwrap(), info);
    let graphs = GraphList {
        graphs: vec!["g".into()],
        graphs_info: vec![GraphInfo { graph_id: "g".into(), ..GraphInfo::default() }],
        next: None,
    };
    assert_eq!(
        serde_json::to_value(&graphs).unwrap(),
        json!({"graphs": ["g"], "graphs_info": [{"graph_id": "g", "session_id": "", "steps": []}], "next": null})
    );
    let cancelled = RunsCancelled { cancelled: true, runs: vec!["r".into()] };
    assert_eq!(serde_json::to_value(cancelled).unwrap(), json!({"cancelled": true, "runs": ["r"]}));
    // Fields that a server omits get defaults.
    let lifecycle: NodesChanged = serde_json::from_value(json!({"nodes": ["a"]})).unwrap();
    assert!(lifecycle.failed.is_empty());
    let session: SessionInfo = serde_json::from_value(json!({"name": "s"})).unwrap();
    assert!(session.graphs.is_empty());
}

#[test]
fn run_events_have_deprecated_aliases() {
    let event = EventMessage {
        event_type: EventType::StepCompleted.to_string(),
        node_id: Some("me".into()),
        channel_id: None,
        session_id: None,
        data: json!({"run_id": "r", "graph_id": "g", "step_id": "a", "node_id": "me"}),
        emitted_at: TsMs(1000),
        timestamp: None,
        seq: 3,
    };
    let old = event.under_old_name().unwrap();
    assert_eq!((old.event_type.as_str(), old.channel_id.as_deref()), ("TASK_COMPLETED", Some("me")));
    assert_eq!(old.timestamp, Some(1.0));
    assert_eq!((&old.data["dag_id"], &old.data["task_id"]), (&json!("g"), &json!("a")));
    assert_eq!(old.data["run_id"], "r");
    let gate = EventMessage { event_type: EventType::GateAsked.to_string(), ..event };
    assert_eq!(gate.under_old_name(), None);
    assert_eq!(EventType::parse("GATE_ANSWERED"), Some(EventType::GateAnswered));
}

#[test]
fn states_of_runs_and_results_are_read_under_their_older_name() {
    let run: RunInfo =
        serde_json::from_value(json!({"run_id": "r", "graph_id": "g", "status": "waiting"})).unwrap();
    assert_eq!(run.status, RunStatus::Waiting);
    let result: ResultInfo = serde_json::from_value(json!({"result_id": "x", "status": "done"})).unwrap();
    assert_eq!(result.status, ResultStatus::Done);
}
