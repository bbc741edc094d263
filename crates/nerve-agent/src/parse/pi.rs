//! Parser for the screen of pi.
//!
//! pi marks nothing: prompts, answers and tools differ only in their background, and each row begins with one blank.
//! Between two lines is the composer; the upper line has a spinner while pi works. Its session file distinguishes
//! the parts ([`super::pi_session`]), so this parser returns tools as text.

use nerve_vt::screen::Screen;

use super::echo::{EchoStyle, end_of_last_echo};
use super::rows::{compact, dedent, is_blank, is_rule, join};
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText, screen_rows};

/// Parser for pi 1.5.
#[derive(Debug, Clone, Copy, Default)]
pub struct PiParser;

impl Parser for PiParser {
    /// Returns true if the composer holds the cursor and its upper line has no spinner.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let cursor = usize::from(screen.cursor.row);
        Composer::find(&rows).is_some_and(|composer| !composer.is_busy && composer.contains_row(cursor))
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = Composer::find(&rows);
        let end = composer.as_ref().map_or(rows.len(), |composer| composer.top);
        if let Some(composer) = &composer
            && turn.is_draft(&rows[composer.top + 1..composer.bottom].join("\n"))
        {
            return ParsedTurn::default();
        }
        let start = answer_start(&turn.lines[..end], turn.prompt);
        let is_truncated = start.is_none() && !turn.prompt.is_empty();
        let sections = split_sections(&rows[start.unwrap_or(0)..end]);
        let is_last_word = sections.last().is_some_and(|last| last.kind != SectionKind::Text);
        let is_idle = composer.is_some_and(|composer| !composer.is_busy) && !sections.is_empty();
        let is_truncated = is_truncated && !sections.is_empty();
        ParsedTurn { sections, tokens: None, is_complete: is_idle || is_last_word, is_truncated }
    }
}

/// Returns the first row of the answer. Any row may look like the echo of a prompt: the echo is the last row that begins
/// like it and has text below it.
fn answer_start(lines: &[String], prompt: &str) -> Option<usize> {
    let compact_prompt = compact(prompt);
    let last = lines.iter().rposition(|row| !is_blank(row))?;
    let begins = |row: usize| {
        let text = lines[row].strip_prefix(' ').filter(|text| !is_blank(text))?;
        compact_prompt.starts_with(&compact(text)).then_some(text)
    };
    let above_text = |row: usize| begins(row).filter(|_| row < last);
    end_of_last_echo(lines, prompt, &EchoStyle { head: &above_text, indent: 1 })
        .or_else(|| end_of_last_echo(lines, prompt, &EchoStyle { head: &begins, indent: 1 }))
}

/// The composer between two lines.
struct Composer {
    /// The upper line.
    top: usize,
    /// The lower line.
    bottom: usize,
    is_busy: bool,
}

impl Composer {
    fn find(rows: &[&str]) -> Option<Composer> {
        let bottom = rows.iter().rposition(|row| is_rule(row, '─'))?;
        let top = rows[..bottom].iter().rposition(|row| is_line(row))?;
        Some(Composer { top, bottom, is_busy: !is_rule(rows[top], '─') })
    }

    fn contains_row(&self, row: usize) -> bool {
        (self.top + 1..self.bottom).contains(&row)
    }
}

/// Returns true for a line, with or without a label.
fn is_line(row: &str) -> bool {
    is_rule(row, '─') || (row.starts_with("── ") && row.ends_with("───"))
}

/// Splits the rows of an answer. The last paragraph may be an error or an interruption.
fn split_sections(rows: &[&str]) -> Vec<Section> {
    let end = rows.iter().rposition(|row| !is_blank(row)).map_or(0, |last| last + 1);
    let last = rows[..end].iter().rposition(|row| is_blank(row)).map_or(0, |blank| blank + 1);
    let kind = match rows[last..end].first() {
        Some(row) if row.starts_with(" Error: ") => SectionKind::Error,
        Some(row) if row.trim_end() == " Operation aborted" => SectionKind::Interrupted,
        _ => SectionKind::Text,
    };
    let (text, word) =
        if kind == SectionKind::Text { (&rows[..end], &rows[..0]) } else { rows[..end].split_at(last) };
    let content = |rows: &[&str]| join(&rows.iter().map(|row| dedent(row, 1)).collect::<Vec<_>>());
    let sections = [(SectionKind::Text, content(text)), (kind, content(word))];
    let sections = sections.into_iter().filter(|(_, content)| !content.is_empty());
    sections.map(|(kind, content)| Section::new(kind, content)).collect()
}
