//! Input that someone else enters into a program that was ready.

use nerve_agent::driver::{AgentState, Outcome, Source, SubmitError};
use nerve_types::Foreground;

use crate::harness::Harness;

fn ready_harness(profile: &str, foreground: Foreground, greeting: &str) -> Harness {
    let mut harness = Harness::new(profile);
    harness.foreground = foreground;
    harness.feed(greeting);
    harness.advance(3000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness
}

/// Writes lines with a short pause between them.
fn write_lines(harness: &mut Harness, lines: u32) {
    for line in 0..lines {
        harness.feed(&format!("{line}\r\n"));
        harness.advance(10);
    }
}

fn assert_busy(harness: &Harness, by: Source) {
    assert_eq!((harness.driver.state(), harness.driver.evidence().source), (&AgentState::Busy, by));
}

fn assert_ready_by_silence(harness: &mut Harness, milliseconds: u64) {
    harness.advance(milliseconds);
    let evidence = harness.driver.evidence();
    assert_eq!((harness.driver.state(), evidence.source), (&AgentState::Ready, Source::Quiet));
    assert!(evidence.text.starts_with("silent for "), "{}", evidence.text);
}

/// Enters a line without the driver.
fn enter_line(harness: &mut Harness, line: &str) {
    harness.feed(line);
    harness.feed("\r\n");
}

#[test]
fn shell_loop_is_busy_until_prompt_returns() {
    let mut harness = ready_harness("shell", Foreground::Idle, "$ ");
    harness.feed("for i in {1..9}; do echo $i; done");
    harness.foreground = Foreground::Awake;
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "unfinished input");
    harness.feed("\r\n");
    write_lines(&mut harness, 20);
    assert_busy(&harness, Source::Foreground);
    // A writer that waits for its reader sleeps briefly.
    harness.foreground = Foreground::Idle;
    write_lines(&mut harness, 20);
    assert_busy(&harness, Source::Foreground);
    harness.feed("$ ");
    harness.advance(30);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn running_shell_is_busy_though_its_line_was_never_seen() {
    let mut harness = ready_harness("shell", Foreground::Idle, "$ ");
    // The line and its first output arrive together.
    harness.feed("while :; do echo x; done\r\nx\r\nx\r\n");
    for _ in 0..30 {
        harness.foreground = Foreground::Awake;
        write_lines(&mut harness, 4);
        // It waits for its reader in between.
        harness.foreground = Foreground::Idle;
        write_lines(&mut harness, 1);
    }
    assert_busy(&harness, Source::Foreground);
    harness.feed("$ ");
    harness.advance(50);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn silent_loop_counts_as_ready() {
    let mut harness = ready_harness("shell", Foreground::Idle, "$ ");
    harness.feed("while :; do :; done");
    harness.foreground = Foreground::Awake;
    harness.feed("\r\n");
    harness.advance(100);
    assert_busy(&harness, Source::Foreground);
    assert_ready_by_silence(&mut harness, 200);
}

#[test]
fn moment_between_line_and_prompt_is_undecided() {
    let mut harness = ready_harness("shell", Foreground::Idle, "$ ");
    for _ in 0..5 {
        harness.foreground = Foreground::Awake;
        harness.feed("\r\n");
        harness.advance(15);
        harness.foreground = Foreground::Idle;
        harness.feed("$ ");
        harness.advance(500);
        assert_eq!(*harness.driver.state(), AgentState::Ready);
    }
}

#[test]
fn background_output_does_not_make_shell_busy() {
    let mut harness = ready_harness("shell", Foreground::Idle, "$ ");
    write_lines(&mut harness, 200);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn repl_is_busy_without_prompt_until_silent() {
    let mut harness = ready_harness("python", Foreground::Unknown, "Python 3\r\n>>> ");
    harness.feed("sleep(9)");
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "unfinished input");
    // After a resize the shell's line is drawn elsewhere.
    harness.feed("\x1b[2J\x1b[9;1H>>> sleep(99)");
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "continued input");
    harness.feed("\r\n>>> ");
    harness.advance(500);
    for _ in 0..5 {
        enter_line(&mut harness, "print(1)");
        write_lines(&mut harness, 20);
        harness.advance(500);
        assert_busy(&harness, Source::Screen);
        harness.feed(">>> ");
        harness.advance(50);
        assert_eq!(*harness.driver.state(), AgentState::Ready);
    }
    enter_line(&mut harness, "sleep(9)");
    harness.advance(500);
    assert_busy(&harness, Source::Screen);
    assert_ready_by_silence(&mut harness, 600);
    // Late output does not make the program busy, and the prompt is unchanged.
    write_lines(&mut harness, 20);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.feed(">>> ");
    harness.advance(500);
    harness.feed("half");
    assert!(matches!(harness.submit("1+1"), Err(SubmitError::Line(half)) if half == "half"));
}

#[test]
fn output_behind_prompt_does_not_block_repl() {
    for parts in [&["background\r\n"][..], &["background", "\r\n"]] {
        let mut harness = ready_harness("python", Foreground::Unknown, "Python 3\r\n>>> ");
        for part in parts {
            harness.feed(part);
            harness.advance(20);
        }
        harness.advance(1000);
        assert_eq!(*harness.driver.state(), AgentState::Ready);
        harness.submit("1+1").unwrap();
        harness.feed("1+1\r\n2\r\n>>> ");
        harness.advance(1000);
        assert_eq!(harness.ended.len(), 1);
        assert_eq!(harness.ended[0].outcome, Outcome::Done);
    }
}

#[test]
fn endless_thread_output_does_not_keep_repl_busy() {
    for greeting in ["Python 3\r\n>>> ", "Python 3\r\nanother> "] {
        let mut harness = Harness::new("python");
        harness.feed(greeting);
        harness.advance(3000);
        assert_eq!(*harness.driver.state(), AgentState::Ready);
        for _ in 0..50 {
            harness.feed("INFO still there\r\n");
            harness.advance(100);
            assert_eq!(*harness.driver.state(), AgentState::Ready);
        }
    }
}

#[test]
fn history_line_counts_as_unfinished_input() {
    for profile in ["shell", "generic"] {
        for foreground in [Foreground::Idle, Foreground::Unknown, Foreground::Awake] {
            let mut harness = ready_harness(profile, Foreground::Idle, "$ ");
            harness.foreground = foreground;
            for drawn in ["ec", "\r\x1b[K(reverse-i-search)`ec': echo 1", "\r\x1b[K$ echo 1"] {
                harness.feed(drawn);
                harness.advance(2000);
                assert_eq!(*harness.driver.state(), AgentState::Ready, "{profile} {drawn}");
            }
        }
    }
}

#[test]
fn frequent_background_output_leaves_shell_ready() {
    for profile in ["shell", "generic"] {
        let mut harness = ready_harness(profile, Foreground::Unknown, "$ ");
        for round in 0..60 {
            // The shell wakes now and then to handle its jobs.
            harness.foreground = if round % 3 == 0 { Foreground::Awake } else { Foreground::Unknown };
            harness.feed("job\r\n");
            harness.advance(200);
            assert_eq!(*harness.driver.state(), AgentState::Ready, "{profile}");
        }
    }
}

#[test]
fn unknown_program_is_busy_from_line_to_silence() {
    let mut harness = ready_harness("generic", Foreground::Unknown, "? ");
    harness.feed("typed");
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "an echo is not a line");
    harness.feed("\r\n");
    write_lines(&mut harness, 20);
    harness.advance(500);
    assert_busy(&harness, Source::Screen);
    assert_ready_by_silence(&mut harness, 150);
}

/// Changes the prompt and starts a job that writes more often than the quiet time.
fn start_job_and_change_prompt(profile: &str, asleep: Foreground) -> Harness {
    let mut harness = ready_harness(profile, Foreground::Idle, "~$ ");
    harness.foreground = if asleep == Foreground::Idle { Foreground::Awake } else { asleep };
    enter_line(&mut harness, "cd /tmp; job &");
    harness.feed("[1] 7\r\n");
    harness.advance(60);
    assert_eq!(*harness.driver.state(), AgentState::Busy);
    harness.foreground = asleep;
    harness.feed("/tmp$ ");
    harness
}

/// Returns how many lines the job writes until the program is ready again.
fn lines_until_ready(harness: &mut Harness, pause: u64) -> u64 {
    for lines in 0..1000 {
        if *harness.driver.state() == AgentState::Ready {
            return lines;
        }
        harness.feed("tick\r\n");
        harness.advance(pause);
    }
    panic!("never ready: {:?}", harness.driver.evidence());
}

#[test]
fn sleeping_shell_is_ready_despite_background_job() {
    let mut harness = start_job_and_change_prompt("shell", Foreground::Idle);
    let lines = lines_until_ready(&mut harness, 100);
    assert!((12..=14).contains(&lines), "five silences: {lines}");
    let evidence = harness.driver.evidence();
    assert!(evidence.text.starts_with("asleep for "), "{evidence:?}");
    assert_eq!(evidence.source, Source::Foreground);
    write_lines(&mut harness, 50);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "not ready");
    harness.submit("1").unwrap();
}

#[test]
fn awake_shell_is_busy_while_it_writes() {
    let mut harness = start_job_and_change_prompt("shell", Foreground::Awake);
    for round in 0..3000 {
        // The program may be waiting for its reader at any observation.
        harness.foreground = if round % 10 == 0 { Foreground::Awake } else { Foreground::Idle };
        harness.feed("work\r\n");
        harness.advance(100);
        assert_eq!(*harness.driver.state(), AgentState::Busy, "{round}: {:?}", harness.driver.evidence());
    }
}

#[test]
fn late_output_after_possible_prompt_is_background() {
    let mut harness = start_job_and_change_prompt("generic", Foreground::Unknown);
    let milliseconds = lines_until_ready(&mut harness, 400) * 400;
    assert!((29_600..30_800).contains(&milliseconds), "{milliseconds}");
    assert!(harness.driver.evidence().text.contains("s ago"), "{:?}", harness.driver.evidence());
    for _ in 0..20 {
        harness.feed("tick\r\n");
        harness.advance(400);
        assert_eq!(*harness.driver.state(), AgentState::Ready, "not ready");
    }
    harness.submit("1").unwrap();
}

#[test]
fn line_by_line_output_keeps_program_busy() {
    // `row: ` is none of Python's known prompts. The other program's last row is empty, which cannot be a prompt.
    for (profile, prompt, row) in [("python", ">>> ", "row: "), ("generic", "db> ", "")] {
        let mut harness = ready_harness(profile, Foreground::Unknown, prompt);
        enter_line(&mut harness, "select");
        for second in 0..200 {
            harness.feed(row);
            harness.advance(100);
            harness.feed("1\r\n");
            harness.advance(400);
            assert_eq!(
                *harness.driver.state(),
                AgentState::Busy,
                "{profile}, {second}: {:?}",
                harness.driver.evidence()
            );
        }
    }
}

#[test]
fn typed_ahead_text_is_unfinished_input() {
    let mut harness = ready_harness("python", Foreground::Unknown, "Python 3\r\n>>> ");
    enter_line(&mut harness, "sleep(9)");
    harness.advance(500);
    assert_busy(&harness, Source::Screen);
    harness.feed("fo\r\n>>> fo");
    harness.advance(50);
    assert_eq!(harness.driver.evidence().text, "the prompt is back");
    assert!(matches!(harness.submit("1+1"), Err(SubmitError::Line(half)) if half == "fo"));
    // The line is completed, and is longer than a row.
    let rest = "x".repeat(70);
    harness.feed(&rest);
    assert!(matches!(harness.submit("1+1"), Err(SubmitError::Line(half)) if half == format!("fo{rest}")));
    harness.feed("\r\n>>> ");
    harness.advance(50);
    harness.submit("1+1").unwrap();
}

#[test]
fn typed_ahead_text_is_found_after_silence() {
    for typed in ["fo".to_string(), "日本".repeat(20)] {
        let mut harness = ready_harness("shell", Foreground::Idle, "日$ ");
        harness.foreground = Foreground::Awake;
        enter_line(&mut harness, "sleep 9");
        harness.advance(60);
        assert_busy(&harness, Source::Foreground);
        harness.feed(&format!("\r\n日$ {typed}"));
        assert_ready_by_silence(&mut harness, 300);
        let refused = harness.submit("1");
        assert!(matches!(&refused, Err(SubmitError::Line(half)) if *half == typed), "{refused:?}");
    }
}

#[test]
fn silent_foreground_program_keeps_shell_busy() {
    let mut harness = ready_harness("shell", Foreground::Idle, "$ ");
    harness.feed("make");
    harness.foreground = Foreground::Awake;
    harness.feed("\r\n");
    harness.advance(50);
    assert_busy(&harness, Source::Foreground);
    harness.foreground = Foreground::Other;
    harness.observe();
    harness.advance(60_000);
    assert_busy(&harness, Source::Foreground);
}

#[test]
fn full_screen_program_is_not_foreign_input() {
    let mut harness = ready_harness("generic", Foreground::Unknown, "\x1b[?1049h\x1b[2J~\r\n~\r\nfile");
    for row in 1..=20 {
        harness.feed(&format!("\x1b[{row};1Hrow"));
        harness.advance(30);
    }
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}
