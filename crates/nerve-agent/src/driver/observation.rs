//! Observation of one screen: the position of the composer, its draft, and the signal of the live region.

mod rule_match;

pub use rule_match::{RuleMatch, match_rules};

use nerve_types::text::{one_line, shorten};
use nerve_vt::screen::{Row, Screen};

use self::rule_match::Regions;
use super::state::Source;
use super::usage_limit::LimitNotice;
use crate::profile::{BlockKind, Composer, Dialog, Layout, Pattern, Profile, Rule, RuleState};

/// Maximum characters of a row or title in evidence.
const SHOWN: usize = 80;

/// Interpretation of one screen, before other signals are weighed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// The composer, if one is drawn.
    pub composer: Option<ComposerView>,
    /// The state that screen and title signal.
    pub signal: Option<Signal>,
    /// The title signals work.
    pub title_busy: bool,
    /// Choices of the visible dialog, top to bottom or left to right.
    pub choices: Vec<ChoiceRow>,
    /// The choices are in one row.
    pub is_horizontal: bool,
    /// Nothing stands below the last choice: neither a hint nor a frame. More choices may follow.
    pub may_lack_choices: bool,
    /// Full text of the visible dialog without its cursor; empty without a dialog.
    pub dialog: String,
    /// The letters of the last rows above the dialog, without counters and spinners. Distinguishes two dialogs with the
    /// same text.
    pub context: String,
    /// The visible dialog follows an answer and needs no decision.
    pub has_follow_up: bool,
    /// The conversation is empty, if the profile defines how that looks.
    pub conversation_empty: bool,
}

impl Observation {
    /// Returns true if the signal, the dialog and the selected choice are the same as in `previous`.
    pub(super) fn is_unchanged_from(&self, previous: &Observation) -> bool {
        let kind = |observation: &Observation| observation.signal.as_ref().map(std::mem::discriminant);
        kind(self) == kind(previous)
            && self.title_busy == previous.title_busy
            && (&self.dialog, &self.context, &self.choices)
                == (&previous.dialog, &previous.context, &previous.choices)
    }
}

/// A state signalled by the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// Waiting for a prompt.
    Ready(String),
    /// Not accepting prompts yet.
    Starting(String),
    /// Working, with the source of the signal.
    Busy(Source, String),
    /// Showing a dialog, with the source of the signal.
    Blocked(BlockKind, Source, String),
    /// Waiting for the end of a usage limit.
    Suspended(LimitNotice),
}

/// The composer on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposerView {
    /// Screen rows of the composer, half-open.
    pub rows: (usize, usize),
    /// The text typed into it; empty if only a placeholder is shown.
    pub draft: String,
    /// A paste is shown as a chip.
    pub chip: bool,
    /// It is in a mode that treats text differently.
    pub other_mode: bool,
}

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceRow {
    /// Text of the choice.
    pub label: String,
    /// The dialog's cursor is on this choice.
    pub selected: bool,
}

/// Observes a screen by the rules of a profile.
pub fn observe_screen(profile: &Profile, screen: &Screen) -> Observation {
    observe_screen_except(profile, screen, |_| false)
}

/// Observes a screen, ignoring the notices for which `is_ignored` returns true.
pub(super) fn observe_screen_except(
    profile: &Profile,
    screen: &Screen,
    mut is_ignored: impl FnMut(&LimitNotice) -> bool,
) -> Observation {
    let regions = Regions::find(profile, screen);
    let rule = profile.rules.iter().find_map(|rule| {
        let matched = &screen.rows[regions.match_rule(rule, screen)?];
        let notice = (rule.state == RuleState::Suspended).then(|| read_notice(rule, matched));
        if notice.as_ref().is_some_and(&mut is_ignored) {
            return None;
        }
        Some((rule, matched[0].text.trim(), notice))
    });
    let Regions { composer, dialog } = regions;
    let may_lack_choices = composer.is_none() && !is_closed_below(profile, &screen.rows[dialog.start..]);
    let ((choices, is_horizontal), dialog, context, has_follow_up) = match &rule {
        Some((rule, ..)) if rule.state == RuleState::Blocked => {
            let (above, rows) = (&screen.rows[..dialog.start], &screen.rows[dialog]);
            let horizontal = find_horizontal_choices(profile, rows).map(|choices| (choices, true));
            let choices = horizontal.unwrap_or_else(|| (find_choices(profile, rows), false));
            let is_follow_up =
                |row: &Row| profile.dialog.confirm.as_ref().is_some_and(|p| p.is_match(&row.text));
            let has_follow_up = choices.0.is_empty() && rows.iter().any(is_follow_up);
            (choices, dialog_text(profile, rows), context_letters(above), has_follow_up)
        }
        _ => Default::default(),
    };
    let signal = rule.map(|(rule, row, notice)| {
        let text = format!("row '{}'", shorten(row, SHOWN));
        match (rule.state, notice) {
            (_, Some(notice)) => Signal::Suspended(notice),
            (RuleState::Starting, None) => Signal::Starting(text),
            (RuleState::Busy, None) => Signal::Busy(Source::Screen, text),
            (RuleState::Blocked, None) => Signal::Blocked(rule.kind, Source::Screen, text),
            (RuleState::Ready | RuleState::Suspended, None) => Signal::Ready(text),
        }
    });
    let signal = combine_with_title(profile, screen, composer.is_some(), signal);
    let conversation_empty = is_conversation_empty(profile, screen, composer.as_ref());
    let title_busy = profile.title.busy.as_ref().is_some_and(|busy| busy.is_match(&screen.title));
    Observation {
        composer,
        title_busy,
        signal,
        may_lack_choices: may_lack_choices && !is_horizontal,
        choices,
        is_horizontal,
        dialog,
        context,
        has_follow_up,
        conversation_empty,
    }
}

fn is_conversation_empty(profile: &Profile, screen: &Screen, composer: Option<&ComposerView>) -> bool {
    let pattern = profile.session.as_ref().and_then(|session| session.empty.as_ref());
    let (Some(pattern), Some(composer)) = (pattern, composer) else { return false };
    screen.rows[composer.rows.1..].iter().any(|row| pattern.is_match(&row.text))
}

/// Maximum number of rows of a notice.
const NOTICE_ROWS: usize = 6;

/// Reads the notice that begins in `rows[0]`.
fn read_notice(rule: &Rule, rows: &[Row]) -> LimitNotice {
    let paragraph = rows.iter().map(|row| row.text.trim_end()).take(NOTICE_ROWS);
    let mut text = String::new();
    for row in paragraph.take_while(|row| !row.is_empty()) {
        // The first row keeps its indentation: the pattern matches rows as drawn.
        let (gap, row) = if text.is_empty() { ("", row) } else { (" ", row.trim_start()) };
        text.extend([gap, row]);
    }
    let (text, when) = rule.pattern.until(&text).unwrap_or((&text, None));
    LimitNotice { text: one_line(text), when: when.map(|when| when.trim().to_string()) }
}

/// Combines screen and title: both have to agree on ready, and either alone signals busy.
fn combine_with_title(
    profile: &Profile,
    screen: &Screen,
    has_composer: bool,
    signal: Option<Signal>,
) -> Option<Signal> {
    let matches_title =
        |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(|p| p.is_match(&screen.title));
    // A notice visible while the agent works is an old one.
    let title_busy = matches_title(&profile.title.busy);
    if signal.as_ref().is_some_and(|signal| !(title_busy && matches!(signal, Signal::Suspended(_)))) {
        return signal;
    }
    if title_busy {
        return Some(Signal::Busy(Source::Title, format!("'{}'", shorten(&screen.title, SHOWN))));
    }
    if matches_title(&profile.title.blocked) {
        let text = format!("'{}'", shorten(&screen.title, SHOWN));
        return Some(Signal::Blocked(BlockKind::Permission, Source::Title, text));
    }
    let title_ok =
        profile.title.idle.is_none() || screen.title.is_empty() || matches_title(&profile.title.idle);
    (has_composer && title_ok).then(|| {
        let title = if screen.title.is_empty() {
            String::new()
        } else {
            format!(", title '{}'", shorten(&screen.title, SHOWN))
        };
        Signal::Ready(format!("composer without a busy sign{title}"))
    })
}

/// Finds the composer that receives the keys.
fn find_composer(composer: &Composer, screen: &Screen) -> Option<ComposerView> {
    let cursor = screen.cursor.row as usize;
    let (start, end) = match composer.layout {
        Layout::Box => find_boxed_composer(composer, &screen.rows)?,
        Layout::Bar => find_barred_composer(composer, &screen.rows)?,
        Layout::Row => find_row_composer(composer, &screen.rows, cursor)?,
    };
    // A composer without the cursor does not receive the keys.
    if !(start..end).contains(&cursor) {
        return None;
    }
    let text = read_draft(composer, &screen.rows[start..end]);
    let placeholder = composer.placeholder.iter().any(|p| p.is_match(&text)) || is_dim(&screen.rows[start]);
    let chip = composer.chip.as_ref().is_some_and(|p| p.is_match(&text));
    let other_mode = is_other_mode(composer, &screen.rows[start]);
    let draft = match (placeholder, other_mode) {
        (false, _) => text,
        (true, false) => String::new(),
        // Keep only the mark of the mode: an empty composer would take a prompt.
        (true, true) => text.chars().take(1).collect(),
    };
    Some(ComposerView { rows: (start, end), draft, chip, other_mode })
}

/// Finds the rows of a composer between two lines.
fn find_boxed_composer(composer: &Composer, rows: &[Row]) -> Option<(usize, usize)> {
    let (above, below) = (composer.above.as_ref()?, composer.below.as_ref()?);
    let end = rows.iter().rposition(|row| below.is_match(&row.text))?;
    let top = rows[..end].iter().rposition(|row| above.is_match(&row.text))?;
    let first = rows.get(top + 1)?;
    let starts = composer.prompt.is_match(&first.text) || is_other_mode(composer, first);
    (top + 1 < end && starts).then_some((top + 1, end))
}

/// Finds the rows of a composer with a bar before each row.
fn find_barred_composer(composer: &Composer, rows: &[Row]) -> Option<(usize, usize)> {
    let below = composer.below.as_ref()?;
    let end = rows.iter().rposition(|row| below.is_match(&row.text))?;
    let start =
        rows[..end].iter().rposition(|row| !composer.prompt.is_match(&row.text)).map_or(0, |at| at + 1);
    (start < end).then_some((start, end))
}

/// Finds the rows of a composer that begins with a marker above the cursor or in its row.
fn find_row_composer(composer: &Composer, rows: &[Row], cursor: usize) -> Option<(usize, usize)> {
    let start = (0..=cursor.min(rows.len().checked_sub(1)?))
        .rev()
        .find(|at| composer.prompt.is_match(&rows[*at].text) || is_other_mode(composer, &rows[*at]))?;
    // Draft rows are indented or blank. Other rows between marker and cursor are conversation or a dialog.
    let drafted =
        rows[start + 1..=cursor].iter().all(|row| row.text.is_empty() || row.text.starts_with("  "));
    let beyond = |row: &Row| !row.text.starts_with("  ");
    let end = rows[cursor + 1..].iter().position(beyond).map_or(rows.len(), |at| cursor + 1 + at);
    drafted.then_some((start, end))
}

fn is_other_mode(composer: &Composer, row: &Row) -> bool {
    composer.other_mode.as_ref().is_some_and(|mode| mode.is_match(&row.text))
}

pub(super) fn read_draft(composer: &Composer, rows: &[Row]) -> String {
    let has_bars = rows.first().is_some_and(|row| row.text.trim_start().starts_with('│'));
    let text = |row: &Row, first: bool| match composer.layout {
        _ if first && is_other_mode(composer, row) => row.text.trim_end().to_string(),
        Layout::Bar => composer.prompt.after(&row.text).unwrap_or("").trim().to_string(),
        _ if first => {
            let text = composer.prompt.after(&row.text).unwrap_or("");
            let text = if has_bars { without_right_bar(text) } else { text };
            text.trim_end().to_string()
        }
        _ if has_bars => {
            let text = without_right_bar(&row.text).trim();
            text.strip_prefix('│').unwrap_or(text).trim().to_string()
        }
        _ => row.text.trim().to_string(),
    };
    let lines: Vec<String> = rows.iter().enumerate().map(|(at, row)| text(row, at == 0)).collect();
    match composer.layout {
        // The first paragraph is the draft; status rows follow.
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

/// Returns the row without the bar at its end.
fn without_right_bar(row: &str) -> &str {
    row.trim_end().strip_suffix('│').unwrap_or(row)
}

/// Returns true for dim text: placeholders are dim, drafts never are.
fn is_dim(row: &Row) -> bool {
    let text: Vec<_> = row.runs.iter().filter(|run| run.start >= 2).collect();
    !text.is_empty()
        && text.iter().skip(1).all(|run| run.style.dim)
        && text.last().is_some_and(|run| run.style.dim)
}

/// Maximum number of rows between two choices of one dialog: wrapped labels and a blank row. Choices further up belong to
/// another list.
const CHOICE_GAP: usize = 3;

fn find_choices(profile: &Profile, rows: &[Row]) -> Vec<ChoiceRow> {
    let mut choices = Vec::new();
    let mut gap = 0;
    for row in rows.iter().rev() {
        match profile.dialog.choice.choice(&row.text) {
            Some((selected, label)) => {
                choices.push(ChoiceRow { label: label.trim().to_string(), selected });
                gap = 0;
            }
            None if choices.is_empty() => {}
            None => gap += 1,
        }
        if gap > CHOICE_GAP {
            break;
        }
    }
    choices.reverse();
    choices
}

/// Returns true if text below the last choice shows that it is the last one of the dialog. Rows indented like its label belong to it.
fn is_closed_below(profile: &Profile, rows: &[Row]) -> bool {
    let last = rows.iter().enumerate().rev().find_map(|(at, row)| {
        let (_, label) = profile.dialog.choice.choice(&row.text)?;
        Some((at, row.text.strip_suffix(label).map_or(0, |before| before.chars().count())))
    });
    let Some((at, label_col)) = last else { return false };
    let indent = |row: &Row| row.text.chars().take_while(|c| *c == ' ').count();
    let is_below = |pair: &[Row]| {
        let (above, row) = (&pair[0], &pair[1]);
        !above.wrapped && !row.text.trim().is_empty() && indent(row) < label_col.max(1)
    };
    rows[at..].windows(2).any(is_below)
}

/// Returns the row with all choices, the row with the hints (in a wide window the same), and the choices with their
/// position.
fn find_choices_row<'r>(dialog: &Dialog, rows: &'r [Row]) -> Option<(&'r Row, &'r Row, (usize, &'r str))> {
    rows.iter().enumerate().rev().find_map(|(at, row)| {
        if dialog.hints.as_ref().is_some_and(|hints| hints.is_match(&row.text)) {
            let pattern = dialog.row_above_hints.as_ref()?;
            return rows[..at]
                .iter()
                .rev()
                .find_map(|above| Some((above, row, pattern.choices(&above.text)?)));
        }
        Some((row, row, dialog.row.as_ref()?.choices(&row.text)?))
    })
}

/// Finds choices in one row, left to right. The selected one has a different background than the end of the row.
fn find_horizontal_choices(profile: &Profile, rows: &[Row]) -> Option<Vec<ChoiceRow>> {
    let (row, hints, (start, group)) = find_choices_row(&profile.dialog, rows)?;
    let background = |row: &Row, col: usize| {
        let covers =
            |start: u16, len: u16| (usize::from(start)..usize::from(start) + usize::from(len)).contains(&col);
        let run = row.runs.iter().find(|run| covers(run.start, run.len));
        run.map(|run| if run.style.inverse { run.style.fg } else { run.style.bg }).unwrap_or_default()
    };
    let plain = background(hints, hints.text.chars().count().saturating_sub(1));
    let mut col = row.text[..start].chars().count();
    let mut choices = Vec::new();
    // Surplus blanks between labels end up at the beginning of a piece, or form an empty piece.
    for piece in group.split("  ") {
        let (label, indent) = (piece.trim(), piece.chars().take_while(|c| *c == ' ').count());
        if !label.is_empty() {
            choices.push(ChoiceRow {
                label: label.to_string(),
                selected: background(row, col + indent) != plain,
            });
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

/// Number of rows with text above a dialog that identify its context.
const CONTEXT_ROWS: usize = 3;

/// Returns the letters of the last rows with text.
fn context_letters(above: &[Row]) -> String {
    let words =
        |row: &Row| without_duration(&row.text).chars().filter(|c| c.is_alphabetic()).collect::<String>();
    let rows = above.iter().rev().map(words).filter(|words| !words.is_empty());
    rows.take(CONTEXT_ROWS).collect::<Vec<_>>().join("\n")
}

/// Returns the row without a duration such as `1m 12s` at its end, where GitHub Copilot CLI counts the time of a tool that waits
/// for a permission. Its scroll bar may follow.
fn without_duration(row: &str) -> &str {
    let mut row = row;
    loop {
        row = row.trim_end_matches([' ', '┃']);
        let Some((before, last)) = row.rsplit_once(' ') else { return row };
        let is_duration =
            matches!(last.trim_start_matches(|c: char| c.is_ascii_digit()), "ms" | "s" | "m" | "h")
                && last.starts_with(|c: char| c.is_ascii_digit());
        if !is_duration {
            return row;
        }
        row = before;
    }
}

/// Returns true if the composer shows `text` or a distinctive part of it. White space is ignored because agents draw it
/// differently.
pub fn is_echo_of(view: &ComposerView, text: &str) -> bool {
    if view.chip {
        return true;
    }
    let (draft, prompt) = (squeeze(&view.draft), squeeze(text));
    if draft.is_empty() {
        return false;
    }
    // A tall draft scrolls inside the composer: only its beginning or end is visible.
    draft == prompt || (prompt.contains(&draft) && draft.chars().count() >= 24)
}

/// Returns a text without white space, also of no width, and control characters.
pub(super) fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control() && *c != ZERO_WIDTH_SPACE).collect()
}

/// Qwen Code draws it behind the cursor.
const ZERO_WIDTH_SPACE: char = '\u{200b}';
