//! Inline Markdown: the text of a paragraph, a heading, an item or a cell as HTML.

use std::collections::HashSet;

use crate::address::{bare_address_len, is_safe, read_bracketed, read_reference, read_target};
use crate::emphasis::{Piece, Run, match_runs};
use crate::escape::escape;

/// Maximum number of brackets that are open at a time. Further ones are text.
const MAX_BRACKETS: usize = 1000;

/// Renders a text.
pub(crate) fn render_inline(text: &str) -> String {
    let mut scanner =
        Scanner { text, at: 0, pieces: Vec::new(), brackets: Vec::new(), unclosed: HashSet::new() };
    while let Some(c) = scanner.rest().chars().next() {
        scanner.read(c);
    }
    match_runs(&mut scanner.pieces);
    scanner.pieces.iter().map(html_of).collect()
}

fn html_of(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => escape(text),
        Piece::Code(text) => format!("<code>{}</code>", escape(text)),
        Piece::Tags(tags) => tags.clone(),
        Piece::Address(text, address) => {
            format!("{}{}{}", start_tag(address), escape(text), end_of_link(address, text))
        }
        Piece::Run(run) => run.to_html(),
    }
}

/// Returns the tags at the beginning of a link; nothing for an address that must not be opened.
fn start_tag(address: &str) -> String {
    match is_safe(address) {
        true => format!("<a href=\"{}\" target=\"_blank\" rel=\"noopener noreferrer\">", escape(address)),
        false => String::new(),
    }
}

/// Returns the end of a link with its address, unless that is its text.
fn end_of_link(address: &str, text: &str) -> String {
    let end = if is_safe(address) { "</a>" } else { "" };
    let shown = [address, address.trim_start_matches("mailto:"), address.trim_end_matches('/')];
    match shown.contains(&text) {
        true => end.to_string(),
        false => format!("{end}<span class=\"target\"> ({})</span>", escape(address)),
    }
}

/// Returns the text of pieces without tags.
fn plain_text(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) | Piece::Code(text) | Piece::Address(text, _) => text.clone(),
        Piece::Run(run) => run.marks(),
        Piece::Tags(_) => String::new(),
    };
    pieces.iter().map(text).collect()
}

/// Reads a text from its beginning to its end.
struct Scanner<'a> {
    text: &'a str,
    /// Position of the next character in bytes.
    at: usize,
    pieces: Vec<Piece>,
    brackets: Vec<Bracket>,
    /// Lengths of runs of backticks that no later run of this length closes.
    unclosed: HashSet<usize>,
}

/// An opening bracket that may begin a link or an image.
struct Bracket {
    /// Index of its piece.
    piece: usize,
    is_image: bool,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Reads what begins with the next character, which is `c`.
    fn read(&mut self, c: char) {
        let rest = self.rest();
        let next = rest[c.len_utf8()..].chars().next();
        match c {
            '\\' => self.read_escape(next),
            '`' => self.read_code(),
            '*' | '_' | '~' => self.read_run(c),
            '!' if next == Some('[') => self.open_bracket("![", true),
            '[' => self.open_bracket("[", false),
            ']' => self.close_bracket(),
            '\n' => self.read_line_end(),
            '<' => match read_bracketed(rest) {
                Some((text, address, len)) => self.add(Piece::Address(text.to_string(), address), len),
                None => self.add_text("<", 1),
            },
            '&' => match read_reference(rest) {
                Some((decoded, len)) => self.add_text(decoded.encode_utf8(&mut [0; 4]), len),
                None => self.add_text("&", 1),
            },
            'h' | 'H' if self.is_at_word() => match bare_address_len(rest) {
                Some(len) => self.add(Piece::Address(rest[..len].to_string(), rest[..len].to_string()), len),
                None => self.read_plain(),
            },
            _ => self.read_plain(),
        }
    }

    fn add(&mut self, piece: Piece, len: usize) {
        self.pieces.push(piece);
        self.at += len;
    }

    fn add_text(&mut self, text: &str, len: usize) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_string())),
        }
        self.at += len;
    }

    /// Reads at least one character, up to the next one that may have a meaning.
    fn read_plain(&mut self) {
        let rest = self.rest();
        let is_special = |c: char| "\\`*_~![]\n<&hH".contains(c);
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let len = rest[first..].find(is_special).map_or(rest.len(), |len| first + len);
        self.add_text(&rest[..len], len);
    }

    fn char_before(&self) -> Option<char> {
        self.text[..self.at].chars().next_back()
    }

    fn is_at_word(&self) -> bool {
        !self.char_before().is_some_and(char::is_alphanumeric)
    }

    fn read_escape(&mut self, next: Option<char>) {
        match next {
            Some('\n') => self.add(Piece::Tags("<br>\n".into()), 2),
            Some(c) if c.is_ascii_punctuation() => self.add_text(c.encode_utf8(&mut [0; 4]), 2),
            _ => self.add_text("\\", 1),
        }
    }

    /// Reads the end of a line: two spaces before it make a break.
    fn read_line_end(&mut self) {
        let mut is_break = false;
        if let Some(Piece::Text(last)) = self.pieces.last_mut() {
            is_break = last.ends_with("  ");
            last.truncate(last.trim_end_matches(' ').len());
        }
        match is_break {
            true => self.add(Piece::Tags("<br>\n".into()), 1),
            false => self.add_text("\n", 1),
        }
    }

    fn read_code(&mut self) {
        let rest = self.rest();
        let len = run_len(rest, '`');
        let closing = if self.unclosed.contains(&len) { None } else { closing_run(&rest[len..], len) };
        let Some(end) = closing else {
            self.unclosed.insert(len);
            return self.add_text(&rest[..len], len);
        };
        let code = rest[len..len + end].replace('\n', " ");
        let is_padded = code.starts_with(' ') && code.ends_with(' ') && !code.trim().is_empty();
        let code = if is_padded { code[1..code.len() - 1].to_string() } else { code };
        self.add(Piece::Code(code), len + end + len);
    }

    fn read_run(&mut self, mark: char) {
        let rest = self.rest();
        let len = run_len(rest, mark);
        let run = Run::new(mark, len, self.char_before(), rest[len..].chars().next());
        self.add(Piece::Run(run), len);
    }

    fn open_bracket(&mut self, text: &str, is_image: bool) {
        if self.brackets.len() < MAX_BRACKETS {
            self.brackets.push(Bracket { piece: self.pieces.len(), is_image });
        }
        // Later text must not join this piece: a link replaces it.
        self.add(Piece::Text(text.to_string()), text.len());
        self.pieces.push(Piece::Tags(String::new()));
    }

    /// Reads a closing bracket, and the target of a link after it.
    fn close_bracket(&mut self) {
        let target = self.brackets.pop().and_then(|bracket| {
            let (address, len) = read_target(&self.rest()[1..])?;
            Some((bracket, address, len))
        });
        let Some((bracket, address, len)) = target else { return self.add_text("]", 1) };
        let inner = self.pieces.split_off(bracket.piece + 1);
        self.pieces.pop();
        match bracket.is_image {
            true => self.add_image(&inner, &address),
            false => self.add_link(inner, &address),
        }
        self.at += 1 + len;
    }

    fn add_image(&mut self, inner: &[Piece], address: &str) {
        let description = plain_text(inner);
        let description = if description.is_empty() { "no description" } else { &description };
        let text = format!("image: {description}");
        self.pieces.push(Piece::Tags(start_tag(address)));
        self.pieces.push(Piece::Text(text.clone()));
        self.pieces.push(Piece::Tags(end_of_link(address, &text)));
    }

    fn add_link(&mut self, mut inner: Vec<Piece>, address: &str) {
        match_runs(&mut inner);
        // No link is within a link.
        self.brackets.retain(|bracket| bracket.is_image);
        for piece in &mut inner {
            if let Piece::Address(text, _) = piece {
                *piece = Piece::Text(std::mem::take(text));
            }
        }
        let text = plain_text(&inner);
        self.pieces.push(Piece::Tags(start_tag(address)));
        self.pieces.append(&mut inner);
        self.pieces.push(Piece::Tags(end_of_link(address, &text)));
    }
}

/// Returns the number of times that a text begins with an ASCII character.
fn run_len(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}

/// Returns the position of the first run of exactly `len` backticks.
fn closing_run(text: &str, len: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = text[at..].find('`') {
        at += start;
        let found = run_len(&text[at..], '`');
        if found == len {
            return Some(at);
        }
        at += found;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders, with short tags for links.
    fn html(text: &str) -> String {
        render_inline(text)
            .replace(" target=\"_blank\" rel=\"noopener noreferrer\"", "")
            .replace(" class=\"target\"", "")
    }

    fn assert_all(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(html(text), *expected, "{text}");
        }
    }

    #[test]
    fn runs_form_pairs() {
        assert_all(&[
            ("*a* **b** ***c***", "<em>a</em> <strong>b</strong> <em><strong>c</strong></em>"),
            ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
            ("*a **b***", "<em>a <strong>b</strong></em>"),
            ("a_b_c __d__", "a_b_c <strong>d</strong>"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            ("**a*", "*<em>a</em>"),
            ("*a _b* c_", "<em>a _b</em> c_"),
            ("~~a~~ ~b~", "<del>a</del> ~b~"),
            ("a**b**c", "a<strong>b</strong>c"),
            ("**日本**語", "<strong>日本</strong>語"),
            ("*a**b*", "<em>a**b</em>"),
        ]);
    }

    #[test]
    fn code_has_no_markup() {
        assert_all(&[
            ("`*a* <b>`", "<code>*a* &lt;b&gt;</code>"),
            ("`` a`b ``", "<code>a`b</code>"),
            ("`a\nb` `c", "<code>a b</code> `c"),
            ("*a `b*`", "*a <code>b*</code>"),
            ("` `", "<code> </code>"),
            ("``a`", "``a`"),
        ]);
    }

    #[test]
    fn escapes_and_references_are_text() {
        assert_all(&[
            (r"\*a\* \a \\", r"*a* \a \"),
            ("&lt;b&gt; &copy; &#x2713;", "&lt;b&gt; &amp;copy; ✓"),
            ("a  \nb\\\nc\nd", "a<br>\nb<br>\nc\nd"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ]);
    }

    #[test]
    fn links_lead_to_safe_addresses_only() {
        assert_all(&[
            (
                "[a *b*](https://x/?a&b)",
                "<a href=\"https://x/?a&amp;b\">a <em>b</em></a><span> (https://x/?a&amp;b)</span>",
            ),
            ("[a](javascript:alert(1))", "a<span> (javascript:alert(1))</span>"),
            ("[a](java&#9;script:x)", "a<span> (java\tscript:x)</span>"),
            (
                "[a](https://x\"onclick=y)",
                "<a href=\"https://x&quot;onclick=y\">a</a><span> (https://x&quot;onclick=y)</span>",
            ),
            (
                "<https://x> https://x.",
                "<a href=\"https://x\">https://x</a> <a href=\"https://x\">https://x</a>.",
            ),
            ("[https://x](https://y)", "<a href=\"https://y\">https://x</a><span> (https://y)</span>"),
            ("[m@x.y](mailto:m@x.y)", "<a href=\"mailto:m@x.y\">m@x.y</a>"),
            (
                "![p](https://x/p.png)",
                "<a href=\"https://x/p.png\">image: p</a><span> (https://x/p.png)</span>",
            ),
            ("![](x)", "image: no description<span> (x)</span>"),
            ("<javascript:x>", "&lt;javascript:x&gt;"),
        ]);
    }

    #[test]
    fn brackets_without_a_target_are_text() {
        assert_all(&[
            ("[a] (b) [c](d", "[a] (b) [c](d"),
            ("a[0](i)", "a0<span> (i)</span>"),
            (
                "[a [b](https://x) c](https://y)",
                "[a <a href=\"https://x\">b</a><span> (https://x)</span> c](<a href=\"https://y\">https://y</a>)",
            ),
            ("*[a*](https://x)", "*<a href=\"https://x\">a*</a><span> (https://x)</span>"),
            ("**[a](https://x)**", "<strong><a href=\"https://x\">a</a><span> (https://x)</span></strong>"),
            ("]![", "]!["),
        ]);
    }

    #[test]
    fn long_hostile_texts_are_rendered() {
        let repeated = |text: &str| html(&text.repeat(20_000));
        for text in [
            "*a ", "a* ", "*a _b ", "[", "![", "](", "[a](", "`", "` `` ", "<", "<a", "&#", "\\", "**a*",
            "[a](",
        ] {
            assert!(!repeated(text).is_empty());
        }
        let ticks: String = (1..150).map(|len| format!("{} ", "`".repeat(len))).collect();
        assert_eq!(html(&ticks), ticks);
    }
}
