//! Claude's rows below the echo of a prompt, to sections.

use super::live_region::Composer;
use super::row_kind::{Mark, fold, is_interruption};
use crate::parse::rows::{dedent, is_blank, join, token_count};
use crate::parse::{Parsed, Section, SectionKind, Tokens};

/// Columns by which the rows of a result are indented under `  ⎿  `.
const RESULT_INDENT: usize = 5;

/// Tools whose call is known without a result below it. Others are told from text by the result.
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

/// Takes `rows[start..]` apart, down to the composer or a dialog.
pub(super) fn parse(rows: &[&str], start: usize, composer: Option<&Composer>) -> Parsed {
    let end = composer.map_or(rows.len(), |composer| composer.first_status_row(rows)).max(start);
    let mut walk = Walk { rows: &rows[..end], at: start, ..Walk::default() };
    walk.run();
    if let Some(composer) = composer {
        for row in rows[end..composer.top.max(end)].iter().chain(&rows[composer.bottom + 1..]) {
            walk.note_tokens(row);
        }
    }
    let is_idle = composer.is_some_and(|composer| composer.is_idle(rows)) && !walk.is_spinning;
    let is_over = match walk.sections.last() {
        Some(last) => is_idle || matches!(last.kind, SectionKind::Interrupted | SectionKind::Error),
        None => false,
    };
    Parsed {
        is_complete: !walk.has_dialog && (walk.has_ended || is_over),
        sections: walk.sections,
        tokens: walk.tokens,
    }
}

#[derive(Default)]
struct Walk<'a> {
    rows: &'a [&'a str],
    at: usize,
    sections: Vec<Section>,
    tokens: Option<Tokens>,
    /// The end line was the last thing seen.
    has_ended: bool,
    /// A spinner was.
    is_spinning: bool,
    /// Something other than the composer took the bottom.
    has_dialog: bool,
}

impl<'a> Walk<'a> {
    fn run(&mut self) {
        while let Some(row) = self.rows.get(self.at) {
            match Mark::of(row) {
                Mark::Blank => self.at += 1,
                Mark::Head(rest) => self.head(rest),
                Mark::Thinking(rest) => self.thinking(rest),
                Mark::Result(rest) => self.orphan_result(rest),
                Mark::End => {
                    self.note_tokens(row);
                    (self.has_ended, self.is_spinning) = (true, false);
                    self.at += 1;
                }
                Mark::Spinner => self.spinner(),
                Mark::Rule => {
                    if !self.skip_stale_composer() {
                        self.has_dialog =
                            self.rows.get(self.at + 1).is_some_and(|row| Mark::of(row) != Mark::Prompt);
                        return;
                    }
                }
                // The next prompt: this turn is over.
                Mark::Prompt => {
                    self.has_ended = true;
                    return;
                }
                Mark::Indented | Mark::Unknown => {
                    if !self.folded() {
                        self.text(row);
                    }
                }
            }
        }
    }

    fn push(&mut self, section: Section) {
        self.sections.push(section);
        (self.has_ended, self.is_spinning) = (false, false);
    }

    /// `●`: a tool, an error, or text.
    fn head(&mut self, rest: &'a str) {
        if let Some((tool, next)) = self.tool(rest) {
            self.at = next;
            self.tool_results(tool);
        } else if rest.ends_with("(ctrl+o to expand)") && self.push_fold(rest) {
            self.at += 1;
        } else {
            self.text(rest);
        }
    }

    /// Reads `Name(args…)` and finds the row after it. Text can look the same: a call of a tool we do not know needs its result
    /// right below.
    fn tool(&self, rest: &'a str) -> Option<(Section, usize)> {
        let more = self.rows[self.at + 1..].iter().take_while(|row| Mark::of(row) == Mark::Indented).count();
        let next = self.at + 1 + more;
        let has_result = matches!(self.rows.get(next).map(|row| Mark::of(row)), Some(Mark::Result(result)) if !is_interruption(result));
        let mut call = rest.to_string();
        for row in &self.rows[self.at + 1..next] {
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

    /// The `⎿` rows below a call and what is indented under them.
    fn tool_results(&mut self, mut tool: Section) {
        let mut result = Vec::new();
        let mut interruption = None;
        while let Some(row) = self.rows.get(self.at) {
            match Mark::of(row) {
                Mark::Result(rest) if is_interruption(rest) && self.is_last(self.at) => {
                    interruption = Some(rest);
                    self.at += 1;
                    break;
                }
                Mark::Result(rest) => result.push(rest),
                Mark::Indented if row.starts_with("     ") => result.push(dedent(row, RESULT_INDENT)),
                Mark::Blank => result.push(""),
                _ => break,
            }
            self.at += 1;
        }
        let first = result.first().copied().unwrap_or_default();
        let status = match first {
            "Waiting…" => Some("waiting"),
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

    /// Text from this row (its marker taken off) down to the next marker.
    fn text(&mut self, first: &'a str) {
        let mut text = vec![dedent(first, 2)];
        let mut interruption = None;
        self.at += 1;
        while let Some(row) = self.rows.get(self.at) {
            match Mark::of(row) {
                Mark::Result(rest) if is_interruption(rest) && self.is_last(self.at) => {
                    interruption = Some(rest);
                    self.at += 1;
                    break;
                }
                Mark::Indented if self.is_fold_here() => break,
                Mark::Blank | Mark::Result(_) | Mark::Indented | Mark::Unknown => text.push(dedent(row, 2)),
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

    /// `∴ Thinking…` and what is indented below.
    fn thinking(&mut self, rest: &'a str) {
        self.at += 1;
        let mut thought = Vec::new();
        while let Some(row) = self.rows.get(self.at)
            && matches!(Mark::of(row), Mark::Blank | Mark::Indented)
        {
            thought.push(dedent(row, 2));
            self.at += 1;
        }
        let mut section = Section::new(SectionKind::Thinking, join(&thought));
        if let Some(fold) = fold(rest).filter(|fold| fold.tool.is_none()) {
            section = section.with("duration", fold.detail);
        }
        self.push(section);
    }

    /// A result without a call: the answer of a command (`/cost`), an interruption, an error of older versions.
    fn orphan_result(&mut self, first: &'a str) {
        let is_last = self.is_last(self.at);
        let mut result = vec![first];
        self.at += 1;
        while let Some(row) = self.rows.get(self.at)
            && matches!(Mark::of(row), Mark::Blank | Mark::Indented)
            && !self.is_fold_here()
        {
            result.push(dedent(row, RESULT_INDENT));
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

    /// A spinner and what hangs below it: tips, the to-do list.
    fn spinner(&mut self) {
        self.is_spinning = true;
        self.note_tokens(self.rows[self.at]);
        self.at += 1;
        let below = self.rows[self.at..].iter().map(|row| Mark::of(row));
        self.at += below.take_while(|mark| *mark != Mark::Blank && !mark.starts_something()).count();
    }

    /// A paragraph of one row that stands for a folded call or thought, or (full-screen) for a call that runs, with the command
    /// below it.
    fn is_fold_here(&self) -> bool {
        let before =
            self.at.checked_sub(1).and_then(|before| self.rows.get(before)).is_none_or(|row| is_blank(row));
        let Some(row) = self.rows[self.at].strip_prefix("  ").filter(|row| before && !row.starts_with(' '))
        else {
            return false;
        };
        match self.rows.get(self.at + 1).map(|row| Mark::of(row)) {
            None | Some(Mark::Blank) => fold(row).is_some(),
            Some(Mark::Result(result)) => result.starts_with("$ "),
            _ => false,
        }
    }

    fn folded(&mut self) -> bool {
        if !self.is_fold_here() {
            return false;
        }
        let label = dedent(self.rows[self.at], 2);
        if let Some(Mark::Result(result)) = self.rows.get(self.at + 1).map(|row| Mark::of(row)) {
            let mut command = vec![result.trim_start_matches("$ ")];
            self.at += 2;
            while let Some(row) = self.rows.get(self.at)
                && Mark::of(row) == Mark::Indented
            {
                command.push(dedent(row, RESULT_INDENT));
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
        let Some(fold) = fold(text) else { return false };
        let section = match fold.tool {
            Some(tool) => Section::new(SectionKind::ToolCall, fold.label).with("tool", tool),
            None => Section::new(SectionKind::Thinking, fold.label).with("duration", fold.detail),
        };
        self.push(section.with("folded", "true"));
        true
    }

    /// A rule in the middle: a composer the terminal scrolled away while it was drawn. Goes on behind it; at a dialog, which
    /// nothing follows, stays and answers no.
    fn skip_stale_composer(&mut self) -> bool {
        let is_start = |mark: Mark<'_>| mark.starts_something() && !matches!(mark, Mark::Rule | Mark::Prompt);
        match self.rows[self.at..].iter().position(|row| is_start(Mark::of(row))) {
            Some(next) => {
                self.at += next;
                true
            }
            None => false,
        }
    }

    /// Nothing of the answer comes after this row.
    fn is_last(&self, at: usize) -> bool {
        let next = self.rows[at + 1..].iter().map(|row| Mark::of(row)).find(|mark| *mark != Mark::Blank);
        matches!(next, None | Some(Mark::Prompt | Mark::Rule | Mark::End | Mark::Spinner))
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

/// Up to five words that could name a tool: `server - tool`; without arguments only capitalized ones (`Update Todos`), as a
/// sentence would have to be.
fn is_tool_name(name: &str, has_args: bool) -> bool {
    let is_word = |word: &str| {
        let has_sign = word.chars().any(|c| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')));
        !has_sign && !word.ends_with([':', '.']) && (has_args || word.starts_with(char::is_uppercase))
    };
    name.starts_with(char::is_alphabetic) && name.split(' ').count() <= 5 && name.split(' ').all(is_word)
}

/// `API Error: 400 …`, in older versions `API Error (…) …`.
fn is_api_error(text: &str) -> bool {
    text.starts_with("API Error: ") || text.starts_with("API Error (")
}
