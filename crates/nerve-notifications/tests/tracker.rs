//! Events that are notified, and those that are not.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use nerve_api::reply::ResultInfo;
use nerve_api::value::Occasion;
use nerve_notifications::{NotificationState, NotificationTracker};
use nerve_types::activity::TsMs;
use serde_json::{Value, json};

/// Returns the notification of an event at `at` seconds, when the clock shows the same time.
fn observe(tracker: &mut NotificationTracker, at: f64, event_type: &str, data: Value) -> Option<Occasion> {
    observe_at(tracker, at, at, event_type, data)
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// As [`observe`], but the clock shows `clock` seconds.
fn observe_at(
    tracker: &mut NotificationTracker,
    at: f64,
    clock: f64,
    event_type: &str,
    data: Value,
) -> Option<Occasion> {
    let event = json!({
        "type": "event", "event_type": event_type, "node_id": "me", "session_id": "default",
        "data": data, "emitted_at": TsMs((clock * 1000.0) as u64), "seq": 1,
    });
    let received = *START + Duration::from_secs_f64(at);
    tracker
        .observe(&serde_json::from_value(event).unwrap(), received)
        .map(|notification| notification.occasion)
}

#[test]
fn clock_set_during_a_turn_neither_loses_nor_adds_its_end() {
    const HOUR: f64 = 3600.0;
    let mut tracker = NotificationTracker::new(30);
    for (begin, end, is_long) in
        [(2.0 * HOUR, HOUR + 60.0, true), (HOUR, 2.0 * HOUR, false), (HOUR, HOUR + 60.0, true)]
    {
        let length = if is_long { 60.0 } else { 1.0 };
        observe_at(&mut tracker, 0.0, begin, "NODE_BUSY", json!({}));
        let notified = observe_at(&mut tracker, length, end, "NODE_READY", json!({}));
        assert_eq!(notified, is_long.then_some(Occasion::Done), "from {begin} to {end}");
    }
    // A dialog that one server reports before, and the next one after the clock was set.
    let dialog = || json!({ "kind": "permission", "choices": ["Yes"] });
    for clock in [2.0 * HOUR, HOUR, 4.0 * HOUR] {
        let mut next = NotificationTracker::new(30);
        next.restore(tracker.open_dialogs());
        let is_first = tracker.open_dialogs().is_empty();
        let notified = observe_at(&mut next, 1.0, clock, "NODE_BLOCKED", dialog());
        assert_eq!(notified, is_first.then_some(Occasion::Blocked), "at {clock}");
        tracker = next;
    }
}

#[test]
fn dialog_among_dropped_events_is_not_open() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 1.0, "NODE_BLOCKED", json!({ "kind": "permission", "choices": ["Yes"] }));
    observe(&mut tracker, 2.0, "EVENTS_DROPPED", json!({ "dropped": 3 }));
    let is_open = |tracker: &NotificationTracker, node: &str, kind: &str, choice: &str| {
        tracker.has_open_dialog("default", node, kind, &[choice.to_string()])
    };
    assert!(is_open(&tracker, "me", "permission", "Yes"));
    for (node, kind, choice) in
        [("other", "permission", "Yes"), ("me", "question", "Yes"), ("me", "permission", "No")]
    {
        assert!(!is_open(&tracker, node, kind, choice), "{node} {kind} {choice}");
    }
    observe(&mut tracker, 3.0, "NODE_BUSY", json!({}));
    assert!(!is_open(&tracker, "me", "permission", "Yes"));
}

#[test]
fn only_long_turns_are_done() {
    let mut tracker = NotificationTracker::new(30);
    assert_eq!(observe(&mut tracker, 0.0, "NODE_READY", json!({})), None);
    assert_eq!(observe(&mut tracker, 10.0, "NODE_BUSY", json!({})), None);
    assert_eq!(observe(&mut tracker, 39.0, "NODE_READY", json!({})), None);
    assert_eq!(observe(&mut tracker, 40.0, "NODE_BUSY", json!({})), None);
    assert_eq!(observe(&mut tracker, 50.0, "NODE_BUSY", json!({})), None);
    assert_eq!(observe(&mut tracker, 70.0, "NODE_READY", json!({})), Some(Occasion::Done));
    assert_eq!(observe(&mut tracker, 99.0, "NODE_READY", json!({})), None);
}

#[test]
fn stored_dialog_is_not_reported_by_the_next_server() {
    let dialog = |choice: &str| json!({ "kind": "permission", "choices": [choice] });
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 1.0, "NODE_BLOCKED", dialog("Yes"));
    let stored = serde_json::to_string(&tracker.open_dialogs()).unwrap();
    let restored = || {
        let mut tracker = NotificationTracker::new(30);
        tracker.restore(serde_json::from_str(&stored).unwrap());
        tracker
    };
    let mut next = restored();
    assert_eq!(next.open_dialogs(), tracker.open_dialogs());
    assert_eq!(observe(&mut next, 2.0, "NODE_BLOCKED", dialog("Yes")), None);
    assert_eq!(observe(&mut restored(), 2.0, "NODE_BLOCKED", dialog("No")), Some(Occasion::Blocked));
    observe(&mut next, 3.0, "NODE_READY", json!({}));
    assert_eq!(next.open_dialogs(), []);
}

#[test]
fn stored_dialog_of_a_removed_node_is_forgotten() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 1.0, "NODE_BLOCKED", json!({ "kind": "permission", "choices": ["Yes"] }));
    let mut next = NotificationTracker::new(30);
    next.restore(tracker.open_dialogs());
    observe(&mut next, 2.0, "NODE_REMOVED", json!({}));
    assert_eq!(next.open_dialogs(), []);
}

#[test]
fn dialog_that_the_next_server_reports_again_is_no_new_one() {
    let mut tracker = NotificationTracker::new(30);
    let dialog = |choices: Value| json!({ "kind": "permission", "choices": choices });
    let blocked = Some(Occasion::Blocked);
    assert_eq!(observe(&mut tracker, 1.0, "NODE_BLOCKED", dialog(json!(["Yes"]))), blocked);
    assert_eq!(observe(&mut tracker, 2.0, "EVENTS_DROPPED", json!({ "dropped": null })), None);
    observe(
        &mut tracker,
        2.5,
        "NODE_BUSY",
        json!({ "evidence": "input: taken over; state not observed yet" }),
    );
    assert_eq!(observe(&mut tracker, 3.0, "NODE_BLOCKED", dialog(json!(["Yes"]))), None);
    assert_eq!(observe(&mut tracker, 4.0, "NODE_BLOCKED", dialog(json!(["Yes", "No"]))), blocked);
    observe(&mut tracker, 5.0, "NODE_BUSY", json!({}));
    assert_eq!(observe(&mut tracker, 6.0, "NODE_BLOCKED", dialog(json!(["Yes", "No"]))), blocked);
    let gate = json!({ "run_id": "r-1", "step_id": "ok", "question": "Ship?", "choices": ["yes"] });
    assert_eq!(observe(&mut tracker, 7.0, "GATE_ASKED", gate.clone()), blocked);
    observe(&mut tracker, 7.5, "EVENTS_DROPPED", json!({ "dropped": null }));
    assert_eq!(observe(&mut tracker, 8.0, "GATE_ASKED", gate.clone()), None);
    let end = json!({ "run_id": "r-1", "state": "cancelled", "duration_ms": 1 });
    assert_eq!(observe(&mut tracker, 9.0, "GRAPH_COMPLETED", end), None);
    observe(&mut tracker, 9.5, "EVENTS_DROPPED", json!({ "dropped": null }));
    assert_eq!(observe(&mut tracker, 10.0, "GATE_ASKED", gate), blocked, "another run of this name");
}

#[test]
fn dialog_after_work_in_the_gap_is_notified() {
    let mut tracker = NotificationTracker::new(30);
    let dialog = json!({ "kind": "permission", "choices": ["Yes"] });
    observe(&mut tracker, 1.0, "NODE_BLOCKED", dialog.clone());
    observe(&mut tracker, 2.0, "EVENTS_DROPPED", json!({ "dropped": null }));
    observe(&mut tracker, 3.0, "NODE_BUSY", json!({ "evidence": "screen: esc to interrupt" }));
    assert_eq!(observe(&mut tracker, 4.0, "NODE_BLOCKED", dialog), Some(Occasion::Blocked));
}

#[test]
fn refusal_at_a_limit_is_not_notified() {
    let mut tracker = NotificationTracker::new(30);
    let limit = |choices: Value| json!({ "kind": "budget", "choices": choices });
    assert!(observe(&mut tracker, 1.0, "NODE_BLOCKED", limit(json!(["Continue", "Stop"]))).is_some());
    assert_eq!(observe(&mut tracker, 2.0, "NODE_BLOCKED", limit(json!([]))), None);
    let mut tracker = NotificationTracker::new(30);
    assert!(observe(&mut tracker, 1.0, "NODE_BLOCKED", limit(json!([]))).is_some(), "prompts fail");
}

#[test]
fn lost_events_forget_running_turns() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 10.0, "NODE_BUSY", json!({}));
    observe(&mut tracker, 50.0, "EVENTS_DROPPED", json!({ "dropped": 5 }));
    assert_eq!(observe(&mut tracker, 9000.0, "NODE_READY", json!({})), None);
}

#[test]
fn failures_are_notified_but_no_intended_stop() {
    let mut tracker = NotificationTracker::new(30);
    for cause in ["requested", "exited", "of a later version"] {
        assert_eq!(observe(&mut tracker, 1.0, "NODE_STOPPED", json!({ "cause": cause })), None);
    }
    for status in ["lost", "cancelled"] {
        let result = json!({ "result_id": "1", "success": false, "state": status });
        assert_eq!(observe(&mut tracker, 1.0, "RESULT_READY", result), None);
    }
    let failed = json!({ "reason": "exit code 1", "cause": "failed" });
    assert_eq!(observe(&mut tracker, 1.0, "NODE_STOPPED", failed), Some(Occasion::Failed));
    let result = json!({ "result_id": "1", "success": false, "state": "failed" });
    assert_eq!(observe(&mut tracker, 1.0, "RESULT_READY", result), Some(Occasion::Failed));
    assert_eq!(observe(&mut tracker, 1.0, "NODE_SUSPENDED", json!({})), Some(Occasion::Suspended));
}

/// Returns the state of a server with one node.
fn node_state(id: &str, state: &str, changed: f64, details: Value) -> NotificationState {
    let mut node = json!({
        "node_id": id, "type": "pty", "state": state, "metadata": { "session_id": "default" },
        "progress": { "state_changed_at": TsMs((changed * 1000.0) as u64) },
    });
    node["metadata"].as_object_mut().unwrap().extend(details.as_object().unwrap().clone());
    NotificationState { nodes: vec![serde_json::from_value(node).unwrap()], ..NotificationState::default() }
}

/// Returns the notifications of what has happened meanwhile, with the turn's seconds.
fn catch_up(
    tracker: &mut NotificationTracker,
    at: f64,
    state: &NotificationState,
) -> Vec<(Occasion, Option<f64>)> {
    let found = tracker.catch_up(state, *START + Duration::from_secs_f64(at)).into_iter();
    found.map(|(_, notification)| (notification.occasion, notification.turn_seconds)).collect()
}

#[test]
fn dropped_dialog_is_notified_once() {
    let mut tracker = NotificationTracker::new(30);
    let mut state = node_state("me", "blocked", 5.0, json!({ "blocked": "permission" }));
    assert_eq!(catch_up(&mut tracker, 6.0, &state), [], "it has closed meanwhile");
    let id = ("default".to_string(), "me".to_string());
    assert_eq!(state.blocked_nodes(), std::slice::from_ref(&id));
    state.choices.insert(id, vec!["Yes".into()]);
    assert_eq!(catch_up(&mut tracker, 6.0, &state), [(Occasion::Blocked, None)]);
    assert_eq!(catch_up(&mut tracker, 7.0, &state), [], "it is known now");
    // The event was not among the dropped ones, but behind them.
    let dialog = || json!({ "kind": "permission", "choices": ["Yes"] });
    assert_eq!(observe(&mut tracker, 8.0, "NODE_BLOCKED", dialog()), None);
    observe(&mut tracker, 9.0, "NODE_BUSY", json!({}));
    assert_eq!(observe(&mut tracker, 9.5, "NODE_BLOCKED", dialog()), Some(Occasion::Blocked), "another one");
    // A known dialog that is replaced by an equal one.
    assert_eq!(catch_up(&mut tracker, 10.0, &state), []);
    assert_eq!(observe(&mut tracker, 11.0, "NODE_BLOCKED", dialog()), Some(Occasion::Blocked));
}

/// Returns the state of a server on which `me` shows a dialog since this time.
fn blocked_state(changed: f64) -> NotificationState {
    let mut state = node_state("me", "blocked", changed, json!({ "blocked": "permission" }));
    state.choices.insert(("default".into(), "me".into()), vec!["Yes".into()]);
    state
}

#[test]
fn events_before_the_state_do_not_undo_it() {
    let dialog = || json!({ "kind": "permission", "choices": ["Yes"] });
    // An event follows the change of the state.
    for blocked_at in [4.0, 4.002] {
        let mut tracker = NotificationTracker::new(30);
        observe(&mut tracker, 1.0, "NODE_READY", json!({}));
        assert_eq!(catch_up(&mut tracker, 5.0, &blocked_state(4.0)), [(Occasion::Blocked, None)]);
        let failed = json!({ "reason": "exit code 1", "cause": "failed" });
        let found = observe_at(&mut tracker, 5.0, 2.0, "NODE_STOPPED", failed);
        assert_eq!(found, Some(Occasion::Failed), "the state does not show it");
        assert_eq!(observe_at(&mut tracker, 5.0, 3.0, "NODE_BUSY", json!({})), None);
        assert_eq!(observe_at(&mut tracker, 5.0, blocked_at, "NODE_BLOCKED", dialog()), None, "{blocked_at}");
        assert!(tracker.has_open_dialog("default", "me", "permission", &["Yes".to_string()]));
        observe(&mut tracker, 6.0, "NODE_BUSY", json!({}));
        assert_eq!(
            observe(&mut tracker, 7.0, "NODE_BLOCKED", dialog()),
            Some(Occasion::Blocked),
            "another one"
        );
    }
}

#[test]
fn dialog_after_dropped_work_is_notified() {
    let mut tracker = NotificationTracker::new(30);
    assert_eq!(catch_up(&mut tracker, 5.0, &blocked_state(4.0)), [(Occasion::Blocked, None)]);
    assert_eq!(catch_up(&mut tracker, 8.0, &node_state("me", "busy", 7.0, json!({}))), []);
    let dialog = json!({ "kind": "permission", "choices": ["Yes"] });
    assert_eq!(observe(&mut tracker, 9.0, "NODE_BLOCKED", dialog), Some(Occasion::Blocked));
}

#[test]
fn dropped_limit_is_notified_once() {
    let mut tracker = NotificationTracker::new(30);
    let suspended = |at: f64, until: &str| node_state("me", "suspended", at, json!({ "until_at": until }));
    observe(&mut tracker, 1.0, "NODE_BLOCKED", json!({ "kind": "permission", "choices": ["Yes"] }));
    let state = suspended(5.0, "2025-11-30T13:00:00Z");
    assert_eq!(catch_up(&mut tracker, 6.0, &state), [(Occasion::Suspended, None)], "after a dialog");
    assert_eq!(catch_up(&mut tracker, 7.0, &state), []);
    // The server's own event has milliseconds.
    let event = json!({ "until_at": "2025-11-30T13:00:00.900Z" });
    assert_eq!(observe(&mut tracker, 8.0, "NODE_SUSPENDED", event), None);
    let state = suspended(9.0, "2025-11-30T18:00:00Z");
    assert_eq!(catch_up(&mut tracker, 9.0, &state), [(Occasion::Suspended, None)], "after a limit");
    assert_eq!(
        observe(&mut tracker, 9.5, "NODE_SUSPENDED", json!({ "until_at": "2025-11-30T18:00:00Z" })),
        None
    );
}

#[test]
fn dropped_end_of_a_turn_is_notified() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 10.0, "NODE_BUSY", json!({}));
    let busy = node_state("me", "busy", 10.0, json!({}));
    assert_eq!(catch_up(&mut tracker, 20.0, &busy), []);
    let ready = node_state("me", "ready", 70.0, json!({}));
    assert_eq!(catch_up(&mut tracker, 70.0, &ready), [(Occasion::Done, Some(60.0))]);
    assert_eq!(catch_up(&mut tracker, 80.0, &ready), []);
    assert_eq!(observe(&mut tracker, 80.0, "NODE_READY", json!({})), None);
    // A node that began to work unseen.
    let mut state = node_state("me", "busy", 100.0, json!({}));
    state.nodes.extend(node_state("other", "ready", 120.0, json!({})).nodes);
    assert_eq!(catch_up(&mut tracker, 120.0, &state), []);
    assert_eq!(observe(&mut tracker, 140.0, "NODE_READY", json!({})), Some(Occasion::Done));
}

#[test]
fn turn_that_began_among_dropped_events_has_its_own_time() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 10.0, "NODE_BUSY", json!({}));
    let mut state = node_state("me", "busy", 90.0, json!({}));
    state.nodes[0].progress.turn_started_at = Some(TsMs(90_000));
    state.nodes.extend(node_state("other", "ready", 100.0, json!({})).nodes);
    assert_eq!(catch_up(&mut tracker, 100.0, &state), []);
    assert_eq!(observe(&mut tracker, 110.0, "NODE_READY", json!({})), None);
}

fn run(id: &str, state: &str, started: u64, ended: Option<u64>) -> Value {
    json!({ "run_id": id, "graph_id": "g", "session_id": "default", "state": state,
        "started_at": TsMs(started * 1000), "ended_at": ended.map(|at| TsMs(at * 1000)) })
}

/// Returns the list of a server's results with one that failed.
fn failed_results(id: &str, ended: u64) -> Vec<ResultInfo> {
    let result = json!({ "result_id": id, "node_id": "me", "session_id": "default", "state": "failed",
        "prompt": "", "created_at": TsMs(1), "started_at": null, "ended_at": TsMs(ended * 1000) });
    vec![serde_json::from_value(result).unwrap()]
}

/// Returns a state with the failures of a node, a run and a result.
fn failures_state(at: u64) -> NotificationState {
    let mut state = node_state("me", "stopped", at as f64, json!({ "reason": "exit code 1" }));
    state.runs = serde_json::from_value(json!([run("r-1", "failed", 1, Some(at))])).unwrap();
    state.results = failed_results("1", at);
    state
}

/// Observes the events of these failures and returns how many are notified.
fn observe_failures(tracker: &mut NotificationTracker, at: f64) -> usize {
    let run = json!({ "run_id": "r-1", "graph_id": "g", "state": "failed", "duration_ms": 1 });
    let events = [
        ("NODE_STOPPED", json!({ "reason": "exit code 1", "cause": "failed" })),
        ("RESULT_READY", json!({ "result_id": "1", "success": false, "state": "failed" })),
        ("GRAPH_COMPLETED", run),
    ];
    events.into_iter().filter_map(|(kind, data)| observe(tracker, at, kind, data)).count()
}

#[test]
fn second_gap_does_not_repeat_failures() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 10.0, "NODE_READY", json!({}));
    let state = failures_state(40);
    assert_eq!(catch_up(&mut tracker, 41.0, &state).len(), 3);
    observe(&mut tracker, 12.0, "NODE_READY", json!({}));
    assert_eq!(catch_up(&mut tracker, 42.0, &state), []);
    assert_eq!(observe_failures(&mut tracker, 40.5), 0);
    assert_eq!(catch_up(&mut tracker, 43.0, &state), []);
}

#[test]
fn later_failure_is_notified_although_an_event_was_dropped() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 10.0, "NODE_READY", json!({}));
    assert_eq!(catch_up(&mut tracker, 41.0, &failures_state(40)).len(), 3);
    assert_eq!(catch_up(&mut tracker, 61.0, &failures_state(60)).len(), 3, "also dropped");
    assert_eq!(observe_failures(&mut tracker, 9000.0), 3);
}

#[test]
fn dropped_failure_that_was_saved_slowly_is_notified() {
    let mut tracker = NotificationTracker::new(30);
    observe(&mut tracker, 10.0, "NODE_READY", json!({}));
    observe(&mut tracker, 20.0, "NODE_READY", json!({}));
    let mut state = NotificationState { results: failed_results("1", 19), ..NotificationState::default() };
    assert_eq!(catch_up(&mut tracker, 21.0, &state), [(Occasion::Failed, None)]);
    // The events of these failures were observed.
    assert_eq!(observe_failures(&mut tracker, 28.0), 2, "the result was notified");
    state.results.extend(failures_state(27).results);
    state.runs = failures_state(27).runs;
    assert_eq!(catch_up(&mut tracker, 31.0, &state), []);
}

#[test]
fn dropped_failures_and_runs_are_notified_once() {
    let mut tracker = NotificationTracker::new(30);
    let mut state = node_state("me", "stopped", 20.0, json!({ "reason": "exit code 1" }));
    let mut waiting = run("r-0", "running", 1, None);
    waiting["gates"] = json!([{ "step_id": "ok", "question": "Ship it?" }]);
    let runs = json!([
        waiting,
        run("r-1", "failed", 1, Some(20)),
        run("r-2", "completed", 1, Some(40)),
        run("r-3", "completed", 30, Some(40)),
        run("r-4", "cancelled", 1, Some(40)),
        run("r-5", "failed", 1, Some(5)),
    ]);
    state.runs = serde_json::from_value(runs).unwrap();
    state.results = failed_results("1", 20);
    assert_eq!(
        catch_up(&mut tracker, 45.0, &state),
        [(Occasion::Blocked, None)],
        "all may be old but the gate"
    );
    observe(&mut tracker, 10.0, "NODE_REMOVED", json!({}));
    let found = catch_up(&mut tracker, 45.0, &state);
    let mut occasions: Vec<Occasion> = found.into_iter().map(|(occasion, _)| occasion).collect();
    occasions.sort_by_key(|occasion| <&str>::from(*occasion));
    assert_eq!(occasions, [Occasion::Done, Occasion::Failed, Occasion::Failed, Occasion::Failed]);
    // The events behind the dropped ones.
    let completed = json!({ "run_id": "r-2", "graph_id": "g", "state": "completed", "duration_ms": 39_000 });
    for (kind, clock, data) in [
        ("NODE_STOPPED", 20.1, json!({ "reason": "exit code 1", "cause": "failed" })),
        ("RESULT_READY", 25.0, json!({ "result_id": "1", "success": false, "state": "failed" })),
        ("GRAPH_COMPLETED", 40.1, completed.clone()),
    ] {
        assert_eq!(observe_at(&mut tracker, 46.0, clock, kind, data), None, "{kind}");
    }
    assert_eq!(observe(&mut tracker, 47.0, "GRAPH_COMPLETED", completed), Some(Occasion::Done));
}
