//! Lines, and the beginnings of blocks that one line shows.

/// Columns of indentation that begin a block of code.
pub(crate) const CODE_INDENT: usize = 4;
/// Names of HTML elements that begin a block (CommonMark, section 4.6).
const HTML_BLOCKS: [&str; 32] = [
    "address", "article", "aside", "body", "center", "details", "dialog", "div", "dl", "fieldset", "figure",
    "footer", "form", "h1", "h2", "h3", "head", "header", "hr", "html", "iframe", "li", "main", "nav", "ol",
    "p", "section", "summary", "table", "td", "tr", "ul",
];

/// Returns true for a line of white space.
pub(crate) fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Returns the columns of white space at the beginning. A tab ends at the next multiple of four.
pub(crate) fn indent_of(line: &str) -> usize {
    let mut column = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => column += 1,
            b'\t' => column += CODE_INDENT - column % CODE_INDENT,
            _ => break,
        }
    }
    column
}

/// Removes up to this number of columns of white space. A tab that reaches further is removed as a whole.
pub(crate) fn unindent(line: &str, columns: usize) -> &str {
    let mut column = 0;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if column >= columns => return &line[at..],
            b' ' => column += 1,
            b'\t' => column += CODE_INDENT - column % CODE_INDENT,
            _ => return &line[at..],
        }
    }
    ""
}

/// The opening line of fenced code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fence<'a> {
    mark: char,
    len: usize,
    /// Columns before the marks, which are removed from the code too.
    pub(crate) indent: usize,
    /// First word after the marks: the language.
    pub(crate) language: &'a str,
}

impl Fence<'_> {
    /// Reads an opening line.
    pub(crate) fn open(line: &str) -> Option<Fence<'_>> {
        let (indent, text) = (indent_of(line), line.trim());
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let len = text.len() - info.len();
        let is_fence = len >= 3 && indent < CODE_INDENT && !(mark == '`' && info.contains('`'));
        let language = info.split_whitespace().next().unwrap_or_default();
        is_fence.then_some(Fence { mark, len, indent, language })
    }

    /// Returns true for a line that ends this code.
    pub(crate) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.len && text.chars().all(|c| c == self.mark) && indent_of(line) < CODE_INDENT
    }
}

/// Whether the last line of some lines is within fenced code.
#[derive(Debug, Default)]
pub(crate) struct FenceState<'a>(Option<Fence<'a>>);

impl<'a> FenceState<'a> {
    /// Continues with a line.
    pub(crate) fn add(&mut self, line: &'a str) {
        self.0 = match self.0 {
            Some(fence) if fence.is_closed_by(line) => None,
            None => Fence::open(line.trim_start()),
            open => open,
        };
    }

    /// Returns true within fenced code.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }
}

/// Returns the level and the text of a heading `# TEXT`.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim();
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    let is_heading = (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    if !is_heading || indent_of(line) >= CODE_INDENT {
        return None;
    }
    let rest = rest.trim();
    let unmarked = rest.trim_end_matches('#');
    let is_closed = unmarked.is_empty() || unmarked.ends_with([' ', '\t']);
    Some((level, if is_closed { unmarked.trim_end() } else { rest }))
}

/// Returns the level of the heading that this line underlines.
pub(crate) fn underline_level(line: &str) -> Option<usize> {
    let text = line.trim();
    let is_all = |mark: char| !text.is_empty() && text.chars().all(|c| c == mark);
    match indent_of(line) < CODE_INDENT {
        true if is_all('=') => Some(1),
        true if is_all('-') => Some(2),
        _ => None,
    }
}

/// Returns true for a rule: three or more of the same mark.
pub(crate) fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !matches!(c, ' ' | '\t'));
    let Some(first @ ('-' | '*' | '_')) = marks.next() else { return false };
    let mut count = 1;
    marks.all(|c| {
        count += 1;
        c == first
    }) && count >= 3
        && indent_of(line) < CODE_INDENT
}

/// Returns the line without its mark of a quote.
pub(crate) fn strip_quote(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix('>').filter(|_| indent_of(line) < CODE_INDENT)?;
    Some(text.strip_prefix([' ', '\t']).unwrap_or(text))
}

/// Returns true for a line that begins a block of HTML, which is shown as it was written.
pub(crate) fn begins_html(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix('<').filter(|_| indent_of(line) < CODE_INDENT) else {
        return false;
    };
    if text.starts_with(['!', '?']) {
        return true;
    }
    let name = text.strip_prefix('/').unwrap_or(text);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let is_block = |known: &str| known.eq_ignore_ascii_case(name);
    let is_raw = ["script", "pre", "style", "textarea"].into_iter().any(is_block);
    (is_raw || HTML_BLOCKS.into_iter().any(is_block))
        && (rest.is_empty() || rest.starts_with([' ', '\t', '>', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_indent_to_multiples_of_four() {
        assert_eq!((indent_of("\tx"), indent_of("  \tx"), indent_of("   x"), indent_of("")), (4, 4, 3, 0));
        assert_eq!((unindent("\t\tx", 4), unindent("  x", 4), unindent("    ", 2)), ("\tx", "x", "  "));
        assert_eq!((unindent("  x", 0), unindent("é", 2)), ("  x", "é"));
    }

    #[test]
    fn rules_and_underlines_have_one_mark() {
        assert!(is_rule("---") && is_rule(" * * *") && is_rule("_____"));
        assert!(!is_rule("--") && !is_rule("-*-") && !is_rule("    ---") && !is_rule("- a"));
        assert_eq!(
            (underline_level("=="), underline_level("-"), underline_level("-=")),
            (Some(1), Some(2), None)
        );
    }

    #[test]
    fn headings_lose_their_closing_marks() {
        assert_eq!(heading("## A b ##"), Some((2, "A b")));
        assert_eq!(heading("# C#"), Some((1, "C#")));
        assert_eq!((heading("#"), heading("#a"), heading("####### a")), (Some((1, "")), None, None));
    }

    #[test]
    fn fences_are_closed_by_as_many_marks() {
        let fence = Fence::open("  ```` rust ignore").unwrap();
        assert_eq!((fence.indent, fence.language), (2, "rust"));
        assert!(fence.is_closed_by("`````") && !fence.is_closed_by("```") && !fence.is_closed_by("~~~~"));
        assert!(Fence::open("``` a`b").is_none() && Fence::open("``").is_none());
    }
}
