//! The regions of a screen and the rules that match them.

use std::ops::Range;

use nerve_vt::screen::{Row, Screen};

use super::{ComposerView, find_composer};
use crate::profile::{Profile, Region, Rule, RuleState};

/// The row of the screen that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleMatch {
    /// Index of the rule in [`Profile::rules`].
    pub rule: usize,
    /// Row on the screen, 0-based.
    pub row: usize,
    /// Text of the row without surrounding blanks.
    pub text: String,
}

/// Returns all rules of a profile that match a screen, in their order. The first one decides the state, unless it is a usage limit that
/// is over.
pub fn match_rules(profile: &Profile, screen: &Screen) -> Vec<RuleMatch> {
    let regions = Regions::find(profile, screen);
    let rules = profile.rules.iter().enumerate();
    let matched = rules.filter_map(|(at, rule)| {
        let row = regions.match_rule(rule, screen)?.start;
        Some(RuleMatch { rule: at, row, text: screen.rows[row].text.trim().to_string() })
    });
    matched.collect()
}

/// The parts of a screen that rules refer to.
#[derive(Debug)]
pub(super) struct Regions {
    /// The composer, if one is drawn.
    pub(super) composer: Option<ComposerView>,
    /// Rows in which a dialog may be; empty if a composer is drawn.
    pub(super) dialog: Range<usize>,
}

impl Regions {
    /// Finds the regions of a screen.
    pub(super) fn find(profile: &Profile, screen: &Screen) -> Regions {
        let composer = profile.composer.as_ref().and_then(|composer| find_composer(composer, screen));
        // A dialog's choice can look like a composer. With the dialog's question above, it is a choice.
        let composer = composer.filter(|view| !is_dialog_choice(profile, screen, view));
        let dialog = if composer.is_some() { 0..0 } else { dialog_rows(profile, screen) };
        Regions { composer, dialog }
    }

    /// Returns the rows of the rule's region from its match on; `None` if it does not match.
    pub(super) fn match_rule(&self, rule: &Rule, screen: &Screen) -> Option<Range<usize>> {
        let region = match (rule.region, &self.composer) {
            (Region::Composer, Some(view)) => view.rows.0..view.rows.1,
            (Region::Footer, Some(view)) => view.rows.1..screen.rows.len(),
            (Region::Status, Some(view)) => status_rows(screen, view.rows.0, rule.rows),
            (Region::Dialog, None) => self.dialog.clone(),
            (Region::Cursor, _) => {
                let row = screen.cursor.row as usize;
                row..(row + 1).min(screen.rows.len())
            }
            _ => 0..0,
        };
        let rows = screen.rows.get(region.clone())?;
        let matches_rule = |at: &usize| rule.pattern.is_match(&rows[*at].text);
        let at = match &rule.unless_below {
            None => (0..rows.len()).find(matches_rule)?,
            // The agent has continued if a row below the last match says so.
            Some(unless) => {
                let at = (0..rows.len()).rev().find(matches_rule)?;
                (!rows[at + 1..].iter().any(|row| unless.is_match(&row.text))).then_some(at)?
            }
        };
        Some(region.start + at..region.end)
    }
}

fn is_dialog_choice(profile: &Profile, screen: &Screen, view: &ComposerView) -> bool {
    let first =
        screen.rows.get(view.rows.0).is_some_and(|row| profile.dialog.choice.choice(&row.text).is_some());
    let mut questions =
        profile.rules.iter().filter(|rule| rule.region == Region::Dialog && rule.state == RuleState::Blocked);
    let rows = &screen.rows[dialog_rows(profile, screen)];
    first && questions.any(|rule| rows.iter().any(|row| rule.pattern.is_match(&row.text)))
}

fn status_rows(screen: &Screen, composer_top: usize, count: usize) -> Range<usize> {
    let rows = &screen.rows[..composer_top];
    // Rules and hint rows separate the status block from the composer: take the last few rows with text.
    let start = rows
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, row)| !row.text.is_empty())
        .map(|(at, _)| at)
        .nth(count.saturating_sub(1))
        .unwrap_or(0);
    start..composer_top
}

fn dialog_rows(profile: &Profile, screen: &Screen) -> Range<usize> {
    let end_of_text = |rows: &[Row]| rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |at| at + 1);
    let is_choice = |row: &Row| profile.dialog.choice.choice(&row.text).is_some();
    let is_below = |row: &Row| profile.dialog.below.as_ref().is_some_and(|p| p.is_match(&row.text));
    let below = screen.rows.iter().rposition(|row| is_choice(row) || is_below(row));
    let below = below.filter(|&at| is_below(&screen.rows[at]));
    let end = end_of_text(&screen.rows[..below.unwrap_or(screen.rows.len())]);
    let start = end.saturating_sub(profile.dialog.rows);
    let above = profile.dialog.above.as_ref();
    let above = above.and_then(|p| screen.rows[start..end].iter().rposition(|row| p.is_match(&row.text)));
    above.map_or(start, |at| start + at)..end
}
