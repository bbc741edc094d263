//! Journals that are cut at every byte, damaged, locked and read again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nerve_api::value::StepState;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Header, Journal, JournalError, JournalRecord, ReplayState, StepCounts, Summary, journal_path, key,
    read_plan, read_result, read_steps,
};

fn head() -> Header {
    Header {
        at: TsNs(100),
        run: "r-1".into(),
        graph: "review".into(),
        session: Some("work".into()),
        definition: json!({"graph": "review", "steps": [{"id": "a"}]}),
        input: json!({"task": "täglich"}),
        options: json!({"set": []}),
    }
}

fn temp_journal() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = journal_path(&folder.path().join("runs/default"), "r-1");
    (folder, path)
}

fn started(step: &str, key: u64) -> JournalRecord<'_> {
    JournalRecord::Started { at: TsNs(110), step, key, node: "me", persistent: false }
}

fn finished<'a>(step: &'a str, key: u64, value: &'a Value) -> JournalRecord<'a> {
    JournalRecord::Finished { at: TsNs(120), step, key, value, ms: 10, tokens: Some(7) }
}

fn failed(step: &str, key: u64) -> JournalRecord<'_> {
    JournalRecord::Failed { at: TsNs(130), step, key, error: "no", error_type: "timeout", hint: None }
}

fn asked<'a>(step: &'a str, choices: &'a [String]) -> JournalRecord<'a> {
    let deadline = Some(TsNs(900));
    JournalRecord::Asked {
        at: TsNs(140),
        step,
        key: 3,
        question: "Ship?",
        choices,
        default: Some("no"),
        deadline,
    }
}

fn answered<'a>(step: &'a str, choice: &'a str) -> JournalRecord<'a> {
    JournalRecord::Answered { at: TsNs(150), step, key: 3, choice, by: "person" }
}

/// Writes a journal of these records and replays it.
fn replay_of(records: &[JournalRecord<'_>]) -> ReplayState {
    let (_folder, path) = temp_journal();
    write(&path, records);
    ReplayState::read(&path).unwrap()
}

fn result<'a>(replay: &'a ReplayState, step: &str, key: u64) -> Option<&'a Value> {
    replay.step(step, key)?.result.as_ref()
}

fn was_running(replay: &ReplayState, step: &str, key: u64) -> bool {
    replay.step(step, key).is_some_and(|step| step.is_running)
}

fn summary_of(records: &[JournalRecord<'_>]) -> Summary {
    let (_folder, path) = temp_journal();
    write(&path, records);
    Summary::read(&path).unwrap()
}

fn write(path: &Path, records: &[JournalRecord<'_>]) {
    let journal = Journal::create(path, &head()).unwrap();
    for record in records {
        journal.record(record);
    }
}

/// Returns a function that reads the results of steps from a journal.
fn results_of(records: &[JournalRecord<'_>]) -> impl Fn(&str) -> Option<Value> + use<> {
    let (folder, path) = temp_journal();
    write(&path, records);
    move |step| {
        let _folder = &folder;
        read_result(&path, step).unwrap()
    }
}

#[test]
fn header_round_trips() {
    let replay = replay_of(&[]);
    assert_eq!(replay.head(), &head());
    assert_eq!(replay.definition(), &head().definition);
    assert_eq!((replay.status(), replay.cut()), ("running", None));
}

#[test]
fn files_are_private() {
    let (_folder, path) = temp_journal();
    write(&path, &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[test]
fn results_are_found_by_step_and_key() {
    let (one, null) = (json!({"x": [1, 2]}), Value::Null);
    let replay = replay_of(&[
        started("a", 1),
        finished("a", 1, &one),
        started("a", 2),
        finished("a", 2, &null),
        started("b/c[1]", 1),
        JournalRecord::Skipped { at: TsNs(125), step: "s", key: 1, value: Some(&one), reason: "on_error" },
        JournalRecord::Skipped { at: TsNs(125), step: "w", key: 1, value: None, reason: "when" },
    ]);
    assert_eq!(result(&replay, "a", 1), Some(&one));
    // Null is a valid result.
    assert_eq!(result(&replay, "a", 2), Some(&null));
    assert_eq!(result(&replay, "a", 3), None);
    assert_eq!(result(&replay, "s", 1), Some(&one));
    assert_eq!(result(&replay, "w", 1), None);
    assert_eq!(replay.result_count(), 3);
    assert!(was_running(&replay, "b/c[1]", 1));
    assert!(
        !was_running(&replay, "a", 1) && !was_running(&replay, "b/c[1]", 2) && !was_running(&replay, "x", 1)
    );
}

#[test]
fn last_record_of_a_step_counts() {
    let (one, two) = (json!(1), json!(2));
    let again =
        replay_of(&[started("a", 1), finished("a", 1, &one), started("a", 1), finished("a", 1, &two)]);
    assert_eq!((result(&again, "a", 1), was_running(&again, "a", 1)), (Some(&two), false));
    let running = replay_of(&[started("a", 1), finished("a", 1, &one), started("a", 1)]);
    assert_eq!((result(&running, "a", 1), was_running(&running, "a", 1)), (None, true));
    let no = replay_of(&[started("a", 1), finished("a", 1, &one), started("a", 1), failed("a", 1)]);
    assert_eq!((result(&no, "a", 1), was_running(&no, "a", 1)), (None, false));
}

#[test]
fn gates_keep_deadlines_and_answers() {
    let choices = ["yes".to_string(), "no".to_string()];
    let open = replay_of(&[started("ok", 3), asked("ok", &choices), started("ok", 3)]);
    let step = open.step("ok", 3).unwrap();
    assert!(open.step("ok", 4).is_none() && step.answer.is_none());
    let question = step.question.as_ref().unwrap();
    assert_eq!((question.at, question.deadline), (TsNs(140), Some(TsNs(900))));
    let gate = &question.gate;
    assert_eq!((gate.question.as_str(), gate.default.as_deref()), ("Ship?", Some("no")));
    assert_eq!(gate.choices, choices);
    let done = replay_of(&[asked("ok", &choices), answered("ok", "yes"), started("ok", 3)]);
    let answer = done.step("ok", 3).unwrap().answer.as_ref().unwrap();
    assert_eq!((answer.choice.as_str(), answer.by.as_str()), ("yes", "person"));
    let again = replay_of(&[asked("ok", &choices), answered("ok", "yes"), asked("ok", &choices)]);
    assert!(again.step("ok", 3).unwrap().answer.is_none());
}

#[test]
fn resumed_run_is_running_and_may_be_redefined() {
    let edited = json!({"graph": "edited"});
    let ended = JournalRecord::Ended {
        at: TsNs(200),
        status: "failed",
        error: Some("why"),
        error_type: Some("timeout"),
        hint: Some("more time"),
    };
    let replay = replay_of(&[ended]);
    assert_eq!((replay.status(), replay.outcome().unwrap().at), ("failed", TsNs(200)));
    let outcome = replay.outcome().unwrap();
    assert_eq!((outcome.error.as_deref(), outcome.error_type.as_deref()), (Some("why"), Some("timeout")));
    assert_eq!(outcome.hint.as_deref(), Some("more time"));
    let replay = replay_of(&[ended, JournalRecord::Resumed { at: TsNs(210), definition: Some(&edited) }]);
    assert_eq!((replay.status(), replay.outcome()), ("running", None));
    assert_eq!(replay.definition(), &edited);
    assert_eq!(replay.head().definition, head().definition);
    let replay = replay_of(&[
        JournalRecord::Resumed { at: TsNs(210), definition: Some(&edited) },
        JournalRecord::Resumed { at: TsNs(220), definition: None },
    ]);
    assert_eq!(replay.definition(), &edited);
}

#[test]
fn second_crash_without_progress_is_known() {
    let resumed = JournalRecord::Resumed { at: TsNs(210), definition: None };
    let paused = JournalRecord::Paused { at: TsNs(220) };
    assert!(!replay_of(&[started("a", 1)]).crashed_again());
    assert!(replay_of(&[started("a", 1), resumed]).crashed_again());
    assert!(replay_of(&[started("a", 1), resumed, started("a", 1)]).crashed_again());
    assert!(!replay_of(&[started("a", 1), resumed, finished("a", 1, &json!(1))]).crashed_again());
    assert!(!replay_of(&[started("a", 1), resumed, paused]).crashed_again());
    assert!(replay_of(&[started("a", 1), resumed, paused, resumed]).crashed_again());
}

#[test]
fn summary_counts_steps_by_last_record() {
    let one = json!(1);
    let choices = ["yes".to_string()];
    let records = [
        started("a", 1),
        finished("a", 1, &one),
        started("b", 1),
        failed("b", 1),
        started("b", 2),
        started("c", 1),
        failed("c", 1),
        JournalRecord::Skipped { at: TsNs(125), step: "d", key: 1, value: None, reason: "when" },
        started("ok", 3),
        asked("ok", &choices),
        asked("sure", &choices),
        answered("sure", "yes"),
    ];
    let summary = summary_of(&records);
    assert_eq!(
        (summary.run.as_str(), summary.graph.as_str(), summary.session.as_deref(), &summary.outcome),
        ("r-1", "review", Some("work"), &None)
    );
    assert_eq!(summary.steps, StepCounts { running: 2, finished: 1, failed: 1, skipped: 1 });
    assert_eq!((summary.started, summary.last, summary.tokens), (TsNs(100), TsNs(150), 7));
    let open: Vec<&str> = summary.open_gates.iter().map(|open| open.gate.step_id.as_str()).collect();
    assert_eq!(open, ["ok"]);
    assert_eq!(summary.open_gates[0].deadline, Some(TsNs(900)));
}

#[test]
fn top_level_steps_have_the_state_of_their_last_record() {
    let (_folder, path) = temp_journal();
    let (one, choices) = (json!(1), Vec::new());
    let records = [
        started("a", 1),
        started("b/c[1]", 1),
        finished("a", 1, &one),
        started("b", 1),
        failed("b", 1),
        asked("ok", &choices),
        started("d", 1),
        finished("d", 1, &one),
        started("d", 2),
    ];
    write(&path, &records);
    let steps = read_steps(&path).unwrap();
    let states: Vec<_> = steps.iter().map(|step| (step.step_id.as_str(), step.state)).collect();
    let expected = [
        ("a", StepState::Completed),
        ("b", StepState::Failed),
        ("ok", StepState::Waiting),
        ("d", StepState::Running),
    ];
    assert_eq!(states, expected);
    assert_eq!(
        (steps[0].node_id.as_str(), steps[0].tokens_used, steps[0].ended_at.is_some()),
        ("me", 7, true)
    );
    assert_eq!((steps[1].error.as_deref(), steps[1].error_type), (Some("no"), Some(ErrorKind::Timeout)));
    assert_eq!(steps[3].ended_at, None);
}

#[test]
fn steps_without_end_are_cancelled_with_their_run() {
    let (_folder, path) = temp_journal();
    let ended = JournalRecord::ended(TsNs(9_000_000), "cancelled", None);
    write(&path, &[started("a", 1), asked("ok", &Vec::new()), ended]);
    for step in read_steps(&path).unwrap() {
        assert_eq!((step.state, step.ended_at), (StepState::Cancelled, Some(TsMs(9))), "{}", step.step_id);
    }
}

#[test]
fn plan_is_that_of_the_latest_definition() {
    let (_folder, path) = temp_journal();
    let edited = json!({"graph": "g", "steps": [
        {"id": "a", "node": "sh", "input": "true"},
        {"id": "ok", "gate": {"question": "Ship?"}, "depends_on": ["a"]},
    ]});
    let resumed = |definition| JournalRecord::Resumed { at: TsNs(9), definition };
    write(&path, &[started("a", 1), resumed(Some(&edited)), resumed(None)]);
    let plan = read_plan(&path).unwrap();
    let steps: Vec<_> = plan.iter().map(|step| (step.step_id.as_str(), step.node_id.as_str())).collect();
    assert_eq!(steps, [("a", "sh"), ("ok", "")]);
    assert_eq!(plan[1].depends_on, ["a"]);
}

#[test]
fn result_of_a_step_is_its_latest() {
    let (one, two) = (json!({"text": "one"}), json!({"text": "two"}));
    let records = [
        finished("a", 1, &one),
        started("b", 1),
        finished("b", 1, &one),
        finished("a", 2, &two),
        started("b", 2),
    ];
    let result = results_of(&records);
    assert_eq!(result("a"), Some(two));
    assert_eq!(result("b"), None);
    assert_eq!(result("nosuch"), None);
}

#[test]
fn result_of_items_is_their_list_and_of_rounds_the_last() {
    let (one, two) = (json!({"text": "one"}), json!({"text": "two"}));
    let records = [
        started("each[0]", 1),
        finished("each[1]", 1, &two),
        finished("each[0]", 1, &one),
        finished("each[0]/inner", 1, &two),
        finished("loop#1", 1, &one),
        finished("loop#2", 1, &two),
        started("loop#3", 1),
        finished("both[0]#1", 1, &one),
        finished("both[0]#2", 1, &two),
        started("both[2]#1", 1),
        finished("again#1", 1, &one),
        finished("again#2", 1, &two),
        started("again#1", 2),
    ];
    let result = results_of(&records);
    assert_eq!(result("each"), Some(json!([one, two])));
    assert_eq!(result("loop"), Some(two.clone()));
    assert_eq!(result("both"), Some(json!([two, null, null])));
    assert_eq!(result("again"), None);
    assert_eq!(result("each[0]/inner"), Some(two));
    assert_eq!(result("eac"), None);
}

#[test]
fn result_of_a_nested_graph_has_those_of_its_steps() {
    let (one, two) = (json!(1), json!({"text": "two"}));
    let items = |step| JournalRecord::Items { at: TsNs(110), step, count: 3 };
    let records = [
        finished("outer/a", 1, &one),
        finished("outer/b/c", 1, &two),
        started("outer/d", 1),
        items("each"),
        finished("each[0]/a", 1, &one),
        finished("each[0]/b", 1, &two),
        finished("each[2]/a#1", 1, &one),
        finished("each[2]/a#2", 1, &two),
        finished("loop#1[0]/a", 1, &one),
        finished("loop#1[1]/a", 1, &one),
        finished("loop#2[0]/a", 1, &two),
    ];
    let result = results_of(&records);
    assert_eq!(result("outer"), Some(json!({"a": 1, "b": {"c": two}})));
    assert_eq!(result("each"), Some(json!([{"a": 1, "b": two}, null, {"a": two}])));
    assert_eq!(result("each[0]"), Some(json!({"a": 1, "b": two})));
    assert_eq!(result("loop"), Some(json!([{"a": two}])));
}

#[test]
fn result_with_a_part_that_was_left_out_is_missing() {
    let one = json!(1);
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let records = [
        finished("a", 1, &deep),
        finished("each[0]", 1, &one),
        finished("each[1]", 1, &deep),
        finished("loop#1", 1, &one),
        finished("loop#2", 1, &deep),
        finished("again#1", 1, &deep),
        finished("again#2", 1, &one),
        finished("retried", 1, &deep),
        started("retried", 2),
        finished("retried", 2, &one),
    ];
    let result = results_of(&records);
    for step in ["a", "each", "loop"] {
        assert_eq!(result(step), None, "{step}");
    }
    for step in ["again", "retried", "each[0]"] {
        assert!(result(step).is_some(), "{step}");
    }
}

#[test]
fn skipped_graph_has_the_value_of_its_policy() {
    let (one, two, null) = (json!(1), json!(2), Value::Null);
    let skipped = |step, value| JournalRecord::Skipped {
        at: TsNs(130),
        step,
        key: u64::MAX,
        value: Some(value),
        reason: "on_error",
    };
    let mut records = vec![
        started("outer/a", 1),
        finished("outer/a", 1, &one),
        started("outer/b", 1),
        failed("outer/b", 1),
        skipped("outer", &two),
        finished("each[0]/a", 1, &one),
        failed("each[0]/b", 1),
        skipped("each[0]", &null),
    ];
    let (_folder, path) = temp_journal();
    write(&path, &records);
    assert_eq!(read_result(&path, "outer").unwrap(), Some(json!(2)));
    assert_eq!(read_result(&path, "each").unwrap(), Some(json!([null])));
    let states = |path: &Path| -> Vec<(String, StepState)> {
        read_steps(path).unwrap().into_iter().map(|step| (step.step_id, step.state)).collect()
    };
    assert_eq!(states(&path), [("outer".to_string(), StepState::Skipped)]);
    assert_eq!(Summary::read(&path).unwrap().done, 1, "the outer step");

    records.extend([started("outer/b", 2), finished("outer/b", 2, &two)]);
    let (_folder, path) = temp_journal();
    write(&path, &records);
    assert_eq!(read_result(&path, "outer").unwrap(), Some(json!({"a": 1, "b": 2})), "after a resume");
    assert!(states(&path).is_empty(), "its end is not recorded");
    assert_eq!(Summary::read(&path).unwrap().done, 1);
}

#[test]
fn parts_of_a_round_start_one_after_another() {
    let (_folder, path) = temp_journal();
    let (one, two) = (json!(1), json!(2));
    let both = |step, value| [started(step, 1), finished(step, 1, value)];
    let records = [
        both("loop#1/a", &one),
        both("loop#1/b", &two),
        both("each#1[0]", &one),
        both("each#1[1]", &two),
        both("each#2[0]", &two),
        both("each#1[0]", &two),
        both("edited", &one),
        both("edited/a", &two),
    ];
    write(&path, records.as_flattened());
    assert_eq!(read_result(&path, "loop").unwrap(), Some(json!({"a": 1, "b": 2})));
    assert_eq!(read_result(&path, "each").unwrap(), Some(json!([2])), "the first round of a later pass");
    assert_eq!(read_result(&path, "edited").unwrap(), Some(json!({"a": 2})), "a nested graph now");
}

#[test]
fn items_of_an_earlier_pass_are_dropped() {
    let (_folder, path) = temp_journal();
    let (one, two) = (json!(1), json!(2));
    let items = |count| JournalRecord::Items { at: TsNs(110), step: "each", count };
    let mut records = vec![items(3)];
    records.extend(["each[0]", "each[1]", "each[2]"].map(|step| finished(step, 1, &one)));
    records.extend([items(2), started("each[0]", 2), finished("each[0]", 2, &two)]);
    write(&path, &records);
    assert_eq!(read_result(&path, "each").unwrap(), Some(json!([2, 1])), "the second item was reused");
    records.push(items(0));
    let (_folder, path) = temp_journal();
    write(&path, &records);
    assert_eq!(read_result(&path, "each").unwrap(), Some(json!([])));
}

#[test]
fn ended_run_has_no_open_gates() {
    let ended = JournalRecord::Ended {
        at: TsNs(200),
        status: "cancelled",
        error: None,
        error_type: None,
        hint: None,
    };
    let summary = summary_of(&[asked("ok", &[]), ended]);
    assert_eq!(summary.outcome.as_ref().unwrap().status, "cancelled");
    assert_eq!((summary.open_gates.len(), summary.resumed), (0, 0));
    let resumed = JournalRecord::Resumed { at: TsNs(300), definition: None };
    let summary = summary_of(&[asked("ok", &[]), ended, resumed]);
    assert_eq!((summary.outcome, summary.open_gates.len(), summary.resumed), (None, 1, 1));
}

/// A crash can leave any prefix of the file.
#[test]
fn journal_cut_at_any_byte_keeps_complete_records() {
    let (folder, path) = temp_journal();
    let value = json!({"text": "größer \u{1f980} \"\n", "n": [1.5, null, true]});
    let steps: Vec<String> = (0..4).map(|index| format!("outer/each[{index}]")).collect();
    let journal = Journal::create(&path, &head()).unwrap();
    for step in &steps {
        journal.record(&started(step, 1));
        journal.record(&finished(step, 1, &value));
    }
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let cut_path = folder.path().join("cut.jsonl");
    for cut in 0..=whole.len() {
        fs::write(&cut_path, &whole[..cut]).unwrap();
        // A record is complete with its closing brace; only its newline may be missing.
        let end_of = |line: &[u8]| line.len() - 1;
        let mut records = 0;
        let mut bytes = 0;
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            if bytes + end_of(line) > cut {
                break;
            }
            records += 1;
            bytes = (bytes + line.len()).min(cut);
        }
        let Some(records) = usize::checked_sub(records, 1) else {
            let error = Journal::resume(&cut_path).unwrap_err();
            assert!(matches!(error, JournalError::NeverBegun { .. }), "{cut}: {error}");
            assert_eq!(fs::read(&cut_path).unwrap(), whole[..cut], "{cut}: the file must be unchanged");
            continue;
        };
        let (journal, replay) = Journal::resume(&cut_path).unwrap();
        assert_eq!(replay.cut().unwrap_or(0), (cut - bytes) as u64, "{cut}");
        for (index, step) in steps.iter().enumerate() {
            let expected = (records >= 2 * index + 2).then_some(&value);
            assert_eq!(result(&replay, step, 1), expected, "{cut}: {step}");
            assert_eq!(was_running(&replay, step, 1), records == 2 * index + 1, "{cut}: {step}");
        }
        // Recording continues where the file was cut.
        journal.record(&JournalRecord::Resumed { at: TsNs(500), definition: None });
        journal.record(&finished("new", 9, &value));
        drop(journal);
        let replay = ReplayState::read(&cut_path).unwrap();
        assert_eq!(replay.cut(), None, "{cut}");
        assert_eq!(result(&replay, "new", 9), Some(&value), "{cut}");
        assert_eq!(replay.result_count(), records / 2 + 1, "{cut}");
        assert_eq!(Summary::read(&cut_path).unwrap().steps.finished, records as u64 / 2 + 1, "{cut}");
    }
}

/// A power failure can leave zeros in place of the last bytes.
#[test]
fn zeros_at_the_end_are_dropped() {
    let (_folder, path) = temp_journal();
    write(&path, &[finished("a", 1, &json!(1))]);
    let whole = fs::read(&path).unwrap();
    for zeros in [
        &[0_u8; 500][..],
        b"{\"fact\":\"fini\0\0\0\0",
        b"\0\0\n",
        b"{\"fact\":\"finished\",\"at\":1}\n",
        b"\xff\xfe",
    ] {
        fs::write(&path, [&whole, zeros].concat()).unwrap();
        assert_eq!(Summary::read(&path).unwrap().cut, Some(zeros.len() as u64));
        assert_eq!(fs::metadata(&path).unwrap().len(), (whole.len() + zeros.len()) as u64);
        let (journal, replay) = Journal::resume(&path).unwrap();
        assert_eq!((replay.cut(), replay.result_count()), (Some(zeros.len() as u64), 1));
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn damage_is_reported_with_line_number() {
    let (_folder, path) = temp_journal();
    write(&path, &[finished("a", 1, &json!(1)), finished("b", 1, &json!(1))]);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    for garbage in [
        "garbage",
        "{\"fact\":\"finished\",\"at\":1,\"step\":\"a\",\"key\":\"xyz\",\"value\":1}",
        "{}",
        "[1]",
    ] {
        let spoilt = format!("{}\n{}\n{garbage}\n{}\n", lines[0], lines[1], lines[2]);
        fs::write(&path, &spoilt).unwrap();
        let error = Journal::resume(&path).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 3, .. }), "{garbage}: {error}");
        let message = error.to_string();
        assert!(message.contains("r-1.jsonl:3: ") && message.contains("remove the line"), "{message}");
        assert!(matches!(Summary::read(&path), Err(JournalError::Damaged { line: 3, .. })), "{garbage}");
        assert_eq!(fs::read_to_string(&path).unwrap(), spoilt, "the file must be unchanged");
        assert_eq!(EngineError::from(error).kind, ErrorKind::InvalidRequest);
    }
}

#[test]
fn other_files_are_rejected() {
    let (_folder, path) = temp_journal();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for content in ["hello\nworld\n", "{\"fact\":\"started\",\"version\":\"1.0\"}\n{}\n"] {
        fs::write(&path, content).unwrap();
        assert!(matches!(ReplayState::read(&path), Err(JournalError::Damaged { line: 1, .. })), "{content}");
    }
    let missing = ReplayState::read(&path.with_extension("none")).unwrap_err();
    assert_eq!(EngineError::from(missing).kind, ErrorKind::NotFound);
    let folder = ReplayState::read(path.parent().unwrap()).unwrap_err();
    assert!(folder.to_string().contains("not a regular file"), "{folder}");
}

#[test]
fn newer_major_version_is_rejected_newer_minor_is_read() {
    let (_folder, path) = temp_journal();
    write(&path, &[finished("a", 1, &json!(1))]);
    let whole = fs::read_to_string(&path).unwrap();
    for version in ["2.0", "10.1", "x"] {
        fs::write(&path, whole.replace("\"1.0\"", &format!("\"{version}\""))).unwrap();
        for error in [ReplayState::read(&path).unwrap_err(), Summary::read(&path).unwrap_err()] {
            assert!(matches!(&error, JournalError::Version { found, .. } if found == version), "{error}");
            assert!(error.to_string().contains("newer nerve"), "{error}");
        }
    }
    // Another major version may have other fields.
    fs::write(&path, "{\"fact\":\"run\",\"version\":\"2.0\",\"graph\":{}}\n{\"other\":1}\n").unwrap();
    assert!(matches!(ReplayState::read(&path), Err(JournalError::Version { .. })));
    let unknown = "{\"fact\":\"dreamt\",\"at\":\"late\",\"step\":5,\"value\":{}}\n";
    let newer =
        whole.replace("\"1.0\",", "\"1.7\",\"mood\":{\"x\":1},").replace("\"ms\":", "\"new\":[],\"ms\":");
    fs::write(&path, format!("{newer}{unknown}")).unwrap();
    let replay = ReplayState::read(&path).unwrap();
    assert_eq!((result(&replay, "a", 1), replay.cut()), (Some(&json!(1)), None));
    assert_eq!(Summary::read(&path).unwrap().steps.finished, 1);
}

#[test]
fn run_is_driven_by_one_server() {
    let (_folder, path) = temp_journal();
    let journal = Journal::create(&path, &head()).unwrap();
    let clone = journal.clone();
    let locked = Journal::resume(&path).unwrap_err();
    assert!(matches!(locked, JournalError::Locked { .. }), "{locked}");
    assert_eq!(EngineError::from(locked).kind, ErrorKind::Busy);
    // Reading needs no lock.
    assert_eq!(ReplayState::read(&path).unwrap().head(), &head());
    drop(journal);
    assert!(matches!(Journal::resume(&path), Err(JournalError::Locked { .. })), "a clone still holds it");
    drop(clone);
    let (_first, _) = Journal::resume(&path).unwrap();
    assert!(matches!(Journal::resume(&path), Err(JournalError::Locked { .. })));
}

#[test]
fn existing_journal_is_not_overwritten() {
    let (_folder, path) = temp_journal();
    write(&path, &[finished("a", 1, &json!(1))]);
    let error = Journal::create(&path, &head()).unwrap_err();
    assert_eq!(EngineError::from(error).kind, ErrorKind::AlreadyExists);
    assert_eq!(ReplayState::read(&path).unwrap().result_count(), 1);
}

#[test]
fn unreadable_header_is_rejected_before_file_is_created() {
    let (_folder, path) = temp_journal();
    let input = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let error = Journal::create(&path, &Header { input, ..head() }).unwrap_err();
    assert!(error.to_string().contains("the run's input: it is nested deeper"), "{error}");
    assert!(!path.exists());
}

/// A benchmark: prints the cost of a record and the time to read a run of 10⁵ steps.
#[test]
#[ignore = "prints times; run it with --release -- --ignored --nocapture"]
fn times() {
    const STEPS: u32 = 100_000;
    let (_folder, path) = temp_journal();
    let journal = Journal::create(&path, &head()).unwrap();
    let steps: Vec<String> = (0..STEPS).map(|index| format!("outer/step-{index}")).collect();
    let value = json!({"text": "ok", "success": true});
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let clock = Instant::now();
    for step in &steps {
        journal.record(&started(step, 1));
        journal.record(&finished(step, 1, &value));
    }
    let recorded = clock.elapsed();
    runtime.block_on(journal.flush()).unwrap();
    let settled = clock.elapsed();
    drop(journal);
    let clock = Instant::now();
    let summary = Summary::read(&path).unwrap();
    let summarised = clock.elapsed();
    assert_eq!(summary.steps.finished, u64::from(STEPS));
    let clock = Instant::now();
    let (_journal, replay) = Journal::resume(&path).unwrap();
    let resumed = clock.elapsed();
    assert_eq!(replay.result_count(), STEPS as usize);
    let clock = Instant::now();
    let digest = steps.iter().fold(0, |sum, step| sum ^ key(1, Some("none"), &json!(step)));
    let keyed = clock.elapsed();
    println!(
        "record {:?} a record, settled after {settled:?}, {} bytes; summary {summarised:?}; resume {resumed:?}; key {:?} ({digest:x})",
        recorded / (2 * STEPS),
        fs::metadata(&path).unwrap().len(),
        keyed / STEPS,
    );
}
