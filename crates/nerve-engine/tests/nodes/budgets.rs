//! Budgets of nodes and sessions. Shells use up their working time; agents' tokens are in the tests with real agents.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::{BudgetStatus, ModelTokens, RunReply};
use nerve_api::request::{
    CreateSession, ExecuteGraph, GetSession, NodeSpec, RunOptions, SetBudget, StartNode, UsageLimits,
};
use nerve_api::value::{BackendKind, BlockKind, LimitAction, NodeState};
use nerve_engine::EngineConfig;
use nerve_host::clock::Clock;
use nerve_host::environment::Environment;
use nerve_node::Node;
use nerve_node::bash::BashNode;
use nerve_node::context::TurnContext;
use nerve_node::dialog_answer::Choice;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::events::Publisher;
use nerve_node::terminal::{AuditLog, DialogPolicy};
use nerve_node::usage_ledger::{LedgerRecord, UsageLedger};
use nerve_testkit::harness::{EngineHarness, node_ref};
use nerve_types::token_usage::TokenUsage;
use serde_json::json;

use crate::harness::{Harness, LIMIT};

const SHELL: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// Limits the working time.
fn time(millis: u64, at_limit: LimitAction) -> Option<UsageLimits> {
    Some(UsageLimits { max_time_ms: Some(millis), at_limit, ..UsageLimits::default() })
}

async fn start(harness: &Harness, node: &str, budget: Option<UsageLimits>) {
    harness.create(NodeSpec { budget, ..harness.spec(node, &SHELL) }).await;
    harness.wait_ready(node).await;
}

async fn set(harness: &Harness, request: SetBudget) -> Result<BudgetStatus, EngineError> {
    harness.engine.set_budget(request, Default::default()).await
}

fn of_node(node: &str, budget: Option<UsageLimits>) -> SetBudget {
    SetBudget { node_id: Some(node.into()), budget, ..SetBudget::default() }
}

fn assert_kind<T: std::fmt::Debug>(result: Result<T, EngineError>, kind: ErrorKind) {
    assert_eq!(result.as_ref().err().map(|error| error.kind), Some(kind), "{result:?}");
}

#[tokio::test]
async fn limit_interrupts_the_turn_and_asks() {
    let mut harness = Harness::new();
    start(&harness, "sh", time(300, LimitAction::Ask)).await;
    let error = harness.send("sh", "echo before; sleep 600").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Blocked, "{error:?}");
    assert_eq!(error.choices.len(), 2, "{error:?}");
    assert!(error.text.as_deref().is_some_and(|text| text.contains("before")), "{error:?}");
    harness.wait("sh", NodeState::Blocked).await.unwrap();
    let event = harness.wait_for_event(|event| matches!(event, EventKind::NodeBlocked { .. })).await;
    assert!(matches!(event, EventKind::NodeBlocked { kind: BlockKind::Budget, .. }), "{event:?}");
    let budget = harness.info("sh").progress.budget.unwrap();
    assert!(budget.time_ms >= 300 && budget.reached_limit.is_some(), "{budget:?}");
    let error = harness.send("sh", "echo more").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Blocked, "{error:?}");

    harness.answer("sh", Choice::Number(1)).await.unwrap();
    assert!(harness.ask("sh", "echo $((6*7))").await.text.contains("42"));
    let budget = harness.info("sh").progress.budget.unwrap();
    assert!(budget.max_time_ms.is_some_and(|limit| limit > 300), "{budget:?}");
}

#[tokio::test]
async fn refused_offer_fails_prompts_until_the_budget_changes() {
    let harness = Harness::new();
    start(&harness, "sh", time(200, LimitAction::Ask)).await;
    harness.send("sh", "sleep 600").await.unwrap_err();
    harness.wait("sh", NodeState::Blocked).await.unwrap();
    harness.answer("sh", Choice::Cancel).await.unwrap();
    assert_kind(harness.send("sh", "echo no").await, ErrorKind::Budget);
    let status = set(&harness, of_node("sh", time(60_000, LimitAction::Ask))).await.unwrap();
    assert!(status.reached_limit.is_none() && status.time_ms >= 200, "{status:?}");
    assert!(harness.ask("sh", "echo $((6*7))").await.text.contains("42"));
}

#[tokio::test]
async fn stop_fails_prompts_without_a_question() {
    let harness = Harness::new();
    start(&harness, "sh", time(200, LimitAction::Stop)).await;
    let error = harness.send("sh", "sleep 600").await.unwrap_err();
    assert_eq!((error.kind, error.choices.len()), (ErrorKind::Budget, 0), "{error:?}");
    harness.wait("sh", NodeState::Blocked).await.unwrap();
    assert_kind(harness.send("sh", "echo no").await, ErrorKind::Budget);
    set(&harness, of_node("sh", None)).await.unwrap();
    harness.wait_ready("sh").await;
    assert!(harness.info("sh").progress.budget.is_none());
}

#[tokio::test]
async fn session_limit_blocks_all_its_nodes() {
    let harness = Harness::new();
    let session =
        CreateSession { name: "work".into(), budget: time(300, LimitAction::Ask), ..Default::default() };
    harness.engine.create_session(session, Default::default()).await.unwrap();
    let session_id = Some("work".to_string());
    for node in ["one", "two"] {
        let spec = NodeSpec { session_id: session_id.clone(), ..harness.spec(node, &SHELL) };
        harness.engine.create_node(spec, Default::default()).await.unwrap();
    }
    let turn = |node: &str, text: &str| {
        let request = nerve_api::request::ExecuteInput {
            session_id: session_id.clone(),
            ..harness.execute(node, text)
        };
        harness.run(request)
    };
    assert_kind(turn("one", "sleep 600").await, ErrorKind::Blocked);
    let error = turn("two", "echo no").await.unwrap_err();
    assert!(error.kind == ErrorKind::Blocked && error.message.contains("session 'work'"), "{error:?}");
    let request = GetSession::new(session_id.clone());
    let budget = harness.engine.get_session(request, Default::default()).await.unwrap().budget.unwrap();
    assert!(budget.reached_limit.is_some() && budget.time_ms >= 300, "{budget:?}");
    set(&harness, SetBudget { session_id: session_id.clone(), ..SetBudget::default() }).await.unwrap();
    assert!(turn("two", "echo $((6*7))").await.unwrap().text.contains("42"));
}

#[tokio::test]
async fn usage_survives_stop_and_restart_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    let config =
        || EngineConfig { sessions_file: Some(path.join("sessions.json")), ..EngineHarness::config(&path) };
    let mut harness = Harness::with(config(), folder);
    start(&harness, "sh", time(200, LimitAction::Stop)).await;
    set(&harness, SetBudget { budget: time(3_600_000, LimitAction::Ask), ..SetBudget::default() })
        .await
        .unwrap();
    assert_kind(harness.send("sh", "sleep 600").await, ErrorKind::Budget);
    harness.stop("sh").await;
    harness.engine.shut_down(false).await;
    *harness = EngineHarness::new(config(), LIMIT);
    harness.engine.start_node(StartNode::new("sh", None), Default::default()).await.unwrap();
    harness.wait("sh", NodeState::Blocked).await.unwrap();
    assert_kind(harness.send("sh", "echo no").await, ErrorKind::Budget);
    let session = harness.engine.get_session(GetSession::new(None), Default::default()).await.unwrap();
    assert!(session.budget.is_some_and(|budget| budget.time_ms >= 200));
}

#[tokio::test]
async fn invalid_budgets_are_refused() {
    let harness = Harness::new();
    start(&harness, "sh", None).await;
    let none = UsageLimits::default();
    let zero = UsageLimits { max_tokens: Some(0), ..none };
    for invalid in [none, zero, UsageLimits { max_cost_usd: Some(-1.0), ..none }] {
        assert_kind(set(&harness, of_node("sh", Some(invalid))).await, ErrorKind::InvalidRequest);
    }
    assert_kind(set(&harness, of_node("gone", time(1, LimitAction::Ask))).await, ErrorKind::NotFound);
    let bash = NodeSpec { backend: BackendKind::Bash, command: None, ..harness.spec("tests", &SHELL) };
    let tokens = Some(UsageLimits { max_tokens: Some(1), ..none });
    let cost = Some(UsageLimits { max_cost_usd: Some(1.0), max_time_ms: Some(1), ..none });
    let spec = NodeSpec { budget: tokens, ..bash.clone() };
    assert_kind(harness.engine.create_node(spec, Default::default()).await, ErrorKind::InvalidRequest);
    harness.create(bash).await;
    assert_kind(set(&harness, of_node("tests", tokens)).await, ErrorKind::InvalidRequest);
    harness.stop("tests").await;
    assert_kind(set(&harness, of_node("tests", cost)).await, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn working_time_of_commands_is_limited() {
    let harness = Harness::new();
    let budget = time(200, LimitAction::Ask);
    let bash = NodeSpec { backend: BackendKind::Bash, command: None, budget, ..harness.spec("tests", &[]) };
    harness.create(bash).await;
    let error = harness.send("tests", "echo before; sleep 600").await.unwrap_err();
    assert_eq!((error.kind, error.choices.len()), (ErrorKind::Blocked, 2), "{error:?}");
    assert!(error.text.as_deref().is_some_and(|text| text.contains("before")), "{error:?}");
    harness.wait("tests", NodeState::Blocked).await.unwrap();
    assert_kind(harness.send("tests", "echo more").await, ErrorKind::Blocked);
    harness.answer("tests", Choice::Number(1)).await.unwrap();
    assert_eq!(harness.ask("tests", "echo $((6*7))").await.text, "42");
    let status = harness.info("tests").progress.budget.unwrap();
    assert!(status.time_ms >= 200 && status.max_time_ms > Some(200), "{status:?}");

    harness.stop("tests").await;
    let stop = of_node("tests", time(1, LimitAction::Stop));
    assert!(set(&harness, stop).await.unwrap().reached_limit.is_some(), "earlier usage counts");
    harness.engine.start_node(StartNode::new("tests", None), Default::default()).await.unwrap();
    assert_kind(harness.send("tests", "echo no").await, ErrorKind::Budget);
    let session = harness.engine.get_session(GetSession::new(None), Default::default()).await.unwrap();
    assert_eq!(session.budget.map_or(0, |budget| budget.time_ms), 0, "commands count toward no session");
}

/// A further attempt would fail at once, and a skipped step would hide the question.
#[tokio::test]
async fn step_waits_for_the_answer_to_the_question_of_its_node() {
    let harness = Harness::new();
    start(&harness, "sh", time(1000, LimitAction::Ask)).await;
    let policies = [
        json!({}),
        json!({ "on_error": "retry", "retry_count": 3, "retry_delay_ms": 3_600_000 }),
        json!({ "on_error": "skip" }),
        json!({ "on_error": "fallback", "fallback_node": "other" }),
    ];
    for (number, policy) in policies.into_iter().enumerate() {
        let run = run_step(&harness, &once_slow(&harness, number), policy.clone());
        harness.wait("sh", NodeState::Blocked).await.unwrap();
        harness.answer("sh", Choice::Number(1)).await.unwrap();
        let RunReply::Ended(ended) = run.await.unwrap().unwrap() else { panic!("{policy}") };
        assert_eq!(ended.results["a"]["text"], "done", "{policy}");
    }
}

#[tokio::test]
async fn refused_question_of_its_node_fails_the_step() {
    let harness = Harness::new();
    start(&harness, "sh", time(1000, LimitAction::Ask)).await;
    let run = run_step(&harness, &once_slow(&harness, 0), json!({ "on_error": "skip" }));
    harness.wait("sh", NodeState::Blocked).await.unwrap();
    harness.answer("sh", Choice::Number(2)).await.unwrap();
    assert_kind(run.await.unwrap(), ErrorKind::Budget);
}

/// Returns a command that lasts too long the first time.
fn once_slow(harness: &Harness, number: usize) -> String {
    let mark = harness.folder.path().join(format!("mark{number}"));
    format!("[ -e {0} ] || {{ touch {0}; sleep 600; }}; echo done", mark.display())
}

/// Runs a graph of one step on the node `sh`.
fn run_step(
    harness: &Harness,
    command: &str,
    policy: serde_json::Value,
) -> tokio::task::JoinHandle<Result<RunReply, EngineError>> {
    let graph = json!({
        "graph": "g", "nodes": { "other": { "type": "bash" } },
        "steps": [{ "id": "a", "node": "sh", "input": command, "error_policy": policy }],
    });
    let options = RunOptions { session_id: Some("default".into()), ..RunOptions::default() };
    let request = ExecuteGraph { definition: graph.as_object().unwrap().clone(), options, detach: false };
    let engine = harness.engine.clone();
    tokio::spawn(async move { engine.execute_graph(request, Default::default()).await })
}

#[tokio::test(start_paused = true)]
async fn question_uses_up_no_time_of_a_command() {
    let limits = UsageLimits { max_tokens: Some(1), ..UsageLimits::default() };
    let ledger = UsageLedger::new("session 's'", Arc::new(|_| None))
        .node("tests", LedgerRecord { limits: Some(limits), ..LedgerRecord::default() });
    ledger.add_response(
        &ModelTokens { model: None, tokens: TokenUsage { input: 1, ..TokenUsage::default() } },
        None,
    );
    let (at, events) = (node_ref("tests"), Publisher::new(Clock::start()));
    let node = BashNode::new(at, None, Environment::default(), AuditLog::disabled(), events, ledger.clone());
    let mut context = TurnContext::new().with_input("echo done");
    context.at_dialog = DialogPolicy::Wait;
    let mut turn = tokio::spawn(async move { node.execute(&context).await });
    // Much longer than the timeout of commands, by the paused clock.
    let ended = tokio::time::timeout(Duration::from_secs(3600), &mut turn).await;
    assert!(ended.is_err(), "{ended:?}");
    tokio::time::resume();
    ledger.grant();
    assert_eq!(turn.await.unwrap().unwrap()["text"], "done");
}
