//! Parser for the screens of opencode and Kilo.
//!
//! Rows with a bar (`┃`) are prompts, tools with output, errors and the composer. Text and tools of one row (`→ Read
//! notes.txt`) stand at column 5. A row `▣  Build · model · 1.8s` ends a turn; without a time the turn continues. The
//! conversation is on the alternate screen, so rows scrolled off are not available.

use std::ops::Range;

use nerve_vt::screen::Screen;

use super::rows::{compact, dedent, indent, is_blank, is_duration, join};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, SectionKind, TurnText, screen_rows, tool_section};

/// Parser for opencode 1.1x and Kilo 7.7.
pub(super) struct OpencodeParser;

/// Column of text and of tools of one row.
const TEXT: usize = 5;
/// Characters without blanks that identify a long prompt by its beginning or end.
const PREFIX: usize = 64;
/// Placeholder for a long paste in the echo.
const CHIP: &str = "[Pasted~";

impl Parser for OpencodeParser {
    /// Returns true if the composer holds the cursor and the rows below show no sign of work.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let Some(composer) = composer(&rows) else { return false };
        let footer = &rows[composer.end..];
        let works = footer.iter().any(|row| {
            row.contains("esc interrupt")
                || row.contains("esc again")
                || row.contains("[retrying")
                || row.trim_start().starts_with(['⬝', '■'])
        });
        composer.contains(&usize::from(screen.cursor.row)) && screen.cursor.visible && !works
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows: Vec<&str> = turn.lines.iter().map(|row| without_toast(row)).collect();
        let prompt = compact(turn.prompt);
        let live = composer(&rows);
        // Before the first prompt the composer is in the middle of the screen, under the program's name.
        let is_first = |live: &Range<usize>| indent(rows[live.start]) > TEXT;
        if live.as_ref().is_some_and(|live| turn.is_draft(&draft(&rows[live.clone()])) || is_first(live)) {
            return ParsedTurn::default();
        }
        let end = live.map_or(rows.len(), |live| live.start);
        let blocks = blocks(&rows[..end]);
        let echo = echo(&rows, &blocks, &prompt);
        let mut builder = SectionBuilder::new(&rows[..end], echo.as_ref().map_or(0, |echo| echo.end));
        add_rows(&mut builder, &blocks);
        // Of the echo, the blank row at its end may still be visible.
        let is_below_echo =
            echo.is_some() || blocks.first().is_some_and(|block| *block == (0..1) && is_blank_bar(rows[0]));
        builder.finish(false, !is_below_echo && !prompt.is_empty())
    }
}

/// Removes a toast: a notice at the right edge between two bars that covers the rows below.
fn without_toast(row: &str) -> &str {
    let row = row.trim_end();
    let Some(rest) = row.strip_suffix('┃') else { return row };
    match rest.rfind('┃') {
        Some(left) if row[..left].chars().count() >= 40 => row[..left].trim_end(),
        _ => row,
    }
}

/// Returns the text behind a bar of the conversation.
fn bar(row: &str) -> Option<&str> {
    if indent(row) > TEXT { None } else { row.trim_start().strip_prefix('┃') }
}

fn is_blank_bar(row: &str) -> bool {
    bar(row).is_some_and(is_blank)
}

/// Returns the rows of the composer.
fn composer(rows: &[&str]) -> Option<Range<usize>> {
    let end = rows.iter().rposition(|row| row.trim_start().starts_with("╹▀"))?;
    let above = rows[..end].iter().rev().take_while(|row| row.trim_start().starts_with('┃')).count();
    (above > 0).then_some(end - above..end)
}

/// Returns the first paragraph of the composer; status rows follow it.
fn draft(rows: &[&str]) -> String {
    let texts = rows.iter().map(|row| row.trim_start().trim_start_matches('┃').trim());
    let texts: Vec<&str> = texts.skip_while(|row| row.is_empty()).take_while(|row| !row.is_empty()).collect();
    texts.join("\n")
}

/// Returns the runs of rows with a bar.
fn blocks(rows: &[&str]) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match blocks.last_mut() {
            _ if bar(row).is_none() => {}
            Some(last) if last.end == at => last.end += 1,
            _ => blocks.push(at..at + 1),
        }
    }
    blocks
}

/// Returns the rows of a block without their bars.
fn inside<'a>(rows: &[&'a str]) -> Vec<&'a str> {
    rows.iter().map(|row| dedent(bar(row).unwrap_or(row), 2)).collect()
}

/// Returns the block that echoes the prompt: the last one that shows it, or for an unknown prompt the last possible
/// echo. `None` if it has scrolled away.
fn echo(rows: &[&str], blocks: &[Range<usize>], prompt: &str) -> Option<Range<usize>> {
    let shows_prompt = |block: &&Range<usize>| {
        let block_text = compact(&inside(&rows[(*block).clone()]).join("\n"));
        let is_part = block_text.len() >= PREFIX || block.start == 0;
        let chip = block_text.find(CHIP).is_some_and(|at| prompt.starts_with(&block_text[..at]));
        !prompt.is_empty()
            && !block_text.is_empty()
            && (block_text == prompt
                || chip
                || (is_part && (prompt.ends_with(&block_text) || prompt.starts_with(&block_text))))
    };
    // An error looks like an echo, but the turn ends below it. The echo of a known prompt is found by its text.
    let ends_turn = |block: &Range<usize>| {
        let next = rows[block.end..].iter().find(|row| !is_blank(row));
        !prompt.is_empty() && next.is_none_or(|row| parse_footer(row).is_some() || bar(row).is_some())
    };
    let can_be_echo = |block: &&Range<usize>| {
        matches!(Block::read(&inside(&rows[(*block).clone()])), Block::Text(_)) && !ends_turn(block)
    };
    blocks.iter().rfind(shows_prompt).or_else(|| blocks.iter().rfind(can_be_echo)).cloned()
}

/// A block of rows with a bar.
enum Block<'a> {
    /// A tool: name, arguments, whether it is running, and result.
    Tool { name: &'a str, args: &'a str, runs: bool, result: String },
    /// A permission dialog.
    Dialog,
    /// A prompt queued until the end of the turn.
    Queued,
    /// A prompt, or an error.
    Text(String),
    /// A block without text.
    Blank,
}

impl<'a> Block<'a> {
    fn read(rows: &[&'a str]) -> Block<'a> {
        let Some(first) = rows.iter().position(|row| !is_blank(row)) else { return Block::Blank };
        let (head, mut rest) = (rows[first].trim(), &rows[first + 1..]);
        if head.starts_with('△') {
            return Block::Dialog;
        }
        if rest.iter().any(|row| row.trim() == "QUEUED") {
            return Block::Queued;
        }
        // A title may precede the command.
        let command = rest.iter().position(|row| !is_blank(row)).filter(|_| head.starts_with("# "));
        let head = match command.filter(|&at| parse_shell_command(rest[at].trim()).is_some()) {
            Some(at) => {
                let head = rest[at].trim();
                rest = &rest[at + 1..];
                head
            }
            None => head,
        };
        if let Some((args, runs)) = parse_shell_command(head) {
            return Block::Tool { name: "bash", args, runs, result: join(rest) };
        }
        match parse_one_row_tool(head).or_else(|| parse_written_file(head)) {
            Some((name, args)) => Block::Tool { name, args, runs: false, result: join(rest) },
            None => Block::Text(join(&rows[first..])),
        }
    }
}

/// Parses `$ ls`, or `⠸ ls` while it runs.
fn parse_shell_command(row: &str) -> Option<(&str, bool)> {
    let (mark, command) = row.split_once(' ')?;
    let mut marks = mark.chars();
    match (marks.next(), marks.next()) {
        (Some('$'), None) => Some((command, false)),
        (Some('\u{2800}'..='\u{28ff}'), None) => Some((command, true)),
        _ => None,
    }
}

/// Parses `# Wrote notes.txt`, the head of a block with the file's content.
fn parse_written_file(row: &str) -> Option<(&str, &str)> {
    without_approval(row).strip_prefix("# Wrote ").map(|path| ("Write", path))
}

/// Removes the approval that Kilo appends to a tool: `→ Read notes.txt  · auto-approved by the code agent`.
fn without_approval(row: &str) -> &str {
    let is_approval =
        |text: &str| ["approved by ", "auto-approved", "denied"].iter().any(|word| text.starts_with(word));
    match row.rsplit_once(" · ") {
        Some((tool, approval)) if is_approval(approval) => tool.trim_end(),
        _ => row,
    }
}

/// Parses `→ Read notes.txt`: a sign, a capitalized name, arguments.
fn parse_one_row_tool(row: &str) -> Option<(&str, &str)> {
    let (sign, rest) = without_approval(row).split_once(' ')?;
    let is_sign = matches!(sign, "→" | "←" | "✱" | "%" | "◇" | "◈" | "⚙" | "│");
    let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase() || sign == "⚙");
    (is_sign && is_name).then_some((name, args.trim()))
}

/// Parses `▣  Build · model · 1.8s`. The inner value is how the turn ended; `None` while it is running.
fn parse_footer(row: &str) -> Option<Option<&str>> {
    let facts = row.trim_start().strip_prefix("▣ ")?;
    let last = facts.rsplit_once(" · ").map_or("", |(_, last)| last.trim());
    Some((last == "interrupted" || is_duration(last)).then_some(last))
}

/// Reads all rows. `blocks`: the runs of rows with a bar.
fn add_rows(builder: &mut SectionBuilder<'_>, blocks: &[Range<usize>]) {
    let mut text = Vec::new();
    while let Some(row) = builder.row() {
        let at = builder.next_row;
        if let Some(block) = blocks.iter().find(|block| block.contains(&at)) {
            add_text(builder, &mut text);
            add_block(builder, Block::read(&inside(&builder.rows[at..block.end])));
            builder.next_row = block.end;
            continue;
        }
        match Line::read(builder.rows, at) {
            Line::Footer(end) => {
                add_text(builder, &mut text);
                if end == Some("interrupted") {
                    builder.push(SectionKind::Interrupted, "interrupted".to_string());
                }
                builder.has_ended |= end.is_some();
            }
            Line::Tool { name, args, runs } => {
                add_text(builder, &mut text);
                builder.add(tool_section(name, args, runs.then_some("running"), String::new()));
            }
            Line::Text => text.push(dedent(row, TEXT)),
        }
        builder.next_row += 1;
    }
    add_text(builder, &mut text);
}

/// Adds the rows of a text and empties them.
fn add_text(builder: &mut SectionBuilder<'_>, rows: &mut Vec<&str>) {
    let text = join(&std::mem::take(rows));
    match text.strip_prefix("Thinking: ") {
        Some(thought) => builder.push(SectionKind::Thinking, thought.to_string()),
        None => builder.push(SectionKind::Text, text),
    }
}

fn add_block(builder: &mut SectionBuilder<'_>, block: Block<'_>) {
    match block {
        Block::Tool { name, args, runs, result } => {
            builder.add(tool_section(name, args, runs.then_some("running"), result));
        }
        Block::Dialog => {
            builder.has_dialog = true;
            let last = builder.sections.last_mut().filter(|last| last.kind == SectionKind::ToolCall);
            if let Some(tool) = last {
                tool.metadata.insert("status".to_string(), "asking".to_string());
            }
        }
        Block::Text(words) => {
            builder.push(SectionKind::Error, words);
            builder.has_ended = true;
        }
        Block::Queued | Block::Blank => {}
    }
}

/// A row without a bar.
enum Line<'a> {
    /// The end of an answer, with how the turn ended; `None` if the turn continues.
    Footer(Option<&'a str>),
    /// A tool of one row: name, arguments, and whether it is running.
    Tool {
        name: &'a str,
        args: &'a str,
        runs: bool,
    },
    Text,
}

impl<'a> Line<'a> {
    fn read(rows: &[&'a str], at: usize) -> Line<'a> {
        let row = rows[at];
        let begins = at == 0 || is_blank(rows[at - 1]);
        if begins && let Some(end) = parse_footer(row) {
            return Line::Footer(end);
        }
        let is_alone = rows.get(at + 1).is_none_or(|next| is_blank(next));
        if !(begins && indent(row) == TEXT && (is_alone || is_tool_below(rows, at))) {
            return Line::Text;
        }
        // A command that awaits permission has its own row at the end of an unfinished turn. Elsewhere an answer may
        // quote a command.
        let command = || parse_shell_command(row.trim()).filter(|_| is_unfinished(rows, at));
        match parse_one_row_tool(row.trim()) {
            Some((name, args)) => Line::Tool { name, args, runs: false },
            None => command().map_or(Line::Text, |(args, runs)| Line::Tool { name: "bash", args, runs }),
        }
    }
}

/// Returns true if the next row is a tool of one row: such tools are grouped.
fn is_tool_below(rows: &[&str], at: usize) -> bool {
    rows.get(at + 1).is_some_and(|next| indent(next) == TEXT && parse_one_row_tool(next.trim()).is_some())
}

/// Returns true if the next row with text is a footer without a time.
fn is_unfinished(rows: &[&str], at: usize) -> bool {
    let next = rows[at + 1..].iter().find(|row| !is_blank(row));
    next.is_some_and(|next| parse_footer(next) == Some(None))
}
