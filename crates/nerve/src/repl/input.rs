//! From typed lines to one input: continued lines, blocks between `"""`, comments. Pure.

/// Opens a block at the end of a line, and closes it on a line of its own.
pub(super) const FENCE: &str = "\"\"\"";

/// What was typed as one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Input {
    /// The command. Has line ends where lines were continued.
    pub(super) head: String,
    /// The text of the block that followed, without the fences.
    pub(super) block: Option<String>,
}

/// Why more lines are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incomplete {
    /// The last line ended with a backslash.
    Continued,
    /// A block is not closed.
    Block,
}

/// Takes lines until they are an input.
#[derive(Debug, Default)]
pub(super) struct InputReader {
    head: Vec<String>,
    continued: bool,
    block: Option<Vec<String>>,
}

impl InputReader {
    /// One line more, without its end. Gives the input that it completes; blank lines and comments give none.
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

    /// Why what was pushed is no input yet.
    pub(super) fn incomplete(&self) -> Option<Incomplete> {
        match self.block {
            Some(_) => Some(Incomplete::Block),
            None => self.continued.then_some(Incomplete::Continued),
        }
    }

    fn take(&mut self) -> Input {
        let InputReader { head, block, .. } = std::mem::take(self);
        Input { head: head.join("\n"), block: block.map(|lines| lines.join("\n")) }
    }
}

/// Whether an edited text is whole: Enter ends it.
pub(super) fn incomplete(text: &str) -> Option<Incomplete> {
    let mut reader = InputReader::default();
    for line in text.lines() {
        reader.push(line);
    }
    reader.incomplete()
}

/// The inputs in an edited text. Several lines that were pasted behind `@NODE` are one prompt; elsewhere each line is a command.
pub(super) fn split_inputs(text: &str) -> Vec<Input> {
    let first = text.lines().next().unwrap_or_default();
    let is_one_prompt = first.starts_with('@') && !is_bare_address(first) && !is_continued(first);
    if is_one_prompt && strip_fence(first).is_none() {
        return vec![Input { head: text.to_string(), block: None }];
    }
    let mut reader = InputReader::default();
    text.lines().filter_map(|line| reader.push(line)).collect()
}

/// An odd number of backslashes at its end: an even one stands for itself.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

/// What stands before a fence that ends the line. Quotes that touch a word are part of it.
fn strip_fence(line: &str) -> Option<&str> {
    let before = line.trim_end().strip_suffix(FENCE)?;
    (before.is_empty() || before.ends_with(char::is_whitespace)).then_some(before)
}

/// `@NODE` and nothing more.
fn is_bare_address(line: &str) -> bool {
    let line = line.trim();
    line.len() > 1 && line.starts_with('@') && !line.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<Input>, Option<Incomplete>) {
        let mut reader = InputReader::default();
        let inputs = lines.iter().filter_map(|line| reader.push(line)).collect();
        (inputs, reader.incomplete())
    }

    fn input(head: &str, block: Option<&str>) -> Input {
        Input { head: head.to_string(), block: block.map(str::to_string) }
    }

    #[test]
    fn a_line_is_an_input_unless_it_is_blank_or_a_comment() {
        let (inputs, open) = read(&["", "  # nothing", "node list", "@me  hi "]);
        assert_eq!(inputs, [input("node list", None), input("@me  hi ", None)]);
        assert_eq!(open, None);
    }

    #[test]
    fn a_backslash_continues_and_an_escaped_one_does_not() {
        assert_eq!(read(&["@me one\\", "two"]).0, [input("@me one\ntwo", None)]);
        assert_eq!(read(&["@me one\\\\"]).0, [input("@me one\\\\", None)]);
        assert_eq!(read(&["@me one\\"]), (vec![], Some(Incomplete::Continued)));
    }

    #[test]
    fn a_block_keeps_its_lines_as_they_are() {
        let (inputs, open) = read(&["send me \"\"\"", "  one\\", "# two", "", "\"\"\" ", "sessions"]);
        assert_eq!(inputs, [input("send me ", Some("  one\\\n# two\n")), input("sessions", None)]);
        assert_eq!(open, None);
        assert_eq!(read(&["@me", "hello", "\"\"\""]).0, [input("@me", Some("hello"))]);
        assert_eq!(read(&["@me", "hello"]).1, Some(Incomplete::Block));
    }

    #[test]
    fn quotes_inside_a_line_open_nothing() {
        for line in ["@me what is \"\"\"doc\"\"\"", "step add a me \"\"\"x\"\"\"", "@me \"\"\"x\"\"\" y"] {
            assert_eq!(read(&[line]).0, [input(line, None)], "{line}");
        }
    }

    #[test]
    fn pasted_lines_are_commands_and_behind_an_address_one_prompt() {
        assert_eq!(
            split_inputs("node list\n\nsessions"),
            [input("node list", None), input("sessions", None)]
        );
        assert_eq!(split_inputs("@me a\n@you b"), [input("@me a\n@you b", None)]);
        assert_eq!(
            split_inputs("@me\na\n\"\"\"\nsessions"),
            [input("@me", Some("a")), input("sessions", None)]
        );
        assert_eq!(incomplete("@me\na"), Some(Incomplete::Block));
        assert_eq!(incomplete("@me a\nb"), None);
    }
}
