//! Parser for the screen of Gemini CLI.
//!
//! Column 0 holds markers (`✦`, `ℹ`, `✕`, boxes), column 1 the program's own rows (echoes, the spinner, hints), and
//! answers start at column 2. No line ends a turn: it ends when the status row above the composer stops offering to
//! cancel.

use nerve_types::text::one_line;
use nerve_vt::screen::Screen;

use super::echo::{EchoStyle, answer_start};
use super::layout::{Layout, SURE};
use super::rows::{after_marker, dedent, indent, is_blank, is_right_aligned, is_rule, join, join_draft};
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText, screen_rows, tool_section};

/// Parser for Gemini CLI 0.6x.
#[derive(Debug, Clone, Copy, Default)]
pub struct GeminiParser;

impl Parser for GeminiParser {
    /// Returns true if the composer holds the cursor, and neither status row nor title signals work.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let Some(composer) = Composer::find(&rows) else { return false };
        let title = screen.title.trim_start();
        composer.contains_row(usize::from(screen.cursor.row))
            && !composer.is_busy(&rows)
            && !title.starts_with(['✦', '✋'])
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = Composer::find(&rows);
        let end = composer.as_ref().map_or(rows.len(), |composer| composer.status);
        if let Some(composer) = &composer
            && turn.is_draft(&composer.draft(&rows))
        {
            return ParsedTurn::default();
        }
        let lines = &turn.lines[..end];
        let echo = EchoStyle { head: &|row| prompt_text(&lines[row]), indent: 3 };
        let is_marker = |row: &str| !is_blank(row) && indent(row) < 3;
        let (start, is_truncated) = answer_start(lines, turn.prompt, &echo, is_marker);
        let mut builder = SectionBuilder { rows: &rows[..end], next_row: start, ..SectionBuilder::default() };
        builder.add_rows();
        let is_aborted = builder
            .sections
            .last()
            .is_some_and(|last| matches!(last.kind, SectionKind::Interrupted | SectionKind::Error));
        let is_idle =
            composer.is_some_and(|composer| !composer.is_busy(&rows)) && !builder.sections.is_empty();
        let is_complete = !builder.has_dialog && (is_idle || is_aborted || builder.has_ended);
        let is_truncated = is_truncated && !builder.sections.is_empty();
        ParsedTurn { sections: builder.sections, tokens: None, is_complete, is_truncated }
    }
}

/// The conversation layout of Gemini CLI.
pub(super) static LAYOUT: Layout = Layout {
    echo: |rows, row| prompt_text(rows[row]),
    indent: 3,
    ends_echo: |_, _| false,
    is_wrapped_echo: |_, _| false,
    is_answer: |row| after_marker(row, &['✦', '✕']).is_some(),
    banner: "Gemini CLI v",
    live: |rows| Composer::find(rows).map(|composer| composer.status),
    weight: |row| match after_marker(row, &['✦']) {
        Some(_) => SURE,
        None if row.contains("Type your message or @path/to/file") => SURE,
        None => 0,
    },
};

/// The composer: a prompt row and further draft rows below a rule.
struct Composer {
    /// The first status row above the rule, or the rule.
    status: usize,
    /// The prompt row.
    prompt: usize,
    /// The row after the draft.
    end: usize,
}

impl Composer {
    fn find(rows: &[&str]) -> Option<Composer> {
        let rule = rows.iter().rposition(|row| is_rule(row, '─'))?;
        // Hints, blank rows and the upper edge of a coloured composer may separate the rule from the prompt row.
        let prompt = (rule + 1..rows.len().min(rule + 6)).find(|&row| prompt_text(rows[row]).is_some())?;
        let more = rows[prompt + 1..]
            .iter()
            .take_while(|row| !is_coloured_edge(row) && (is_blank(row) || indent(row) >= 3));
        let is_status = |row: &&&str| {
            is_hint(row) || is_right_aligned(row) || (indent(row) == 1 && prompt_or_box_text(row).is_none())
        };
        let status = rows[..rule].iter().rev().take_while(is_status).count();
        Some(Composer { status: rule - status, prompt, end: prompt + 1 + more.count() })
    }

    fn contains_row(&self, row: usize) -> bool {
        (self.prompt..self.end).contains(&row)
    }

    fn draft(&self, rows: &[&str]) -> String {
        join_draft(prompt_text(rows[self.prompt]).unwrap_or_default(), &rows[self.prompt + 1..self.end])
    }

    /// Returns true if the spinner's row offers to cancel.
    fn is_busy(&self, rows: &[&str]) -> bool {
        rows[self.status..self.prompt].iter().any(|row| row.contains("(esc to cancel"))
    }
}

/// Returns the text behind the prompt marker; `*` if every tool is allowed.
fn prompt_text(row: &str) -> Option<&str> {
    after_marker(row.strip_prefix(' ')?, &['>', '*'])
}

/// Returns the text behind a prompt marker, or behind the corner of a box at column 1.
fn prompt_or_box_text(row: &str) -> Option<&str> {
    prompt_text(row).or_else(|| row.strip_prefix(" ╭"))
}

/// Returns true if the loop detector ended the turn. Its text may be wrapped anywhere.
fn is_loop_notice(notice: &str) -> bool {
    one_line(notice).contains("request has been halted")
}

/// Returns true for a hint that the program draws around or into an answer. A narrow window has more of them, and
/// fewer columns before them.
fn is_hint(row: &str) -> bool {
    let text = row.trim();
    (text == "? for shortcuts" && indent(row) >= 10)
        || text.starts_with("Press Ctrl+O to show more lines")
        || text.starts_with("Ctrl+O to collapse lines")
        || text == "... generating more ..."
        || (text.starts_with("... ") && text.ends_with("hidden (Ctrl+O to show) ..."))
}

/// Returns true for the edge of a coloured composer or echo.
fn is_coloured_edge(row: &str) -> bool {
    is_rule(row, '▄') || is_rule(row, '▀')
}

/// Builds the sections of an answer from its rows.
#[derive(Default)]
struct SectionBuilder<'a> {
    rows: &'a [&'a str],
    /// Index of the row to read next.
    next_row: usize,
    sections: Vec<Section>,
    /// True if the next prompt follows the answer.
    has_ended: bool,
    /// True if a dialog is open.
    has_dialog: bool,
}

impl<'a> SectionBuilder<'a> {
    /// Reads the rows up to the next prompt or the loop detector's dialog.
    fn add_rows(&mut self) {
        while let Some(&row) = self.rows.get(self.next_row) {
            if is_blank(row) || is_coloured_edge(row) || is_hint(row) {
                self.next_row += 1;
                continue;
            }
            if indent(row) == 1 {
                // The loop detector's dialog, the next prompt, or a hint.
                self.has_dialog |= row.starts_with(" ╭");
                self.has_ended |= prompt_text(row).is_some();
                if self.has_dialog || self.has_ended {
                    return;
                }
                self.next_row += 1;
                continue;
            }
            match row.chars().next().unwrap_or(' ') {
                '╭' | '│' => self.add_box(),
                marker @ ('✦' | 'ℹ' | '✕' | '⚠') => self.add_marked(marker),
                _ => self.add_unmarked(row),
            }
        }
    }

    /// Adds a section unless it is empty.
    fn push(&mut self, kind: SectionKind, content: String) {
        if !content.is_empty() {
            self.sections.push(Section::new(kind, content));
        }
    }

    /// Adds a marked row and the rows indented below it.
    fn add_marked(&mut self, marker: char) {
        let first = after_marker(self.rows[self.next_row], &[marker]).unwrap_or(self.rows[self.next_row]);
        let text = self.take_text(first);
        match marker {
            '✦' => self.push(SectionKind::Text, text),
            '✕' => self.push(SectionKind::Error, text),
            'ℹ' if text.starts_with("Request cancelled") => self.push(SectionKind::Interrupted, text),
            'ℹ' if is_loop_notice(&text) => self.push(SectionKind::Error, text),
            // Notices and warnings come from the program, not from the answer.
            _ => {}
        }
    }

    /// Adds rows without a marker: a tool in one row, or the rest of an item whose beginning has scrolled away.
    fn add_unmarked(&mut self, row: &'a str) {
        if let Some(section) = self.take_one_row_tool() {
            self.sections.push(section);
            return;
        }
        let text = self.take_text(row);
        self.push(SectionKind::Text, text);
    }

    /// Moves past a row and the rows indented below it, and returns their text without hints. `first`: the text of the first row.
    fn take_text(&mut self, first: &'a str) -> String {
        let mut text = vec![dedent(first, 2)];
        self.next_row += 1;
        while let Some(&row) = self.rows.get(self.next_row)
            && (is_blank(row) || indent(row) >= 2)
            && !self.is_at_one_row_tool()
        {
            if !is_hint(row) {
                text.push(dedent(row, 2));
            }
            self.next_row += 1;
        }
        join(&text)
    }

    /// Returns true at `  ✓  ReadFile  notes.txt` below a blank row.
    fn is_at_one_row_tool(&self) -> bool {
        let is_paragraph = self.next_row == 0 || is_blank(self.rows[self.next_row - 1]);
        is_paragraph
            && self.rows[self.next_row]
                .strip_prefix("  ")
                .is_some_and(|row| ToolRow::parse(row).is_some_and(|tool| tool.is_spaced))
    }

    /// Moves past a tool in one row and its result.
    fn take_one_row_tool(&mut self) -> Option<Section> {
        if !self.is_at_one_row_tool() {
            return None;
        }
        let tool = ToolRow::parse(dedent(self.rows[self.next_row], 2))?;
        self.next_row += 1;
        let mut result = Vec::new();
        while let Some(&row) = self.rows.get(self.next_row)
            && (is_blank(row) || indent(row) >= 4)
        {
            result.push(dedent(row, 4));
            self.next_row += 1;
        }
        Some(tool.into_section(join(&result)))
    }

    /// Adds a box: one or more tools with their results.
    fn add_box(&mut self) {
        let mut tool: Option<ToolRow<'a>> = None;
        let mut result = Vec::new();
        let mut may_start_tool = true;
        while let Some(&row) = self.rows.get(self.next_row) {
            let Some(inner) = row.strip_prefix('│') else {
                self.next_row += 1;
                may_start_tool = true;
                match row.chars().next() {
                    Some('╭' | '├') => continue,
                    Some('╰') => break,
                    _ => {
                        // The box is cut off at the bottom: this row does not belong to it.
                        self.next_row -= 1;
                        break;
                    }
                }
            };
            let inner = dedent(inner.trim_end().strip_suffix('│').unwrap_or(inner), 1).trim_end();
            if may_start_tool && let Some(next) = ToolRow::parse(inner) {
                self.add_tool(tool.replace(next), &mut result);
            } else {
                result.push(inner);
            }
            may_start_tool = inner.is_empty();
            self.next_row += 1;
        }
        self.add_tool(tool, &mut result);
    }

    /// Adds a tool of a box, or rows of a box whose beginning has scrolled away. Empties `result`.
    fn add_tool(&mut self, tool: Option<ToolRow<'a>>, result: &mut Vec<&'a str>) {
        let content = join(&std::mem::take(result));
        match tool {
            // The box is the dialog, and its rows are the choices.
            Some(tool) if tool.icon == '?' => {
                self.has_dialog = true;
                self.sections.push(tool.into_section(String::new()));
            }
            Some(tool) => self.sections.push(tool.into_section(content)),
            None => self.push(SectionKind::ToolCall, content),
        }
    }
}

/// A tool with its state: `✓  Shell sleep 6`.
#[derive(Clone, Copy)]
struct ToolRow<'a> {
    icon: char,
    name: &'a str,
    args: &'a str,
    /// True if two spaces follow the icon, as in tools of one row.
    is_spaced: bool,
}

impl<'a> ToolRow<'a> {
    /// Returns `None` for other rows.
    fn parse(row: &'a str) -> Option<ToolRow<'a>> {
        let rest = after_marker(row, &['✓', '✕', 'x', '?', '⊷', '⊶', 'o', '-'])?;
        let icon = row.chars().next()?;
        let is_spaced = rest.starts_with(' ');
        let rest = rest.trim_start();
        if !rest.starts_with(char::is_alphabetic) || !(is_spaced || icon == '?') {
            return None;
        }
        let mut name = rest.split(' ').next().unwrap_or(rest).len();
        if let Some(server) = rest[name..].strip_prefix(" (")
            && let Some(end) = server.find(" MCP Server)")
        {
            name += " (".len() + end + " MCP Server)".len();
        }
        Some(ToolRow { icon, name: &rest[..name], args: rest[name..].trim(), is_spaced })
    }

    fn into_section(self, content: String) -> Section {
        let status = match self.icon {
            '✓' => "ok",
            '✕' | 'x' => "error",
            '?' => "asking",
            '⊷' | '⊶' => "running",
            '-' => "rejected",
            _ => "pending",
        };
        tool_section(self.name, self.args, Some(status), content)
    }
}
