//! Usage limits: recorded screens of real agents (Claude Code 2.1.330, Codex 0.169.0) with an API that refused, and
//! hand-made screens worded as in public reports.

use std::path::Path;

use nerve_agent::driver::{AgentState, Outcome, SubmitError};
use nerve_agent::profile::BlockKind;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

use crate::harness::{Harness, RULE};

/// 2026-11-22 02:00 UTC, the time of the recorded screens.
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

/// Returns a terminal at [`NIGHT`] with the recorded screen `name`.
fn recorded(profile: &str, name: &str) -> Harness {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/limits").join(name);
    let screen = std::fs::read_to_string(file).unwrap();
    let mut harness = night(profile);
    draw(&mut harness, screen.trim_end());
    harness.advance(2000);
    harness
}

fn night(profile: &str) -> Harness {
    let mut harness = Harness::new(profile);
    harness.terminal = TerminalState::new(Size::new(120, 40));
    harness.now = NIGHT;
    harness
}

/// Draws a screen with the cursor in its composer: the last row that begins with a prompt mark.
fn draw(harness: &mut Harness, screen: &str) {
    let composer = screen.lines().enumerate().filter(|(_, row)| row.starts_with(['❯', '›'])).last();
    let row = composer.map_or(0, |(at, _)| at + 1);
    harness.feed(&format!("\x1b[H\x1b[2J{}\x1b[{row};3H", screen.replace('\n', "\r\n")));
}

/// Returns Claude Code with `conversation` above its empty composer.
fn claude(conversation: &str) -> Harness {
    let mut harness = night("claude");
    draw_claude(&mut harness, conversation, "? for shortcuts");
    harness.advance(2000);
    harness
}

fn draw_claude(harness: &mut Harness, conversation: &str, footer: &str) {
    draw(harness, &format!("{conversation}\n\n{RULE}\n❯\u{a0}\n{RULE}\n  {footer}"));
}

#[test]
fn claude_is_suspended_until_limit_resets() {
    let mut harness = recorded("claude", "claude-waiting.txt");
    assert_eq!(*harness.driver.state(), suspended(at(3, 2)));
    assert_eq!(harness.driver.evidence().text, "⎿ You've hit your 5-hour limit · resets 5:02am (UTC)");
    assert_eq!(harness.driver.state().until_text().as_deref(), Some("2026-11-22T05:02:00Z"));
    assert_eq!(harness.submit("hello"), Err(SubmitError::NotReady));
    assert_eq!(harness.take_written(), "");
    // The limit has passed, but the footer still announces that the agent will continue.
    harness.advance(4 * 3_600_000);
    assert_eq!(*harness.driver.state(), suspended(None));
    let continued = "❯ hello there\n  ⎿  You've hit your 5-hour limit · resets 5:02am (UTC)\n\n● Usage limit reached · set to continue automatically at 5:02am\n\n● Usage limit reset · Continuing automatically\n\n● Continuing.";
    harness.feed("\x1b]0;◐ Claude Code\x07");
    draw_claude(&mut harness, continued, "esc to interrupt");
    assert_eq!(*harness.driver.state(), AgentState::Busy);
    harness.feed("\x1b]0;✳ Claude Code\x07");
    draw_claude(&mut harness, continued, "? for shortcuts");
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn expired_notice_is_ignored_while_visible() {
    let mut harness = recorded("claude", "claude-cancelled.txt");
    assert_eq!(*harness.driver.state(), suspended(at(3, 2)));
    harness.advance(3 * 3_600_000);
    assert_eq!(*harness.driver.state(), suspended(at(3, 2)), "two minutes are left");
    harness.advance(120_000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.advance(20 * 3_600_000);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "5:02am means the first one");
    assert!(harness.submit("hello").is_ok());
}

#[test]
fn unknown_zone_limits_suspension_to_a_day() {
    let mut harness = recorded("claude", "claude-weekly.txt");
    assert_eq!(*harness.driver.state(), suspended(None));
    assert!(harness.driver.evidence().text.ends_with("resets Nov 25, 3:05am (Europe/Berlin)"));
    harness.advance(24 * 3_600_000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn interrupt_ends_suspension() {
    let mut harness = recorded("claude", "claude-weekly.txt");
    harness.driver.interrupt(harness.now, 0);
    harness.effects();
    assert_eq!(harness.take_written(), "\x1b");
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn limit_menu_is_a_dialog() {
    let harness = recorded("claude", "claude-dialog.txt");
    let choices = [
        "Stop and wait for limit to reset",
        "Wait here, then continue automatically at Nov 25, 3:05am",
        "Upgrade your plan",
    ];
    let choices = choices.map(String::from).to_vec();
    assert_eq!(*harness.driver.state(), AgentState::Blocked { kind: BlockKind::Limit, choices });
}

#[test]
fn codex_time_without_zone_is_unknown() {
    let mut harness = recorded("codex", "codex-inline.txt");
    assert_eq!(*harness.driver.state(), suspended(None));
    assert!(
        harness.driver.evidence().text.ends_with("or try again at 5:02 AM"),
        "{:?}",
        harness.driver.evidence()
    );
    assert_eq!(harness.submit("hello"), Err(SubmitError::NotReady));
}

#[test]
fn codex_time_span_is_added_to_now() {
    let mut harness = night("codex");
    let notice = "› hello there\n\n\n■ You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 2 days 3\nhours 5 minutes.\n\n\n";
    draw(&mut harness, &format!("{notice}› Ask Codex to do anything\n\n  model · /srv/work"));
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), suspended(at(51, 5)));
    draw(
        &mut harness,
        &format!("{notice}› again\n\n• Here it is.\n\n› Ask Codex to do anything\n\n  model · /srv/work"),
    );
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready, "an answer below invalidates the notice");
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
        let harness = claude(&format!("❯ hello\n  ⎿  {words}\n\n✻ Baked for 2m 4s"));
        assert_eq!(*harness.driver.state(), suspended(until), "{words}: {:?}", harness.driver.evidence());
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
        let harness = claude(&conversation);
        assert_eq!(
            *harness.driver.state(),
            AgentState::Ready,
            "{conversation}: {:?}",
            harness.driver.evidence()
        );
    }
}

#[test]
fn turn_continues_after_limit() {
    let mut harness = claude("");
    harness.feed("\x1b]0;✳ Claude Code\x07");
    harness.submit("hello").unwrap();
    draw(&mut harness, &format!("\n\n{RULE}\n❯\u{a0}hello\n{RULE}\n"));
    assert!(harness.take_written().ends_with('\r'));
    harness.feed("\x1b]0;◐ Claude Code\x07");
    draw_claude(&mut harness, "❯ hello", "esc to interrupt");
    let notice = "❯ hello\n  ⎿  You've hit your limit · resets 3am (UTC)";
    draw_claude(&mut harness, notice, "esc to interrupt");
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Busy, "still working: the notice may be old");
    harness.feed("\x1b]0;✳ Claude Code\x07");
    draw_claude(&mut harness, notice, "? for shortcuts");
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), suspended(at(1, 0)));
    assert!(harness.ended.is_empty(), "the agent has not finished");
    harness.advance(3_600_000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    assert_eq!(harness.ended[0].outcome, Outcome::Done);
}
