//! Blocks: the structure of a document, line by line.

pub(crate) mod list;
pub(crate) mod table;

use self::list::{List, Marker, read_list};
use self::table::Table;
use crate::line::{
    CODE_INDENT, Fence, FenceState, begins_html, heading, indent_of, is_blank, is_rule, strip_quote,
    underline_level, unindent,
};

/// Maximum depth of quotes and lists. Text that is nested more deeply is shown as it was written.
pub(crate) const MAX_DEPTH: usize = 24;

/// A part of a document. Its texts have inline Markdown, except those of `Code` and `Plain`.
#[derive(Debug, PartialEq)]
pub(crate) enum Block<'a> {
    Heading { level: usize, text: String },
    Paragraph(String),
    Code { language: &'a str, text: String },
    Plain(String),
    Quote(Vec<Child<'a>>),
    List(List<'a>),
    Table(Table),
    Rule,
}

/// A block, and whether a blank line precedes it.
#[derive(Debug, PartialEq)]
pub(crate) struct Child<'a> {
    pub(crate) block: Block<'a>,
    pub(crate) is_after_blank: bool,
}

/// Reads the blocks of some lines. `depth`: number of quotes and lists around them.
pub(crate) fn read_blocks<'a>(lines: &[&'a str], depth: usize) -> Vec<Child<'a>> {
    let (mut children, mut at, mut is_after_blank) = (Vec::new(), 0, false);
    while let Some(line) = lines.get(at) {
        if is_blank(line) {
            is_after_blank = true;
            at += 1;
            continue;
        }
        let (block, count) = read_block(&lines[at..], depth);
        children.push(Child { block, is_after_blank });
        is_after_blank = false;
        at += count;
    }
    children
}

/// Reads the block that begins with the first line, which is not blank. Returns it and the number of its lines.
fn read_block<'a>(lines: &[&'a str], depth: usize) -> (Block<'a>, usize) {
    let line = lines[0];
    if indent_of(line) >= CODE_INDENT {
        return read_indented_code(lines);
    }
    if let Some(fence) = Fence::open(line) {
        return read_fenced_code(lines, fence);
    }
    if let Some((level, text)) = heading(line) {
        return (Block::Heading { level, text: text.to_string() }, 1);
    }
    if is_rule(line) {
        return (Block::Rule, 1);
    }
    if depth < MAX_DEPTH && strip_quote(line).is_some() {
        return read_quote(lines, depth);
    }
    if let Some(marker) = Marker::read(line).filter(|_| depth < MAX_DEPTH) {
        let (list, count) = read_list(lines, marker, depth);
        return (Block::List(list), count);
    }
    if begins_html(line) {
        let count = lines.iter().position(|line| is_blank(line)).unwrap_or(lines.len());
        return (Block::Plain(lines[..count].join("\n")), count);
    }
    if let Some((table, count)) = Table::read(lines) {
        return (Block::Table(table), count);
    }
    read_paragraph(lines)
}

/// Returns true for a line that ends a paragraph, because another block begins with it.
pub(crate) fn interrupts(line: &str) -> bool {
    indent_of(line) < CODE_INDENT
        && (Fence::open(line).is_some()
            || heading(line).is_some()
            || is_rule(line)
            || strip_quote(line).is_some()
            || Marker::read(line).is_some_and(|marker| marker.interrupts())
            || begins_html(line))
}

/// Returns true if `line` continues a paragraph at the end of a quote or a list item, although its mark or indentation is missing.
/// `own`: the lines of the quote or the item; `fences`: their state.
pub(crate) fn is_lazy(line: &str, own: &[&str], fences: &FenceState<'_>) -> bool {
    let is_text = |last: &&&str| !is_blank(last) && heading(last).is_none() && !is_rule(last);
    !fences.is_open() && own.last().is_some_and(|last| is_text(&last)) && !interrupts(line)
}

fn read_indented_code<'a>(lines: &[&'a str]) -> (Block<'a>, usize) {
    let is_code = |line: &&&str| is_blank(line) || indent_of(line) >= CODE_INDENT;
    let end = lines.iter().take_while(is_code).count();
    let count = lines[..end].iter().rposition(|line| !is_blank(line)).map_or(end, |last| last + 1);
    let code: Vec<&str> = lines[..count].iter().map(|line| unindent(line, CODE_INDENT)).collect();
    (Block::Code { language: "", text: code.join("\n") }, count)
}

fn read_fenced_code<'a>(lines: &[&'a str], fence: Fence<'a>) -> (Block<'a>, usize) {
    let end = lines[1..].iter().position(|line| fence.is_closed_by(line)).map(|at| at + 1);
    let code = &lines[1..end.unwrap_or(lines.len())];
    let code: Vec<&str> = code.iter().map(|line| unindent(line, fence.indent)).collect();
    let block = Block::Code { language: fence.language, text: code.join("\n") };
    (block, end.map_or(lines.len(), |end| end + 1))
}

fn read_quote<'a>(lines: &[&'a str], depth: usize) -> (Block<'a>, usize) {
    let (mut own, mut fences) = (Vec::new(), FenceState::default());
    for line in lines {
        match strip_quote(line) {
            Some(rest) => own.push(rest),
            None if !is_blank(line) && is_lazy(line, &own, &fences) => own.push(*line),
            None => break,
        }
        fences.add(own[own.len() - 1]);
    }
    let count = own.len();
    (Block::Quote(read_blocks(&own, depth + 1)), count)
}

/// Reads a paragraph, or the heading that it becomes by a line below it.
fn read_paragraph<'a>(lines: &[&'a str]) -> (Block<'a>, usize) {
    let mut text = lines[0].trim_start().to_string();
    let mut count = 1;
    while let Some(line) = lines.get(count).filter(|line| !is_blank(line)) {
        if let Some(level) = underline_level(line) {
            return (Block::Heading { level, text: text.trim_end().to_string() }, count + 1);
        }
        if interrupts(line) || Table::read(&lines[count..]).is_some() {
            break;
        }
        text.push('\n');
        text.push_str(line.trim_start());
        count += 1;
    }
    text.truncate(text.trim_end().len());
    (Block::Paragraph(text), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Block<'_>> {
        let lines: Vec<&str> = text.lines().collect();
        read_blocks(&lines, 0).into_iter().map(|child| child.block).collect()
    }

    fn paragraph(text: &str) -> Block<'static> {
        Block::Paragraph(text.into())
    }

    #[test]
    fn code_ends_at_its_fence_or_with_the_text() {
        let code = |text: &str| Block::Code { language: "rust", text: text.into() };
        assert_eq!(read("```rust\na\n\n  b\n```\nc"), [code("a\n\n  b"), paragraph("c")]);
        assert_eq!(read("~~~rust x\n```\n# a"), [code("```\n# a")]);
        assert_eq!(read("  ```rust\n    a\n\tb\n  ```"), [code("  a\nb")]);
    }

    #[test]
    fn indented_code_does_not_end_a_paragraph() {
        let code = Block::Code { language: "", text: "b\n\n  c".into() };
        assert_eq!(read("a\n\n    b\n\n      c\n\nd"), [paragraph("a"), code, paragraph("d")]);
        assert_eq!(read("a\n    b"), [paragraph("a\nb")]);
    }

    #[test]
    fn lines_below_a_paragraph_make_it_a_heading() {
        let heading = |level, text: &str| Block::Heading { level, text: text.into() };
        assert_eq!(read("a\nb\n---\nc"), [heading(2, "a\nb"), paragraph("c")]);
        assert_eq!(read("a\n\n---"), [paragraph("a"), Block::Rule]);
        assert_eq!(read("# a\nb"), [heading(1, "a"), paragraph("b")]);
    }

    #[test]
    fn quotes_contain_their_lazy_lines_only() {
        let blocks = read("> a\nb\n> ```\n> c\nd");
        let [Block::Quote(children), Block::Paragraph(rest)] = &blocks[..] else { panic!("{blocks:?}") };
        assert_eq!((children.len(), rest.as_str()), (2, "d"));
        assert_eq!(children[0].block, paragraph("a\nb"));
    }

    #[test]
    fn nesting_ends_at_its_maximum() {
        let text = format!("{} a", "> ".repeat(MAX_DEPTH + 2));
        let mut children = read_blocks(&[&text], 0);
        for _ in 0..MAX_DEPTH {
            let [Child { block: Block::Quote(inner), .. }] = &mut children[..] else {
                panic!("{children:?}")
            };
            children = std::mem::take(inner);
        }
        assert_eq!(children[0].block, paragraph("> >  a"));
    }

    #[test]
    fn html_is_plain_until_a_blank_line() {
        assert_eq!(read("<div>\n**a**\n\nb"), [Block::Plain("<div>\n**a**".into()), paragraph("b")]);
        assert_eq!(read("<b>a</b>"), [paragraph("<b>a</b>")]);
    }
}
