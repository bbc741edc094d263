//! Codex's screen, inline and on the alternate screen.
//!
//! Nothing on the screen says busy while text streams: only the window title does, and the line `Worked for …` is what ends a
//! turn. The composer is the last `›` row; a dialog's selected choice looks the same and is told by its number and its footer.

use super::conversation::{Layout, SURE};
use super::echo::{EchoStyle, end_of_last_echo, tail_of_echo};
use super::rows::{after_marker, compact, dedent, indent, is_blank, is_duration, is_rule, join};
use super::{Parsed, Parser, Section, SectionKind, TurnText};
use crate::screen::Screen;

/// Reads Codex 0.1xx.
#[derive(Debug, Clone, Copy, Default)]
pub struct CodexParser;

impl Parser for CodexParser {
    /// The visible cursor is in the composer, the title does not say busy, no status row offers the interrupt.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows: Vec<&str> = screen.rows.iter().map(|row| row.text.as_str()).collect();
        let cursor = usize::from(screen.cursor.row);
        let Some(Live::Composer(composer)) = Live::find(&rows) else { return false };
        let in_draft = composer <= cursor
            && rows.get(composer + 1..=cursor).is_some_and(|rows| rows.iter().all(|row| is_inner(row)));
        in_draft
            && screen.cursor.visible
            && !is_busy_title(&screen.title)
            && !has_status_above(&rows[..composer])
    }

    fn parse(&self, turn: &TurnText<'_>) -> Parsed {
        let rows: Vec<&str> = turn.lines.iter().map(String::as_str).collect();
        let live = Live::find(&rows);
        let end = match &live {
            Some(Live::Composer(at))
                if compact(&draft(&rows[*at..])) == compact(turn.prompt) && !turn.prompt.is_empty() =>
            {
                // Still in the composer: what is above answers something else.
                return Parsed::default();
            }
            Some(Live::Composer(at) | Live::Dialog(at)) => *at,
            None => rows.len(),
        };
        let mut walk =
            Walk { rows: &rows[..end], at: answer_start(&turn.lines[..end], turn.prompt), ..Walk::default() };
        walk.is_dialog = matches!(live, Some(Live::Dialog(_)));
        walk.run();
        let is_complete = !walk.is_dialog && walk.has_ended;
        Parsed { sections: walk.sections, tokens: None, is_complete }
    }
}

/// How a conversation is drawn.
pub(super) static LAYOUT: Layout = Layout {
    echo: |rows, row| prompt(rows[row]),
    indent: 2,
    // Two blank rows part the prompt from what follows.
    ends_echo: |rows, row| is_blank(rows[row]) && rows.get(row + 1).is_some_and(|next| is_blank(next)),
    is_answer: |row| after_marker(row, &['•', '◦', '■', '✗']).is_some() || is_end(row),
    banner: ">_ OpenAI Codex",
    live: |rows| match Live::find(rows)? {
        Live::Composer(at) | Live::Dialog(at) => Some(at),
    },
    // A bullet is anybody's.
    weight: |row| if prompt(row).is_some() || is_end(row) || is_status(row) { SURE } else { 0 },
};

/// What is at the bottom.
enum Live {
    /// The row of the composer's marker.
    Composer(usize),
    /// The first row of a dialog.
    Dialog(usize),
}

impl Live {
    fn find(rows: &[&str]) -> Option<Live> {
        let at = rows.iter().rposition(|row| !is_inner(row))?;
        let marked = prompt(rows[at])?;
        let is_choice = marked
            .split_once(". ")
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        let has_keys = rows[at..].iter().any(|row| row.trim_start().starts_with("Press enter to"));
        if !(is_choice && has_keys) {
            return Some(Live::Composer(at));
        }
        // The question stands above the choices, two blank rows below what came before.
        let last = rows[..at].iter().rposition(|row| !is_inner(row)).map_or(0, |last| last + 1);
        let gap =
            (last..at).find(|&row| is_blank(rows[row]) && rows.get(row + 1).is_some_and(|row| is_blank(row)));
        Some(Live::Dialog(gap.unwrap_or(at)))
    }
}

/// The text behind a prompt marker at column 0.
fn prompt(row: &str) -> Option<&str> {
    after_marker(row, &['›'])
}

/// A row that starts nothing: blank or indented.
fn is_inner(row: &str) -> bool {
    is_blank(row) || indent(row) >= 2
}

fn draft(rows: &[&str]) -> String {
    let more = rows[1..].iter().take_while(|row| !is_blank(row)).map(|row| row.trim());
    let first = rows.first().and_then(|row| prompt(row)).unwrap_or_default();
    std::iter::once(first).chain(more).collect::<Vec<_>>().join("\n")
}

/// A braille spinner, or a call for the user.
fn is_busy_title(title: &str) -> bool {
    title.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c)) || title.contains("Action Required")
}

/// `• Working (2s • esc to interrupt)` is the last thing above the composer.
fn has_status_above(rows: &[&str]) -> bool {
    rows.iter().rev().find(|row| !is_inner(row)).is_some_and(|row| is_status(row))
}

fn is_status(row: &str) -> bool {
    after_marker(row, &['•', '◦']).is_some_and(|rest| {
        rest.split_once(" (").is_some_and(|(_, time)| {
            time.split_once(" • esc to interrupt)").is_some_and(|(time, _)| is_duration(time))
        })
    })
}

fn answer_start(lines: &[String], wanted: &str) -> usize {
    let head = |row: usize| prompt(&lines[row]);
    end_of_last_echo(lines, wanted, &EchoStyle { head: &head, indent: 2 })
        .unwrap_or_else(|| tail_of_echo(lines, wanted, |row| !is_inner(row)))
}

#[derive(Default)]
struct Walk<'a> {
    rows: &'a [&'a str],
    at: usize,
    sections: Vec<Section>,
    has_ended: bool,
    is_dialog: bool,
}

impl<'a> Walk<'a> {
    fn run(&mut self) {
        while let Some(&row) = self.rows.get(self.at) {
            let (block, has_end) = split_end(self.take_block());
            let marker = row.chars().next().unwrap_or(' ');
            let rest = after_marker(row, &[marker]).unwrap_or(row);
            match marker {
                '•' | '◦' => self.bullet(marker, row, rest, block),
                '■' => {
                    let kind = if rest.starts_with("Conversation interrupted") {
                        SectionKind::Interrupted
                    } else {
                        SectionKind::Error
                    };
                    self.push(kind, rest, block);
                    self.has_ended = true;
                }
                '✗' => self.push(SectionKind::Error, rest, block),
                // What the user allowed, a warning.
                '✔' | '⚠' => {}
                // The next prompt: this turn is over.
                '›' => {
                    self.has_ended = true;
                    return;
                }
                // A line drawn across, in older versions with the time in it.
                '─' if is_rule(row, '─') || row.starts_with("─ Worked for ") => {
                    self.has_ended |= row.contains(" Worked for ")
                }
                // The program is gone.
                _ if row.starts_with("Token usage: ") || row.starts_with("To continue this session") => {
                    return;
                }
                _ => self.text(row, block),
            }
            self.has_ended |= has_end;
        }
    }

    /// The rows below the current one that belong to it; moves on behind them.
    fn take_block(&mut self) -> &'a [&'a str] {
        let from = self.at + 1;
        self.at = from + self.rows[from..].iter().take_while(|row| is_inner(row)).count();
        &self.rows[from..self.at]
    }

    fn push(&mut self, kind: SectionKind, first: &'a str, block: &[&'a str]) {
        let rows: Vec<&str> =
            std::iter::once(first).chain(block.iter().copied()).map(|row| dedent(row, 2)).collect();
        let text = join(&rows);
        if !text.is_empty() {
            self.sections.push(Section::new(kind, text));
            self.has_ended = false;
        }
    }

    /// A tool, the status row, or text.
    fn bullet(&mut self, marker: char, row: &str, rest: &'a str, block: &'a [&'a str]) {
        let is_bottom = self.at >= self.rows.len();
        if is_bottom && is_status(row) {
            return;
        }
        let runs = marker == '◦' || (self.is_dialog && is_bottom && rest.starts_with("Running "));
        let has_result = block.first().is_some_and(|row| row.starts_with("  └ ") || row.starts_with("  │ "));
        if runs || (has_result && is_deed(rest)) || is_edit(rest) {
            self.sections.push(tool(rest, block, runs));
            self.has_ended = false;
        } else {
            self.text(rest, block);
        }
    }

    /// Text, without the tip that may hang below it.
    fn text(&mut self, first: &'a str, block: &'a [&'a str]) {
        let tip =
            block.iter().rposition(|row| !is_blank(row)).filter(|&last| block[last].starts_with("  └ Tip: "));
        self.push(SectionKind::Text, first, &block[..tip.unwrap_or(block.len())]);
    }
}

/// Takes the line `  Worked for 3s • 21:48` off the end of a block: anywhere else it is text.
fn split_end<'b>(block: &'b [&'b str]) -> (&'b [&'b str], bool) {
    let Some(last) = block.iter().rposition(|row| !is_blank(row)) else { return (block, false) };
    let is_alone = last == 0 || is_blank(block[last - 1]);
    if is_end(block[last]) && is_alone { (&block[..last], true) } else { (block, false) }
}

fn is_end(row: &str) -> bool {
    row.strip_prefix("  Worked for ")
        .is_some_and(|rest| is_duration(rest.split(" • ").next().unwrap_or(rest)))
}

/// Tools are told as deeds: `Ran`, `Explored`, `Searching the web`.
fn is_deed(rest: &str) -> bool {
    let verb = rest.split(' ').next().unwrap_or(rest);
    verb.starts_with(char::is_uppercase) && (verb == "Ran" || verb.ends_with("ed") || verb.ends_with("ing"))
}

/// `Edited notes.txt (+1 -2)`: its result is a diff without a branch sign.
fn is_edit(rest: &str) -> bool {
    let verb = ["Edited ", "Added ", "Deleted "].iter().any(|verb| rest.starts_with(verb));
    verb && rest.rsplit_once(" (+").is_some_and(|(_, counts)| counts.ends_with(')') && counts.contains(" -"))
}

fn tool(rest: &str, block: &[&str], runs: bool) -> Section {
    let (verb, args) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = match verb {
        "Ran" | "Running" => "shell",
        "Explored" | "Exploring" => "explore",
        "Edited" | "Added" | "Deleted" => "edit",
        "Called" | "Calling" => args.split('(').next().unwrap_or(args),
        "Searched" | "Searching" => "web_search",
        "Viewed" => "view_image",
        "Updated" => "plan",
        _ => verb,
    };
    let mut args = args.to_string();
    let mut result = Vec::new();
    for row in block {
        if let Some(more) = row.strip_prefix("  │ ") {
            args.push('\n');
            args.push_str(more);
        } else if let Some(first) = row.strip_prefix("  └ ") {
            result.push(first);
        } else if row.trim() != "+ Show details" {
            result.push(dedent(row, 4));
        }
    }
    let section = Section::new(SectionKind::ToolCall, join(&result)).with("tool", name);
    let section = if args.is_empty() { section } else { section.with("args", args) };
    if runs { section.with("status", "running") } else { section }
}
