//! Programs that were ready and work again, though none of our prompts made them: their keyboard is somebody else's too.

use nerve_term::driver::{AgentState, Foreground, Outcome, Refused, Source};

use crate::bench::Bench;

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
fn a_loop_of_the_shell_itself_is_work_until_its_prompt_is_back() {
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
fn a_loop_that_falls_silent_is_believed_no_longer() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    bench.feed("while :; do :; done");
    bench.foreground = Foreground::Awake;
    bench.feed("\r\n");
    bench.pass(100);
    is_busy(&bench, Source::Foreground);
    is_ready_by_silence(&mut bench, 200);
}

#[test]
fn a_glimpse_between_a_line_and_the_next_prompt_is_none() {
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
fn what_a_job_in_the_background_writes_is_not_the_shells_work() {
    let mut bench = ready("shell", Foreground::Idle, "$ ");
    writes(&mut bench, 200);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn a_repl_works_while_its_prompt_is_gone_until_it_falls_silent() {
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
    assert!(matches!(bench.submit("1+1"), Err(Refused::Line(half)) if half == "half"));
}

#[test]
fn a_thread_that_writes_behind_the_prompt_does_not_keep_a_repl_from_its_turn() {
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
fn a_thread_that_writes_on_and_on_is_not_the_repls_work() {
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
fn a_line_recalled_from_the_history_stands_at_the_prompt() {
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
fn a_job_in_the_background_that_writes_often_leaves_the_shell_ready() {
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
fn a_program_of_which_nothing_is_known_works_from_a_line_to_its_silence() {
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

#[test]
fn another_programs_foreground_outlives_its_silence() {
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
fn a_full_screen_program_draws_where_it_likes() {
    let mut bench = ready("generic", Foreground::Unknown, "\x1b[?1049h\x1b[2J~\r\n~\r\nfile");
    for row in 1..=20 {
        bench.feed(&format!("\x1b[{row};1Hrow"));
        bench.pass(30);
    }
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}
