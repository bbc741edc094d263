//! Drafts the rules for a working program: rows that appear only during turns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use nerve_agent::driver::observe_screen;
use nerve_agent::profile::Profile;
use nerve_vt::screen::{Row, Screen};
use regex::Regex;

use super::session::{Session, TimedScreen};
use super::text::{escape_numbers, quote, show, show_time};

/// An offer to interrupt the turn, with its key.
const OFFER: &str =
    r"(?i)\b(?<key>esc|escape|ctrl[+-]c)\b(?:\s+(?:to|again to))?\s+(?:interrupt|cancel|stop|abort)\b";
/// Characters that move in front of a text while a program works.
const SPINNERS: &str = r"⠁-⣿◐◓◑◒✢✳✶✻✽·∗*|/\-";
/// Rows above the composer that rules examine by default.
const STATUS_ROWS: usize = 5;
/// Maximum number of rules.
const MAX_RULES: usize = 3;

/// The drafted rules, as TOML.
#[derive(Debug, Default)]
pub(super) struct BusyDraft {
    /// Tables `[[rules]]`.
    pub(super) rules: String,
    /// The key that interrupts a turn, as in a profile.
    pub(super) interrupt: Option<&'static str>,
}

/// A pattern, and the turns in which a row matched it.
struct Candidate<'a> {
    turns: BTreeSet<usize>,
    /// Different rows.
    rows: BTreeSet<String>,
    first: (&'a TimedScreen, usize),
    is_offer: bool,
}

/// Drafts rules for the rows around the composer. `profile`: the profile with the drafted composer only.
pub(super) fn draft_busy(profile: &Profile, session: &Session) -> BusyDraft {
    let mut idle_rows: BTreeSet<(&str, String)> = BTreeSet::new();
    for idle_screen in &session.idle_screens {
        for (region, at) in rows_around(profile, &idle_screen.screen) {
            idle_rows
                .extend(patterns(&idle_screen.screen.rows[at]).into_iter().map(|found| (region, found.0)));
        }
    }
    let mut candidates: BTreeMap<(&str, String), Candidate<'_>> = BTreeMap::new();
    for (number, turn) in session.turns.iter().enumerate() {
        for shown in &turn.screens {
            for (region, at) in rows_around(profile, &shown.screen) {
                let row = &shown.screen.rows[at];
                for (pattern, is_offer) in patterns(row) {
                    let candidate = candidates.entry((region, pattern)).or_insert_with(|| Candidate {
                        turns: BTreeSet::new(),
                        rows: BTreeSet::new(),
                        first: (shown, at),
                        is_offer,
                    });
                    candidate.turns.insert(number);
                    candidate.rows.insert(row.text.clone());
                }
            }
        }
    }
    candidates.retain(|key, candidate| !idle_rows.contains(key) && is_busy_sign(candidate));
    write_rules(candidates)
}

/// Returns true if the rows are a sign of work: an offer to interrupt it, or a row that changes in several turns.
fn is_busy_sign(candidate: &Candidate<'_>) -> bool {
    candidate.is_offer || (candidate.turns.len() >= 2 && candidate.rows.len() > candidate.turns.len())
}

fn write_rules(candidates: BTreeMap<(&str, String), Candidate<'_>>) -> BusyDraft {
    let mut candidates: Vec<_> = candidates.into_iter().collect();
    candidates.sort_by_key(|(_, candidate)| (!candidate.is_offer, std::cmp::Reverse(candidate.turns.len())));
    let mut draft = BusyDraft::default();
    for ((region, pattern), candidate) in candidates.into_iter().take(MAX_RULES) {
        let (shown, at) = candidate.first;
        let text = &shown.screen.rows[at].text;
        let _ = write!(
            draft.rules,
            "\n# Only during turns: in {} of them; the first at {}, row {}: {}.\n[[rules]]\nstate = \"busy\"\nregion = \"{region}\"\npattern = {}\n",
            candidate.turns.len(),
            show_time(shown.elapsed_ms),
            at + 1,
            show(text),
            quote(&pattern),
        );
        if draft.interrupt.is_none() && candidate.is_offer {
            draft.interrupt = offer_key(text);
        }
    }
    draft
}

/// Returns the rows with text near the composer, with their region.
fn rows_around(profile: &Profile, screen: &Screen) -> Vec<(&'static str, usize)> {
    let Some(view) = observe_screen(profile, screen).composer else { return Vec::new() };
    let has_text = |at: &usize| !screen.rows[*at].text.trim().is_empty();
    let status = (0..view.rows.0).rev().filter(has_text).take(STATUS_ROWS).map(|at| ("status", at));
    let footer = (view.rows.1..screen.rows.len()).filter(has_text).map(|at| ("footer", at));
    status.chain(footer).collect()
}

/// Returns patterns for a row, each with whether it is an offer to interrupt.
fn patterns(row: &Row) -> Vec<(String, bool)> {
    let offer = offer_pattern()
        .find(&row.text)
        .map(|found| (format!(r"\b{}\b", regex::escape(found.as_str())), true));
    let spinner = spinner_pattern().captures(&row.text).map(|groups| {
        let (indent, text) = (&groups["indent"], &groups["text"]);
        (format!("^{indent}[{SPINNERS}] {}", escape_numbers(text.trim_end())), false)
    });
    offer.into_iter().chain(spinner).collect()
}

fn offer_key(row: &str) -> Option<&'static str> {
    let key = offer_pattern().captures(row)?["key"].to_lowercase();
    Some(if key.starts_with("esc") { r"\e" } else { r"\x03" })
}

#[expect(clippy::expect_used, reason = "a constant, compiled by every test run")]
fn offer_pattern() -> &'static Regex {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new(OFFER).expect("a valid pattern"));
    &PATTERN
}

/// A moving character and the first words behind it, up to the first number or punctuation.
#[expect(clippy::expect_used, reason = "a constant, compiled by every test run")]
fn spinner_pattern() -> &'static Regex {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = format!(r"^(?<indent>\s*)[{SPINNERS}] (?<text>\p{{Alphabetic}}[\p{{Alphabetic}} ]*)");
        Regex::new(&pattern).expect("a valid pattern")
    });
    &PATTERN
}
