//! A journal is cut at every byte, spoilt, locked and read again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nerve_term::event::TsNs;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Fact, Head, Journal, JournalError, Past, StepCounts, Summary, journal_path, key};
use crate::error::{EngineError, ErrorKind};

fn head() -> Head {
    Head {
        at: TsNs(100),
        run: "r-1".into(),
        graph: "review".into(),
        session: Some("work".into()),
        definition: json!({"graph": "review", "steps": [{"id": "a"}]}),
        input: json!({"task": "täglich"}),
        options: json!({"set": []}),
    }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = journal_path(&folder.path().join("runs/default"), "r-1");
    (folder, path)
}

fn started(step: &str, key: u64) -> Fact<'_> {
    Fact::Started { at: TsNs(110), step, key, node: "me", persistent: false }
}

fn finished<'a>(step: &'a str, key: u64, value: &'a Value) -> Fact<'a> {
    Fact::Finished { at: TsNs(120), step, key, value, ms: 10, tokens: Some(7) }
}

fn failed(step: &str, key: u64) -> Fact<'_> {
    Fact::Failed { at: TsNs(130), step, key, error: "no", error_type: "timeout" }
}

fn asked<'a>(step: &'a str, choices: &'a [String]) -> Fact<'a> {
    let deadline = Some(TsNs(900));
    Fact::Asked { at: TsNs(140), step, key: 3, question: "Ship?", choices, default: Some("no"), deadline }
}

fn answered<'a>(step: &'a str, choice: &'a str) -> Fact<'a> {
    Fact::Answered { at: TsNs(150), step, key: 3, choice, by: "person" }
}

/// Writes a journal of these facts and reads it.
fn past_of(facts: &[Fact<'_>]) -> Past {
    let (_folder, path) = place();
    write(&path, facts);
    Past::read(&path).unwrap()
}

fn summary_of(facts: &[Fact<'_>]) -> Summary {
    let (_folder, path) = place();
    write(&path, facts);
    Summary::read(&path).unwrap()
}

fn write(path: &Path, facts: &[Fact<'_>]) {
    let journal = Journal::create(path, &head()).unwrap();
    for fact in facts {
        journal.record(fact);
    }
}

#[test]
fn a_head_comes_back_as_it_was() {
    let past = past_of(&[]);
    assert_eq!(past.head(), &head());
    assert_eq!(past.definition(), &head().definition);
    assert_eq!(past.options(), &head().options);
    assert_eq!((past.status(), past.cut(), past.last_time()), ("running", None, TsNs(100)));
}

#[test]
fn files_are_private() {
    let (_folder, path) = place();
    write(&path, &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[test]
fn results_are_found_by_step_and_key() {
    let (one, null) = (json!({"x": [1, 2]}), Value::Null);
    let past = past_of(&[
        started("a", 1),
        finished("a", 1, &one),
        started("a", 2),
        finished("a", 2, &null),
        started("b/c[1]", 1),
        Fact::Skipped { at: TsNs(125), step: "s", key: 1, value: Some(&one), reason: "on_error" },
        Fact::Skipped { at: TsNs(125), step: "w", key: 1, value: None, reason: "when" },
    ]);
    assert_eq!(past.result("a", 1), Some(&one));
    // A result that is null is a result.
    assert_eq!(past.result("a", 2), Some(&null));
    assert_eq!(past.result("a", 3), None);
    assert_eq!(past.result("s", 1), Some(&one));
    assert_eq!(past.result("w", 1), None);
    assert_eq!(past.result_count(), 3);
    assert!(past.was_running("b/c[1]", 1));
    assert!(!past.was_running("a", 1) && !past.was_running("b/c[1]", 2) && !past.was_running("x", 1));
}

#[test]
fn the_last_fact_about_a_step_counts() {
    let (one, two) = (json!(1), json!(2));
    let again = past_of(&[started("a", 1), finished("a", 1, &one), started("a", 1), finished("a", 1, &two)]);
    assert_eq!((again.result("a", 1), again.was_running("a", 1)), (Some(&two), false));
    let running = past_of(&[started("a", 1), finished("a", 1, &one), started("a", 1)]);
    assert_eq!((running.result("a", 1), running.was_running("a", 1)), (None, true));
    let no = past_of(&[started("a", 1), finished("a", 1, &one), started("a", 1), failed("a", 1)]);
    assert_eq!((no.result("a", 1), no.was_running("a", 1)), (None, false));
}

#[test]
fn gates_keep_their_deadlines_and_answers() {
    let choices = ["yes".to_string(), "no".to_string()];
    let open = past_of(&[started("ok", 3), asked("ok", &choices), started("ok", 3)]);
    assert_eq!((open.asked("ok", 3), open.asked("ok", 4)), (Some(Some(TsNs(900))), None));
    let question = open.question("ok", 3).unwrap();
    assert_eq!((question.at, question.deadline), (TsNs(140), Some(TsNs(900))));
    assert_eq!((question.text.as_str(), question.default.as_deref()), ("Ship?", Some("no")));
    assert_eq!(question.choices, choices);
    assert_eq!(open.answer("ok", 3), None);
    let done = past_of(&[asked("ok", &choices), answered("ok", "yes"), started("ok", 3)]);
    assert_eq!((done.answer("ok", 3), done.answered_by("ok", 3)), (Some("yes"), Some("person")));
    let again = past_of(&[asked("ok", &choices), answered("ok", "yes"), asked("ok", &choices)]);
    assert_eq!(again.answer("ok", 3), None);
}

#[test]
fn a_run_that_was_resumed_is_not_ended_and_may_have_another_definition() {
    let edited = json!({"graph": "edited"});
    let ended = Fact::Ended { at: TsNs(200), status: "failed", error: Some("why") };
    let past = past_of(&[ended]);
    assert_eq!((past.status(), past.last_time()), ("failed", TsNs(200)));
    assert_eq!(past.ending().unwrap().error.as_deref(), Some("why"));
    let past = past_of(&[ended, Fact::Resumed { at: TsNs(210), definition: Some(&edited) }]);
    assert_eq!((past.status(), past.ending()), ("running", None));
    assert_eq!(past.definition(), &edited);
    assert_eq!(past.head().definition, head().definition);
    let past = past_of(&[
        Fact::Resumed { at: TsNs(210), definition: Some(&edited) },
        Fact::Resumed { at: TsNs(220), definition: None },
    ]);
    assert_eq!(past.definition(), &edited);
}

#[test]
fn a_summary_counts_steps_by_what_happened_last() {
    let one = json!(1);
    let choices = ["yes".to_string()];
    let facts = [
        started("a", 1),
        finished("a", 1, &one),
        started("b", 1),
        failed("b", 1),
        started("b", 2),
        started("c", 1),
        failed("c", 1),
        Fact::Skipped { at: TsNs(125), step: "d", key: 1, value: None, reason: "when" },
        started("ok", 3),
        asked("ok", &choices),
        asked("sure", &choices),
        answered("sure", "yes"),
    ];
    let summary = summary_of(&facts);
    assert_eq!(
        (summary.run.as_str(), summary.graph.as_str(), summary.session.as_deref(), summary.status()),
        ("r-1", "review", Some("work"), "running")
    );
    assert_eq!(summary.steps, StepCounts { running: 2, finished: 1, failed: 1, skipped: 1 });
    assert_eq!((summary.started, summary.last, summary.tokens), (TsNs(100), TsNs(150), 7));
    let open: Vec<&str> = summary.open_gates.iter().map(|gate| gate.step.as_str()).collect();
    assert_eq!(open, ["ok"]);
    assert_eq!(summary.open_gates[0].deadline, Some(TsNs(900)));
}

#[test]
fn an_ended_run_has_no_open_gates() {
    let ended = Fact::Ended { at: TsNs(200), status: "cancelled", error: None };
    let summary = summary_of(&[asked("ok", &[]), ended]);
    assert_eq!((summary.status(), summary.open_gates.len(), summary.resumed), ("cancelled", 0, 0));
    let resumed = Fact::Resumed { at: TsNs(300), definition: None };
    let summary = summary_of(&[asked("ok", &[]), ended, resumed]);
    assert_eq!((summary.status(), summary.open_gates.len(), summary.resumed), ("running", 1, 1));
}

/// What a crash at any moment leaves: the file up to some byte.
#[test]
fn a_journal_cut_at_every_byte_keeps_its_whole_facts_and_goes_on() {
    let (folder, path) = place();
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
        // A fact is whole when its closing brace is there; only its newline may be missing.
        let end_of = |line: &[u8]| line.len() - 1;
        let mut facts = 0;
        let mut bytes = 0;
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            if bytes + end_of(line) > cut {
                break;
            }
            facts += 1;
            bytes = (bytes + line.len()).min(cut);
        }
        let Some(facts) = usize::checked_sub(facts, 1) else {
            let error = Journal::resume(&cut_path).unwrap_err();
            assert!(matches!(error, JournalError::NeverBegun { .. }), "{cut}: {error}");
            assert_eq!(fs::read(&cut_path).unwrap(), whole[..cut], "{cut}: the file is left as it was");
            continue;
        };
        let (journal, past) = Journal::resume(&cut_path).unwrap();
        assert_eq!(past.cut().unwrap_or(0), (cut - bytes) as u64, "{cut}");
        for (index, step) in steps.iter().enumerate() {
            let expected = (facts >= 2 * index + 2).then_some(&value);
            assert_eq!(past.result(step, 1), expected, "{cut}: {step}");
            assert_eq!(past.was_running(step, 1), facts == 2 * index + 1, "{cut}: {step}");
        }
        // It goes on where it was cut.
        journal.record(&Fact::Resumed { at: TsNs(500), definition: None });
        journal.record(&finished("new", 9, &value));
        drop(journal);
        let past = Past::read(&cut_path).unwrap();
        assert_eq!(past.cut(), None, "{cut}");
        assert_eq!(past.result("new", 9), Some(&value), "{cut}");
        assert_eq!(past.result_count(), facts / 2 + 1, "{cut}");
        assert_eq!(Summary::read(&cut_path).unwrap().steps.finished, facts as u64 / 2 + 1, "{cut}");
    }
}

/// A power failure can leave a file that is long enough and has zeros where the last bytes should be.
#[test]
fn zeros_at_the_end_are_dropped_as_a_cut_line_is() {
    let (_folder, path) = place();
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
        let (journal, past) = Journal::resume(&path).unwrap();
        assert_eq!((past.cut(), past.result_count()), (Some(zeros.len() as u64), 1));
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn damage_in_the_middle_is_said_with_its_line() {
    let (_folder, path) = place();
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
        assert_eq!(fs::read_to_string(&path).unwrap(), spoilt, "nothing is changed");
        assert_eq!(EngineError::from(error).kind, ErrorKind::InvalidRequest);
    }
}

#[test]
fn what_is_no_journal_is_not_taken_for_one() {
    let (_folder, path) = place();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for content in ["hello\nworld\n", "{\"fact\":\"started\",\"version\":\"1.0\"}\n{}\n"] {
        fs::write(&path, content).unwrap();
        assert!(matches!(Past::read(&path), Err(JournalError::Damaged { line: 1, .. })), "{content}");
    }
    let missing = Past::read(&path.with_extension("none")).unwrap_err();
    assert_eq!(EngineError::from(missing).kind, ErrorKind::NotFound);
    let folder = Past::read(path.parent().unwrap()).unwrap_err();
    assert!(folder.to_string().contains("it is not a file"), "{folder}");
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_is_read() {
    let (_folder, path) = place();
    write(&path, &[finished("a", 1, &json!(1))]);
    let whole = fs::read_to_string(&path).unwrap();
    for version in ["2.0", "10.1", "x"] {
        fs::write(&path, whole.replace("\"1.0\"", &format!("\"{version}\""))).unwrap();
        for error in [Past::read(&path).unwrap_err(), Summary::read(&path).unwrap_err()] {
            assert!(matches!(&error, JournalError::Version { found, .. } if found == version), "{error}");
            assert!(error.to_string().contains("newer nerve"), "{error}");
        }
    }
    // Another major need not have our fields.
    fs::write(&path, "{\"fact\":\"run\",\"version\":\"2.0\",\"graph\":{}}\n{\"other\":1}\n").unwrap();
    assert!(matches!(Past::read(&path), Err(JournalError::Version { .. })));
    let unknown = "{\"fact\":\"dreamt\",\"at\":\"late\",\"step\":5,\"value\":{}}\n";
    let newer =
        whole.replace("\"1.0\",", "\"1.7\",\"mood\":{\"x\":1},").replace("\"ms\":", "\"new\":[],\"ms\":");
    fs::write(&path, format!("{newer}{unknown}")).unwrap();
    let past = Past::read(&path).unwrap();
    assert_eq!((past.result("a", 1), past.cut()), (Some(&json!(1)), None));
    assert_eq!(Summary::read(&path).unwrap().steps.finished, 1);
}

#[test]
fn two_servers_never_drive_one_run() {
    let (_folder, path) = place();
    let journal = Journal::create(&path, &head()).unwrap();
    let clone = journal.clone();
    let locked = Journal::resume(&path).unwrap_err();
    assert!(matches!(locked, JournalError::Locked { .. }), "{locked}");
    assert_eq!(EngineError::from(locked).kind, ErrorKind::Busy);
    // Reading is free.
    assert_eq!(Past::read(&path).unwrap().head(), &head());
    drop(journal);
    assert!(matches!(Journal::resume(&path), Err(JournalError::Locked { .. })), "a clone still holds it");
    drop(clone);
    let (_first, _) = Journal::resume(&path).unwrap();
    assert!(matches!(Journal::resume(&path), Err(JournalError::Locked { .. })));
}

#[test]
fn a_run_is_begun_once() {
    let (_folder, path) = place();
    write(&path, &[finished("a", 1, &json!(1))]);
    let error = Journal::create(&path, &head()).unwrap_err();
    assert_eq!(EngineError::from(error).kind, ErrorKind::AlreadyExists);
    assert_eq!(Past::read(&path).unwrap().result_count(), 1);
}

#[test]
fn a_head_that_could_not_be_read_again_is_refused_before_a_file_is_made() {
    let (_folder, path) = place();
    let input = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let error = Journal::create(&path, &Head { input, ..head() }).unwrap_err();
    assert!(error.to_string().contains("the run's input: it is nested deeper"), "{error}");
    assert!(!path.exists());
}

/// Not a test of correctness: prints what a fact costs and how long a run of 10⁵ steps takes to read.
#[test]
#[ignore = "prints times; run it with --release -- --ignored --nocapture"]
fn times() {
    const STEPS: u32 = 100_000;
    let (_folder, path) = place();
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
    runtime.block_on(journal.settle()).unwrap();
    let settled = clock.elapsed();
    drop(journal);
    let clock = Instant::now();
    let summary = Summary::read(&path).unwrap();
    let summarised = clock.elapsed();
    assert_eq!(summary.steps.finished, u64::from(STEPS));
    let clock = Instant::now();
    let (_journal, past) = Journal::resume(&path).unwrap();
    let resumed = clock.elapsed();
    assert_eq!(past.result_count(), STEPS as usize);
    let clock = Instant::now();
    let digest = steps.iter().fold(0, |sum, step| sum ^ key(1, Some("none"), &json!(step)));
    let keyed = clock.elapsed();
    println!(
        "record {:?} a fact, settled after {settled:?}, {} bytes; summary {summarised:?}; resume {resumed:?}; key {:?} ({digest:x})",
        recorded / (2 * STEPS),
        fs::metadata(&path).unwrap().len(),
        keyed / STEPS,
    );
}
