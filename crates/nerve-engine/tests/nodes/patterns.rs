//! Loops of two agents: prompts, end conditions and failures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_graph::Graph;
use nerve_graph::context::RunContext;
use nerve_graph::function::FunctionNode;
use nerve_graph::session::Session;
use nerve_graph::step::Step;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_node::Node;
use nerve_node::NodeHandle;
use nerve_node::budget::RunBudget;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_patterns::debate::{DebateConfig, DebateLoop};
use nerve_patterns::dev_coach::{ACCEPTANCE, DevCoachConfig, DevCoachLoop, Role};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::LIMIT;
use crate::matrix::Fixture;

/// A node with fixed answers that records its inputs.
struct ScriptedNode {
    node: NodeHandle,
    inputs: Arc<Mutex<Vec<String>>>,
}

fn scripted(id: &str, answers: &[Value]) -> ScriptedNode {
    let inputs = Arc::new(Mutex::new(Vec::new()));
    let (recorded, remaining) = (Arc::clone(&inputs), Mutex::new(VecDeque::from(answers.to_vec())));
    let node = FunctionNode::new(id, move |context| {
        recorded.lock().unwrap().push(context.input.as_str().unwrap().to_string());
        remaining.lock().unwrap().pop_front().ok_or_else(|| EngineError::process("out of words"))
    });
    ScriptedNode { node: Arc::new(node), inputs }
}

impl ScriptedNode {
    fn inputs(&self) -> Vec<String> {
        self.inputs.lock().unwrap().clone()
    }
}

fn context() -> RunContext {
    RunContext::new(&Session::new("test"))
}

fn pair(dev: &ScriptedNode, coach: &ScriptedNode, config: DevCoachConfig) -> DevCoachLoop {
    DevCoachLoop::new(Arc::clone(&dev.node), Arc::clone(&coach.node), config)
}

#[tokio::test]
async fn messages_alternate_until_the_coach_accepts() {
    let text = |text: &str| json!({"type": "text", "content": text});
    let last = json!({"sections": [text("not this"), text("second")], "text": "not this\nsecond"});
    let dev = scripted("dev", &[json!("first {coach_message} {x}"), last]);
    let coach = scripted(
        "coach",
        &[json!("I DO NOT ACCEPT TASK COMPLETION"), json!(format!("Fine.\n**{ACCEPTANCE}**."))],
    );
    let log = Arc::new(Mutex::new(Vec::new()));
    let record = |what: &'static str| {
        let log = Arc::clone(&log);
        move |round: u32, message: &str| log.lock().unwrap().push(format!("{what} {round} {message}"))
    };
    let config = DevCoachConfig::new("do {this}")
        .dev_prompt_template("{task} < {coach_message} {}")
        .coach_prompt_template("{task} < {dev_message} / {acceptance_phrase}")
        .on_dev_turn(record("dev"))
        .on_coach_turn(record("coach"))
        .on_complete(record("end"));
    let result = pair(&dev, &coach, config).run(&context()).await.unwrap();
    assert_eq!(
        dev.inputs(),
        ["do {this} < Please begin with the task. {}", "do {this} < I DO NOT ACCEPT TASK COMPLETION {}"]
    );
    assert_eq!(
        coach.inputs(),
        [
            format!("do {{this}} < first {{coach_message}} {{x}} / {ACCEPTANCE}"),
            format!("do {{this}} < second / {ACCEPTANCE}")
        ]
    );
    assert_eq!(
        *log.lock().unwrap(),
        [
            "dev 1 first {coach_message} {x}",
            "coach 1 I DO NOT ACCEPT TASK COMPLETION",
            "dev 2 second",
            &format!("coach 2 Fine.\n**{ACCEPTANCE}**."),
            "end 2 accepted"
        ]
    );
    let result = serde_json::to_value(&result).unwrap();
    assert_eq!((&result["completed"], &result["rounds"]), (&json!(true), &json!(2)));
    assert_eq!(result["final_dev_message"], "second");
    assert_eq!(result["history"][3]["role"], "coach");
    assert_eq!(result["history"][2], json!({"round": 2, "role": "dev", "message": "second"}));
}

#[tokio::test]
async fn default_prompts_do_not_trigger_acceptance() {
    // A node that repeats its prompt must not accept.
    let echo =
        || -> NodeHandle { Arc::new(FunctionNode::new("parrot", |context| Ok(context.input.clone()))) };
    let config = DevCoachConfig::new("the task").max_rounds(2);
    let result = DevCoachLoop::new(echo(), echo(), config).run(&context()).await.unwrap();
    assert!(!result.completed && result.final_coach_message.contains(ACCEPTANCE), "{result:#?}");
    assert!(result.final_dev_message.contains("the task"));
}

#[tokio::test]
async fn max_rounds_ends_the_loop() {
    let words = [json!("a"), json!("b")];
    let (dev, coach) = (scripted("dev", &words), scripted("coach", &words));
    let ended = Arc::new(Mutex::new(None));
    let end = Arc::clone(&ended);
    let config = DevCoachConfig::new("x").max_rounds(2).on_complete(move |round, how| {
        *end.lock().unwrap() = Some((round, how.to_string()));
    });
    let result = pair(&dev, &coach, config).run(&context()).await.unwrap();
    assert!(!result.completed && result.rounds == 2 && result.history.len() == 4, "{result:#?}");
    assert_eq!(*ended.lock().unwrap(), Some((2, "max_rounds".to_string())));
}

#[tokio::test]
async fn completion_phrase_of_developer_is_required() {
    let dev = scripted("dev", &[json!("still at it"), json!("It compiles.\nDONE")]);
    let coach = scripted("coach", &[json!("LGTM"), json!("LGTM")]);
    let config = DevCoachConfig::new("x").acceptance_phrases(["LGTM"]).completion_phrases(["DONE"]);
    let result = pair(&dev, &coach, config).run(&context()).await.unwrap();
    assert_eq!((result.completed, result.rounds), (true, 2));
}

#[tokio::test]
async fn failure_includes_the_history() {
    let (dev, coach) = (scripted("dev", &[json!("one")]), scripted("coach", &[json!("two")]));
    let tracer = Tracer::new("pair");
    let run = pair(&dev, &coach, DevCoachConfig::new("x"));
    let ended = run.run(&context().with_trace(tracer.clone())).await.unwrap_err();
    assert_eq!((ended.error.kind, ended.to_string().as_str()), (ErrorKind::Process, "out of words"));
    assert_eq!(ended.history.iter().map(|turn| turn.role).collect::<Vec<_>>(), [Role::Dev, Role::Coach]);
    let trace = tracer.snapshot();
    assert_eq!((trace.status, trace.error.as_deref()), (TraceStatus::Failed, Some("out of words")));
    assert_eq!(trace.steps[2].error.as_deref(), Some("out of words"), "{}", trace.explain());
    let error = EngineError::from(ended);
    assert_eq!(error.partial().unwrap()["history"][1]["message"], "two");
    // A reply with `success: false` is a failure, too.
    let dev = scripted(
        "dev",
        &[json!({"success": false, "error": "no", "error_type": "blocked", "text": ACCEPTANCE})],
    );
    let ended = pair(&dev, &coach, DevCoachConfig::new("x")).run(&context()).await.unwrap_err();
    assert_eq!((ended.error.kind, ended.history.len()), (ErrorKind::Blocked, 0));
}

#[tokio::test]
async fn cancellation_before_any_turn_ends_the_loop() {
    for turns in 0..6 {
        let (dev, coach) = (scripted("dev", &vec![json!("d"); 9]), scripted("coach", &vec![json!("c"); 9]));
        let (token, completed) = (CancellationToken::new(), Arc::new(Mutex::new(0)));
        if turns == 0 {
            token.cancel();
        }
        let count = |token: CancellationToken| {
            let completed = Arc::clone(&completed);
            move |_: u32, _: &str| {
                let mut completed = completed.lock().unwrap();
                *completed += 1;
                if *completed == turns {
                    token.cancel();
                }
            }
        };
        let config =
            DevCoachConfig::new("x").on_dev_turn(count(token.clone())).on_coach_turn(count(token.clone()));
        let tracer = Tracer::new("pair");
        let context = context().with_cancellation(token).with_trace(tracer.clone());
        let ended = pair(&dev, &coach, config).run(&context).await.unwrap_err();
        assert_eq!((ended.error.kind, ended.history.len()), (ErrorKind::Cancelled, turns));
        assert_eq!(dev.inputs().len() + coach.inputs().len(), turns);
        assert_eq!(tracer.snapshot().status, TraceStatus::Cancelled);
    }
}

#[tokio::test]
async fn cancellation_interrupts_the_terminal() {
    let fixture = Fixture::new();
    let shell = fixture.bash("sh").await;
    let coach = scripted("coach", &[]);
    let config = DevCoachConfig::new("sleep 1000").dev_prompt_template("{task}");
    let pair = DevCoachLoop::new(Arc::new(shell.clone()), Arc::clone(&coach.node), config);
    let token = CancellationToken::new();
    let context = fixture.context().with_cancellation(token.clone());
    let run = tokio::spawn(async move { pair.run(&context).await });
    shell.wait(&[NodeState::Busy], Some(LIMIT)).await.unwrap();
    token.cancel();
    let ended = tokio::time::timeout(LIMIT, run).await.unwrap().unwrap().unwrap_err();
    assert_eq!(ended.error.kind, ErrorKind::Cancelled, "{ended:?}");
    shell.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
    shell.stop("done").await;
}

#[tokio::test]
async fn turns_and_tokens_count_toward_the_budget() {
    let (dev, coach) = (scripted("dev", &vec![json!("d"); 9]), scripted("coach", &vec![json!("c"); 9]));
    let context = context().with_budget(RunBudget { max_steps: Some(3), ..RunBudget::default() });
    let ended = pair(&dev, &coach, DevCoachConfig::new("x")).run(&context).await.unwrap_err();
    assert_eq!((ended.error.kind, ended.history.len()), (ErrorKind::Budget, 3));
    assert_eq!(ended.to_string(), "Step limit exceeded: 3/3");
    assert_eq!(context.turn.usage().steps_executed(), 3);

    let costly = json!({"text": "d", "tokens": {"input": 4, "output": 3}});
    let (dev, coach) = (scripted("dev", &vec![costly; 9]), scripted("coach", &vec![json!("c"); 9]));
    let tracer = Tracer::new("pair");
    let budget = RunBudget { max_tokens: Some(14), ..RunBudget::default() };
    let context = self::context().with_budget(budget).with_trace(tracer.clone());
    let ended = pair(&dev, &coach, DevCoachConfig::new("x")).run(&context).await.unwrap_err();
    assert_eq!((ended.to_string().as_str(), ended.history.len()), ("Token limit exceeded: 14/14", 3));
    assert!(ended.error.exceeded().is_some());
    let trace = tracer.snapshot();
    assert_eq!(trace.total_tokens, 14);
    assert_eq!(trace.steps.iter().map(|step| step.tokens_used).collect::<Vec<_>>(), [7, 0, 7]);
}

#[tokio::test]
async fn turns_and_loops_time_out() {
    let endless: NodeHandle = Arc::new(FunctionNode::asynchronous("endless", |_| std::future::pending()));
    let words = scripted("dev", &vec![json!("d"); 9]);
    let make = || DevCoachLoop::new(Arc::clone(&words.node), Arc::clone(&endless), DevCoachConfig::new("x"));
    let short = Duration::from_millis(50);
    let ended = make().turn_timeout(short).run(&context()).await.unwrap_err();
    assert_eq!((ended.error.kind, ended.history.len()), (ErrorKind::Timeout, 1));
    let ended = make().run(&context().with_timeout(short)).await.unwrap_err();
    assert_eq!(ended.error.kind, ErrorKind::Timeout);
    let budget = RunBudget { max_time_ms: Some(50), ..RunBudget::default() };
    let ended = make().run(&context().with_budget(budget)).await.unwrap_err();
    assert_eq!(ended.error.kind, ErrorKind::Budget, "{ended:?}");
    assert!(ended.to_string().starts_with("Time limit exceeded"), "{ended}");
}

#[tokio::test]
async fn graph_can_be_a_participant() {
    let mut graph = Graph::new("team");
    let lead = Arc::new(FunctionNode::new("lead", |_| Ok(json!({"text": "from a graph"}))));
    graph.add_step(lead, Step::new("lead")).unwrap();
    let coach = scripted("coach", &[json!(ACCEPTANCE)]);
    let pair = DevCoachLoop::new(Arc::new(graph), Arc::clone(&coach.node), DevCoachConfig::new("x"));
    let tracer = Tracer::new("pair");
    let result = pair.run(&context().with_trace(tracer.clone())).await.unwrap();
    assert!(result.completed && result.final_dev_message.contains("from a graph"), "{result:#?}");
    let trace = tracer.snapshot();
    let steps: Vec<&str> = trace.steps.iter().map(|step| &*step.step_id).collect();
    assert_eq!(steps, ["dev#1/lead", "dev#1", "coach#1"]);
    assert_eq!(trace.status, TraceStatus::Completed);
}

#[tokio::test]
async fn invalid_config_is_rejected() {
    let (dev, coach) = (scripted("dev", &[]), scripted("coach", &[]));
    for config in [
        DevCoachConfig::new(" "),
        DevCoachConfig::new("x").max_rounds(0),
        DevCoachConfig::new("x").acceptance_phrases(Vec::<String>::new()),
        DevCoachConfig::new("x").acceptance_phrases([" "]),
        DevCoachConfig::new("x").completion_phrases(["a\nb"]),
    ] {
        let ended = pair(&dev, &coach, config).run(&context()).await.unwrap_err();
        assert_eq!(ended.error.kind, ErrorKind::InvalidRequest, "{ended}");
    }
    for config in [
        DebateConfig::new("", "a", "b"),
        DebateConfig::new("x", "a", "b").rounds(0),
        DebateConfig::new("x", "a", "b").max_words(0),
    ] {
        let debate = DebateLoop::new(Arc::clone(&dev.node), Arc::clone(&coach.node), config);
        assert_eq!(debate.run(&context()).await.unwrap_err().error.kind, ErrorKind::InvalidRequest);
    }
    assert!(dev.inputs().is_empty() && coach.inputs().is_empty());
}

#[tokio::test]
async fn debate_alternates_between_agents() {
    let (a, b) = (scripted("one", &[json!("a1"), json!("a2")]), scripted("two", &[json!("b1"), json!("b2")]));
    let (log, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let (recorded, end) = (Arc::clone(&log), Arc::clone(&ended));
    let config = DebateConfig::new("T", "pro", "contra")
        .rounds(2)
        .max_words(7)
        .prompt_template(
            "{topic} {position}>{opponent_position} {round}/{rounds} {max_words} {opponent_message} {no}",
        )
        .on_turn(move |round, position, message| {
            recorded.lock().unwrap().push(format!("{round} {position} {message}"))
        })
        .on_complete(move |turns| *end.lock().unwrap() = turns.len());
    let debate = DebateLoop::new(Arc::clone(&a.node), Arc::clone(&b.node), config);
    let result = debate.run(&context()).await.unwrap();
    assert_eq!(a.inputs(), ["T pro>contra 1/2 7 Let's debate: T {no}", "T pro>contra 2/2 7 b1 {no}"]);
    assert_eq!(b.inputs(), ["T contra>pro 1/2 7 a1 {no}", "T contra>pro 2/2 7 a2 {no}"]);
    assert_eq!(*log.lock().unwrap(), ["1 pro a1", "1 contra b1", "2 pro a2", "2 contra b2"]);
    assert_eq!(*ended.lock().unwrap(), 4);
    let result = serde_json::to_value(&result).unwrap();
    assert_eq!(
        (&result["final_a"], &result["final_b"], &result["rounds"]),
        (&json!("a2"), &json!("b2"), &json!(2))
    );
    assert_eq!(
        result["turns"][1],
        json!({"round": 1, "position": "contra", "agent": "two", "message": "b1"})
    );
}

#[tokio::test]
async fn failed_debate_keeps_its_turns() {
    let (a, b) = (scripted("one", &[json!("a1"), json!("a2")]), scripted("two", &[json!("b1")]));
    let debate = DebateLoop::new(Arc::clone(&a.node), Arc::clone(&b.node), DebateConfig::new("T", "p", "c"));
    let tracer = Tracer::new("debate");
    let ended = debate.run(&context().with_trace(tracer.clone())).await.unwrap_err();
    assert_eq!((ended.error.kind, ended.history.len()), (ErrorKind::Process, 3));
    let trace = tracer.snapshot();
    let steps: Vec<&str> = trace.steps.iter().map(|step| &*step.step_id).collect();
    assert_eq!(steps, ["a#1", "b#1", "a#2", "b#2"]);
}
