//! Drafts the composer of a program that draws one, or the prompt of a line-based one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::session::TimedScreen;
use super::text::{
    common_prefix, count, edge_pattern, escape_numbers, quote, show, show_time, split_at_cursor,
};

/// Characters of the left border of a composer with the layout `bar`.
const BARS: &str = "┃│▌▐█▏▎▍|";
/// Rows above and below the cursor in which the edges of a box are searched.
const MAX_EDGE: usize = 3;
/// Maximum number of placeholders.
const MAX_PLACEHOLDERS: usize = 5;
/// Length of a placeholder's pattern, in characters.
const PLACEHOLDER_LEN: usize = 16;

/// A row of a screen in front of a prompt, split at the cursor.
struct PromptRow<'a> {
    shown: &'a TimedScreen,
    before: String,
    after: String,
}

impl PromptRow<'_> {
    fn at(&self) -> usize {
        usize::from(self.shown.screen.cursor.row)
    }

    fn row(&self, at: Option<usize>) -> &str {
        at.and_then(|at| self.shown.screen.rows.get(at)).map_or("", |row| &row.text)
    }

    /// Describes the row for a comment.
    fn describe(&self) -> String {
        format!(
            "{}, row {}: {}",
            show_time(self.shown.elapsed_ms),
            self.at() + 1,
            show(self.row(Some(self.at())))
        )
    }
}

/// The drafted input area, as TOML.
#[derive(Debug, Default)]
pub(super) struct InputDraft {
    /// Lines of the top level: the prompt of a line-based program.
    pub(super) top: String,
    /// The table `[composer]`; empty for a line-based program.
    pub(super) composer: String,
}

/// Drafts the input area from the screens in front of prompts; `None` if no cursor stands behind a prompt.
pub(super) fn draft_input(idle_screens: &[TimedScreen]) -> Option<InputDraft> {
    let rows: Vec<PromptRow<'_>> = idle_screens
        .iter()
        .filter_map(|shown| {
            let (before, after) = split_at_cursor(&shown.screen)?;
            Some(PromptRow { shown, before, after })
        })
        .collect();
    let drawn = rows.iter().filter(|row| has_frame(row)).count();
    if drawn * 2 <= rows.len() {
        return draft_line(&rows);
    }
    // The prompt of most screens.
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.before.trim().is_empty()) {
        *counts.entry(row.before.trim()).or_default() += 1;
    }
    let prompt = counts.iter().max_by_key(|(_, count)| **count).map(|(prompt, _)| (*prompt).to_string())?;
    let rows: Vec<&PromptRow<'_>> = rows.iter().filter(|row| row.before.trim() == prompt).collect();
    Some(InputDraft { top: String::new(), composer: draft_composer(&prompt, &rows) })
}

/// Returns true if something is drawn around the cursor's row: a text below it, or an edge above it.
fn has_frame(row: &PromptRow<'_>) -> bool {
    let below = row.shown.screen.rows.get(row.at() + 1..).unwrap_or_default();
    below.iter().any(|row| !row.text.trim().is_empty())
        || edge_pattern(row.row(row.at().checked_sub(1))).is_some()
}

fn draft_line(rows: &[PromptRow<'_>]) -> Option<InputDraft> {
    let first = rows.first()?;
    let mut top = format!("# {}; the first at {}.\n", count(rows.len(), "prompt"), first.describe());
    let patterns: Vec<String> = rows.iter().map(|row| escape_numbers(&row.before)).collect();
    let is_same = patterns.iter().all(|pattern| *pattern == patterns[0]);
    if is_same && !first.before.trim().is_empty() {
        let _ = writeln!(top, "prompt = {}", quote(&format!("^{}$", patterns[0])));
    } else {
        top.push_str("# The prompts differ, so nerve learns them while the program runs.\n");
    }
    Some(InputDraft { top, composer: String::new() })
}

/// Returns the edge that most screens have in a direction; `step` returns the row at a distance from the cursor.
fn find_edge<'a>(
    rows: &[&'a PromptRow<'a>],
    step: impl Fn(usize, usize) -> Option<usize>,
) -> Option<(String, &'a PromptRow<'a>)> {
    let edge = |row: &PromptRow<'_>| {
        (1..=MAX_EDGE).find_map(|distance| edge_pattern(row.row(step(row.at(), distance))))
    };
    let mut found: BTreeMap<String, (usize, &'a PromptRow<'a>)> = BTreeMap::new();
    for row in rows.iter().copied() {
        if let Some(pattern) = edge(row) {
            found.entry(pattern).or_insert((0, row)).0 += 1;
        }
    }
    let (pattern, (count, row)) = found.into_iter().max_by_key(|(_, (count, _))| *count)?;
    (count * 5 >= rows.len() * 4).then_some((pattern, row))
}

fn draft_composer(prompt: &str, rows: &[&PromptRow<'_>]) -> String {
    let indents: Vec<usize> =
        rows.iter().map(|row| row.before.len() - row.before.trim_start().len()).collect();
    let is_fixed = indents.iter().all(|indent| *indent == indents[0]);
    let indent = if is_fixed { " ".repeat(indents[0]) } else { r"\s*".to_string() };
    let above = find_edge(rows, |row, distance| row.checked_sub(distance));
    let below = find_edge(rows, |row, distance| Some(row + distance));
    let is_bar = BARS.contains(prompt)
        && rows.iter().all(|row| row.row(Some(row.at() + 1)).trim_start().starts_with(prompt));
    let layout = match (is_bar, &above, &below) {
        (true, _, Some(_)) => "bar",
        (false, Some(_), Some(_)) => "box",
        _ => "row",
    };
    let mut table = String::from("\n[composer]\n");
    let first = rows[0];
    let _ = writeln!(
        table,
        "# {} in front of a prompt; the first at {}.",
        count(rows.len(), "screen"),
        first.describe()
    );
    let _ = writeln!(table, "layout = \"{layout}\"");
    let _ = writeln!(table, "prompt = {}", quote(&format!(r"^{indent}{}\s?", regex::escape(prompt))));
    let edges = [("above", above.filter(|_| layout == "box")), ("below", below.filter(|_| layout != "row"))];
    for (field, edge) in edges {
        if let Some((pattern, row)) = edge {
            let _ = writeln!(table, "# {}.", show_time(row.shown.elapsed_ms));
            let _ = writeln!(table, "{field} = {}", quote(&pattern));
        }
    }
    table + &draft_placeholders(rows)
}

/// Drafts the texts behind the cursor of an empty composer.
fn draft_placeholders(rows: &[&PromptRow<'_>]) -> String {
    let mut texts: Vec<(&str, u64)> = Vec::new();
    for row in rows {
        let text = row.after.trim();
        if text.chars().any(char::is_alphabetic) && !texts.iter().any(|(known, _)| *known == text) {
            texts.push((text, row.shown.elapsed_ms));
        }
    }
    // Placeholders that begin with the same word are often one with several examples.
    let mut starts: Vec<(String, &str, u64)> = Vec::new();
    for (text, at) in texts {
        let word = |text: &str| text.split(' ').next().unwrap_or_default().to_string();
        match starts.iter_mut().find(|(start, ..)| word(start) == word(text)) {
            Some((start, ..)) => *start = common_prefix(start, text).to_string(),
            None => starts.push((text.chars().take(PLACEHOLDER_LEN).collect(), text, at)),
        }
    }
    let mut lines = String::new();
    for (_, text, at) in starts.iter().take(MAX_PLACEHOLDERS) {
        let _ = writeln!(lines, "# {}: {}.", show_time(*at), show(text));
    }
    let patterns = starts
        .iter()
        .take(MAX_PLACEHOLDERS)
        .map(|(start, ..)| quote(&format!(r"^\s*{}", regex::escape(start.trim_end()))));
    let patterns: Vec<String> = patterns.collect();
    if !patterns.is_empty() {
        let _ = writeln!(lines, "placeholder = [{}]", patterns.join(", "));
    }
    lines
}
