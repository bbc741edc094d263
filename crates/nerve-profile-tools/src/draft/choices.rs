//! Numbered choices of dialogs.

use std::sync::LazyLock;

use nerve_vt::screen::Screen;
use regex::Regex;

/// A choice, with the mark of the selected one in its group `selected`. More marks than the default of profiles.
const CHOICE: &str = r"^[\s│┃]*(?<selected>[❯›●>→▶▸*])?\s*\d+[.)]\s+\S";
/// Marks that the default pattern of profiles knows.
const KNOWN_MARKS: [&str; 3] = ["❯", "›", "●"];

/// The choices on a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choices {
    /// Index of the first choice's row.
    pub(super) first_row: usize,
    /// The mark of the selected choice, if profiles have to define it.
    pub(super) unknown_mark: Option<String>,
}

/// Finds the last list of at least two choices, one of them selected.
#[expect(clippy::expect_used, reason = "a constant, compiled by every test run")]
pub(super) fn find_choices(screen: &Screen) -> Option<Choices> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new(CHOICE).expect("a valid pattern"));
    let groups = |at: usize| PATTERN.captures(&screen.rows[at].text);
    let last = (0..screen.rows.len()).rev().find(|at| groups(*at).is_some())?;
    // Labels may continue in the next row.
    let mut first_row = last;
    let mut count = 0;
    let mut mark = None;
    for at in (last.saturating_sub(24)..=last).rev() {
        let Some(groups) = groups(at) else {
            if first_row - at > 2 {
                break;
            }
            continue;
        };
        first_row = at;
        count += 1;
        mark = groups.name("selected").map(|group| group.as_str().to_string()).or(mark);
    }
    let mark = mark.filter(|_| count >= 2)?;
    let is_known = KNOWN_MARKS.contains(&mark.as_str());
    Some(Choices { first_row, unknown_mark: (!is_known).then_some(mark) })
}
