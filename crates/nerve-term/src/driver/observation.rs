//! One look at the screen: where the composer is, what it holds, and what the live region says.

use super::state::Source;
use super::usage_limit::LimitNotice;
use crate::profile::{BlockKind, Composer, Layout, Pattern, Profile, Region, Rule, RuleState};
use crate::screen::{Row, Screen};

/// What one look at the screen says, before it is weighed against other signals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// The composer, if one is drawn.
    pub composer: Option<ComposerView>,
    /// What the screen and title say.
    pub says: Option<Says>,
    /// The title says that the agent works.
    pub works: bool,
    /// Choices of the dialog, top to bottom or left to right, if one is shown.
    pub choices: Vec<ChoiceRow>,
    /// They stand side by side.
    pub across: bool,
    /// All text of the dialog, its cursor left out; empty if none is shown.
    pub dialog: String,
    /// The words of the last rows above the dialog, without what ticks: two dialogs of the same text differ in what led to them.
    pub context: String,
    /// The conversation has nothing in it yet, where the profile tells how that looks.
    pub empty: bool,
}

impl Reading {
    /// Does it say what `earlier` said, and show the same dialog with its cursor where it was?
    pub(super) fn stands(&self, earlier: &Reading) -> bool {
        let kind = |reading: &Reading| reading.says.as_ref().map(std::mem::discriminant);
        kind(self) == kind(earlier)
            && self.works == earlier.works
            && (&self.dialog, &self.context, &self.choices)
                == (&earlier.dialog, &earlier.context, &earlier.choices)
    }
}

/// What a look can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// Waiting for a prompt.
    Ready(String),
    /// Working, and which sign says so.
    Busy(Source, String),
    /// Asking, and which sign says so.
    Blocked(BlockKind, Source, String),
    /// Waiting for the end of a usage limit.
    Suspended(LimitNotice),
}

/// The composer as drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposerView {
    /// Rows of the screen it takes: first, and one past the last.
    pub rows: (usize, usize),
    /// What was typed into it; empty where only a placeholder shows.
    pub draft: String,
    /// A paste stands there as a chip.
    pub chip: bool,
}

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceRow {
    /// Its text.
    pub label: String,
    /// The dialog's cursor stands on it.
    pub selected: bool,
}

/// Looks at a screen with a profile's eyes.
pub fn look(profile: &Profile, screen: &Screen) -> Reading {
    look_past(profile, screen, |_| false)
}

/// Looks at a screen on which notices that are `over` mean nothing.
pub(super) fn look_past(
    profile: &Profile,
    screen: &Screen,
    mut over: impl FnMut(&LimitNotice) -> bool,
) -> Reading {
    let composer = profile.composer.as_ref().and_then(|composer| find_composer(composer, screen));
    // A dialog's choices can look like a composer: where its question stands above them, it is one.
    let composer = composer.filter(|view| !is_choice(profile, screen, view));
    let dialog = if composer.is_some() { 0..0 } else { dialog_rows(profile, screen) };
    let rule = profile.rules.iter().find_map(|rule| {
        let rows = match (rule.region, &composer) {
            (Region::Footer, Some(view)) => view.rows.1..screen.rows.len(),
            (Region::Status, Some(view)) => status_rows(screen, view.rows.0),
            (Region::Dialog, None) => dialog.clone(),
            (Region::Cursor, _) => {
                let row = screen.cursor.row as usize;
                row..(row + 1).min(screen.rows.len())
            }
            _ => 0..0,
        };
        let found = find_row(rule, screen.rows.get(rows)?)?;
        let notice = (rule.state == RuleState::Suspended).then(|| notice(rule, found));
        if notice.as_ref().is_some_and(&mut over) {
            return None;
        }
        Some((rule, found[0].text.trim(), notice))
    });
    let ((choices, across), dialog, context) = match &rule {
        Some((rule, ..)) if rule.state == RuleState::Blocked => {
            let (above, rows) = (&screen.rows[..dialog.start], &screen.rows[dialog]);
            let across = choices_across(profile, rows).map(|choices| (choices, true));
            let found = across.unwrap_or_else(|| (choices(profile, rows), false));
            (found, dialog_text(profile, rows), context(above))
        }
        _ => Default::default(),
    };
    let says = rule.map(|(rule, row, notice)| {
        let text = format!("row '{}'", clip(row));
        match (rule.state, notice) {
            (_, Some(notice)) => Says::Suspended(notice),
            (RuleState::Busy, None) => Says::Busy(Source::Screen, text),
            (RuleState::Blocked, None) => Says::Blocked(rule.kind, Source::Screen, text),
            (RuleState::Ready | RuleState::Suspended, None) => Says::Ready(text),
        }
    });
    let says = with_title(profile, screen, composer.is_some(), says);
    let empty = is_empty(profile, screen, composer.as_ref());
    let works = profile.title.busy.as_ref().is_some_and(|busy| busy.is_match(&screen.title));
    Reading { composer, works, says, choices, across, dialog, context, empty }
}

fn is_empty(profile: &Profile, screen: &Screen, composer: Option<&ComposerView>) -> bool {
    let pattern = profile.session.as_ref().and_then(|session| session.empty.as_ref());
    let (Some(pattern), Some(composer)) = (pattern, composer) else { return false };
    screen.rows[composer.rows.1..].iter().any(|row| pattern.is_match(&row.text))
}

/// The rows from the last one on that the rule's pattern fits, unless the agent has gone on since.
fn find_row<'r>(rule: &Rule, rows: &'r [Row]) -> Option<&'r [Row]> {
    let fits = |row: &Row| rule.pattern.is_match(&row.text);
    let Some(unless) = &rule.unless_below else {
        return rows.iter().position(fits).map(|at| &rows[at..]);
    };
    let at = rows.iter().rposition(fits)?;
    (!rows[at + 1..].iter().any(|row| unless.is_match(&row.text))).then(|| &rows[at..])
}

/// How many rows a notice can have.
const NOTICE_ROWS: usize = 6;

/// Reads the notice that begins in the first of `rows`.
fn notice(rule: &Rule, rows: &[Row]) -> LimitNotice {
    let paragraph = rows.iter().map(|row| row.text.trim_end()).take(NOTICE_ROWS);
    let mut text = String::new();
    for row in paragraph.take_while(|row| !row.is_empty()) {
        // The first row keeps its indentation: the pattern was made for rows as they stand.
        let (gap, row) = if text.is_empty() { ("", row) } else { (" ", row.trim_start()) };
        text.extend([gap, row]);
    }
    let (text, when) = rule.pattern.until(&text).unwrap_or((&text, None));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    LimitNotice { text, when: when.map(|when| when.trim().to_string()) }
}

fn is_choice(profile: &Profile, screen: &Screen, view: &ComposerView) -> bool {
    let first =
        screen.rows.get(view.rows.0).is_some_and(|row| profile.dialog.choice.choice(&row.text).is_some());
    let asks = |row: &Row| {
        let rules = profile
            .rules
            .iter()
            .filter(|rule| rule.region == Region::Dialog && rule.state == RuleState::Blocked);
        rules.into_iter().any(|rule| rule.pattern.is_match(&row.text))
    };
    first && screen.rows[dialog_rows(profile, screen)].iter().any(asks)
}

/// Title and screen have to agree before a screen with a composer counts as ready; either alone makes it busy.
fn with_title(profile: &Profile, screen: &Screen, composer: bool, says: Option<Says>) -> Option<Says> {
    let is = |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(|p| p.is_match(&screen.title));
    // A notice that stands there while the agent works is an old one.
    let works = is(&profile.title.busy);
    if says.as_ref().is_some_and(|says| !(works && matches!(says, Says::Suspended(_)))) {
        return says;
    }
    if works {
        return Some(Says::Busy(Source::Title, format!("'{}'", clip(&screen.title))));
    }
    if is(&profile.title.blocked) {
        let text = format!("'{}'", clip(&screen.title));
        return Some(Says::Blocked(BlockKind::Permission, Source::Title, text));
    }
    let title_ok = profile.title.idle.is_none() || screen.title.is_empty() || is(&profile.title.idle);
    (composer && title_ok).then(|| {
        let title = if screen.title.is_empty() {
            String::new()
        } else {
            format!(", title '{}'", clip(&screen.title))
        };
        Says::Ready(format!("composer without a busy sign{title}"))
    })
}

fn find_composer(composer: &Composer, screen: &Screen) -> Option<ComposerView> {
    let cursor = screen.cursor.row as usize;
    let (start, end) = match composer.layout {
        Layout::Box => boxed(composer, &screen.rows)?,
        Layout::Bar => barred(composer, &screen.rows)?,
        Layout::Row => around_cursor(composer, &screen.rows, cursor)?,
    };
    // A drawn composer that does not hold the cursor is not where keys go.
    if !(start..end).contains(&cursor) {
        return None;
    }
    let typed = draft(composer, &screen.rows[start..end]);
    let placeholder = composer.placeholder.iter().any(|p| p.is_match(&typed)) || is_dim(&screen.rows[start]);
    let chip = composer.chip.as_ref().is_some_and(|p| p.is_match(&typed));
    Some(ComposerView { rows: (start, end), draft: if placeholder { String::new() } else { typed }, chip })
}

fn boxed(composer: &Composer, rows: &[Row]) -> Option<(usize, usize)> {
    let (above, below) = (composer.above.as_ref()?, composer.below.as_ref()?);
    let end = rows.iter().rposition(|row| below.is_match(&row.text))?;
    let top = rows[..end].iter().rposition(|row| above.is_match(&row.text))?;
    let first = rows.get(top + 1)?;
    let starts = composer.prompt.is_match(&first.text) || is_other_mode(composer, first);
    (top + 1 < end && starts).then_some((top + 1, end))
}

fn barred(composer: &Composer, rows: &[Row]) -> Option<(usize, usize)> {
    let below = composer.below.as_ref()?;
    let end = rows.iter().rposition(|row| below.is_match(&row.text))?;
    let start =
        rows[..end].iter().rposition(|row| !composer.prompt.is_match(&row.text)).map_or(0, |at| at + 1);
    (start < end).then_some((start, end))
}

fn around_cursor(composer: &Composer, rows: &[Row], cursor: usize) -> Option<(usize, usize)> {
    let start = (0..=cursor.min(rows.len().checked_sub(1)?))
        .rev()
        .find(|at| composer.prompt.is_match(&rows[*at].text))?;
    // Rows of a draft are indented or blank; anything else between mark and cursor is conversation or a dialog.
    let drafted =
        rows[start + 1..=cursor].iter().all(|row| row.text.is_empty() || row.text.starts_with("  "));
    let beyond = |row: &Row| !row.text.starts_with("  ");
    let end = rows[cursor + 1..].iter().position(beyond).map_or(rows.len(), |at| cursor + 1 + at);
    drafted.then_some((start, end))
}

fn is_other_mode(composer: &Composer, row: &Row) -> bool {
    composer.other_mode.as_ref().is_some_and(|mode| mode.is_match(&row.text))
}

fn draft(composer: &Composer, rows: &[Row]) -> String {
    let text = |row: &Row, first: bool| match composer.layout {
        _ if first && is_other_mode(composer, row) => row.text.trim_end().to_string(),
        Layout::Bar => composer.prompt.after(&row.text).unwrap_or("").trim().to_string(),
        _ if first => composer.prompt.after(&row.text).unwrap_or("").trim_end().to_string(),
        _ => row.text.trim().to_string(),
    };
    let lines: Vec<String> = rows.iter().enumerate().map(|(at, row)| text(row, at == 0)).collect();
    match composer.layout {
        // The first paragraph is the draft, status rows follow it.
        Layout::Bar => lines
            .iter()
            .skip_while(|l| l.is_empty())
            .take_while(|l| !l.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("\n"),
        _ => lines.join("\n").trim().to_string(),
    }
}

/// Placeholders are drawn dim; drafts never are.
fn is_dim(row: &Row) -> bool {
    let text: Vec<_> = row.runs.iter().filter(|run| run.start >= 2).collect();
    !text.is_empty()
        && text.iter().skip(1).all(|run| run.style.dim)
        && text.last().is_some_and(|run| run.style.dim)
}

fn status_rows(screen: &Screen, composer_top: usize) -> std::ops::Range<usize> {
    let rows = &screen.rows[..composer_top];
    // Rules and single hint rows stand between the status block and the composer: look at the last few rows with text.
    let start = rows
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, row)| !row.text.is_empty())
        .map(|(at, _)| at)
        .nth(4)
        .unwrap_or(0);
    start..composer_top
}

fn dialog_rows(profile: &Profile, screen: &Screen) -> std::ops::Range<usize> {
    let end = screen.rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |at| at + 1);
    let start = end.saturating_sub(profile.dialog.rows);
    let above = profile.dialog.above.as_ref();
    let above = above.and_then(|p| screen.rows[start..end].iter().rposition(|row| p.is_match(&row.text)));
    above.map_or(start, |at| start + at)..end
}

/// Rows between two choices of one dialog at most: wrapped labels, a blank row. What stands higher is another list.
const CHOICE_GAP: usize = 3;

fn choices(profile: &Profile, rows: &[Row]) -> Vec<ChoiceRow> {
    let mut found = Vec::new();
    let mut gap = 0;
    for row in rows.iter().rev() {
        match profile.dialog.choice.choice(&row.text) {
            Some((selected, label)) => {
                found.push(ChoiceRow { label: label.trim().to_string(), selected });
                gap = 0;
            }
            None if found.is_empty() => {}
            None => gap += 1,
        }
        if gap > CHOICE_GAP {
            break;
        }
    }
    found.reverse();
    found
}

/// Choices in one row, left to right. The text does not tell which is selected: its background is not that of the row's end.
fn choices_across(profile: &Profile, rows: &[Row]) -> Option<Vec<ChoiceRow>> {
    let pattern = profile.dialog.row.as_ref()?;
    let (row, (start, held)) = rows.iter().rev().find_map(|row| Some((row, pattern.choices(&row.text)?)))?;
    let background = |col: usize| {
        let covers =
            |start: u16, len: u16| (usize::from(start)..usize::from(start) + usize::from(len)).contains(&col);
        let run = row.runs.iter().find(|run| covers(run.start, run.len));
        run.map(|run| if run.style.inverse { run.style.fg } else { run.style.bg }).unwrap_or_default()
    };
    let plain = background(row.text.chars().count().saturating_sub(1));
    let mut col = row.text[..start].chars().count();
    let mut choices = Vec::new();
    // Of more than two blanks between labels some are left at the beginning of the next piece, or make an empty one.
    for piece in held.split("  ") {
        let (label, indent) = (piece.trim(), piece.chars().take_while(|c| *c == ' ').count());
        if !label.is_empty() {
            choices.push(ChoiceRow { label: label.to_string(), selected: background(col + indent) != plain });
        }
        col += piece.chars().count() + 2;
    }
    Some(choices)
}

fn dialog_text(profile: &Profile, rows: &[Row]) -> String {
    let text = |row: &Row| match profile.dialog.choice.choice(&row.text) {
        Some((_, label)) => label.trim().to_string(),
        None => row.text.clone(),
    };
    rows.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// How many rows with text above a dialog tell where it belongs.
const CONTEXT_ROWS: usize = 3;

fn context(above: &[Row]) -> String {
    let words = |row: &Row| row.text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
    let rows = above.iter().rev().map(words).filter(|words| !words.is_empty());
    rows.take(CONTEXT_ROWS).collect::<Vec<_>>().join("\n")
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(80).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

/// Does a composer show (at least a telling part of) `text`? White space is drawn differently everywhere and left out.
pub fn echoes(view: &ComposerView, text: &str) -> bool {
    if view.chip {
        return true;
    }
    let squeeze = |s: &str| s.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect::<String>();
    let (shown, sent) = (squeeze(&view.draft), squeeze(text));
    if shown.is_empty() {
        return false;
    }
    // A tall draft is scrolled inside the composer: its end (or its start) is what shows.
    shown == sent || (sent.contains(&shown) && shown.chars().count() >= 24)
}
