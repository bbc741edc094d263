//! Lists, with items that may hold any blocks.

use crate::block::{Block, Child, is_lazy, read_blocks};
use crate::line::{CODE_INDENT, FenceState, indent_of, is_blank, is_rule, unindent};

/// Maximum number of digits of an ordered list's number.
const MAX_DIGITS: usize = 9;

/// A list.
#[derive(Debug, PartialEq)]
pub(crate) struct List<'a> {
    /// Number of the first item; `None` for bullets.
    pub(crate) start: Option<u32>,
    /// True if paragraphs of its items stand apart: there is a blank line between items or their blocks.
    pub(crate) is_loose: bool,
    pub(crate) items: Vec<Item<'a>>,
}

/// An item of a list.
#[derive(Debug, PartialEq)]
pub(crate) struct Item<'a> {
    /// Whether the task of this item is done; `None` for other items.
    pub(crate) task: Option<bool>,
    pub(crate) children: Vec<Child<'a>>,
}

/// The mark before an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Marker<'a> {
    /// The bullet, or the character after the number. Items of a list have the same.
    kind: char,
    start: Option<u32>,
    /// Columns before the text of the item, which its further lines have too.
    width: usize,
    text: &'a str,
}

impl<'a> Marker<'a> {
    /// Reads the mark at the beginning of a line.
    pub(crate) fn read(line: &'a str) -> Option<Marker<'a>> {
        let indent = indent_of(line);
        let text = line.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let kind = text[digits..].chars().next()?;
        let start = match (kind, digits) {
            ('-' | '*' | '+', 0) => None,
            ('.' | ')', 1..=MAX_DIGITS) => Some(text[..digits].parse().ok()?),
            _ => return None,
        };
        let rest = &text[digits + 1..];
        if indent >= CODE_INDENT || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
            return None;
        }
        let spaces = match indent_of(rest) {
            _ if is_blank(rest) => 1,
            // The text begins with indented code.
            spaces if spaces > CODE_INDENT => 1,
            spaces => spaces,
        };
        Some(Marker { kind, start, width: indent + digits + 1 + spaces, text: unindent(rest, spaces) })
    }

    /// Returns true if a list can begin with this item directly below a paragraph.
    pub(crate) fn interrupts(&self) -> bool {
        !is_blank(self.text) && self.start.is_none_or(|start| start == 1)
    }
}

/// Reads the list whose first item has this mark. Returns it and the number of its lines. `depth`: as for [`read_blocks`].
pub(crate) fn read_list<'a>(lines: &[&'a str], first: Marker<'a>, depth: usize) -> (List<'a>, usize) {
    let mut list = List { start: first.start, is_loose: false, items: Vec::new() };
    let (mut count, mut ends_blank) = (0, false);
    while let Some(line) = lines.get(count) {
        let Some(marker) = Marker::read(line).filter(|marker| marker.kind == first.kind && !is_rule(line))
        else {
            break;
        };
        let mut own = item_lines(&lines[count..], marker);
        count += own.len();
        list.is_loose |= ends_blank;
        ends_blank = own.last().is_some_and(|line| is_blank(line));
        own.truncate(own.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1));
        let task = own.first().and_then(|text| read_task(text));
        if let (Some(_), Some(first)) = (task, own.first_mut()) {
            *first = &first[TASK_LEN..];
        }
        let children = read_blocks(&own, depth + 1);
        list.is_loose |= children.iter().skip(1).any(|child| child.is_after_blank);
        list.items.push(Item { task, children });
    }
    (list, count)
}

/// Returns the lines of an item without their indentation, and the blank lines after it.
fn item_lines<'a>(lines: &[&'a str], marker: Marker<'a>) -> Vec<&'a str> {
    let (mut own, mut fences) = (vec![marker.text], FenceState::default());
    fences.add(marker.text);
    for line in &lines[1..] {
        let text = match indent_of(line) {
            _ if is_blank(line) => "",
            indent if indent >= marker.width => unindent(line, marker.width),
            // Here any mark begins the next item, or another list.
            _ if Marker::read(line).is_none() && is_lazy(line, &own, &fences) => line.trim_start(),
            _ => break,
        };
        own.push(text);
        fences.add(text);
    }
    own
}

/// Length of the mark of a task.
const TASK_LEN: usize = "[x] ".len();

/// Returns whether the task is done if a text begins with the mark of one.
fn read_task(text: &str) -> Option<bool> {
    match text.get(..TASK_LEN)? {
        "[x] " | "[X] " => Some(true),
        "[ ] " => Some(false),
        _ => None,
    }
}

impl List<'_> {
    /// Returns the text of a block without the element of a paragraph, as items of a tight list show it.
    pub(crate) fn tight_text<'b>(&self, block: &'b Block<'_>) -> Option<&'b str> {
        match block {
            Block::Paragraph(text) if !self.is_loose => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> (List<'_>, usize) {
        let lines: Vec<&str> = text.lines().collect();
        read_list(&lines, Marker::read(lines[0]).unwrap(), 0)
    }

    /// Returns the texts of the items, which have one paragraph each.
    fn texts(text: &str) -> Vec<String> {
        let text_of = |item: Item<'_>| match &item.children[..] {
            [Child { block: Block::Paragraph(text), .. }] => text.clone(),
            [] => String::new(),
            _ => panic!("{item:?}"),
        };
        list(text).0.items.into_iter().map(text_of).collect()
    }

    #[test]
    fn items_have_the_mark_of_the_first() {
        assert_eq!(texts("- a\n- b\n  c\nd\n-\n* e"), ["a", "b\nc\nd", ""]);
        assert_eq!(texts("3) a\n1) b\n1. c"), ["a", "b"]);
        assert_eq!((list("3) a").0.start, list("- a").0.start), (Some(3), None));
        assert_eq!(list("- a\n- - -\nb").1, 1, "a rule");
    }

    #[test]
    fn marks_need_a_space() {
        for text in ["-a", "1a", "1.a", "a", "1234567890. a", "    - a", "-", ""] {
            assert_eq!(Marker::read(text).is_some(), text == "-", "{text}");
        }
    }

    #[test]
    fn blank_lines_make_a_list_loose() {
        for (text, is_loose) in [
            ("- a\n- b", false),
            ("- a\n\n- b", true),
            ("- a\n\n  b", true),
            ("- a\n  - b\n\n  - c\n- d", false),
            ("- a\n\n", false),
            ("- a\n  ```\n\n  b\n  ```", false),
        ] {
            assert_eq!(list(text).0.is_loose, is_loose, "{text:?}");
        }
    }

    #[test]
    fn nested_lists_and_code_belong_to_their_item() {
        let (list, count) = list("1. a\n   - b\n   ```\n   c\n   ```\n\nd");
        assert_eq!((list.items.len(), list.items[0].children.len(), count), (1, 3, 6));
    }

    #[test]
    fn tasks_are_done_or_open() {
        let (list, _) = list("- [x] a\n- [ ] b\n- [c] d\n- [x]");
        let tasks: Vec<_> = list.items.iter().map(|item| item.task).collect();
        assert_eq!(tasks, [Some(true), Some(false), None, None]);
        assert_eq!(list.items[0].children[0].block, Block::Paragraph("a".into()));
    }
}
