//! Joins typed lines into inputs: continued lines, blocks between `"""`, comments. Does no I/O.

/// Opens a block at the end of a line and closes it on its own line.
pub(super) const FENCE: &str = "\"\"\"";

/// An item from the reading thread.
#[derive(Debug)]
pub(super) enum RawInput {
    /// One or more complete commands from the editor.
    Text(String),
    /// A line of a script, without its line end.
    Line(String),
    /// Ctrl-C. `blank`: the line was empty.
    Interrupted { blank: bool },
    /// End of input.
    End,
    /// Reading failed.
    Failed(String),
}

/// One command with its text block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Input {
    /// The command. Continued lines are joined with line feeds.
    pub(super) head: String,
    /// The text of the block that followed, without the fences.
    pub(super) block: Option<String>,
}

/// The rest that an input needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuation {
    /// The last line ended with a backslash.
    Backslash,
    /// A block is open.
    Block,
}

/// Collects lines until they form an input.
#[derive(Debug, Default)]
pub(super) struct InputReader {
    head: Vec<String>,
    continued: bool,
    block: Option<Vec<String>>,
}

impl InputReader {
    /// Adds a line without its line end. Returns the input that it completes; blank lines and comments complete none.
    pub(super) fn push(&mut self, line: &str) -> Option<Input> {
        if let Some(block) = &mut self.block {
            if line.trim() != FENCE {
                block.push(line.to_string());
                return None;
            }
            return Some(self.take());
        }
        let first = self.head.is_empty();
        if first && (line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return None;
        }
        self.continued = is_continued(line);
        if self.continued {
            self.head.push(line[..line.len() - 1].to_string());
            return None;
        }
        if let Some(before) = strip_fence(line) {
            self.head.push(before.to_string());
            self.block = Some(Vec::new());
            return None;
        }
        self.head.push(line.to_string());
        if first && is_bare_address(line) {
            self.block = Some(Vec::new());
            return None;
        }
        Some(self.take())
    }

    /// Returns the rest that the lines so far need, if any.
    pub(super) fn continuation(&self) -> Option<Continuation> {
        match self.block {
            Some(_) => Some(Continuation::Block),
            None => self.continued.then_some(Continuation::Backslash),
        }
    }

    fn take(&mut self) -> Input {
        let InputReader { head, block, .. } = std::mem::take(self);
        Input { head: head.join("\n"), block: block.map(|lines| lines.join("\n")) }
    }
}

/// Returns the rest that an edited text needs; `None` if Enter submits it.
pub(super) fn continuation(text: &str) -> Option<Continuation> {
    let mut reader = InputReader::default();
    for line in text.lines() {
        reader.push(line);
    }
    reader.continuation()
}

/// Splits an edited text into inputs. Lines pasted after `@NODE` form one prompt; otherwise each line is a command.
pub(super) fn split_inputs(text: &str) -> Vec<Input> {
    let first = text.lines().next().unwrap_or_default();
    let is_one_prompt = first.starts_with('@') && !is_bare_address(first) && !is_continued(first);
    if is_one_prompt && strip_fence(first).is_none() {
        return vec![Input { head: text.to_string(), block: None }];
    }
    let mut reader = InputReader::default();
    text.lines().filter_map(|line| reader.push(line)).collect()
}

/// Returns true if the line ends with an odd number of backslashes.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

/// Returns the text before a fence at the end of the line. Quotes that touch a word belong to the word.
fn strip_fence(line: &str) -> Option<&str> {
    let before = line.trim_end().strip_suffix(FENCE)?;
    (before.is_empty() || before.ends_with(char::is_whitespace)).then_some(before)
}

/// Returns true for `@NODE` alone.
fn is_bare_address(line: &str) -> bool {
    let line = line.trim();
    line.len() > 1 && line.starts_with('@') && !line.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<Input>, Option<Continuation>) {
        let mut reader = InputReader::default();
        let inputs = lines.iter().filter_map(|line| reader.push(line)).collect();
        (inputs, reader.continuation())
    }

    fn input(head: &str, block: Option<&str>) -> Input {
        Input { head: head.to_string(), block: block.map(str::to_string) }
    }

    #[test]
    fn skips_blank_lines_and_comments() {
        let (inputs, open) = read(&["", "  # nothing", "node list", "@me  hi "]);
        assert_eq!(inputs, [input("node list", None), input("@me  hi ", None)]);
        assert_eq!(open, None);
    }

    #[test]
    fn backslash_continues_unless_escaped() {
        assert_eq!(read(&["@me one\\", "two"]).0, [input("@me one\ntwo", None)]);
        assert_eq!(read(&["@me one\\\\"]).0, [input("@me one\\\\", None)]);
        assert_eq!(read(&["@me one\\"]), (vec![], Some(Continuation::Backslash)));
    }

    #[test]
    fn block_keeps_lines_verbatim() {
        let (inputs, open) = read(&["send me \"\"\"", "  one\\", "# two", "", "\"\"\" ", "sessions"]);
        assert_eq!(inputs, [input("send me ", Some("  one\\\n# two\n")), input("sessions", None)]);
        assert_eq!(open, None);
        assert_eq!(read(&["@me", "hello", "\"\"\""]).0, [input("@me", Some("hello"))]);
        assert_eq!(read(&["@me", "hello"]).1, Some(Continuation::Block));
    }

    #[test]
    fn quotes_inside_line_open_no_block() {
        for line in ["@me what is \"\"\"doc\"\"\"", "step add a me \"\"\"x\"\"\"", "@me \"\"\"x\"\"\" y"] {
            assert_eq!(read(&[line]).0, [input(line, None)], "{line}");
        }
    }

    #[test]
    fn pasted_lines_after_address_are_one_prompt() {
        assert_eq!(
            split_inputs("node list\n\nsessions"),
            [input("node list", None), input("sessions", None)]
        );
        assert_eq!(split_inputs("@me a\n@you b"), [input("@me a\n@you b", None)]);
        assert_eq!(
            split_inputs("@me\na\n\"\"\"\nsessions"),
            [input("@me", Some("a")), input("sessions", None)]
        );
        assert_eq!(continuation("@me\na"), Some(Continuation::Block));
        assert_eq!(continuation("@me a\nb"), None);
    }
}
