//! Drafts the patterns of window titles.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::session::{Session, TimedScreen};
use super::text::{quote, show, show_time};

/// First characters of braille spinners.
const BRAILLE: std::ops::RangeInclusive<char> = '⠁'..='⣿';

/// Drafts the table `[title]`; empty if the title does not tell a working program from an idle one.
pub(super) fn draft_titles(session: &Session) -> String {
    let idle = marks(session.idle_screens.iter());
    let turn_screens = session.turns.iter().flat_map(|turn| &turn.screens);
    let busy: BTreeSet<char> =
        marks(turn_screens).difference(&idle).copied().filter(|mark| !mark.is_alphanumeric()).collect();
    let screens = || session.turns.iter().flat_map(|turn| &turn.screens);
    let Some(shown) = screens().find(|shown| shown.screen.title.starts_with(|c: char| busy.contains(&c)))
    else {
        return String::new();
    };
    let mut table = String::from("\n[title]\n");
    let is_marked = !idle.is_empty() && idle.iter().all(|mark| !mark.is_alphanumeric());
    if let Some(idle_screen) =
        session.idle_screens.iter().find(|idle_screen| is_marked && !idle_screen.screen.title.is_empty())
    {
        let _ =
            writeln!(table, "# {}: {}.", show_time(idle_screen.elapsed_ms), show(&idle_screen.screen.title));
        let _ = writeln!(table, "idle = {}", quote(&class(&idle)));
    }
    let _ = writeln!(table, "# {}: {}.", show_time(shown.elapsed_ms), show(&shown.screen.title));
    let _ = writeln!(table, "busy = {}", quote(&class(&busy)));
    table
}

/// Returns the first characters of the titles.
fn marks<'a>(screens: impl Iterator<Item = &'a TimedScreen>) -> BTreeSet<char> {
    screens.filter_map(|shown| shown.screen.title.chars().next()).collect()
}

/// Returns a pattern for a text that begins with one of the characters.
fn class(marks: &BTreeSet<char>) -> String {
    let mut class: String = marks
        .iter()
        .filter(|mark| !BRAILLE.contains(*mark))
        .map(|mark| regex::escape(&mark.to_string()))
        .collect();
    if marks.iter().any(|mark| BRAILLE.contains(mark)) {
        let _ = write!(class, "{}-{}", BRAILLE.start(), BRAILLE.end());
    }
    format!("^[{class}]")
}
