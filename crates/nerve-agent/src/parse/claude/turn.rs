//! Parses Claude's rows below the echo of a prompt into sections.

use super::live_region::Composer;
use super::row_kind::{RowKind, is_interruption, parse_fold};
use crate::parse::rows::{dedent, indent, is_blank, join, token_count};
use crate::parse::{ParsedTurn, Section, SectionKind, Tokens};

/// Indentation of a result's rows under `  ⎿  `, in columns.
const RESULT_INDENT: usize = 5;

/// Returns the indentation of the rows under a row with `⎿`.
fn indent_under(result: &str) -> usize {
    (indent(result) + 3).min(RESULT_INDENT)
}

/// Tools recognised without a result below. Other tools are distinguished from text by their result.
const TOOLS: [&str; 20] = [
    "Agent",
    "Bash",
    "BashOutput",
    "Edit",
    "Explore",
    "Fetch",
    "Glob",
    "Grep",
    "KillShell",
    "List",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "Search",
    "Skill",
    "Task",
    "Update",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// Parses `rows[start..]` down to the composer or a dialog.
pub(super) fn parse(rows: &[&str], start: usize, composer: Option<&Composer>) -> ParsedTurn {
    let end = composer.map_or(rows.len(), |composer| composer.first_status_row(rows)).max(start);
    let is_busy = composer.is_some_and(|composer| composer.is_busy(rows));
    let mut reader = TurnReader { rows: &rows[..end], at: start, is_busy, ..TurnReader::default() };
    reader.run();
    if let Some(composer) = composer {
        for row in rows[end..composer.top.max(end)].iter().chain(&rows[composer.bottom + 1..]) {
            reader.note_tokens(row);
        }
    }
    let is_idle = composer.is_some_and(|composer| composer.is_idle(rows)) && !reader.is_spinning;
    let is_finished = match reader.sections.last() {
        Some(last) => is_idle || matches!(last.kind, SectionKind::Interrupted | SectionKind::Error),
        None => false,
    };
    ParsedTurn {
        is_complete: !reader.has_dialog && (reader.has_ended || is_finished),
        sections: reader.sections,
        tokens: reader.tokens,
        // The scrollback or the transcript has the rest.
        is_truncated: false,
    }
}

/// Reads the rows of a turn. Unlike the other parsers, it looks ahead to tell a tool from text.
#[derive(Default)]
struct TurnReader<'a> {
    rows: &'a [&'a str],
    at: usize,
    sections: Vec<Section>,
    tokens: Option<Tokens>,
    /// The agent works on the turn.
    is_busy: bool,
    /// The end line was the last item.
    has_ended: bool,
    /// A spinner was the last item.
    is_spinning: bool,
    /// A dialog occupies the bottom instead of the composer.
    has_dialog: bool,
}

impl<'a> TurnReader<'a> {
    fn run(&mut self) {
        while let Some(row) = self.rows.get(self.at) {
            match RowKind::classify(row) {
                RowKind::Blank => self.at += 1,
                RowKind::Head(rest) => self.add_marked(rest),
                RowKind::Thinking(rest) => self.add_thinking(rest),
                RowKind::Result(rest) => self.add_orphan_result(rest),
                RowKind::End => {
                    self.note_tokens(row);
                    (self.has_ended, self.is_spinning) = (true, false);
                    self.at += 1;
                }
                RowKind::Spinner => self.skip_spinner(),
                RowKind::Notice => self.skip_notice(),
                RowKind::Rule => {
                    if !self.skip_stale_composer() {
                        self.has_dialog = self.kind(self.at + 1).is_some_and(|kind| kind != RowKind::Prompt);
                        return;
                    }
                }
                // The next prompt ends this turn.
                RowKind::Prompt => {
                    self.has_ended = true;
                    return;
                }
                RowKind::Indented | RowKind::Unknown => {
                    if let Some((tool, next)) = self.unmarked_tool(self.at) {
                        self.at = next;
                        self.add_tool(tool);
                    } else if !self.take_fold() {
                        self.add_text(row);
                    }
                }
            }
        }
    }

    /// Returns the kind of a row; `None` below the last one.
    fn kind(&self, at: usize) -> Option<RowKind<'a>> {
        self.rows.get(at).map(|row| RowKind::classify(row))
    }

    fn push(&mut self, section: Section) {
        self.sections.push(section);
        (self.has_ended, self.is_spinning) = (false, false);
    }

    /// Adds what a `●` marks: a tool, an error, or text.
    fn add_marked(&mut self, rest: &'a str) {
        if let Some((tool, next)) = self.parse_tool(self.at, rest) {
            self.at = next;
            self.add_tool(tool);
        } else if rest.ends_with("(ctrl+o to expand)") && self.push_fold(rest) {
            self.at += 1;
        } else {
            self.add_text(rest);
        }
    }

    /// Parses `Name(args…)` in row `at` and returns the row after it. Text can look the same, so an unknown tool needs its
    /// result directly below.
    fn parse_tool(&self, at: usize, rest: &'a str) -> Option<(Section, usize)> {
        let more =
            self.rows[at + 1..].iter().take_while(|row| RowKind::classify(row) == RowKind::Indented).count();
        let next = at + 1 + more;
        let has_result = matches!(self.kind(next), Some(RowKind::Result(result)) if !is_interruption(result));
        let mut call = rest.to_string();
        for row in &self.rows[at + 1..next] {
            call.push('\n');
            call.push_str(dedent(row, RESULT_INDENT + 1));
        }
        let call = call.trim_end();
        let (name, args) = match call.split_once('(') {
            // `server - tool (MCP)(args)`
            Some((name, args)) if args.starts_with("MCP)") => {
                (format!("{name}(MCP)"), args["MCP)".len()..].strip_prefix('('))
            }
            Some((name, args)) => (name.to_string(), Some(args)),
            None => (call.to_string(), None),
        };
        let args = match args {
            Some(args) => Some(args.strip_suffix(')')?),
            None => None,
        };
        let is_known = name.ends_with("(MCP)") || (args.is_some() && TOOLS.contains(&name.as_str()));
        if !(is_known || has_result && is_tool_name(&name, args.is_some())) {
            return None;
        }
        let section = Section::new(SectionKind::ToolCall, "").with("tool", name);
        Some((if let Some(args) = args { section.with("args", args) } else { section }, next))
    }

    /// Parses a running call whose marker is not drawn, and returns the row after it: the marker blinks. Text can quote such
    /// rows, so only further calls may follow them.
    fn unmarked_tool(&self, at: usize) -> Option<(Section, usize)> {
        let row = self.rows[at];
        if !self.is_busy || indent(row) != 2 || at.checked_sub(1).is_some_and(|row| !is_blank(self.rows[row]))
        {
            return None;
        }
        let (tool, next) = self.parse_tool(at, dedent(row, 2))?;
        let is_result = |row: &&&str| match RowKind::classify(row) {
            RowKind::Result(_) | RowKind::Blank => true,
            RowKind::Indented => indent(row) >= RESULT_INDENT,
            _ => false,
        };
        let end = next + self.rows[next..].iter().take_while(is_result).count();
        let has_result = matches!(self.kind(next), Some(RowKind::Result(_)));
        let is_last = match self.kind(end) {
            None | Some(RowKind::Spinner | RowKind::Rule) => true,
            Some(RowKind::Head(rest)) => self.parse_tool(end, rest).is_some(),
            Some(RowKind::Indented) => self.unmarked_tool(end).is_some(),
            Some(_) => false,
        };
        (has_result && is_last).then_some((tool, next))
    }

    /// Adds a call with its result: the `⎿` rows below it and the rows indented under them.
    fn add_tool(&mut self, mut tool: Section) {
        let mut result = Vec::new();
        let mut interruption = None;
        let mut under = RESULT_INDENT;
        while let Some(row) = self.rows.get(self.at) {
            match RowKind::classify(row) {
                RowKind::Result(rest) if is_interruption(rest) && self.is_last(self.at) => {
                    interruption = Some(rest);
                    self.at += 1;
                    break;
                }
                RowKind::Result(rest) => {
                    under = indent_under(row);
                    result.push(rest);
                }
                RowKind::Indented if indent(row) >= under => result.push(dedent(row, under)),
                // Without any indentation, a result ends at a blank row.
                RowKind::Unknown if under < RESULT_INDENT && !is_blank(self.rows[self.at - 1]) => {
                    result.push(row);
                }
                RowKind::Blank => result.push(""),
                _ => break,
            }
            self.at += 1;
        }
        let first = result.first().copied().unwrap_or_default();
        let status = match first {
            _ if first.starts_with("Waiting…") || first.starts_with("Waiting for permission") => {
                Some("waiting")
            }
            _ if first.starts_with("Running…") => Some("running"),
            _ if first.starts_with("Rejected ") || first.starts_with("User rejected") => Some("rejected"),
            _ if first.starts_with("Error:") || first.starts_with("Error ") => Some("error"),
            _ => None,
        };
        if let Some(status) = status {
            tool = tool.with("status", status);
        }
        if !matches!(status, Some("waiting" | "running")) {
            tool.content = join(&result);
        }
        self.push(tool);
        if let Some(words) = interruption {
            self.push(Section::new(SectionKind::Interrupted, words));
        }
    }

    /// Adds the text from this row, without its marker, down to the next marker.
    fn add_text(&mut self, first: &'a str) {
        let mut text = vec![dedent(first, 2)];
        let mut interruption = None;
        self.at += 1;
        while let Some(row) = self.rows.get(self.at) {
            match RowKind::classify(row) {
                RowKind::Result(rest) if is_interruption(rest) && self.is_last(self.at) => {
                    interruption = Some(rest);
                    self.at += 1;
                    break;
                }
                RowKind::Indented if self.is_fold_here() || self.unmarked_tool(self.at).is_some() => break,
                RowKind::Blank | RowKind::Result(_) | RowKind::Indented | RowKind::Unknown => {
                    text.push(dedent(row, 2))
                }
                _ => break,
            }
            self.at += 1;
        }
        let text = join(&text);
        if !text.is_empty() {
            let kind = if is_api_error(&text) { SectionKind::Error } else { SectionKind::Text };
            self.push(Section::new(kind, text));
        }
        if let Some(words) = interruption {
            self.push(Section::new(SectionKind::Interrupted, words));
        }
    }

    /// Adds `∴ Thinking…` and the rows indented below.
    fn add_thinking(&mut self, rest: &'a str) {
        self.at += 1;
        let mut thought = Vec::new();
        while let Some(RowKind::Blank | RowKind::Indented) = self.kind(self.at) {
            thought.push(dedent(self.rows[self.at], 2));
            self.at += 1;
        }
        let mut section = Section::new(SectionKind::Thinking, join(&thought));
        if let Some(fold) = parse_fold(rest).filter(|fold| fold.tool.is_none()) {
            section = section.with("duration", fold.detail);
        }
        self.push(section);
    }

    /// Adds a result without a call: the answer of a command (`/cost`), an interruption, or an error of older versions.
    fn add_orphan_result(&mut self, first: &'a str) {
        let is_last = self.is_last(self.at);
        let mut result = vec![first];
        let under = indent_under(self.rows[self.at]);
        self.at += 1;
        while let Some(row) = self.rows.get(self.at)
            && matches!(RowKind::classify(row), RowKind::Blank | RowKind::Indented)
            && !self.is_fold_here()
        {
            result.push(dedent(row, under));
            self.at += 1;
        }
        let kind = match first {
            _ if first.contains("Retrying in") => return,
            _ if is_interruption(first) && is_last => SectionKind::Interrupted,
            _ if is_api_error(first) => SectionKind::Error,
            _ => SectionKind::Text,
        };
        self.push(Section::new(kind, join(&result)));
    }

    /// Skips a spinner and the rows below it: tips and the to-do list.
    fn skip_spinner(&mut self) {
        self.is_spinning = true;
        self.note_tokens(self.rows[self.at]);
        self.at += 1;
        let below = self.rows[self.at..].iter().map(|row| RowKind::classify(row));
        self.at += below.take_while(|mark| *mark != RowKind::Blank && !mark.starts_item()).count();
    }

    /// Skips a row of the program itself, the rows directly below it, and the list of files after a compaction.
    fn skip_notice(&mut self) {
        loop {
            let below = self.rows[self.at + 1..].iter().map(|row| RowKind::classify(row));
            self.at += 1 + below.take_while(|mark| *mark != RowKind::Blank && !mark.starts_item()).count();
            let blanks = self.rows[self.at..].iter().take_while(|row| is_blank(row)).count();
            if !matches!(self.kind(self.at + blanks), Some(RowKind::Result(_))) {
                return;
            }
            self.at += blanks;
        }
    }

    /// Returns true at a paragraph of one row that summarizes a folded call or thought, or (full-screen) a running call
    /// with its command below.
    fn is_fold_here(&self) -> bool {
        let is_first_row =
            self.at.checked_sub(1).and_then(|row| self.rows.get(row)).is_none_or(|row| is_blank(row));
        let row = self.rows[self.at];
        if !is_first_row || indent(row) != 2 {
            return false;
        }
        let row = dedent(row, 2);
        match self.kind(self.at + 1) {
            None | Some(RowKind::Blank) => parse_fold(row).is_some(),
            Some(RowKind::Result(result)) => result.starts_with("$ "),
            _ => false,
        }
    }

    fn take_fold(&mut self) -> bool {
        if !self.is_fold_here() {
            return false;
        }
        let label = dedent(self.rows[self.at], 2);
        if let Some(RowKind::Result(result)) = self.kind(self.at + 1) {
            let mut command = vec![result.trim_start_matches("$ ")];
            self.at += 2;
            while self.kind(self.at) == Some(RowKind::Indented) {
                command.push(dedent(self.rows[self.at], RESULT_INDENT));
                self.at += 1;
            }
            let tool = Section::new(SectionKind::ToolCall, "").with("tool", "Bash").with("status", "running");
            self.push(tool.with("args", join(&command)).with("label", label));
            return true;
        }
        self.at += 1;
        self.push_fold(label)
    }

    fn push_fold(&mut self, text: &str) -> bool {
        let Some(fold) = parse_fold(text) else { return false };
        let section = match fold.tool {
            Some(tool) => Section::new(SectionKind::ToolCall, fold.label).with("tool", tool),
            None => Section::new(SectionKind::Thinking, fold.label).with("duration", fold.detail),
        };
        self.push(section.with("folded", "true"));
        true
    }

    /// Skips a composer that the terminal scrolled off while it was drawn. At a dialog, which is last, stays and
    /// returns false.
    fn skip_stale_composer(&mut self) -> bool {
        let is_start =
            |mark: RowKind<'_>| mark.starts_item() && !matches!(mark, RowKind::Rule | RowKind::Prompt);
        match self.rows[self.at..].iter().position(|row| is_start(RowKind::classify(row))) {
            Some(next) => {
                self.at += next;
                true
            }
            None => false,
        }
    }

    /// Returns true if no row of the answer follows.
    fn is_last(&self, at: usize) -> bool {
        let next =
            self.rows[at + 1..].iter().map(|row| RowKind::classify(row)).find(|mark| *mark != RowKind::Blank);
        matches!(
            next,
            None | Some(RowKind::Prompt | RowKind::Rule | RowKind::End | RowKind::Spinner | RowKind::Notice)
        )
    }

    fn note_tokens(&mut self, row: &str) {
        let Some((arrow, count)) = token_count(row) else { return };
        let tokens = self.tokens.get_or_insert_default();
        match arrow {
            Some('↓') => tokens.output = Some(count),
            Some('↑') => tokens.input = Some(count),
            _ => tokens.total = Some(count),
        }
    }
}

/// Returns true for up to five words that can name a tool, such as `server - tool`. Without arguments, all words must
/// be capitalized (`Update Todos`).
fn is_tool_name(name: &str, has_args: bool) -> bool {
    let is_word = |word: &str| {
        let has_sign = word.chars().any(|c| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')));
        !has_sign && !word.ends_with([':', '.']) && (has_args || word.starts_with(char::is_uppercase))
    };
    name.starts_with(char::is_alphabetic) && name.split(' ').count() <= 5 && name.split(' ').all(is_word)
}

/// Returns true for `API Error: 400 …`, or `API Error (…) …` in older versions.
fn is_api_error(text: &str) -> bool {
    text.starts_with("API Error: ") || text.starts_with("API Error (")
}
