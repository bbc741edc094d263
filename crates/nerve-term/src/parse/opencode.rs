//! opencode's screen.
//!
//! Rows with a bar (`┃`) are prompts, tools with an output, errors and the composer; text stands at column 5, and so do tools of one row
//! (`→ Read notes.txt`). A row `▣  Build · model · 1.8s` ends a turn; without a time the turn goes on. The conversation is on the alternate
//! screen: what has scrolled away is not in the rows.

use std::ops::Range;

use super::rows::{compact, dedent, indent, is_blank, is_duration, join};
use super::{Parsed, Parser, Section, SectionKind, TurnText};
use crate::screen::Screen;

/// Reads opencode 1.1x.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpencodeParser;

/// Column of text and tools of one row.
const TEXT: usize = 5;
/// Enough characters (blanks not counted) to know a long prompt by its beginning or its end.
const PREFIX: usize = 64;
/// What stands in the echo for a long paste.
const CHIP: &str = "[Pasted~";

impl Parser for OpencodeParser {
    /// The cursor is in the composer, and the row below it offers no interrupt.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows: Vec<&str> = screen.rows.iter().map(|row| row.text.as_str()).collect();
        let Some(composer) = composer(&rows) else { return false };
        let footer = &rows[composer.end..];
        let works = footer.iter().any(|row| row.contains("esc interrupt") || row.contains("esc again"));
        composer.contains(&usize::from(screen.cursor.row)) && screen.cursor.visible && !works
    }

    fn parse(&self, turn: &TurnText<'_>) -> Parsed {
        let rows: Vec<&str> = turn.lines.iter().map(|row| without_toast(row)).collect();
        let wanted = compact(turn.prompt);
        let live = composer(&rows);
        if live
            .as_ref()
            .is_some_and(|live| !wanted.is_empty() && compact(&draft(&rows[live.clone()])) == wanted)
        {
            // Still in the composer: what is above answers something else.
            return Parsed::default();
        }
        if live.as_ref().is_some_and(|live| indent(rows[live.start]) > TEXT) {
            // In the middle of the screen before the first prompt, under the program's name.
            return Parsed::default();
        }
        let end = live.map_or(rows.len(), |live| live.start);
        let blocks = blocks(&rows[..end]);
        let mut walk = Walk { rows: &rows[..end], ..Walk::default() };
        let start = echo(&rows, &blocks, &wanted).map_or(0, |echo| echo.end);
        walk.run(start, &blocks);
        let is_complete = !walk.has_dialog && walk.has_ended;
        Parsed { sections: walk.sections, tokens: None, is_complete }
    }
}

/// A note that floats at the right edge, in a frame of two bars, hides what is below it.
fn without_toast(row: &str) -> &str {
    let row = row.trim_end();
    let Some(rest) = row.strip_suffix('┃') else { return row };
    match rest.rfind('┃') {
        Some(left) if row[..left].chars().count() >= 40 => row[..left].trim_end(),
        _ => row,
    }
}

/// What stands behind a bar of the conversation.
fn bar(row: &str) -> Option<&str> {
    if indent(row) > TEXT { None } else { row.trim_start().strip_prefix('┃') }
}

/// The rows of the composer.
fn composer(rows: &[&str]) -> Option<Range<usize>> {
    let end = rows.iter().rposition(|row| row.trim_start().starts_with("╹▀"))?;
    let above = rows[..end].iter().rev().take_while(|row| row.trim_start().starts_with('┃')).count();
    (above > 0).then_some(end - above..end)
}

/// The first paragraph in the composer; status rows follow it.
fn draft(rows: &[&str]) -> String {
    let texts = rows.iter().map(|row| row.trim_start().trim_start_matches('┃').trim());
    let texts: Vec<&str> = texts.skip_while(|row| row.is_empty()).take_while(|row| !row.is_empty()).collect();
    texts.join("\n")
}

/// Runs of rows with a bar.
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

/// What a block holds, its bars left out.
fn inside<'a>(rows: &[&'a str]) -> Vec<&'a str> {
    rows.iter().map(|row| dedent(bar(row).unwrap_or(row), 2)).collect()
}

/// The block that repeats the prompt: the last that shows it, else (a prompt that is not known or drawn in another way) the last one that
/// can be an echo. `None`: it has scrolled away.
fn echo(rows: &[&str], blocks: &[Range<usize>], wanted: &str) -> Option<Range<usize>> {
    let shows = |block: &&Range<usize>| {
        let shown = compact(&inside(&rows[(*block).clone()]).join("\n"));
        let is_part = shown.len() >= PREFIX || block.start == 0;
        let chip = shown.find(CHIP).is_some_and(|at| wanted.starts_with(&shown[..at]));
        !wanted.is_empty()
            && !shown.is_empty()
            && (shown == wanted
                || chip
                || (is_part && (wanted.ends_with(&shown) || wanted.starts_with(&shown))))
    };
    let can_be =
        |block: &&Range<usize>| matches!(Block::read(&inside(&rows[(*block).clone()])), Block::Words(_));
    blocks.iter().rfind(shows).or_else(|| blocks.iter().rfind(can_be)).cloned()
}

/// What a block with a bar is.
enum Block<'a> {
    /// A tool: its name, what it was given, whether it still runs, what it said.
    Tool { name: &'a str, args: &'a str, runs: bool, result: String },
    /// A permission is asked.
    Dialog,
    /// A prompt that waits for the end of the turn.
    Queued,
    /// A prompt, or an error.
    Words(String),
    /// Nothing but the bar.
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
        // A title may stand above the command.
        let command = rest.iter().position(|row| !is_blank(row)).filter(|_| head.starts_with("# "));
        let head = match command.filter(|&at| shell(rest[at].trim()).is_some()) {
            Some(at) => {
                let head = rest[at].trim();
                rest = &rest[at + 1..];
                head
            }
            None => head,
        };
        if let Some((args, runs)) = shell(head) {
            return Block::Tool { name: "bash", args, runs, result: join(rest) };
        }
        match one_row_tool(head) {
            Some((name, args)) => Block::Tool { name, args, runs: false, result: join(rest) },
            None => Block::Words(join(&rows[first..])),
        }
    }
}

/// `$ ls`, or `⠸ ls` while it runs.
fn shell(row: &str) -> Option<(&str, bool)> {
    let (mark, command) = row.split_once(' ')?;
    let mut marks = mark.chars();
    match (marks.next(), marks.next()) {
        (Some('$'), None) => Some((command, false)),
        (Some('\u{2800}'..='\u{28ff}'), None) => Some((command, true)),
        _ => None,
    }
}

/// `→ Read notes.txt`: a sign, a word with a capital, what it was given.
fn one_row_tool(row: &str) -> Option<(&str, &str)> {
    let (sign, rest) = row.split_once(' ')?;
    let is_sign = matches!(sign, "→" | "←" | "✱" | "%" | "◇" | "◈" | "⚙" | "│");
    let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase() || sign == "⚙");
    (is_sign && is_name).then_some((name, args.trim()))
}

/// `▣  Build · model · 1.8s`: how the turn ended, if it has.
fn foot(row: &str) -> Option<Option<&str>> {
    let facts = row.trim_start().strip_prefix("▣ ")?;
    let last = facts.rsplit_once(" · ").map_or("", |(_, last)| last.trim());
    Some((last == "interrupted" || is_duration(last)).then_some(last))
}

#[derive(Default)]
struct Walk<'a> {
    rows: &'a [&'a str],
    sections: Vec<Section>,
    text: Vec<&'a str>,
    has_ended: bool,
    has_dialog: bool,
}

impl<'a> Walk<'a> {
    fn run(&mut self, start: usize, blocks: &[Range<usize>]) {
        let mut at = start;
        while let Some(&row) = self.rows.get(at) {
            if let Some(block) = blocks.iter().find(|block| block.contains(&at)) {
                self.block(Block::read(&inside(&self.rows[at..block.end])));
                at = block.end;
            } else {
                self.row(at, row);
                at += 1;
            }
        }
        self.end_text();
    }

    fn block(&mut self, block: Block<'_>) {
        self.end_text();
        match block {
            Block::Tool { name, args, runs, result } => self.tool(name, args, runs, result),
            Block::Dialog => {
                self.has_dialog = true;
                if let Some(last) = self.sections.last_mut().filter(|last| last.kind == SectionKind::ToolCall)
                {
                    last.metadata.insert("status".to_string(), "asking".to_string());
                }
            }
            Block::Words(words) => {
                self.sections.push(Section::new(SectionKind::Error, words));
                self.has_ended = true;
            }
            Block::Queued | Block::Blank => {}
        }
    }

    fn row(&mut self, at: usize, row: &'a str) {
        let begins = at == 0 || is_blank(self.rows[at - 1]);
        let alone = self.rows.get(at + 1).is_none_or(|next| is_blank(next));
        if begins && let Some(end) = foot(row) {
            self.end_text();
            if end == Some("interrupted") {
                self.sections.push(Section::new(SectionKind::Interrupted, "interrupted"));
            }
            self.has_ended |= end.is_some();
            return;
        }
        let is_inline = begins && indent(row) == TEXT && (alone || self.is_tool_below(at));
        if is_inline && let Some((name, args)) = one_row_tool(row.trim()) {
            self.end_text();
            return self.tool(name, args, false, String::new());
        }
        // A command that is not allowed yet stands in a row of its own, last in an unfinished turn: an answer may quote one.
        if is_inline && let Some((args, runs)) = shell(row.trim()).filter(|_| self.is_unfinished(at)) {
            self.end_text();
            return self.tool("bash", args, runs, String::new());
        }
        self.text.push(dedent(row, TEXT));
    }

    /// Tools of one row stand together.
    fn is_tool_below(&self, at: usize) -> bool {
        self.rows.get(at + 1).is_some_and(|next| indent(next) == TEXT && one_row_tool(next.trim()).is_some())
    }

    /// The next row with text is the foot, and it has no time.
    fn is_unfinished(&self, at: usize) -> bool {
        let next = self.rows[at + 1..].iter().find(|row| !is_blank(row));
        next.is_some_and(|next| foot(next) == Some(None))
    }

    fn end_text(&mut self) {
        let text = join(&std::mem::take(&mut self.text));
        if !text.is_empty() {
            self.sections.push(match text.strip_prefix("Thinking: ") {
                Some(thought) => Section::new(SectionKind::Thinking, thought),
                None => Section::new(SectionKind::Text, text),
            });
            self.has_ended = false;
        }
    }

    fn tool(&mut self, name: &str, args: &str, runs: bool, result: String) {
        let section = Section::new(SectionKind::ToolCall, result).with("tool", name);
        let section = if args.is_empty() { section } else { section.with("args", args) };
        self.sections.push(if runs { section.with("status", "running") } else { section });
        self.has_ended = false;
    }
}
