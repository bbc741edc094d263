//! Programs that were ready and work again, though none of our prompts made them: their keyboard is somebody else's too.

use nerve_term::driver::{AgentState, Foreground, Outcome, Source, SubmitError};

use crate::harness::Bench;

fn ready(profile: &str, foreground: Foreground, greeting: &str) -> Bench {
    let mut bench = Bench::new(profile);
    bench.foreground = foreground;
    bench.feed(greeting);
    bench.pass(3000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench
}

/// Lines with a short pause between them.
fn writes(bench: &mut Bench, lines: u32) {
    for line in 0..lines {
        bench.feed(&format!("{line}\r\n"));
        bench.pass(10);
    }
}

fn is_busy(bench: &Bench, by: Source) {
    assert_eq!((bench.driver.state(), bench.driver.evidence().source), (&AgentState::Busy, by));
}

fn is_ready_by_silence(bench: &mut Bench, milliseconds: u64) {
    bench.pass(milliseconds);
    let evidence = bench.driver.evidence();
    assert_eq!((bench.driver.state(), evidence.source), (&AgentState::Ready, Source::Quiet));
    assert!(evidence.text.starts_with("silent for "), "{}", evidence.text);
}

/// Somebody types a line of which we know nothing.
fn enter(bench: &mut Bench, line: &str) {
    bench.feed(line);
    bench.feed("\r\n");
}

#[test]
fn shell_loop_is_busy_until_prompt_returns() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    bench.feed("for i in {1..9}; do echo $i; done");
    bench.foreground = Foreground::Awake;
    bench.pass(500);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "somebody types");
    bench.feed("\r\n");
    writes(&mut bench, 20);
    is_busy(&bench, Source::Foreground);
    // A writer that waits for its reader sleeps for a moment.
    bench.foreground = Foreground::Idle;
    writes(&mut bench, 20);
    is_busy(&bench, Source::Foreground);
    bench.feed("$ ");
    bench.pass(30);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn silent_loop_counts_as_ready() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    bench.feed("while :; do :; done");
    bench.foreground = Foreground::Awake;
    bench.feed("\r\n");
    bench.pass(100);
    is_busy(&bench, Source::Foreground);
    is_ready_by_silence(&mut bench, 200);
}

#[test]
fn moment_between_line_and_prompt_is_undecided() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    for _ in 0..5 {
        bench.foreground = Foreground::Awake;
        bench.feed("\r\n");
        bench.pass(15);
        bench.foreground = Foreground::Idle;
        bench.feed("$ ");
        bench.pass(500);
        assert_eq!(*bench.driver.state(), AgentState::Ready);
    }
}

#[test]
fn background_output_does_not_make_shell_busy() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    writes(&mut bench, 200);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn repl_is_busy_without_prompt_until_silent() {
    let mut bench = ready("python", Foreground::Unknown, "Python 3\r\n>>> ");
    bench.feed("sleep(9)");
    bench.pass(500);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "somebody types");
    // In a window of another size the shell's line is drawn elsewhere.
    bench.feed("\x1b[2J\x1b[9;1H>>> sleep(99)");
    bench.pass(500);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "and goes on");
    bench.feed("\r\n>>> ");
    bench.pass(500);
    for _ in 0..5 {
        enter(&mut bench, "print(1)");
        writes(&mut bench, 20);
        bench.pass(500);
        is_busy(&bench, Source::Screen);
        bench.feed(">>> ");
        bench.pass(50);
        assert_eq!(*bench.driver.state(), AgentState::Ready);
    }
    enter(&mut bench, "sleep(9)");
    bench.pass(500);
    is_busy(&bench, Source::Screen);
    is_ready_by_silence(&mut bench, 600);
    // What comes late is no new departure, and the prompt is as it was.
    writes(&mut bench, 20);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.feed(">>> ");
    bench.pass(500);
    bench.feed("half");
    assert!(matches!(bench.submit("1+1"), Err(SubmitError::Line(half)) if half == "half"));
}

#[test]
fn output_behind_prompt_does_not_block_repl() {
    for parts in [&["background\r\n"][..], &["background", "\r\n"]] {
        let mut bench = ready("python", Foreground::Unknown, "Python 3\r\n>>> ");
        for part in parts {
            bench.feed(part);
            bench.pass(20);
        }
        bench.pass(1000);
        assert_eq!(*bench.driver.state(), AgentState::Ready);
        bench.submit("1+1").unwrap();
        bench.feed("1+1\r\n2\r\n>>> ");
        bench.pass(1000);
        assert_eq!(bench.ended.len(), 1);
        assert_eq!(bench.ended[0].outcome, Outcome::Done);
    }
}

#[test]
fn endless_thread_output_does_not_keep_repl_busy() {
    for greeting in ["Python 3\r\n>>> ", "Python 3\r\nanother> "] {
        let mut bench = Bench::new("python");
        bench.feed(greeting);
        bench.pass(3000);
        assert_eq!(*bench.driver.state(), AgentState::Ready);
        for _ in 0..50 {
            bench.feed("INFO still there\r\n");
            bench.pass(100);
            assert_eq!(*bench.driver.state(), AgentState::Ready);
        }
    }
}

#[test]
fn history_line_counts_as_unfinished_input() {
    for profile in ["shell", "generic"] {
        for foreground in [Foreground::Idle, Foreground::Unknown, Foreground::Awake] {
            let mut bench = ready(profile, Foreground::Idle, "$ ");
            bench.foreground = foreground;
            for drawn in ["ec", "\r\x1b[K(reverse-i-search)`ec': echo 1", "\r\x1b[K$ echo 1"] {
                bench.feed(drawn);
                bench.pass(2000);
                assert_eq!(*bench.driver.state(), AgentState::Ready, "{profile} {drawn}");
            }
        }
    }
}

#[test]
fn frequent_background_output_leaves_shell_ready() {
    for profile in ["shell", "generic"] {
        let mut bench = ready(profile, Foreground::Unknown, "$ ");
        for round in 0..60 {
            // The shell is seen awake now and then: its jobs tell it of themselves.
            bench.foreground = if round % 3 == 0 { Foreground::Awake } else { Foreground::Unknown };
            bench.feed("job\r\n");
            bench.pass(200);
            assert_eq!(*bench.driver.state(), AgentState::Ready, "{profile}");
        }
    }
}

#[test]
fn unknown_program_is_busy_from_line_to_silence() {
    let mut bench = ready("generic", Foreground::Unknown, "? ");
    bench.feed("typed");
    bench.pass(500);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "an echo is no line");
    bench.feed("\r\n");
    writes(&mut bench, 20);
    bench.pass(500);
    is_busy(&bench, Source::Screen);
    is_ready_by_silence(&mut bench, 150);
}

/// Somebody changes the prompt and starts a job that writes more often than the program would fall silent.
fn with_a_job_at_another_prompt(profile: &str, asleep: Foreground) -> Bench {
    let mut bench = ready(profile, Foreground::Idle, "~$ ");
    bench.foreground = if asleep == Foreground::Idle { Foreground::Awake } else { asleep };
    enter(&mut bench, "cd /tmp; job &");
    bench.feed("[1] 7\r\n");
    bench.pass(60);
    assert_eq!(*bench.driver.state(), AgentState::Busy);
    bench.foreground = asleep;
    bench.feed("/tmp$ ");
    bench
}

/// How many of the job's lines come until the program is ready again.
fn lines_until_ready(bench: &mut Bench, pause: u64) -> u64 {
    for lines in 0..1000 {
        if *bench.driver.state() == AgentState::Ready {
            return lines;
        }
        bench.feed("tick\r\n");
        bench.pass(pause);
    }
    panic!("it is busy for ever: {:?}", bench.driver.evidence());
}

#[test]
fn sleeping_shell_is_ready_despite_background_job() {
    let mut bench = with_a_job_at_another_prompt("shell", Foreground::Idle);
    let lines = lines_until_ready(&mut bench, 100);
    assert!((12..=14).contains(&lines), "five silences: {lines}");
    let evidence = bench.driver.evidence();
    assert!(evidence.text.starts_with("asleep for "), "{evidence:?}");
    assert_eq!(evidence.source, Source::Foreground);
    writes(&mut bench, 50);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "and stays so");
    bench.submit("1").unwrap();
}

#[test]
fn awake_shell_is_busy_while_it_writes() {
    let mut bench = with_a_job_at_another_prompt("shell", Foreground::Awake);
    for round in 0..3000 {
        // It may wait for its reader at any look.
        bench.foreground = if round % 10 == 0 { Foreground::Awake } else { Foreground::Idle };
        bench.feed("work\r\n");
        bench.pass(100);
        assert_eq!(*bench.driver.state(), AgentState::Busy, "{round}: {:?}", bench.driver.evidence());
    }
}

#[test]
fn late_output_after_possible_prompt_is_background() {
    let mut bench = with_a_job_at_another_prompt("generic", Foreground::Unknown);
    let milliseconds = lines_until_ready(&mut bench, 400) * 400;
    assert!((29_600..30_800).contains(&milliseconds), "{milliseconds}");
    assert!(bench.driver.evidence().text.contains("s ago"), "{:?}", bench.driver.evidence());
    for _ in 0..20 {
        bench.feed("tick\r\n");
        bench.pass(400);
        assert_eq!(*bench.driver.state(), AgentState::Ready, "and stays so");
    }
    bench.submit("1").unwrap();
}

#[test]
fn line_by_line_output_keeps_program_busy() {
    // Its prompts are known, so what is drawn meanwhile is none; or nothing was there that could be one.
    for (profile, prompt, row) in [("python", ">>> ", "row: "), ("generic", "db> ", "")] {
        let mut bench = ready(profile, Foreground::Unknown, prompt);
        enter(&mut bench, "select");
        for second in 0..200 {
            bench.feed(row);
            bench.pass(100);
            bench.feed("1\r\n");
            bench.pass(400);
            assert_eq!(
                *bench.driver.state(),
                AgentState::Busy,
                "{profile}, {second}: {:?}",
                bench.driver.evidence()
            );
        }
    }
}

#[test]
fn typed_ahead_text_is_unfinished_input() {
    let mut bench = ready("python", Foreground::Unknown, "Python 3\r\n>>> ");
    enter(&mut bench, "sleep(9)");
    bench.pass(500);
    is_busy(&bench, Source::Screen);
    bench.feed("fo\r\n>>> fo");
    bench.pass(50);
    assert_eq!(bench.driver.evidence().text, "the prompt is back");
    assert!(matches!(bench.submit("1+1"), Err(SubmitError::Line(half)) if half == "fo"));
    // It is finished, and longer than a row of the window.
    let rest = "x".repeat(70);
    bench.feed(&rest);
    assert!(matches!(bench.submit("1+1"), Err(SubmitError::Line(half)) if half == format!("fo{rest}")));
    bench.feed("\r\n>>> ");
    bench.pass(50);
    bench.submit("1+1").unwrap();
}

#[test]
fn typed_ahead_text_is_found_after_silence() {
    for typed in ["fo".to_string(), "日本".repeat(20)] {
        let mut bench = ready("shell", Foreground::Idle, "日$ ");
        bench.foreground = Foreground::Awake;
        enter(&mut bench, "sleep 9");
        bench.pass(60);
        is_busy(&bench, Source::Foreground);
        bench.feed(&format!("\r\n日$ {typed}"));
        is_ready_by_silence(&mut bench, 300);
        let refused = bench.submit("1");
        assert!(matches!(&refused, Err(SubmitError::Line(half)) if *half == typed), "{refused:?}");
    }
}

#[test]
fn silent_foreground_program_keeps_shell_busy() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    bench.feed("make");
    bench.foreground = Foreground::Awake;
    bench.feed("\r\n");
    bench.pass(50);
    is_busy(&bench, Source::Foreground);
    bench.foreground = Foreground::Other;
    bench.look();
    bench.pass(60_000);
    is_busy(&bench, Source::Foreground);
}

#[test]
fn full_screen_program_is_not_foreign_input() {
    let mut bench = ready("generic", Foreground::Unknown, "\x1b[?1049h\x1b[2J~\r\n~\r\nfile");
    for row in 1..=20 {
        bench.feed(&format!("\x1b[{row};1Hrow"));
        bench.pass(30);
    }
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}
