//! Parser for the screen of Gemini CLI.
//!
//! Column 0 holds markers (`✦`, `ℹ`, `✕`, boxes), column 1 the program's own rows (echoes, the spinner, hints), and
//! answers start at column 2. No line ends a turn: it ends when the status row above the composer stops offering to
//! cancel.

use nerve_types::text::one_line;
use nerve_vt::screen::Screen;

use super::composer::Composer;
use super::echo::{EchoStyle, answer_start};
use super::layout::{Layout, SURE};
use super::rows::{after_marker, dedent, indent, is_blank, is_right_aligned, is_rule, join, join_draft};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText, screen_rows, tool_section};

/// Parser for Gemini CLI 0.6x.
pub(super) struct GeminiParser;

impl Parser for GeminiParser {
    /// Returns true if the composer holds the cursor, and neither status row nor title signals work.
    fn is_ready(&self, screen: &Screen) -> bool {
        let composer = find_composer(&screen_rows(screen));
        composer.is_some_and(|composer| composer.is_ready(screen))
            && !screen.title.trim_start().starts_with(['✦', '✋'])
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = find_composer(&rows);
        if composer.as_ref().is_some_and(|composer| turn.is_draft(&composer.draft)) {
            return ParsedTurn::default();
        }
        let rows = &rows[..composer.as_ref().map_or(rows.len(), |composer| composer.start)];
        let is_marker = |row: &str| !is_blank(row) && indent(row) < 3;
        let (start, is_truncated) = answer_start(rows, turn.prompt, &LAYOUT.echo, is_marker);
        let mut builder = SectionBuilder::new(rows, start);
        add_rows(&mut builder);
        builder.finish(composer.is_some_and(|composer| !composer.is_busy), is_truncated)
    }
}

/// The conversation layout of Gemini CLI.
pub(super) static LAYOUT: Layout = Layout {
    echo: EchoStyle { head: &|rows, row| prompt_text(rows[row]), indent: 3 },
    ends_echo: |_, _| false,
    is_wrapped_echo: |_, _| false,
    is_answer: |row| after_marker(row, &['✦', '✕']).is_some(),
    banner: "Gemini CLI v",
    live: |rows| find_composer(rows).map(|composer| composer.start),
    weight: |row| match after_marker(row, &['✦']) {
        Some(_) => SURE,
        None if row.contains("Type your message or @path/to/file") => SURE,
        None => 0,
    },
};

/// Finds the composer: a prompt row and further draft rows below a rule, and the status rows above it.
fn find_composer(rows: &[&str]) -> Option<Composer> {
    let rule = rows.iter().rposition(|row| is_rule(row, '─'))?;
    // Hints, blank rows and the upper edge of a coloured composer may separate the rule from the prompt row.
    let prompt = (rule + 1..rows.len().min(rule + 6)).find(|&row| prompt_text(rows[row]).is_some())?;
    let is_draft = |row: &&&str| !is_coloured_edge(row) && (is_blank(row) || indent(row) >= 3);
    let end = prompt + 1 + rows[prompt + 1..].iter().take_while(is_draft).count();
    let is_status = |row: &&&str| {
        is_hint(row) || is_right_aligned(row) || (indent(row) == 1 && prompt_or_box_text(row).is_none())
    };
    let start = rule - rows[..rule].iter().rev().take_while(is_status).count();
    let draft = join_draft(prompt_text(rows[prompt]).unwrap_or_default(), &rows[prompt + 1..end]);
    // The spinner's row offers to cancel.
    let is_busy = rows[start..prompt].iter().any(|row| row.contains("(esc to cancel"));
    Some(Composer { start, input: prompt..end, draft, is_busy })
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

/// Reads the rows up to the next prompt or the loop detector's dialog.
fn add_rows(builder: &mut SectionBuilder<'_>) {
    while let Some(row) = builder.row() {
        if is_blank(row) || is_coloured_edge(row) || is_hint(row) {
            builder.next_row += 1;
            continue;
        }
        if indent(row) == 1 {
            // The loop detector's dialog, the next prompt, or a hint.
            builder.has_dialog |= row.starts_with(" ╭");
            builder.has_ended |= prompt_text(row).is_some();
            if builder.has_dialog || builder.has_ended {
                return;
            }
            builder.next_row += 1;
            continue;
        }
        match row.chars().next().unwrap_or(' ') {
            '╭' | '│' => add_box(builder),
            marker @ ('✦' | 'ℹ' | '✕' | '⚠') => add_marked(builder, marker, row),
            _ => add_unmarked(builder, row),
        }
    }
}

/// Adds a marked row and the rows indented below it.
fn add_marked(builder: &mut SectionBuilder<'_>, marker: char, row: &str) {
    let text = take_text(builder, after_marker(row, &[marker]).unwrap_or(row));
    match marker {
        '✦' => builder.push(SectionKind::Text, text),
        '✕' => builder.push(SectionKind::Error, text),
        'ℹ' if text.starts_with("Request cancelled") => builder.push(SectionKind::Interrupted, text),
        'ℹ' if is_loop_notice(&text) => builder.push(SectionKind::Error, text),
        // Notices and warnings come from the program, not from the answer.
        _ => {}
    }
}

/// Adds rows without a marker: a tool in one row, or the rest of an item whose beginning has scrolled away.
fn add_unmarked(builder: &mut SectionBuilder<'_>, row: &str) {
    if let Some(tool) = one_row_tool(builder) {
        let result = builder.take_text("", 4, |row| is_blank(row) || indent(row) >= 4);
        return builder.add(tool.into_section(result));
    }
    let text = take_text(builder, row);
    builder.push(SectionKind::Text, text);
}

/// Moves past a row and the rows indented below it, and returns their text without hints. `first`: the text of the first row.
fn take_text(builder: &mut SectionBuilder<'_>, first: &str) -> String {
    let mut text = vec![dedent(first, 2)];
    builder.next_row += 1;
    while let Some(row) = builder.row()
        && (is_blank(row) || indent(row) >= 2)
        && one_row_tool(builder).is_none()
    {
        if !is_hint(row) {
            text.push(dedent(row, 2));
        }
        builder.next_row += 1;
    }
    join(&text)
}

/// Returns the tool in the next row if that is one like `  ✓  ReadFile  notes.txt` below a blank row.
fn one_row_tool<'a>(builder: &SectionBuilder<'a>) -> Option<ToolRow<'a>> {
    let is_paragraph = builder.next_row == 0 || is_blank(builder.rows[builder.next_row - 1]);
    let row = builder.row().filter(|_| is_paragraph)?.strip_prefix("  ")?;
    ToolRow::parse(row).filter(|tool| tool.is_spaced)
}

/// Adds a box: one or more tools with their results.
fn add_box(builder: &mut SectionBuilder<'_>) {
    let mut tool: Option<ToolRow<'_>> = None;
    let mut result = Vec::new();
    let mut may_start_tool = true;
    while let Some(row) = builder.row() {
        let Some(inner) = row.strip_prefix('│') else {
            // Where the box is cut off at the bottom, the next row does not belong to it.
            builder.next_row += usize::from(row.starts_with(['╭', '├', '╰']));
            if !row.starts_with(['╭', '├']) {
                break;
            }
            may_start_tool = true;
            continue;
        };
        let inner = dedent(inner.trim_end().strip_suffix('│').unwrap_or(inner), 1).trim_end();
        if may_start_tool && let Some(next) = ToolRow::parse(inner) {
            add_tool(builder, tool.replace(next), &mut result);
        } else {
            result.push(inner);
        }
        may_start_tool = inner.is_empty();
        builder.next_row += 1;
    }
    add_tool(builder, tool, &mut result);
}

/// Adds a tool of a box, or rows of a box whose beginning has scrolled away. Empties `result`.
fn add_tool(builder: &mut SectionBuilder<'_>, tool: Option<ToolRow<'_>>, result: &mut Vec<&str>) {
    let content = join(&std::mem::take(result));
    match tool {
        // The box is the dialog, and its rows are the choices.
        Some(tool) if tool.icon == '?' => {
            builder.has_dialog = true;
            builder.add(tool.into_section(String::new()));
        }
        Some(tool) => builder.add(tool.into_section(content)),
        None => builder.push(SectionKind::ToolCall, content),
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
