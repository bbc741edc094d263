//! Usage limits: screens of the real agents (Claude Code 2.1.330, Codex 0.169.0) before an API that refused, and hand-made ones with
//! the words of public reports.

use std::path::Path;

use nerve_term::driver::{AgentState, Outcome, SubmitError};
use nerve_term::event::{Size, TsNs};
use nerve_term::profile::BlockKind;
use nerve_term::terminal::TerminalState;

use crate::harness::{Bench, RULE};

/// 2026-11-22 02:00 UTC, and what is named on the screens.
const NIGHT: TsNs = TsNs(1_795_312_800 * SECOND);
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

fn at(hours: u64, minutes: u64) -> Option<TsNs> {
    Some(TsNs(NIGHT.0 + (hours * HOUR) + minutes * MINUTE))
}

fn suspended(until: Option<TsNs>) -> AgentState {
    AgentState::Suspended { until }
}

/// A terminal at [`NIGHT`] with the recorded screen `name`.
fn recorded(profile: &str, name: &str) -> Bench {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/limits").join(name);
    let screen = std::fs::read_to_string(file).unwrap();
    let mut bench = night(profile);
    draw(&mut bench, screen.trim_end());
    bench.pass(2000);
    bench
}

fn night(profile: &str) -> Bench {
    let mut bench = Bench::new(profile);
    bench.terminal = TerminalState::new(Size::new(120, 40));
    bench.now = NIGHT;
    bench
}

/// Draws a screen and puts the cursor into its composer: the last row that begins with a prompt mark.
fn draw(bench: &mut Bench, screen: &str) {
    let composer = screen.lines().enumerate().filter(|(_, row)| row.starts_with(['❯', '›'])).last();
    let row = composer.map_or(0, |(at, _)| at + 1);
    bench.feed(&format!("\x1b[H\x1b[2J{}\x1b[{row};3H", screen.replace('\n', "\r\n")));
}

/// Claude Code with `conversation` above its empty composer.
fn claude(conversation: &str) -> Bench {
    let mut bench = night("claude");
    draw_claude(&mut bench, conversation, "? for shortcuts");
    bench.pass(2000);
    bench
}

fn draw_claude(bench: &mut Bench, conversation: &str, footer: &str) {
    draw(bench, &format!("{conversation}\n\n{RULE}\n❯\u{a0}\n{RULE}\n  {footer}"));
}

#[test]
fn claude_is_suspended_until_limit_resets() {
    let mut bench = recorded("claude", "claude-waiting.txt");
    assert_eq!(*bench.driver.state(), suspended(at(3, 2)));
    assert_eq!(bench.driver.evidence().text, "⎿ You've hit your 5-hour limit · resets 5:02am (UTC)");
    assert_eq!(bench.driver.state().until_text().as_deref(), Some("2026-11-22T05:02:00Z"));
    assert_eq!(bench.submit("hello"), Err(SubmitError::NotReady));
    assert_eq!(bench.take_written(), "");
    // The time is over, and its footer still says that it will go on by itself.
    bench.pass(4 * 3_600_000);
    assert_eq!(*bench.driver.state(), suspended(None));
    let went_on = "❯ hello there\n  ⎿  You've hit your 5-hour limit · resets 5:02am (UTC)\n\n● Usage limit reached · set to continue automatically at 5:02am\n\n● Usage limit reset · Continuing automatically\n\n● Here I go on.";
    bench.feed("\x1b]0;◐ Claude Code\x07");
    draw_claude(&mut bench, went_on, "esc to interrupt");
    assert_eq!(*bench.driver.state(), AgentState::Busy);
    bench.feed("\x1b]0;✳ Claude Code\x07");
    draw_claude(&mut bench, went_on, "? for shortcuts");
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn expired_notice_is_ignored_while_visible() {
    let mut bench = recorded("claude", "claude-cancelled.txt");
    assert_eq!(*bench.driver.state(), suspended(at(3, 2)));
    bench.pass(3 * 3_600_000);
    assert_eq!(*bench.driver.state(), suspended(at(3, 2)), "two minutes are left");
    bench.pass(120_000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.pass(20 * 3_600_000);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "5:02am means the first one");
    assert!(bench.submit("hello").is_ok());
}

#[test]
fn unknown_zone_limits_suspension_to_a_day() {
    let mut bench = recorded("claude", "claude-weekly.txt");
    assert_eq!(*bench.driver.state(), suspended(None));
    assert!(bench.driver.evidence().text.ends_with("resets Nov 25, 3:05am (Europe/Berlin)"));
    bench.pass(24 * 3_600_000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn interrupt_ends_suspension() {
    let mut bench = recorded("claude", "claude-weekly.txt");
    bench.driver.interrupt(bench.now, 0);
    bench.effects();
    assert_eq!(bench.take_written(), "\x1b");
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
}

#[test]
fn limit_menu_is_a_dialog() {
    let bench = recorded("claude", "claude-dialog.txt");
    let choices = [
        "Stop and wait for limit to reset",
        "Wait here, then continue automatically at Nov 25, 3:05am",
        "Upgrade your plan",
    ];
    let choices = choices.map(String::from).to_vec();
    assert_eq!(*bench.driver.state(), AgentState::Blocked { kind: BlockKind::Limit, choices });
}

#[test]
fn codex_time_without_zone_is_unknown() {
    let mut bench = recorded("codex", "codex-inline.txt");
    assert_eq!(*bench.driver.state(), suspended(None));
    assert!(
        bench.driver.evidence().text.ends_with("or try again at 5:02 AM"),
        "{:?}",
        bench.driver.evidence()
    );
    assert_eq!(bench.submit("hello"), Err(SubmitError::NotReady));
}

#[test]
fn codex_time_span_is_added_to_now() {
    let mut bench = night("codex");
    let told = "› hello there\n\n\n■ You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 2 days 3\nhours 5 minutes.\n\n\n";
    draw(&mut bench, &format!("{told}› Ask Codex to do anything\n\n  model · /srv/work"));
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), suspended(at(51, 5)));
    draw(
        &mut bench,
        &format!("{told}› again\n\n• Here it is.\n\n› Ask Codex to do anything\n\n  model · /srv/work"),
    );
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), AgentState::Ready, "an answer below it is news");
}

#[test]
fn older_notices_are_recognised() {
    for (words, until) in [
        ("5-hour limit reached ∙ resets 3pm (UTC)\n     /upgrade to increase your usage limit.", at(13, 0)),
        ("5-hour limit reached ∙ resets 3pm\n     /upgrade to increase your usage limit.", None),
        ("Session limit reached ∙ resets 9:30pm", None),
        ("Claude usage limit reached. Your limit will reset at 3pm (UTC).", at(13, 0)),
        ("Claude usage limit reached. Your limit will reset at 3pm (Europe/Berlin).", None),
        ("Claude AI usage limit reached|1795316400", at(1, 0)),
        ("Weekly limit reached ∙ resets Nov 24, 5pm (UTC)", at(63, 0)),
        ("You've hit your limit · resets 7pm (UTC)", at(17, 0)),
        ("You've hit your session limit · resets 12:50am (UTC) · progress saved", at(22, 50)),
        ("You've reached your Opus weekly limit.", None),
    ] {
        let bench = claude(&format!("❯ hello\n  ⎿  {words}\n\n✻ Baked for 2m 4s"));
        assert_eq!(*bench.driver.state(), suspended(until), "{words}: {:?}", bench.driver.evidence());
    }
}

#[test]
fn quoted_and_old_notices_are_ignored() {
    let notice = "You've hit your limit · resets 7pm (UTC)";
    for conversation in [
        format!("❯ what does it say?\n● {notice}"),
        format!("❯ what does it say?\n● It says:\n  {notice}\n  5-hour limit reached ∙ resets 3pm"),
        format!("❯ hello\n  ⎿  {notice}\n\n❯ again\n● Hi."),
        format!("❯ hello\n  ⎿  {notice}\n\n● Using it again now."),
        "❯ hello\n  ⎿  Context limit reached · /compact or /clear to continue".to_string(),
    ] {
        let bench = claude(&conversation);
        assert_eq!(*bench.driver.state(), AgentState::Ready, "{conversation}: {:?}", bench.driver.evidence());
    }
}

#[test]
fn turn_continues_after_limit() {
    let mut bench = claude("");
    bench.feed("\x1b]0;✳ Claude Code\x07");
    bench.submit("hello").unwrap();
    draw(&mut bench, &format!("\n\n{RULE}\n❯\u{a0}hello\n{RULE}\n"));
    assert!(bench.take_written().ends_with('\r'));
    bench.feed("\x1b]0;◐ Claude Code\x07");
    draw_claude(&mut bench, "❯ hello", "esc to interrupt");
    let notice = "❯ hello\n  ⎿  You've hit your limit · resets 3am (UTC)";
    draw_claude(&mut bench, notice, "esc to interrupt");
    bench.pass(1000);
    assert_eq!(*bench.driver.state(), AgentState::Busy, "it still works, the notice may be an old one");
    bench.feed("\x1b]0;✳ Claude Code\x07");
    draw_claude(&mut bench, notice, "? for shortcuts");
    bench.pass(1000);
    assert_eq!(*bench.driver.state(), suspended(at(1, 0)));
    assert!(bench.ended.is_empty(), "the agent has not said its last word");
    bench.pass(3_600_000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    assert_eq!(bench.ended[0].outcome, Outcome::Done);
}
