//! One behaviour per test, on hand-made terminals and simulated time.

use std::time::Duration;

use nerve_agent::driver::{AgentState, Delivery, Hook, Outcome, Overwrite, Source, SubmitError};
use nerve_agent::profile::BlockKind;
use nerve_types::ExitStatus;
use nerve_types::Foreground;

use crate::harness::{Harness, RULE};

/// Returns Claude Code with hooks, working on the prompt `hello`.
fn working_claude() -> Harness {
    let mut harness = Harness::ready_claude();
    harness.driver.on_hook(harness.now, Hook::SessionStarted);
    harness.type_prompt("hello");
    harness.advance(10);
    harness.driver.on_hook(harness.now, Hook::PromptSubmitted(Some("p1".into())));
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness
}

#[test]
fn composer_is_ready_only_when_stable() {
    let mut harness = Harness::new("claude");
    harness.composer("", "", "? for shortcuts");
    assert_eq!(*harness.driver.state(), AgentState::Starting);
    harness.advance(149);
    assert_eq!(*harness.driver.state(), AgentState::Starting);
    harness.advance(1);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    assert_eq!(harness.driver.evidence().source, Source::Screen);
}

#[test]
fn enter_waits_for_echo() {
    let mut harness = Harness::ready_claude();
    harness.submit("hello").unwrap();
    assert_eq!(harness.take_written(), "\x1b[200~hello\x1b[201~");
    harness.advance(5000);
    assert_eq!(harness.take_written(), "", "nothing is sent while the composer does not show the text");
    harness.composer("", "hello", "");
    assert_eq!(harness.take_written(), "\r");
}

#[test]
fn prompt_without_echo_is_not_delivered() {
    let mut harness = Harness::ready_claude();
    harness.submit("hello").unwrap();
    harness.advance(10_000);
    assert_eq!(harness.ended[0].outcome, Outcome::NotDelivered);
    assert_eq!(harness.ended[0].delivery, Delivery::Typed);
}

#[test]
fn ignored_enter_is_repeated() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.take_written();
    harness.advance(800);
    assert_eq!(harness.take_written(), "\r", "the text is still in the composer");
    harness.feed("\x1b]0;◐ Claude Code\x07");
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness.advance(5000);
    assert_eq!(harness.take_written(), "", "no Enter once the text is gone");
    assert_eq!(harness.driver.turn(), Some((1, Delivery::Started)));
}

#[test]
fn enter_without_effect_is_reported() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    // The time limit after the last Enter equals that of the echo: a stopped agent may still read the key.
    harness.advance(3 * 800 + 9_999);
    assert_eq!(harness.take_written().matches('\r').count(), 4);
    assert!(harness.ended.is_empty());
    harness.advance(1);
    assert_eq!(harness.ended[0].outcome, Outcome::NotDelivered);
}

#[test]
fn interrupt_ends_wait_after_last_enter() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.advance(3 * 800 + 1000);
    assert_eq!(harness.take_written().matches('\r').count(), 4);
    assert!(harness.ended.is_empty());
    harness.driver.interrupt(harness.now, 0);
    harness.advance(800);
    assert_eq!(harness.take_written(), "\x1b", "no Enter after the interrupt");
    assert_eq!(harness.ended[0].outcome, Outcome::Interrupted);
}

#[test]
fn turn_ends_when_screen_and_title_agree() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.feed("\x1b]0;◐ Claude Code\x07");
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    harness.advance(10_000);
    assert!(harness.ended.is_empty(), "the title is still busy");
    harness.feed("\x1b]0;✳ Claude Code\x07");
    harness.advance(39);
    assert!(harness.ended.is_empty());
    harness.advance(1);
    assert_eq!(harness.ended[0].outcome, Outcome::Done);
}

#[test]
fn busy_title_between_observations_counts_as_started() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.feed("\x1b]0;◐ Claude Code\x07\x1b]0;✳ Claude Code\x07");
    harness.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    harness.advance(100);
    assert_eq!(harness.ended[0].delivery, Delivery::Started);
}

#[test]
fn turn_without_work_ends_after_longer_silence() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("/help");
    harness.composer("❯ /help\n  Some help\n", "", "? for shortcuts");
    harness.advance(2000);
    assert!(harness.ended.is_empty());
    harness.advance(1000);
    assert_eq!((harness.ended[0].outcome, harness.ended[0].delivery), (Outcome::Done, Delivery::Submitted));
    assert!(harness.ended[0].evidence.contains("no work was seen"));
}

#[test]
fn prompt_back_in_the_composer_was_not_delivered() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.composer("", "", "esc to interrupt");
    harness.composer("", "hello", "? for shortcuts");
    harness.advance(10_000);
    let end = &harness.ended[0];
    assert_eq!(end.outcome, Outcome::NotDelivered, "{end:?}");
    assert_eq!(harness.driver.unsent_prompt(), Some("hello"));
}

#[test]
fn quoted_markers_do_not_change_state() {
    let mut harness = Harness::ready_claude();
    let quote = format!(
        "● You will see:\n  ❯ 1. Yes\n  Do you want to proceed?\n  esc to interrupt\n  {RULE}\n  Esc to cancel\n"
    );
    harness.composer(&quote, "", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn permission_dialog_blocks_and_is_answered() {
    let mut harness = Harness::ready_claude();
    let dialog = |selected: usize| {
        let mark = |at: usize| if at == selected { "❯" } else { " " };
        format!(
            "\x1b[H\x1b[2J● Bash(ls)\r\n{RULE}\r\n Bash command\r\n Do you want to proceed?\r\n {} 1. Yes\r\n {} 2. Yes, and always\r\n {} 3. No\r\n\r\n Esc to cancel · Tab to amend\x1b[5;2H",
            mark(0),
            mark(1),
            mark(2)
        )
    };
    harness.feed(&dialog(0));
    assert_eq!(harness.submit("hello"), Err(SubmitError::NotReady), "a dialog that is being drawn");
    harness.advance(40);
    let choices = vec!["Yes".to_string(), "Yes, and always".to_string(), "No".to_string()];
    assert_eq!(harness.take_blocked_count(), 1);
    assert_eq!(
        *harness.driver.state(),
        AgentState::Blocked { kind: BlockKind::Permission, choices: choices.clone() }
    );
    assert_eq!(harness.submit("hello"), Err(SubmitError::NotReady));
    assert!(harness.driver.answer(harness.now, &choices, Some(2)));
    harness.effects();
    assert_eq!(harness.take_written(), "\x1b[B");
    harness.advance(600);
    assert_eq!(harness.take_written(), "\x1b[B", "the key was ignored");
    harness.feed(&dialog(1));
    assert_eq!(harness.take_written(), "\x1b[B", "one choice further down");
    harness.feed(&dialog(2));
    // The repeated key may have been late instead of ignored.
    harness.advance(1500);
    assert_eq!(harness.take_written(), "\r");
    harness.feed(&dialog(0).replace("(ls)", "(rm)").replace("Bash command", "Another command"));
    harness.advance(5000);
    assert_eq!(harness.take_written(), "", "the answer is not for the next dialog");
    assert_eq!(harness.take_answers(), [true]);
    assert_eq!(
        harness.take_blocked_count(),
        1,
        "the next dialog is reported although its choices are the same"
    );
    harness.feed(&dialog(0));
    let other = vec!["Yes".to_string(), "No".to_string()];
    assert!(
        !harness.driver.answer(harness.now, &other, Some(1)),
        "a dialog that is not shown is not answered"
    );
}

#[test]
fn foreign_draft_is_kept_and_own_draft_is_cleared() {
    let mut harness = Harness::ready_claude();
    harness.composer("", "a thought of my own", "");
    harness.advance(1000);
    assert_eq!(harness.submit("hello"), Err(SubmitError::Draft("a thought of my own".into())));
    assert_eq!(harness.take_written(), "");
    // Escape before the first byte returns our prompt to the composer.
    harness.composer("", "", "? for shortcuts");
    harness.type_prompt("slow one");
    harness.composer("", "", "esc to interrupt");
    harness.driver.interrupt(harness.now, harness.terminal.cursor_line().0);
    harness.composer("", "slow one", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(harness.ended[0].outcome, Outcome::Interrupted);
    harness.take_written();
    harness.submit("next").unwrap();
    assert_eq!(harness.take_written(), "\x15");
    // On a busy machine it takes a while.
    harness.advance(9000);
    harness.composer("", "", "");
    assert_eq!(harness.take_written(), "\x1b[200~next\x1b[201~");
    harness.composer("", "next", "");
    harness.take_written();
    harness.composer("", "", "esc to interrupt");
    harness.driver.interrupt(harness.now, harness.terminal.cursor_line().0);
    harness.composer("", "next", "? for shortcuts");
    harness.advance(1000);
    harness.submit("another").unwrap();
    harness.advance(10_000);
    assert_eq!(harness.ended.last().unwrap().outcome, Outcome::NotDelivered, "the draft stays");
}

#[test]
fn silent_start_is_checked_less_and_less_often() {
    let mut harness = Harness::new("shell");
    harness.foreground = Foreground::Awake;
    harness.observe();
    let (mut observations, mut last) = (0, harness.now);
    while harness.now.0 < 60_000_000_000 {
        (last, harness.now) = (harness.now, harness.driver.deadline().unwrap());
        harness.observe();
        observations += 1;
    }
    assert_eq!(*harness.driver.state(), AgentState::Starting);
    assert!(observations < 80, "{observations}");
    assert!(harness.now.since(last) <= Duration::from_secs(1));
    // Output shortens the interval again.
    harness.feed("x");
    assert!(harness.driver.deadline().unwrap().since(harness.now) < Duration::from_millis(200));
}

#[test]
fn shell_turn_ends_at_its_marks() {
    let mut harness = Harness::ready_shell();
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.submit("printf x").unwrap();
    assert_eq!(harness.take_written(), "printf x\r");
    assert_eq!(*harness.driver.state(), AgentState::Busy, "the prompt on the screen is an old one");
    harness.feed("printf x\r\n\x1b]133;C\x07x\x1b]133;D;0\x07");
    assert!(harness.ended.is_empty());
    harness.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    let end = &harness.ended[0];
    assert_eq!((end.outcome, end.delivery, end.exit_code), (Outcome::Done, Delivery::Started, Some(0)));
    assert_eq!((end.span.lines.clone(), end.span.last_col), (1..2, Some(1)));
}

/// Runs a command in a shell. `done` is written between its output and the prompt.
fn overwrite_of(output: &str, done: &str) -> Option<Overwrite> {
    let mut harness = Harness::new("shell");
    harness.foreground = Foreground::Idle;
    let (begin, ready) = if done.is_empty() { ("", "$ ") } else { ("\x1b]133;C\x07", "$ \x1b]133;B\x07") };
    harness.feed(&format!("{done}{ready}"));
    harness.advance(1000);
    harness.submit("x").unwrap();
    harness.feed(&format!("x\r\n{begin}{output}{done}{ready}"));
    harness.advance(5000);
    assert_eq!(harness.ended.len(), 1, "{output:?} {:?}", harness.driver.evidence());
    harness.ended[0].overwrite
}

#[test]
fn text_under_the_prompt_is_lost() {
    for done in ["", "\x1b]133;D;0\x07\x1b]133;A\x07"] {
        for covered in ["abc\r", "1\r\nabc\r", "abc\x08\x08\x08"] {
            assert_eq!(overwrite_of(covered, done), Some(Overwrite::LastRow), "{covered:?} {done:?}");
        }
        for whole in ["abc\r\n", "10%\r100%\r\n", "10%\r\x1b[K", "10%\r   \r"] {
            assert_eq!(overwrite_of(whole, done), None, "{whole:?} {done:?}");
        }
    }
    let marks = "\x1b]133;D;0\x07\x1b]133;A\x07";
    assert_eq!(overwrite_of("abcdef\rxy", marks), Some(Overwrite::LastRow));
    assert_eq!(overwrite_of("10%\r100%", marks), None);
}

#[test]
fn output_without_line_end_precedes_the_prompt() {
    for (profile, prompt) in [("shell", "$ "), ("generic", "me: "), ("python", ">>> ")] {
        let mut harness = line_based(profile, prompt);
        let turn = |harness: &mut Harness, output: &str| {
            harness.submit("x").unwrap();
            harness.feed(&format!("x\r\n{output}{prompt}"));
            harness.advance(5000);
            let end =
                harness.ended.pop().unwrap_or_else(|| panic!("{profile}: {:?}", harness.driver.evidence()));
            (end.span.lines, end.span.last_col, end.overwrite)
        };
        assert_eq!(turn(&mut harness, "1\r\nabc"), (1..3, Some(3), None), "{profile}");
        assert_eq!(turn(&mut harness, "2\r\n"), (3..4, None, None), "{profile}");
        assert_eq!(turn(&mut harness, "abc"), (5..6, Some(3), None), "{profile}");
        // The prompt may have changed.
        let lost = (profile != "python").then_some(Overwrite::AmbiguousRow);
        assert_eq!(turn(&mut harness, "abc"), (6..7, Some(3), lost), "{profile}");
        assert_eq!(turn(&mut harness, "3\r\n"), (7..8, None, None), "{profile}");
    }
}

#[test]
fn changed_prompt_of_a_shell_is_no_output() {
    for has_fresh_lines in [true, false] {
        let mut harness = Harness::new("shell");
        if has_fresh_lines {
            harness.driver = harness.driver.with_fresh_lines();
        }
        harness.foreground = Foreground::Idle;
        harness.feed("~ % ");
        harness.advance(2000);
        harness.submit("cd /tmp").unwrap();
        harness.feed("cd /tmp\r\n/tmp % ");
        harness.advance(5000);
        let end = harness.ended.pop().unwrap();
        let (end_line, lost) = if has_fresh_lines { (1, None) } else { (2, Some(Overwrite::AmbiguousRow)) };
        assert_eq!((end.span.lines, end.overwrite), (1..end_line, lost), "{has_fresh_lines}");
        harness.submit("echo one").unwrap();
        harness.feed("echo one\r\none\r\n/tmp % ");
        harness.advance(5000);
        let end = harness.ended.pop().unwrap();
        assert_eq!((end.span.lines, end.overwrite), (2..3, None), "{has_fresh_lines}");
    }
}

#[test]
fn prompt_for_the_rest_of_a_line_blocks() {
    for (profile, prompt, rest) in [
        ("generic", "sqlite> ", "   ...> "),
        ("shell", "$ ", "> "),
        ("generic", "> ", "... "),
        ("shell", "me>", "> "),
    ] {
        let mut harness = line_based(profile, prompt);
        harness.submit("select 'x").unwrap();
        harness.feed(&format!("select 'x\r\n{rest}"));
        harness.advance(5000);
        let state = harness.driver.state();
        assert!(matches!(state, AgentState::Blocked { kind: BlockKind::Other, .. }), "{rest:?} {state:?}");
        assert!(harness.ended.is_empty(), "{rest:?}");
        harness.feed(&format!("';\r\nx\r\n{prompt}"));
        harness.advance(5000);
        assert_eq!(harness.ended.len(), 1, "{rest:?}");
        assert_eq!(*harness.driver.state(), AgentState::Ready, "{rest:?}");
    }
}

#[test]
fn short_prompt_behind_output_is_no_proof() {
    for prompt in ["> ", ": "] {
        let mut harness = line_based("generic", prompt);
        harness.submit("connect").unwrap();
        harness.feed(&format!("connect\r\nconnecting -{prompt}"));
        harness.advance(10_000);
        assert!(harness.ended.is_empty(), "{prompt:?} {:?}", harness.driver.evidence());
        harness.feed(&format!("ok\r\n{prompt}"));
        harness.advance(5000);
        let end = harness.ended.pop().unwrap();
        assert_eq!((end.outcome, end.span.lines, end.overwrite), (Outcome::Done, 1..2, None), "{prompt:?}");
        harness.submit("connect").unwrap();
        harness.feed(&format!("connect\r\nconnecting -{prompt}"));
        harness.advance(60_000);
        let end = harness.ended.pop().unwrap();
        assert_eq!((end.span.lines, end.overwrite), (3..4, Some(Overwrite::AmbiguousRow)), "{prompt:?}");
    }
}

#[test]
fn end_of_the_prompt_may_ask_for_the_rest_of_a_line() {
    for profile in ["shell", "generic"] {
        let mut harness = line_based(profile, "me> ");
        for unfinished in ["echo 'a", "b"] {
            harness.submit(unfinished).unwrap();
            harness.feed(&format!("{unfinished}\r\n> "));
            harness.advance(60_000);
            let end = harness.ended.pop().unwrap();
            assert_eq!(end.overwrite, Some(Overwrite::AmbiguousRow), "{profile} {unfinished}");
        }
        harness.submit("c'").unwrap();
        harness.feed("c'\r\na\r\nb\r\nc\r\nme> ");
        harness.advance(5000);
        let end = harness.ended.pop().unwrap();
        assert_eq!((end.span.lines, end.overwrite), (3..6, None), "{profile}");
    }
}

/// Returns zsh after it has drawn its first prompt.
fn ready_zsh(prompt: &str) -> Harness {
    let mut harness = line_based("shell", prompt);
    harness.driver = harness.driver.with_fresh_lines();
    harness
}

#[test]
fn row_of_a_waiting_zsh_is_no_prompt() {
    // zsh brackets pastes while it reads a line.
    let (on, off) = ("\x1b[?2004h", "\x1b[?2004l");
    let lost = Some(Overwrite::AmbiguousRow);
    for (on, off, output, end_line, overwrite) in [
        (on, off, "working", 2, lost),
        (on, off, "", 2, lost),
        (on, off, "50% ", 2, lost),
        (on, off, "one\r\nother# ", 3, lost),
        (on, off, "~ ❯ \x1b[?2004h", 1, None),
        ("", "", "working", 2, lost),
        ("", "", "", 2, lost),
        ("", "", "other# ", 1, None),
    ] {
        let mut harness = ready_zsh(&format!("vm# {on}"));
        harness.submit("x").unwrap();
        harness.feed(&format!("x{off}\r\n{output}"));
        harness.advance(5000);
        let end = harness.ended.pop().unwrap();
        assert_eq!((end.span.lines, end.overwrite), (1..end_line, overwrite), "{on:?} {output:?}");
    }
}

#[test]
fn zsh_that_asks_for_the_rest_of_a_line_blocks() {
    for rest in ["quote> ", "for then> ", "> "] {
        let mut harness = ready_zsh("vm# \x1b[?2004h");
        harness.submit("echo 'a").unwrap();
        harness.feed(&format!("echo 'a\x1b[?2004l\r\n{rest}\x1b[?2004h"));
        harness.advance(5000);
        let state = harness.driver.state();
        assert!(matches!(state, AgentState::Blocked { kind: BlockKind::Other, .. }), "{rest:?} {state:?}");
        harness.feed("b'\x1b[?2004l\r\na\r\nb\r\nvm# \x1b[?2004h");
        harness.advance(5000);
        assert_eq!(harness.ended.len(), 1, "{rest:?}");
        assert_eq!(*harness.driver.state(), AgentState::Ready, "{rest:?}");
    }
}

#[test]
fn printed_marks_do_not_end_turn() {
    let mut harness = Harness::ready_shell();
    harness.submit("cat marks").unwrap();
    harness.foreground = Foreground::Other;
    harness.feed("cat marks\r\n\x1b]133;C\x07\x1b]133;D;0\x07\x1b]133;A\x07$ \x1b]133;B\x07");
    harness.advance(5000);
    assert!(harness.ended.is_empty(), "cat still owns the terminal");
}

#[test]
fn repl_is_recognised_by_its_prompt() {
    let mut harness = Harness::new("python");
    harness.feed("Python 3\r\n>>> ");
    harness.advance(100);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.submit("print('>>> ')").unwrap();
    harness.feed("print('>>> ')\r\n");
    harness.advance(50);
    assert!(harness.ended.is_empty());
    harness.feed(">>> \r\n>>> ");
    harness.advance(50);
    assert_eq!(harness.ended.len(), 1);
    assert_eq!(harness.ended[0].span.lines.start, 2);
}

#[test]
fn slow_start_of_a_repl_is_not_its_prompt() {
    let mut harness = Harness::new("python");
    harness.observe();
    harness.advance(20_000);
    assert_eq!(*harness.driver.state(), AgentState::Starting, "it is still being loaded");
    harness.feed("Python 3\r\n");
    harness.advance(3000);
    assert_eq!(*harness.driver.state(), AgentState::Starting, "only the greeting is drawn");
    harness.feed(">>> ");
    harness.advance(100);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    // With another prompt.
    let mut harness = Harness::new("python");
    harness.feed("Python 3\r\npy: ");
    harness.advance(10_000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn unknown_program_is_recognised_by_learned_prompt() {
    let mut harness = Harness::new("generic");
    harness.feed("welcome\r\nme: ");
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.submit("x").unwrap();
    harness.feed("x\r\nworking at 100%");
    harness.advance(500);
    assert!(harness.ended.is_empty(), "a line ending in % is not a prompt");
    harness.feed("\r\ndone\r\nme: ");
    harness.advance(60);
    assert_eq!(harness.ended.len(), 1, "its own prompt counts at once");
}

#[test]
fn exit_ends_turn() {
    let mut harness = Harness::ready_claude();
    harness.submit("hello").unwrap();
    harness.driver.on_exit(harness.now, ExitStatus::Code(70));
    harness.effects();
    assert_eq!(harness.ended[0].outcome, Outcome::Exited(ExitStatus::Code(70)));
    assert_eq!(*harness.driver.state(), AgentState::Exited(ExitStatus::Code(70)));
    assert_eq!(harness.submit("more"), Err(SubmitError::NotReady));
}

#[test]
fn empty_and_concurrent_prompts_are_rejected() {
    let mut harness = Harness::ready_claude();
    assert_eq!(harness.submit(""), Err(SubmitError::Empty));
    harness.submit("one").unwrap();
    assert_eq!(harness.submit("two"), Err(SubmitError::Busy));
}

#[test]
fn lost_interrupt_is_repeated_only_while_busy() {
    let mut harness = Harness::ready_shell();
    harness.submit("sleep 30").unwrap();
    harness.feed("sleep 30\r\n\x1b]133;C\x07");
    harness.take_written();
    harness.driver.interrupt(harness.now, 1);
    harness.foreground = Foreground::Other;
    harness.effects();
    assert_eq!(harness.take_written(), "\x03");
    harness.advance(700);
    assert_eq!(harness.take_written(), "\x03");
    harness.foreground = Foreground::Idle;
    harness.feed("^C\r\n\x1b]133;D;130\x07\x1b]133;A\x07$ \x1b]133;B\x07");
    harness.advance(5000);
    assert_eq!(harness.take_written(), "");
    assert_eq!(harness.ended[0].outcome, Outcome::Interrupted);
}

#[test]
fn stop_hook_ends_turn_without_delay() {
    let mut harness = working_claude();
    harness.advance(1000);
    harness.driver.on_hook(harness.now, Hook::Stopped(Some("p0".into())));
    harness.observe();
    harness.driver.on_hook(harness.now, Hook::Stopped(Some("p1".into())));
    harness.observe();
    assert!(harness.ended.is_empty(), "the screen is still busy");
    harness.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    assert_eq!((harness.ended[0].outcome, harness.ended[0].delivery), (Outcome::Done, Delivery::Started));
    assert!(harness.ended[0].evidence.starts_with("hook:"), "{}", harness.ended[0].evidence);
}

#[test]
fn ready_screen_waits_for_stop_hook_with_limit() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.advance(10);
    harness.driver.on_hook(harness.now, Hook::PromptSubmitted(None));
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness.advance(10);
    harness.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    harness.advance(29_900);
    assert!(harness.ended.is_empty());
    harness.advance(200);
    assert_eq!(harness.ended.len(), 1);
    assert_eq!(harness.ended[0].outcome, Outcome::Unconfirmed, "{}", harness.ended[0].evidence);
}

#[test]
fn drawn_end_of_answer_shortens_wait_for_stop_hook() {
    for end in ["✻ Worked for 1s", "  ⎿  Interrupted · What should Claude do instead?", "● API Error: 400 no"]
    {
        let mut harness = Harness::ready_claude();
        harness.type_prompt("hello");
        harness.advance(10);
        harness.driver.on_hook(harness.now, Hook::PromptSubmitted(None));
        harness.composer("❯ hello\n", "", "esc to interrupt");
        harness.composer(&format!("❯ hello\n\n● Hi.\n\n{end}\n"), "", "? for shortcuts");
        harness.advance(150);
        assert!(harness.ended.is_empty(), "{end}");
        harness.advance(60);
        assert_eq!(harness.ended.len(), 1, "{end}");
        assert_eq!(harness.ended[0].outcome, Outcome::Done, "{end}");
    }
}

#[test]
fn idle_title_before_permission_dialog_does_not_end_turn() {
    let mut harness = Harness::ready_claude();
    harness.driver.on_hook(harness.now, Hook::SessionStarted);
    harness.type_prompt("hello");
    harness.advance(10);
    harness.driver.on_hook(harness.now, Hook::PromptSubmitted(Some("p1".into())));
    harness.feed("\x1b]0;◐ Claude Code\x07");
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness.feed("\x1b]0;✳ Claude Code\x07");
    harness.composer("❯ hello\n\n● Bash(ls)\n  ⎿  Waiting for permission…\n", "", "? for shortcuts");
    harness.advance(5000);
    assert!(harness.ended.is_empty());
    harness.feed(&format!(
        "\x1b[H\x1b[2J● Bash(ls)\r\n{RULE}\r\n Bash command\r\n Do you want to proceed?\r\n ❯ 1. Yes\r\n   2. No\r\n\r\n Esc to cancel\x1b[5;2H"
    ));
    harness.advance(100);
    assert!(matches!(harness.driver.state(), AgentState::Blocked { kind: BlockKind::Permission, .. }));
    assert!(harness.ended.is_empty());
}

#[test]
fn spinner_that_offers_interrupt_is_busy() {
    for spinner in
        ["✶ Bloviating… (esc to interrupt · 3s · ↓ 83 tokens)", "✻ Pondering… (ctrl+c to interrupt)"]
    {
        let mut harness = Harness::ready_claude();
        let tasks = (1..9).map(|n| format!("     ☐ task {n}\n")).collect::<String>();
        harness.composer(&format!("> go\n\n{spinner}\n  ⎿  ☐ task 0\n{tasks}"), "", "? for shortcuts");
        harness.advance(5000);
        assert_eq!(*harness.driver.state(), AgentState::Busy, "{spinner}");
        harness.composer(&format!("{spinner}\n\n● It says: {spinner}\n"), "", "? for shortcuts");
        harness.advance(5000);
        assert_eq!(*harness.driver.state(), AgentState::Ready, "an old row");
    }
}

#[test]
fn prompt_that_returns_to_composer_is_not_delivered() {
    let mut harness = Harness::ready_claude();
    let prompt = "/ is how this starts";
    harness.type_prompt(prompt);
    harness.composer("", "", "? for shortcuts");
    harness.composer("", prompt, "? for shortcuts");
    harness.advance(10_000);
    assert_eq!(harness.ended[0].outcome, Outcome::NotDelivered);
    assert!(harness.ended[0].evidence.contains("in the composer"), "{}", harness.ended[0].evidence);
}

#[test]
fn prompt_returned_by_foreign_escape_is_not_delivered() {
    let mut harness = working_claude();
    harness.composer("", "hello", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(harness.ended[0].outcome, Outcome::NotDelivered);
    assert_eq!(harness.driver.unsent_prompt(), Some("hello"));
}

#[test]
fn dropped_command_is_not_delivered() {
    for (above, outcome) in
        [("", Outcome::NotDelivered), ("❯ / is how\n  ⎿  Unknown command\n", Outcome::Done)]
    {
        let mut harness = Harness::ready_claude();
        harness.type_prompt("/ is how");
        harness.composer(above, "", "? for shortcuts");
        harness.advance(10_000);
        assert_eq!(harness.ended[0].outcome, outcome, "{above:?}");
    }
}

fn draw_codex(harness: &mut Harness, composer: &str, footer: &str) {
    harness.feed(&format!("\x1b[H\x1b[2J\x1b[?2004h\r\n{composer}\x1b7\r\n\r\n  {footer}\x1b8"));
}

/// Returns Codex with an empty composer.
fn ready_codex() -> Harness {
    let mut harness = Harness::new("codex");
    draw_codex(&mut harness, "› Ask Codex to do anything\x1b[3G", "? for shortcuts");
    harness.advance(1000);
    harness
}

#[test]
fn codex_is_starting_until_its_startup_is_over() {
    let mut harness = Harness::new("codex");
    draw_codex(&mut harness, "› Ask Codex to do anything\x1b[3G", "fake-model · /srv  Waiting for startup");
    harness.advance(10_000);
    assert_eq!(*harness.driver.state(), AgentState::Starting);
    assert_eq!(harness.submit("hello"), Err(SubmitError::NotReady));
    draw_codex(&mut harness, "› Ask Codex to do anything\x1b[3G", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

const BACKFILL_NOTICE: &str = "state db backfill is running at /srv/.codex";

#[test]
fn notice_in_composer_of_starting_codex_is_no_draft() {
    let mut harness = Harness::new("codex");
    draw_codex(&mut harness, &format!("› {BACKFILL_NOTICE}"), "? for shortcuts");
    harness.advance(10_000);
    assert_eq!(*harness.driver.state(), AgentState::Starting);
    assert_eq!(harness.submit("hello"), Err(SubmitError::NotReady));
    draw_codex(&mut harness, "› Ask Codex to do anything\x1b[3G", "? for shortcuts");
    harness.advance(1000);
    harness.submit("hello").unwrap();
    harness.take_written();
    draw_codex(&mut harness, &format!("› hello{BACKFILL_NOTICE}"), "? for shortcuts");
    harness.advance(20_000);
    assert_eq!((harness.take_written().as_str(), harness.ended.len()), ("", 0), "waits for the start");
    draw_codex(&mut harness, "› hello", "? for shortcuts");
    assert_eq!(harness.take_written(), "\r");
}

/// Enter was pressed before Codex could send a prompt.
fn waiting_codex() -> Harness {
    let mut harness = ready_codex();
    harness.submit("hello").unwrap();
    draw_codex(&mut harness, "› hello", "? for shortcuts");
    draw_codex(&mut harness, "› hello", "Waiting for startup  · esc cancel");
    harness.take_written();
    harness.advance(20_000);
    assert_eq!(harness.take_written(), "", "no Enter is repeated");
    assert_eq!(
        (harness.driver.turn(), harness.driver.state()),
        (Some((1, Delivery::Typed)), &AgentState::Busy)
    );
    harness
}

#[test]
fn prompt_waits_for_startup_of_codex() {
    let mut harness = waiting_codex();
    harness.feed("\x1b]0;⠙ work\x07");
    draw_codex(&mut harness, "› hello\r\n\r\n\r\n› Ask Codex to do anything\x1b[3G", "? for shortcuts");
    assert_eq!(harness.driver.turn(), Some((1, Delivery::Started)));
}

#[test]
fn interrupt_cancels_prompt_that_waits_for_startup() {
    let mut harness = waiting_codex();
    harness.driver.interrupt(harness.now, 0);
    harness.effects();
    draw_codex(&mut harness, "› hello", "? for shortcuts");
    harness.advance(5000);
    assert_eq!(harness.take_written(), "\x1b", "no Enter after the interrupt");
    assert_eq!(harness.ended[0].outcome, Outcome::Interrupted);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn permission_to_be_asked_for_is_busy() {
    let mut harness = Harness::ready_claude();
    harness.composer("● Bash(ls)\n  ⎿  Waiting…\n\n  Waiting for permission…", "", "? for shortcuts");
    harness.advance(5000);
    assert_eq!(*harness.driver.state(), AgentState::Busy);
    harness.composer("● It says:\n\n  Waiting for permission…\n\n✻ Worked for 1s\n", "", "? for shortcuts");
    harness.advance(5000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn interrupt_leaves_shell_mode() {
    let mut harness = ready_codex();
    draw_codex(&mut harness, "! ls", "Shell mode");
    harness.advance(10_000);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "no unknown dialog");
    assert_eq!(harness.submit("hello"), Err(SubmitError::Draft("! ls".into())));
    harness.driver.interrupt(harness.now, 0);
    harness.effects();
    assert_eq!(harness.take_written(), "\x03");
    draw_codex(&mut harness, "› Ask Codex to do anything\x1b[3G", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(harness.submit("hello"), Ok(1));
}

#[test]
fn interrupt_stops_work_before_it_leaves_a_mode() {
    let mut harness = Harness::ready_claude();
    let draw = |footer: &str| format!("\x1b[H\x1b[2J\r\n{RULE}\r\n! ls\x1b7\r\n{RULE}\r\n  {footer}\x1b8");
    for (footer, keys) in [("esc to interrupt", "\x1b"), ("! for shell mode", "\x15\x7f")] {
        harness.feed(&draw(footer));
        harness.advance(1000);
        harness.driver.interrupt(harness.now, 0);
        harness.effects();
        assert_eq!(harness.take_written(), keys, "{footer}");
    }
}

#[test]
fn gemini_is_starting_until_it_reads_input() {
    let first_frame = || {
        let mut harness = Harness::new("gemini");
        harness.feed("\x1b]0;◇  Ready (work)\x07 >   Type your message or @path/to/file\x1b[4G");
        harness.advance(9000);
        assert_eq!(*harness.driver.state(), AgentState::Starting);
        harness
    };
    let mut harness = first_frame();
    harness.feed("\x1b[?2004h");
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    // The mode of some existing panes is unknown.
    let mut harness = first_frame();
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn no_prompt_is_typed_into_shell_mode_of_gemini() {
    let mut harness = Harness::new("gemini");
    harness.feed("\x1b]0;◇  Ready (work)\x07\x1b[?2004h >   Type your message or @path/to/file\x1b[4G");
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    for (row, draft) in [(" !   Type your shell command\x1b[4G", "!"), (" ! ls", "! ls")] {
        harness.feed(&format!("\x1b[H\x1b[2J{row}"));
        harness.advance(2000);
        assert_eq!(harness.submit("hello"), Err(SubmitError::Draft(draft.into())));
        harness.driver.interrupt(harness.now, 0);
        harness.effects();
        assert_eq!(harness.take_written(), "\x15\x1b");
    }
}

#[test]
fn prompt_queued_by_gemini_is_pending_until_its_echo() {
    let mut harness = Harness::new("gemini");
    let composer = "\n\n >   Type your message or @path/to/file\x1b[4G";
    let draw = |harness: &mut Harness, above: &str, title: &str| {
        let rows = format!("{above}{composer}").replace('\n', "\r\n");
        harness.feed(&format!("\x1b]0;{title}\x07\x1b[?2004h\x1b[H\x1b[2J{rows}"));
    };
    draw(&mut harness, "", "◇  Ready (work)");
    harness.advance(2000);
    harness.submit("hello").unwrap();
    harness.feed("\x1b[H\x1b[2J > hello");
    for notice in [
        "ℹ Initializing... Prompts will be queued.",
        "ℹ Waiting for MCP servers to initialize... Slash commands are still available and\n  prompts will be queued.",
    ] {
        draw(
            &mut harness,
            &format!("{notice}\n\n  Queued (press ↑ to edit):\n    hello\n"),
            "◇  Ready (work)",
        );
        harness.advance(5000);
        // Taken from the queue, but not shown in the conversation yet.
        draw(&mut harness, notice, "◇  Ready (work)");
        harness.advance(20_000);
        assert!(harness.ended.is_empty(), "{:?}", harness.ended);
    }
    let echo = "ℹ Initializing... Prompts will be queued.\n > hello\n";
    draw(&mut harness, &format!("{echo}⠏ Thinking... (esc to cancel, 1s)"), "✦  Working… (work)");
    harness.advance(1000);
    draw(&mut harness, &format!("{echo}✦ Hi."), "◇  Ready (work)");
    harness.advance(5000);
    assert_eq!(harness.ended.first().map(|turn| turn.outcome), Some(Outcome::Done));
}

#[test]
fn prompt_fetched_back_from_the_queue_of_gemini_is_not_delivered() {
    let notice = "ℹ Waiting for MCP servers to initialize... Slash commands are still available and\n  prompts will be queued.";
    let draw = |harness: &mut Harness, above: &str, draft: &str| {
        let rows = format!("{notice}\n{above}\n\n > {draft}").replace('\n', "\r\n");
        harness.feed(&format!("\x1b]0;◇  Ready (work)\x07\x1b[?2004h\x1b[H\x1b[2J{rows}"));
    };
    for draft in ["hello", "hello\n\n   and more of the user's"] {
        let mut harness = Harness::new("gemini");
        draw(&mut harness, "", "  Type your message or @path/to/file\x1b[4G");
        harness.advance(2000);
        harness.submit("hello").unwrap();
        draw(&mut harness, "", "hello");
        let queued = "\n\n  Queued (press ↑ to edit):\n    hello\n";
        draw(&mut harness, queued, "  Type your message or @path/to/file\x1b[4G");
        harness.advance(1000);
        assert_eq!(harness.driver.turn(), Some((1, Delivery::Submitted)), "queued is not begun");
        draw(&mut harness, "", draft);
        let end = &harness.ended[0];
        assert_eq!((end.outcome, end.delivery), (Outcome::NotDelivered, Delivery::Typed));
        harness.advance(5000);
        assert_eq!(*harness.driver.state(), AgentState::Ready);
        assert!(matches!(harness.submit("next"), Err(SubmitError::Draft(_))), "the draft is the user's");
    }
}

#[test]
fn hint_after_lost_connection_is_no_draft() {
    let mut harness = Harness::ready_claude();
    let error = "● API Error: Connection to the API was lost (ECONNRESET).";
    harness.composer(error, "Resend your message to try again", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(harness.submit("hello"), Ok(1));
}

#[test]
fn own_shell_command_is_echoed_and_replaced() {
    let mut harness = ready_codex();
    harness.submit("!ls").unwrap();
    harness.take_written();
    draw_codex(&mut harness, "! ls", "Shell mode");
    assert_eq!(harness.take_written(), "\r");
    harness.advance(20_000);
    assert_eq!(harness.ended[0].outcome, Outcome::NotDelivered);
    harness.take_written();
    assert_eq!(harness.submit("next"), Ok(2));
    assert_eq!(harness.take_written(), "\x03");
}

#[test]
fn accepted_prompt_without_work_is_not_done() {
    let mut harness = Harness::ready_claude();
    harness.driver.on_hook(harness.now, Hook::SessionStarted);
    harness.type_prompt("hello");
    harness.advance(10);
    // On a busy machine the first sign of work appears some time after the hook.
    harness.driver.on_hook(harness.now, Hook::PromptSubmitted(Some("p1".into())));
    harness.composer("❯ hello\n", "", "? for shortcuts");
    harness.advance(1500);
    assert!(harness.ended.is_empty());
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness.advance(1000);
    harness.driver.on_hook(harness.now, Hook::Stopped(Some("p1".into())));
    harness.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    assert!(harness.ended[0].evidence.starts_with("hook:"), "{}", harness.ended[0].evidence);
}

#[test]
fn prompt_that_leaves_the_composer_late_is_delivered() {
    let mut harness = Harness::ready_claude();
    harness.driver.on_hook(harness.now, Hook::SessionStarted);
    harness.type_prompt("hello");
    harness.advance(10);
    // On a busy machine the hook is faster than the screen.
    harness.driver.on_hook(harness.now, Hook::PromptSubmitted(Some("p1".into())));
    harness.observe();
    harness.advance(2000);
    harness.driver.on_hook(harness.now, Hook::Stopped(Some("p1".into())));
    harness.observe();
    harness.advance(200);
    assert!(harness.ended.is_empty(), "{:?}", harness.ended);
    harness.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    assert_eq!(harness.ended.first().map(|end| end.outcome), Some(Outcome::Done));
}

#[test]
fn foreground_program_gets_one_interrupt() {
    let mut harness = Harness::ready_shell();
    harness.submit("serve").unwrap();
    harness.foreground = Foreground::Other;
    harness.feed("serve\r\n\x1b]133;C\x07listening\r\n");
    harness.take_written();
    harness.driver.interrupt(harness.now, 1);
    harness.effects();
    harness.advance(10_000);
    assert_eq!(harness.take_written(), "\x03");
}

#[test]
fn interrupt_before_enter_withdraws_prompt() {
    let mut harness = Harness::ready_claude();
    harness.submit("hello").unwrap();
    harness.take_written();
    harness.driver.interrupt(harness.now, 1);
    harness.effects();
    assert_eq!(harness.take_written(), "\x15");
    assert_eq!(harness.ended[0].outcome, Outcome::Interrupted);
    harness.composer("", "hello", "");
    harness.advance(5000);
    assert_eq!(harness.take_written(), "", "no Enter follows");
}

#[test]
fn draft_similar_to_own_prompt_is_foreign() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("go");
    harness.feed("\x1b]0;◐ Claude Code\x07\x1b]0;✳ Claude Code\x07");
    harness.composer("❯ go\n● Done.\n", "", "? for shortcuts");
    harness.advance(1000);
    assert_eq!(harness.ended[0].outcome, Outcome::Done);
    for draft in ["a good idea of mine", "go", "[Pasted text #1 +20 lines]"] {
        harness.composer("❯ go\n● Done.\n", draft, "");
        harness.advance(1000);
        assert_eq!(harness.submit("next"), Err(SubmitError::Draft(draft.into())));
    }
}

#[test]
fn shell_without_prompt_marks_uses_other_signals() {
    let mut harness = Harness::new("shell");
    harness.foreground = Foreground::Idle;
    harness.feed("$ ");
    harness.advance(1000);
    harness.submit("echo hi").unwrap();
    harness.feed("echo hi\r\n\x1b]133;C\x07hi\r\n$ ");
    harness.advance(1000);
    assert_eq!(harness.ended.len(), 1, "{:?}", harness.driver.evidence());
}

#[test]
fn silence_does_not_end_turn_if_prompt_is_known() {
    let mut harness = Harness::new("python");
    harness.feed("Python 3\r\n>>> ");
    harness.advance(100);
    harness.submit("slow()").unwrap();
    harness.feed("slow()\r\nhalf\r\n");
    harness.advance(60_000);
    assert!(harness.ended.is_empty());
    harness.feed("...");
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Busy, "partial output is not a continuation prompt");
    harness.feed("\r\n>>> ");
    harness.advance(50);
    assert_eq!(harness.ended.len(), 1);
}

#[test]
fn unfinished_shell_command_blocks() {
    let mut harness = Harness::ready_shell();
    harness.submit("echo 'abc").unwrap();
    harness.feed("echo 'abc\r\n> \x1b]133;P;k=s\x07");
    harness.advance(100);
    let state = harness.driver.state();
    assert!(
        matches!(state, AgentState::Blocked { kind: BlockKind::Other, .. }),
        "{state:?} {:?}",
        harness.driver.evidence()
    );
    assert!(harness.ended.is_empty());
}

#[test]
fn continuing_stop_hook_does_not_end_turn() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("hello");
    harness.advance(10);
    harness.driver.on_hook(harness.now, Hook::PromptSubmitted(None));
    harness.composer("❯ hello\n", "", "esc to interrupt");
    harness.driver.on_hook(harness.now, Hook::Stopped(None));
    harness.advance(400);
    harness.observe();
    harness.composer("❯ hello\n● Wait.\n", "", "? for shortcuts");
    harness.advance(20);
    assert!(harness.ended.is_empty(), "the frame must be stable like any other");
}

#[test]
fn composer_in_other_mode_is_not_typed_into() {
    let mut harness = Harness::ready_claude();
    harness.feed(&format!("\x1b[H\x1b[2J\r\n{RULE}\r\n! \x1b7\r\n{RULE}\r\n  ! for shell mode\x1b8"));
    harness.advance(1000);
    assert_eq!(harness.submit("touch x"), Err(SubmitError::Draft("!".into())));
    assert_eq!(harness.take_written(), "");
}

#[test]
fn composer_like_choices_are_a_dialog() {
    let mut harness = Harness::new("codex");
    harness.feed("› Ask Codex to do anything\x1b[3G");
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    let tips = "1. one tip\r\n2. another\r\n\r\n\r\n\r\n\r\n";
    harness.feed(&format!(
        "\x1b[H\x1b[2J{tips}  Would you like to run the following command?\r\n\r\n› 1. Yes, proceed (y)\r\n  2. Yes, and always\r\n  3. No\r\n\r\n  Press enter to confirm\x1b[?25l"
    ));
    harness.advance(80);
    let choices = ["Yes, proceed (y)", "Yes, and always", "No"].map(String::from).to_vec();
    assert_eq!(*harness.driver.state(), AgentState::Blocked { kind: BlockKind::Permission, choices });
}

#[test]
fn unknown_dialog_blocks_when_silent() {
    let mut harness = Harness::ready_claude();
    harness.type_prompt("/status");
    harness.feed("\x1b[H\x1b[2J Settings: Status\r\n Version: 2\r\n\r\n Some way to leave");
    harness.advance(2000);
    assert!(!matches!(harness.driver.state(), AgentState::Blocked { .. }));
    harness.advance(1000);
    assert!(matches!(harness.driver.state(), AgentState::Blocked { kind: BlockKind::Other, .. }));
}

#[test]
fn requested_second_interrupt_is_sent_alone() {
    for request in ["esc again to interrupt", "Cannot connect to API [retrying in 8s #5]"] {
        let mut harness = Harness::new("opencode");
        let draw = |harness: &mut Harness, footer: &str| {
            harness.feed(&format!("\x1b[H\x1b[2J┃  Ask anything\r\n╹▀▀▀\r\n {footer}\x1b[1;4H"));
        };
        draw(&mut harness, "");
        harness.advance(4000);
        assert_eq!(harness.submit("go"), Ok(1));
        harness.feed("\x1b[H\x1b[2J┃  go\r\n╹▀▀▀\x1b[1;4H");
        draw(&mut harness, "esc interrupt");
        harness.take_written();
        harness.driver.interrupt(harness.now, 0);
        harness.effects();
        assert_eq!(harness.take_written(), "\x1b");
        harness.advance(100);
        assert_eq!(harness.take_written(), "");
        draw(&mut harness, request);
        assert_eq!(harness.take_written(), "\x1b");
        harness.advance(600);
        assert_eq!(harness.take_written(), "", "too early for the second interrupt");
        harness.advance(200);
        assert_eq!(harness.take_written(), "\x1b", "still requests a second interrupt");
        draw(&mut harness, "");
        harness.advance(4000);
        assert_eq!(harness.take_written(), "");
        assert_eq!(harness.ended.last().map(|end| end.outcome), Some(Outcome::Interrupted));
    }
}

/// An opencode that has worked on a prompt and shows the end of its answer.
fn opencode_with_answer() -> Harness {
    let mut harness = Harness::new("opencode");
    draw_opencode(&mut harness, "", "Ask anything", "");
    harness.advance(4000);
    assert_eq!(harness.submit("go"), Ok(1));
    draw_opencode(&mut harness, "", "go", "");
    draw_opencode(&mut harness, "┃  go", "", "esc interrupt");
    draw_opencode(&mut harness, OPENCODE_ANSWER, "", "");
    assert!(harness.driver.is_answer_unconfirmed());
    harness
}

const OPENCODE_ANSWER: &str = "┃  go\r\n\r\n   fine\r\n\r\n   ▣  Build · model · 1.2s";

fn draw_opencode(harness: &mut Harness, above: &str, draft: &str, footer: &str) {
    harness.feed(&format!("\x1b[H\x1b[2J{above}\r\n\r\n┃  {draft}\x1b7\r\n╹▀▀▀\r\n {footer}\x1b8"));
}

#[test]
fn answer_in_session_file_ends_the_turn_without_silence() {
    let mut harness = opencode_with_answer();
    harness.driver.on_answer_written();
    harness.observe();
    assert_eq!(harness.ended.iter().map(|end| end.outcome).collect::<Vec<_>>(), [Outcome::Done]);
    let mut without_file = opencode_with_answer();
    without_file.advance(400);
    assert_eq!(without_file.ended, []);
    without_file.advance(200);
    assert_eq!(without_file.ended.len(), 1);
}

#[test]
fn work_after_the_answer_in_session_file_continues_the_turn() {
    let mut harness = opencode_with_answer();
    harness.driver.on_answer_written();
    draw_opencode(&mut harness, OPENCODE_ANSWER, "", "esc interrupt");
    draw_opencode(&mut harness, OPENCODE_ANSWER, "", "");
    assert_eq!(harness.ended, []);
    harness.advance(600);
    assert_eq!(harness.ended.len(), 1);
}

/// A pi that has answered at once: no spinner was drawn.
fn pi_with_answer() -> Harness {
    let mut harness = Harness::new("pi");
    let draw = |harness: &mut Harness, above: &str, draft: &str| {
        harness.feed(&format!("\x1b[H\x1b[2J{above}\r\n{RULE}\r\n{draft}\x1b7\r\n{RULE}\r\n~/work\x1b8"));
    };
    draw(&mut harness, "", "");
    harness.advance(1000);
    assert_eq!(harness.submit("go"), Ok(1));
    draw(&mut harness, "", "go");
    draw(&mut harness, " go\r\n\r\n fine", "");
    assert!(harness.driver.is_answer_unconfirmed());
    harness
}

#[test]
fn session_file_confirms_work_that_was_not_drawn() {
    let ends =
        |harness: &Harness| harness.ended.iter().map(|end| (end.outcome, end.delivery)).collect::<Vec<_>>();
    let mut harness = pi_with_answer();
    harness.driver.on_answer_written();
    harness.observe();
    assert_eq!(ends(&harness), [(Outcome::Done, Delivery::Started)]);
    let mut without_file = pi_with_answer();
    without_file.advance(1000);
    assert_eq!(ends(&without_file), []);
    without_file.advance(5000);
    assert_eq!(ends(&without_file), [(Outcome::Done, Delivery::Submitted)]);
}

#[test]
fn resuming_agent_is_not_ready_before_it_has_loaded() {
    let first_page = "\x1b[H\x1b[2J   ┃  Ask anything\r\n   ╹▀▀▀\r\n  tab agents  ctrl+p commands\x1b[1;7H";
    let loaded = "\x1b[H\x1b[2J   hello\r\n\r\n┃ \r\n╹▀▀▀\r\n  2.4K (1%)  ctrl+p commands\x1b[3;3H";
    let state = |continues: bool, wait: u64, then: &str| {
        let mut harness = Harness::new("opencode");
        if continues {
            harness.driver = harness.driver.resuming();
        }
        harness.feed(first_page);
        harness.advance(wait);
        if !then.is_empty() {
            harness.feed(then);
        }
        harness.advance(1600);
        harness.driver.state().clone()
    };
    assert_eq!(state(false, 0, ""), AgentState::Ready, "a new conversation is empty");
    assert_eq!(state(true, 15_000, ""), AgentState::Starting);
    assert_eq!(state(true, 15_000, loaded), AgentState::Ready);
    assert_eq!(state(true, 19_000, ""), AgentState::Ready, "really empty");
}

/// A line-based program that is ready.
fn line_based(profile: &str, prompt: &str) -> Harness {
    let mut harness = Harness::new(profile);
    harness.foreground = Foreground::Idle;
    harness.feed(prompt);
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness
}

#[test]
fn unfinished_input_blocks_prompts() {
    // With and without marks, with wide characters, and with a right-hand prompt behind the cursor.
    let right = "\x1b7\x1b[50Gon the right\x1b8";
    for (profile, prompt, erase) in [
        ("shell", "\x1b]133;A\x07$ \x1b]133;B\x07".to_string(), "\x1b[3G\x1b[K"),
        ("shell", "\x1b]133;A\x07日本$ \x1b]133;B\x07".to_string(), "\x1b[7G\x1b[K"),
        ("shell", "$ ".to_string(), "\x1b[3G\x1b[K"),
        ("shell", "日本$ ".to_string(), "\x1b[7G\x1b[K"),
        ("shell", format!("$ {right}"), "\x1b[3G\x1b[K\x1b7\x1b[50Gon the right\x1b8"),
        ("python", "Python 3\r\n>>> ".to_string(), "\x1b[5G\x1b[K"),
        ("generic", "welcome\r\nme: ".to_string(), "\x1b[5G\x1b[K"),
    ] {
        let mut harness = line_based(profile, &prompt);
        harness.feed("h");
        harness.advance(2000);
        assert_eq!(harness.submit("next"), Err(SubmitError::Line("h".into())), "{profile} {prompt:?}");
        harness.feed("alf ü日");
        harness.advance(2000);
        assert_eq!(harness.submit("next"), Err(SubmitError::Line("half ü日".into())), "{profile} {prompt:?}");
        assert_eq!(harness.take_written(), "", "{profile} {prompt:?}");
        harness.feed(erase);
        harness.advance(2000);
        assert_eq!(harness.submit("next"), Ok(1), "{profile} {prompt:?}");
        assert_eq!(harness.take_written(), "next\r");
    }
}

#[test]
fn wrapped_unfinished_input_is_one_line() {
    for prompt in ["\x1b]133;A\x07$ \x1b]133;B\x07", "$ "] {
        let mut harness = line_based("shell", prompt);
        let long = "word ".repeat(20);
        harness.feed(&long);
        harness.advance(2000);
        let refused = harness.submit("next");
        assert_eq!(refused, Err(SubmitError::Line(long.trim_end().to_string())), "{prompt:?}");
        harness.feed("\x1b[1;3H\x1b[J");
        harness.advance(2000);
        assert_eq!(harness.submit("next"), Ok(1), "{prompt:?}");
    }
}

#[test]
fn continuation_prompts_resemble_the_prompt() {
    let python = line_based("python", ">>> ");
    for (text, expected) in
        [(">>> ", true), ("...", true), ("   ...: ", true), ("    ", false), ("x = ", false)]
    {
        assert_eq!(python.driver.is_any_prompt(text), expected, "{text:?}");
    }
    let database = line_based("generic", "db=# ");
    for (text, expected) in
        [("db=# ", true), ("db(# ", true), ("    -> ", true), ("db ", false), ("dc-# ", false)]
    {
        assert_eq!(database.driver.is_any_prompt(text), expected, "{text:?}");
    }
}

#[test]
fn suggestion_behind_cursor_is_not_input() {
    for prompt in ["\x1b]133;A\x07$ \x1b]133;B\x07", "$ "] {
        let mut harness = line_based("shell", prompt);
        harness.feed("\x1b7\x1b[90mls -la\x1b[m\x1b8");
        harness.advance(2000);
        assert_eq!(harness.submit("next"), Ok(1), "{prompt:?}");
    }
}

#[test]
fn redrawn_prompt_is_not_input() {
    let mut harness = line_based("shell", "~ $ ");
    harness.feed("\r\x1b[K~ (main) $ ");
    harness.advance(2000);
    assert_eq!(harness.submit("next"), Ok(1));
    let mut harness = line_based("shell", "$ ");
    harness.feed("echo a\r\na\r\n$ ");
    harness.advance(2000);
    assert_eq!(harness.submit("next"), Ok(1), "the other command has ended");
}
