//! Parser for the screen of pi.
//!
//! pi marks nothing: prompts, answers and tools differ only in their background, and each row begins with one blank.
//! Between two lines is the composer; the upper line has a spinner while pi works. Its session file distinguishes
//! the parts ([`super::pi_session`]), so this parser returns tools as text.

use nerve_vt::screen::Screen;

use super::composer::Composer;
use super::echo::{EchoStyle, end_of_last_echo};
use super::rows::{compact, dedent, is_blank, is_rule, join};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, SectionKind, TurnText, screen_rows};

/// Parser for pi 1.5.
pub(super) struct PiParser;

impl Parser for PiParser {
    /// Returns true if the composer holds the cursor and its upper line has no spinner.
    fn is_ready(&self, screen: &Screen) -> bool {
        find_composer(&screen_rows(screen)).is_some_and(|composer| composer.is_ready(screen))
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = find_composer(&rows);
        if composer.as_ref().is_some_and(|composer| turn.is_draft(&composer.draft)) {
            return ParsedTurn::default();
        }
        let rows = &rows[..composer.as_ref().map_or(rows.len(), |composer| composer.start)];
        let start = answer_start(rows, turn.prompt);
        let is_truncated = start.is_none() && !turn.prompt.is_empty();
        let mut builder = SectionBuilder::new(rows, start.unwrap_or(0));
        add_rows(&mut builder);
        builder.finish(composer.is_some_and(|composer| !composer.is_busy), is_truncated)
    }
}

/// Finds the composer between two lines, of which the upper one may have a label.
fn find_composer(rows: &[&str]) -> Option<Composer> {
    let bottom = rows.iter().rposition(|row| is_rule(row, '─'))?;
    let top = rows[..bottom].iter().rposition(|row| is_line(row))?;
    let draft = rows[top + 1..bottom].join("\n");
    Some(Composer { start: top, input: top + 1..bottom, draft, is_busy: !is_rule(rows[top], '─') })
}

/// Returns the first row of the answer. Any row may look like the echo of a prompt: the echo is the last row that begins
/// like it and has text below it.
fn answer_start(rows: &[&str], prompt: &str) -> Option<usize> {
    let compact_prompt = compact(prompt);
    let last = rows.iter().rposition(|row| !is_blank(row))?;
    let above_text = EchoStyle {
        head: &|rows, row| echo_text(rows[row], &compact_prompt).filter(|_| row < last),
        indent: 1,
    };
    let anywhere = EchoStyle { head: &|rows, row| echo_text(rows[row], &compact_prompt), indent: 1 };
    end_of_last_echo(rows, prompt, &above_text).or_else(|| end_of_last_echo(rows, prompt, &anywhere))
}

/// Returns the text of a row if the prompt, without blanks, begins with it.
fn echo_text<'a>(row: &'a str, compact_prompt: &str) -> Option<&'a str> {
    let text = row.strip_prefix(' ').filter(|text| !is_blank(text))?;
    compact_prompt.starts_with(&compact(text)).then_some(text)
}

/// Returns true for a line, with or without a label.
fn is_line(row: &str) -> bool {
    is_rule(row, '─') || (row.starts_with("── ") && row.ends_with("───"))
}

/// Reads all rows. The last paragraph may be an error or an interruption.
fn add_rows(builder: &mut SectionBuilder<'_>) {
    let rows = builder.take_rows(|_| true);
    let end = rows.iter().rposition(|row| !is_blank(row)).map_or(0, |last| last + 1);
    let last = rows[..end].iter().rposition(|row| is_blank(row)).map_or(0, |blank| blank + 1);
    let kind = match rows[last..end].first() {
        Some(row) if row.starts_with(" Error: ") => SectionKind::Error,
        Some(row) if row.trim_end() == " Operation aborted" => SectionKind::Interrupted,
        _ => SectionKind::Text,
    };
    let content = |rows: &[&str]| join(&rows.iter().map(|row| dedent(row, 1)).collect::<Vec<_>>());
    let (text, word) = rows[..end].split_at(if kind == SectionKind::Text { end } else { last });
    builder.push(SectionKind::Text, content(text));
    builder.push(kind, content(word));
}
