//! Hand-made terminals: one behaviour each, on simulated time.

use std::time::Duration;

use nerve_term::driver::{AgentState, Delivery, Foreground, Hook, Outcome, Source, SubmitError};
use nerve_term::event::ExitStatus;
use nerve_term::profile::BlockKind;

use crate::harness::{Bench, RULE};

#[test]
fn composer_is_ready_only_when_stable() {
    let mut bench = Bench::new("claude");
    bench.composer("", "", "? for shortcuts");
    assert_eq!(*bench.driver.state(), AgentState::Starting);
    bench.pass(149);
    assert_eq!(*bench.driver.state(), AgentState::Starting);
    bench.pass(1);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    assert_eq!(bench.driver.evidence().source, Source::Screen);
}

#[test]
fn enter_waits_for_echo() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    assert_eq!(bench.take_written(), "\x1b[200~hello\x1b[201~");
    bench.pass(5000);
    assert_eq!(bench.take_written(), "", "nothing is sent while the composer does not show the text");
    bench.composer("", "hello", "");
    assert_eq!(bench.take_written(), "\r");
}

#[test]
fn prompt_without_echo_is_not_delivered() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.pass(10_000);
    assert_eq!(bench.ended[0].outcome, Outcome::NotDelivered);
    assert_eq!(bench.ended[0].delivery, Delivery::Typed);
}

#[test]
fn ignored_enter_is_repeated() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.take_written();
    bench.pass(800);
    assert_eq!(bench.take_written(), "\r", "the text still stands in the composer");
    bench.feed("\x1b]0;◐ Claude Code\x07");
    bench.composer("❯ hello\n", "", "esc to interrupt");
    bench.pass(5000);
    assert_eq!(bench.take_written(), "", "no Enter once it is gone");
    assert_eq!(bench.driver.turn(), Some((1, Delivery::Started)));
}

#[test]
fn enter_without_effect_is_reported() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.pass(10_000);
    assert_eq!(bench.take_written().matches('\r').count(), 4);
    assert_eq!(bench.ended[0].outcome, Outcome::NotDelivered);
}

#[test]
fn turn_ends_when_screen_and_title_agree() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.feed("\x1b]0;◐ Claude Code\x07");
    bench.composer("❯ hello\n", "", "esc to interrupt");
    bench.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    bench.pass(10_000);
    assert!(bench.ended.is_empty(), "the title still says busy");
    bench.feed("\x1b]0;✳ Claude Code\x07");
    bench.pass(39);
    assert!(bench.ended.is_empty());
    bench.pass(1);
    assert_eq!(bench.ended[0].outcome, Outcome::Done);
}

#[test]
fn busy_title_between_observations_counts_as_started() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.feed("\x1b]0;◐ Claude Code\x07\x1b]0;✳ Claude Code\x07");
    bench.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    bench.pass(100);
    assert_eq!(bench.ended[0].delivery, Delivery::Started);
}

#[test]
fn turn_without_work_ends_after_longer_silence() {
    let mut bench = Bench::ready_claude();
    bench.submit("/help").unwrap();
    bench.composer("", "/help", "");
    bench.composer("❯ /help\n  Some help\n", "", "? for shortcuts");
    bench.pass(2000);
    assert!(bench.ended.is_empty());
    bench.pass(1000);
    assert_eq!((bench.ended[0].outcome, bench.ended[0].delivery), (Outcome::Done, Delivery::Submitted));
    assert!(bench.ended[0].evidence.contains("no sign of work"));
}

#[test]
fn quoted_markers_do_not_change_state() {
    let mut bench = Bench::ready_claude();
    let quote = format!(
        "● You will see:\n  ❯ 1. Yes\n  Do you want to proceed?\n  esc to interrupt\n  {RULE}\n  Esc to cancel\n"
    );
    bench.composer(&quote, "", "? for shortcuts");
    bench.pass(1000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn permission_dialog_blocks_and_is_answered() {
    let mut bench = Bench::ready_claude();
    let dialog = |selected: usize| {
        let mark = |at: usize| if at == selected { "❯" } else { " " };
        format!(
            "\x1b[H\x1b[2J● Bash(ls)\r\n{RULE}\r\n Bash command\r\n Do you want to proceed?\r\n {} 1. Yes\r\n {} 2. Yes, and always\r\n {} 3. No\r\n\r\n Esc to cancel · Tab to amend\x1b[5;2H",
            mark(0),
            mark(1),
            mark(2)
        )
    };
    bench.feed(&dialog(0));
    assert_eq!(bench.submit("hello"), Err(SubmitError::NotReady), "a dialog that is being drawn");
    bench.pass(40);
    let choices = vec!["Yes".to_string(), "Yes, and always".to_string(), "No".to_string()];
    assert_eq!(bench.take_blocked(), 1);
    assert_eq!(
        *bench.driver.state(),
        AgentState::Blocked { kind: BlockKind::Permission, choices: choices.clone() }
    );
    assert_eq!(bench.submit("hello"), Err(SubmitError::NotReady));
    assert!(bench.driver.answer(bench.now, &choices, Some(2)));
    bench.effects();
    assert_eq!(bench.take_written(), "\x1b[B");
    bench.pass(600);
    assert_eq!(bench.take_written(), "\x1b[B", "that key was swallowed");
    bench.feed(&dialog(1));
    assert_eq!(bench.take_written(), "\x1b[B", "one further");
    bench.feed(&dialog(2));
    assert_eq!(bench.take_written(), "\r");
    bench.feed(&dialog(0).replace("(ls)", "(rm)").replace("Bash command", "Another command"));
    bench.pass(5000);
    assert_eq!(bench.take_written(), "", "the next dialog was not meant");
    assert_eq!(bench.take_answered(), [true]);
    assert_eq!(bench.take_blocked(), 1, "whoever waits is told of the next one, though it offers the same");
    bench.feed(&dialog(0));
    let other = vec!["Yes".to_string(), "No".to_string()];
    assert!(!bench.driver.answer(bench.now, &other, Some(1)), "a dialog that is not shown is not answered");
}

#[test]
fn foreign_draft_is_kept_and_own_draft_is_cleared() {
    let mut bench = Bench::ready_claude();
    bench.composer("", "a thought of my own", "");
    bench.pass(1000);
    assert_eq!(bench.submit("hello"), Err(SubmitError::Draft("a thought of my own".into())));
    assert_eq!(bench.take_written(), "");
    // Escape before the first byte puts our prompt back into the composer.
    bench.composer("", "", "? for shortcuts");
    bench.submit("slow one").unwrap();
    bench.composer("", "slow one", "");
    bench.composer("", "", "esc to interrupt");
    bench.driver.interrupt(bench.now, bench.terminal.cursor_line().0);
    bench.composer("", "slow one", "? for shortcuts");
    bench.pass(1000);
    assert_eq!(bench.ended[0].outcome, Outcome::Interrupted);
    bench.take_written();
    bench.submit("next").unwrap();
    assert_eq!(bench.take_written(), "\x15");
    bench.composer("", "", "");
    assert_eq!(bench.take_written(), "\x1b[200~next\x1b[201~");
}

#[test]
fn silent_start_is_checked_less_and_less_often() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Awake;
    bench.look();
    let (mut looks, mut last) = (0, bench.now);
    while bench.now.0 < 60_000_000_000 {
        (last, bench.now) = (bench.now, bench.driver.deadline().unwrap());
        bench.look();
        looks += 1;
    }
    assert_eq!(*bench.driver.state(), AgentState::Starting);
    assert!(looks < 80, "{looks}");
    assert!(bench.now.since(last) <= Duration::from_secs(1));
    // A byte brings it back.
    bench.feed("x");
    assert!(bench.driver.deadline().unwrap().since(bench.now) < Duration::from_millis(200));
}

#[test]
fn shell_turn_ends_at_its_marks() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Idle;
    bench.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(100);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.submit("printf x").unwrap();
    assert_eq!(bench.take_written(), "printf x\r");
    assert_eq!(*bench.driver.state(), AgentState::Busy, "the prompt on the screen is an old one");
    bench.feed("printf x\r\n\x1b]133;C\x07x\x1b]133;D;0\x07");
    assert!(bench.ended.is_empty());
    bench.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    let end = &bench.ended[0];
    assert_eq!((end.outcome, end.delivery, end.exit_code), (Outcome::Done, Delivery::Started, Some(0)));
    assert_eq!((end.span.lines, end.span.last_col), ((1, 2), Some(1)));
}

#[test]
fn printed_marks_do_not_end_turn() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Idle;
    bench.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(100);
    bench.submit("cat marks").unwrap();
    bench.foreground = Foreground::Other;
    bench.feed("cat marks\r\n\x1b]133;C\x07\x1b]133;D;0\x07\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(5000);
    assert!(bench.ended.is_empty(), "cat still has the terminal");
}

#[test]
fn repl_is_recognised_by_its_prompt() {
    let mut bench = Bench::new("python");
    bench.feed("Python 3\r\n>>> ");
    bench.pass(100);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.submit("print('>>> ')").unwrap();
    bench.feed("print('>>> ')\r\n");
    bench.pass(50);
    assert!(bench.ended.is_empty());
    bench.feed(">>> \r\n>>> ");
    bench.pass(50);
    assert_eq!(bench.ended.len(), 1);
    assert_eq!(bench.ended[0].span.lines.0, 2);
}

#[test]
fn unknown_program_is_recognised_by_learned_prompt() {
    let mut bench = Bench::new("generic");
    bench.feed("welcome\r\nme: ");
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.submit("x").unwrap();
    bench.feed("x\r\nworking at 100%");
    bench.pass(500);
    assert!(bench.ended.is_empty(), "an ending in % is no prompt");
    bench.feed("\r\ndone\r\nme: ");
    bench.pass(60);
    assert_eq!(bench.ended.len(), 1, "its own prompt is, at once");
}

#[test]
fn exit_ends_turn() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.driver.on_exit(bench.now, ExitStatus::Code(70));
    bench.effects();
    assert_eq!(bench.ended[0].outcome, Outcome::Exited(ExitStatus::Code(70)));
    assert_eq!(*bench.driver.state(), AgentState::Exited(ExitStatus::Code(70)));
    assert_eq!(bench.submit("more"), Err(SubmitError::NotReady));
}

#[test]
fn empty_and_concurrent_prompts_are_rejected() {
    let mut bench = Bench::ready_claude();
    assert_eq!(bench.submit(""), Err(SubmitError::Empty));
    bench.submit("one").unwrap();
    assert_eq!(bench.submit("two"), Err(SubmitError::Busy));
}

#[test]
fn lost_interrupt_is_repeated_only_while_busy() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Idle;
    bench.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(100);
    bench.submit("sleep 30").unwrap();
    bench.feed("sleep 30\r\n\x1b]133;C\x07");
    bench.take_written();
    bench.driver.interrupt(bench.now, 1);
    bench.foreground = Foreground::Other;
    bench.effects();
    assert_eq!(bench.take_written(), "\x03");
    bench.pass(700);
    assert_eq!(bench.take_written(), "\x03");
    bench.foreground = Foreground::Idle;
    bench.feed("^C\r\n\x1b]133;D;130\x07\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(5000);
    assert_eq!(bench.take_written(), "");
    assert_eq!(bench.ended[0].outcome, Outcome::Interrupted);
}

#[test]
fn stop_hook_ends_turn_without_delay() {
    let mut bench = Bench::ready_claude();
    bench.driver.on_hook(bench.now, Hook::SessionStarted);
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.pass(10);
    bench.driver.on_hook(bench.now, Hook::PromptSubmitted(Some("p1".into())));
    bench.composer("❯ hello\n", "", "esc to interrupt");
    bench.pass(1000);
    bench.driver.on_hook(bench.now, Hook::Stopped(Some("p0".into())));
    bench.look();
    bench.driver.on_hook(bench.now, Hook::Stopped(Some("p1".into())));
    bench.look();
    assert!(bench.ended.is_empty(), "the screen still works on it");
    bench.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    assert_eq!((bench.ended[0].outcome, bench.ended[0].delivery), (Outcome::Done, Delivery::Started));
    assert!(bench.ended[0].evidence.starts_with("hook:"), "{}", bench.ended[0].evidence);
}

#[test]
fn ready_screen_waits_for_stop_hook_with_limit() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.pass(10);
    bench.driver.on_hook(bench.now, Hook::PromptSubmitted(None));
    bench.composer("❯ hello\n", "", "esc to interrupt");
    bench.pass(10);
    bench.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    bench.pass(150);
    assert!(bench.ended.is_empty());
    bench.pass(60);
    assert_eq!(bench.ended.len(), 1);
}

#[test]
fn accepted_prompt_without_work_is_not_done() {
    let mut bench = Bench::ready_claude();
    bench.driver.on_hook(bench.now, Hook::SessionStarted);
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.pass(10);
    // On a busy machine the first sign of work is drawn a while after the hook has spoken.
    bench.driver.on_hook(bench.now, Hook::PromptSubmitted(Some("p1".into())));
    bench.composer("❯ hello\n", "", "? for shortcuts");
    bench.pass(1500);
    assert!(bench.ended.is_empty());
    bench.composer("❯ hello\n", "", "esc to interrupt");
    bench.pass(1000);
    bench.driver.on_hook(bench.now, Hook::Stopped(Some("p1".into())));
    bench.composer("❯ hello\n● Hi.\n", "", "? for shortcuts");
    assert!(bench.ended[0].evidence.starts_with("hook:"), "{}", bench.ended[0].evidence);
}

#[test]
fn foreground_program_gets_one_interrupt() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Idle;
    bench.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(100);
    bench.submit("serve").unwrap();
    bench.foreground = Foreground::Other;
    bench.feed("serve\r\n\x1b]133;C\x07listening\r\n");
    bench.take_written();
    bench.driver.interrupt(bench.now, 1);
    bench.effects();
    bench.pass(10_000);
    assert_eq!(bench.take_written(), "\x03");
}

#[test]
fn interrupt_before_enter_withdraws_prompt() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.take_written();
    bench.driver.interrupt(bench.now, 1);
    bench.effects();
    assert_eq!(bench.take_written(), "\x15");
    assert_eq!(bench.ended[0].outcome, Outcome::Interrupted);
    bench.composer("", "hello", "");
    bench.pass(5000);
    assert_eq!(bench.take_written(), "", "no Enter follows");
}

#[test]
fn draft_similar_to_own_prompt_is_foreign() {
    let mut bench = Bench::ready_claude();
    bench.submit("go").unwrap();
    bench.composer("", "go", "");
    bench.feed("\x1b]0;◐ Claude Code\x07\x1b]0;✳ Claude Code\x07");
    bench.composer("❯ go\n● Done.\n", "", "? for shortcuts");
    bench.pass(1000);
    assert_eq!(bench.ended[0].outcome, Outcome::Done);
    for draft in ["a good idea of mine", "go", "[Pasted text #1 +20 lines]"] {
        bench.composer("❯ go\n● Done.\n", draft, "");
        bench.pass(1000);
        assert_eq!(bench.submit("next"), Err(SubmitError::Draft(draft.into())));
    }
}

#[test]
fn shell_without_prompt_marks_uses_other_signals() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Idle;
    bench.feed("$ ");
    bench.pass(1000);
    bench.submit("echo hi").unwrap();
    bench.feed("echo hi\r\n\x1b]133;C\x07hi\r\n$ ");
    bench.pass(1000);
    assert_eq!(bench.ended.len(), 1, "{:?}", bench.driver.evidence());
}

#[test]
fn silence_does_not_end_turn_if_prompt_is_known() {
    let mut bench = Bench::new("python");
    bench.feed("Python 3\r\n>>> ");
    bench.pass(100);
    bench.submit("slow()").unwrap();
    bench.feed("slow()\r\nhalf\r\n");
    bench.pass(60_000);
    assert!(bench.ended.is_empty());
    bench.feed("...");
    bench.pass(500);
    assert_eq!(*bench.driver.state(), AgentState::Busy, "output on its way is no continuation prompt");
    bench.feed("\r\n>>> ");
    bench.pass(50);
    assert_eq!(bench.ended.len(), 1);
}

#[test]
fn unfinished_shell_command_blocks() {
    let mut bench = Bench::new("shell");
    bench.foreground = Foreground::Idle;
    bench.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
    bench.pass(100);
    bench.submit("echo 'abc").unwrap();
    bench.feed("echo 'abc\r\n> \x1b]133;P;k=s\x07");
    bench.pass(100);
    let state = bench.driver.state();
    assert!(
        matches!(state, AgentState::Blocked { kind: BlockKind::Other, .. }),
        "{state:?} {:?}",
        bench.driver.evidence()
    );
    assert!(bench.ended.is_empty());
}

#[test]
fn continuing_stop_hook_does_not_end_turn() {
    let mut bench = Bench::ready_claude();
    bench.submit("hello").unwrap();
    bench.composer("", "hello", "");
    bench.pass(10);
    bench.driver.on_hook(bench.now, Hook::PromptSubmitted(None));
    bench.composer("❯ hello\n", "", "esc to interrupt");
    bench.driver.on_hook(bench.now, Hook::Stopped(None));
    bench.pass(400);
    bench.look();
    bench.composer("❯ hello\n● Wait.\n", "", "? for shortcuts");
    bench.pass(20);
    assert!(bench.ended.is_empty(), "that frame has to hold like any other");
}

#[test]
fn composer_in_other_mode_is_not_typed_into() {
    let mut bench = Bench::ready_claude();
    bench.feed(&format!("\x1b[H\x1b[2J\r\n{RULE}\r\n! \x1b7\r\n{RULE}\r\n  ! for shell mode\x1b8"));
    bench.pass(1000);
    assert_eq!(bench.submit("touch x"), Err(SubmitError::Draft("!".into())));
    assert_eq!(bench.take_written(), "");
}

#[test]
fn composer_like_choices_are_a_dialog() {
    let mut bench = Bench::new("codex");
    bench.feed("› Ask Codex to do anything\x1b[3G");
    bench.pass(1000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    let tips = "1. one tip\r\n2. another\r\n\r\n\r\n\r\n\r\n";
    bench.feed(&format!(
        "\x1b[H\x1b[2J{tips}  Would you like to run the following command?\r\n\r\n› 1. Yes, proceed (y)\r\n  2. Yes, and always\r\n  3. No\r\n\r\n  Press enter to confirm\x1b[?25l"
    ));
    bench.pass(80);
    let choices = ["Yes, proceed (y)", "Yes, and always", "No"].map(String::from).to_vec();
    assert_eq!(*bench.driver.state(), AgentState::Blocked { kind: BlockKind::Permission, choices });
}

#[test]
fn unknown_dialog_blocks_when_silent() {
    let mut bench = Bench::ready_claude();
    bench.submit("/status").unwrap();
    bench.composer("", "/status", "");
    bench.feed("\x1b[H\x1b[2J Settings: Status\r\n Version: 2\r\n\r\n Some way to leave");
    bench.pass(2000);
    assert!(!matches!(bench.driver.state(), AgentState::Blocked { .. }));
    bench.pass(1000);
    assert!(matches!(bench.driver.state(), AgentState::Blocked { kind: BlockKind::Other, .. }));
}

#[test]
fn requested_second_interrupt_is_sent_alone() {
    let mut bench = Bench::new("opencode");
    let draw = |bench: &mut Bench, footer: &str| {
        bench.feed(&format!("\x1b[H\x1b[2J┃  Ask anything\r\n╹▀▀▀\r\n {footer}\x1b[1;4H"));
    };
    draw(&mut bench, "");
    bench.pass(4000);
    assert_eq!(bench.submit("go"), Ok(1));
    bench.feed("\x1b[H\x1b[2J┃  go\r\n╹▀▀▀\x1b[1;4H");
    draw(&mut bench, "esc interrupt");
    bench.take_written();
    bench.driver.interrupt(bench.now, 0);
    bench.effects();
    assert_eq!(bench.take_written(), "\x1b");
    bench.pass(100);
    assert_eq!(bench.take_written(), "");
    draw(&mut bench, "esc again to interrupt");
    assert_eq!(bench.take_written(), "\x1b");
    bench.pass(600);
    assert_eq!(bench.take_written(), "", "it has not had time for the second one");
    bench.pass(200);
    assert_eq!(bench.take_written(), "\x1b", "it still asks");
    draw(&mut bench, "");
    bench.pass(4000);
    assert_eq!(bench.take_written(), "");
    assert_eq!(bench.ended.last().map(|end| end.outcome), Some(Outcome::Interrupted));
}

#[test]
fn resuming_agent_is_not_ready_before_it_has_loaded() {
    let first_page = "\x1b[H\x1b[2J   ┃  Ask anything\r\n   ╹▀▀▀\r\n  tab agents  ctrl+p commands\x1b[1;7H";
    let loaded = "\x1b[H\x1b[2J   hello\r\n\r\n┃ \r\n╹▀▀▀\r\n  2.4K (1%)  ctrl+p commands\x1b[3;3H";
    let state = |goes_on: bool, wait: u64, then: &str| {
        let mut bench = Bench::new("opencode");
        if goes_on {
            bench.driver = bench.driver.resuming();
        }
        bench.feed(first_page);
        bench.pass(wait);
        if !then.is_empty() {
            bench.feed(then);
        }
        bench.pass(1600);
        bench.driver.state().clone()
    };
    assert_eq!(state(false, 0, ""), AgentState::Ready, "a new one is empty");
    assert_eq!(state(true, 15_000, ""), AgentState::Starting);
    assert_eq!(state(true, 15_000, loaded), AgentState::Ready);
    assert_eq!(state(true, 19_000, ""), AgentState::Ready, "empty indeed");
}

/// A program that reads lines, ready for one.
fn line_based(profile: &str, prompt: &str) -> Bench {
    let mut bench = Bench::new(profile);
    bench.foreground = Foreground::Idle;
    bench.feed(prompt);
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench
}

#[test]
fn unfinished_input_blocks_prompts() {
    // With marks and without, in wide characters, with a prompt on the right that is drawn again behind the cursor.
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
        let mut bench = line_based(profile, &prompt);
        bench.feed("h");
        bench.pass(2000);
        assert_eq!(bench.submit("next"), Err(SubmitError::Line("h".into())), "{profile} {prompt:?}");
        bench.feed("alf ü日");
        bench.pass(2000);
        assert_eq!(bench.submit("next"), Err(SubmitError::Line("half ü日".into())), "{profile} {prompt:?}");
        assert_eq!(bench.take_written(), "", "{profile} {prompt:?}");
        bench.feed(erase);
        bench.pass(2000);
        assert_eq!(bench.submit("next"), Ok(1), "{profile} {prompt:?}");
        assert_eq!(bench.take_written(), "next\r");
    }
}

#[test]
fn wrapped_unfinished_input_is_one_line() {
    for prompt in ["\x1b]133;A\x07$ \x1b]133;B\x07", "$ "] {
        let mut bench = line_based("shell", prompt);
        let long = "word ".repeat(20);
        bench.feed(&long);
        bench.pass(2000);
        let refused = bench.submit("next");
        assert_eq!(refused, Err(SubmitError::Line(long.trim_end().to_string())), "{prompt:?}");
        bench.feed("\x1b[1;3H\x1b[J");
        bench.pass(2000);
        assert_eq!(bench.submit("next"), Ok(1), "{prompt:?}");
    }
}

#[test]
fn suggestion_behind_cursor_is_not_input() {
    for prompt in ["\x1b]133;A\x07$ \x1b]133;B\x07", "$ "] {
        let mut bench = line_based("shell", prompt);
        bench.feed("\x1b7\x1b[90mls -la\x1b[m\x1b8");
        bench.pass(2000);
        assert_eq!(bench.submit("next"), Ok(1), "{prompt:?}");
    }
}

#[test]
fn redrawn_prompt_is_not_input() {
    let mut bench = line_based("shell", "~ $ ");
    bench.feed("\r\x1b[K~ (main) $ ");
    bench.pass(2000);
    assert_eq!(bench.submit("next"), Ok(1));
    let mut bench = line_based("shell", "$ ");
    bench.feed("echo a\r\na\r\n$ ");
    bench.pass(2000);
    assert_eq!(bench.submit("next"), Ok(1), "somebody else's command is over");
}
