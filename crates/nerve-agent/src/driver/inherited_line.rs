//! The line at which a program waited when the driver attached to it. No one saw which part of it is the prompt, so the
//! part is guessed from the characters with which prompts end.
//!
//! A wrong guess must not type over a draft. A line without a recognizable prompt therefore counts as a draft until the
//! program draws another line.

use nerve_vt::screen::Row;

use super::columns::{columns, width};
use super::{AgentState, Driver, View};

/// Characters that end a prompt if a blank or the cursor follows.
const PROMPT_ENDS: [char; 8] = ['$', '#', '%', '>', '❯', '»', '›', 'λ'];
/// Columns that a shell may leave free behind a prompt at the right edge.
const RIGHT_MARGIN: usize = 2;

/// The line of a program that was started by someone else, until one of the program's prompts is known.
#[derive(Debug, Default)]
pub(super) struct InheritedLine {
    /// Absolute line of the cursor when the program waited first.
    line: Option<u64>,
}

/// A line of text up to the cursor, and the text behind the cursor in its last row.
struct CursorLine<'a> {
    before: String,
    behind: &'a str,
    /// The rows above.
    above: &'a [Row],
}

impl Driver {
    /// Marks the program as started by someone else: an unfinished line may stand at its prompt.
    pub fn attached(mut self) -> Driver {
        self.prompt_line.inherited = Some(InheritedLine::default());
        self
    }

    /// Forgets the inherited line once the program has drawn its own prompt. Returns true if the line still holds a draft. Call it while the
    /// program is ready.
    pub(super) fn track_inherited_draft(&mut self, view: &View<'_>) -> bool {
        let Some(inherited) = self.prompt_line.inherited.take() else { return false };
        let line = *inherited.line.as_ref().unwrap_or(&view.cursor_line);
        if view.cursor_line > line {
            // The line was entered, and the program has drawn the next prompt itself.
            return false;
        }
        let cursor_line = CursorLine::of(view);
        let has_draft = self.draft_in(view, &cursor_line).is_some();
        if has_draft || cursor_line.before.is_empty() {
            self.prompt_line.inherited = Some(InheritedLine { line: Some(line) });
        }
        has_draft
    }

    /// Returns true if the program was ready at a draft that is gone now, so its prompt is visible.
    pub(super) fn is_inherited_draft_gone(&self, view: &View<'_>) -> bool {
        let line = self.prompt_line.inherited.as_ref().and_then(|inherited| inherited.line);
        let is_same_line = line.is_some_and(|line| view.cursor_line <= line);
        let cursor_line = CursorLine::of(view);
        is_same_line
            && self.state == AgentState::Ready
            && !cursor_line.before.is_empty()
            && self.draft_in(view, &cursor_line).is_none()
    }

    /// Returns the draft in the line that stood there when the driver attached.
    pub(super) fn find_inherited_draft(&self, view: &View<'_>) -> Option<String> {
        self.prompt_line.inherited.as_ref().and_then(|_| self.draft_in(view, &CursorLine::of(view)))
    }

    fn draft_in(&self, view: &View<'_>, line: &CursorLine<'_>) -> Option<String> {
        if view.screen.modes.alternate {
            // The cursor position means nothing in a full-screen program.
            return None;
        }
        let end = self.prompt_length(&line.before).or_else(|| prompt_length(&line.before)).unwrap_or(0);
        let (prompt, typed) = line.before.split_at(end);
        let draft = format!("{typed}{}", line.behind);
        match draft.trim() {
            "" if self.profile.foreground => continued_line(prompt.trim(), line.above),
            "" => None,
            draft => Some(draft.to_string()),
        }
    }
}

impl<'a> CursorLine<'a> {
    /// Returns the line of the cursor. An attached terminal does not report which rows were wrapped, so a full row
    /// is taken to continue in the next one.
    fn of(view: &View<'a>) -> CursorLine<'a> {
        let (cursor, cols) = (view.screen.cursor, usize::from(view.screen.size.cols));
        let (above, rows) = view.screen.rows.split_at(usize::from(cursor.row).min(view.screen.rows.len()));
        let is_full = |row: &&Row| row.wrapped || width(&row.text) >= cols;
        let (above, wrapped) = above.split_at(above.len() - above.iter().rev().take_while(is_full).count());
        let is_placeholder = rows.first().is_some_and(|row| is_dim_behind(row, cursor.col));
        let row = rows.first().map_or("", |row| row.text.as_str());
        let (left, behind) = (columns(row, 0, cursor.col), columns(row, cursor.col, u16::MAX));
        // Row texts lack trailing blanks.
        let blanks = usize::from(cursor.col).saturating_sub(width(left));
        let wrapped: String = wrapped.iter().map(|row| row.text.as_str()).collect();
        let is_right_prompt = behind.starts_with("  ") && width(row) + RIGHT_MARGIN >= cols;
        CursorLine {
            before: format!("{wrapped}{left}{}", " ".repeat(blanks)),
            behind: if is_right_prompt || is_placeholder { "" } else { behind },
            above,
        }
    }
}

/// Returns true if the text behind the cursor is dim, as placeholders are and drafts never are. The cell at the cursor may
/// be drawn as the cursor.
fn is_dim_behind(row: &Row, col: u16) -> bool {
    row.runs.iter().find(|run| run.start + run.len > col + 1).is_some_and(|run| run.style.dim)
}

/// Returns the length in bytes of the prompt at the beginning of a line; `None` if none is recognized.
fn prompt_length(line: &str) -> Option<usize> {
    let mut ends = line.match_indices(PROMPT_ENDS).map(|(at, end)| at + end.len());
    let end = ends.find(|end| {
        let rest = &line[*end..];
        rest.is_empty() || rest.starts_with(' ')
    });
    end.or_else(|| is_unusual_prompt(line).then_some(line.len()))
}

/// Returns true for prompts such as `(gdb) `, `Name: ` and `➜  project `: they end with a blank, and before it with
/// punctuation or the only word.
fn is_unusual_prompt(line: &str) -> bool {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    line.ends_with(' ')
        && (line.trim_end().ends_with(|last: char| !last.is_alphanumeric())
            || line.split_whitespace().filter(is_word).count() == 1)
}

/// Returns the first line of an incomplete command: the shell waits for the rest at a prompt such as `> ` or
/// `for> `, below another prompt with text.
fn continued_line(prompt: &str, above: &[Row]) -> Option<String> {
    let words = prompt.strip_suffix('>')?;
    if !words.chars().all(|char| char.is_ascii_lowercase() || char == ' ') {
        return None;
    }
    let mut lines = above.iter().rev().map_while(|row| {
        let (earlier, typed) = row.text.split_at(prompt_length(&row.text)?);
        Some((earlier.trim(), typed.trim()))
    });
    let (_, typed) = lines.find(|(earlier, _)| *earlier != prompt)?;
    (!typed.is_empty()).then(|| typed.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_prompts_are_recognized() {
        for prompt in [
            "$ ",
            "me@host:~/x$ ",
            "host% ",
            "me@host ~ % ",
            "me@host ~> ",
            "❯ ",
            "[12:30] me: ~/x # ",
            ">>> ",
            "PS /home> ",
            "db=# ",
            "(gdb) ",
            "Name: ",
            "➜  ~ ",
            "➜  project ",
            "➜  project git:(main) ✗ ",
            "$",
            "mysql> ",
            "irb(main):001:0> ",
        ] {
            assert_eq!(prompt_length(prompt).map(|end| prompt[end..].trim()), Some(""), "{prompt}");
        }
    }

    #[test]
    fn text_behind_prompt_is_no_prompt() {
        for (line, draft) in [
            ("$ echo draft", "echo draft"),
            ("$ echo ", "echo"),
            ("me@host:~/x# make > log", "make > log"),
            ("❯ git commit -m \"a\" ", "git commit -m \"a\""),
            ("➜  ~ git status", "➜  ~ git status"),
            ("➜  ~ git log ~ x ", "➜  ~ git log ~ x "),
            ("words", "words"),
        ] {
            let end = prompt_length(line).unwrap_or(0);
            assert_eq!(line[end..].trim(), draft.trim(), "{line}");
        }
    }

    #[test]
    fn continuation_prompt_belongs_to_line_above() {
        let rows = |texts: &[&str]| -> Vec<Row> {
            texts.iter().map(|text| Row { text: (*text).into(), ..Row::default() }).collect()
        };
        let found = |prompt, above: &[&str]| continued_line(prompt, &rows(above));
        assert_eq!(found(">", &["out", "$ for i in 1 2"]), Some("for i in 1 2".into()));
        assert_eq!(found("for>", &["h% for i in 1 2"]), Some("for i in 1 2".into()));
        assert_eq!(found(">", &["$ if a", "> then"]), Some("if a".into()));
        assert_eq!(found(">", &["$ ls", "out"]), None);
        assert_eq!(found(">", &["> cd a", "> cd b"]), None);
        assert_eq!(found("$", &["# su me"]), None);
        assert_eq!(found("me@host ~>", &["$ fish"]), None);
    }
}
