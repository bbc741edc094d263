//! Renditions and lines as escape sequences.

use std::io::Write;

use super::line::{Line, Rendition, text_to};
use crate::screen::{Color, Link, Row, Underline};

/// Writes lines as ANSI text. Remembers the current rendition, so that only changes cost bytes.
#[derive(Debug, Default)]
pub(super) struct AnsiWriter {
    /// The output so far.
    pub(super) out: Vec<u8>,
    rendition: Rendition,
    link: Option<Link>,
}

impl AnsiWriter {
    /// Writes `args` unchanged.
    pub(super) fn raw(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = self.out.write_fmt(args);
    }

    /// Writes the line's text and renditions. The rendition of its last span stays in force.
    pub(super) fn line(&mut self, line: &Line) {
        for (text, rendition) in line.pieces() {
            self.rendition(rendition, &line.links);
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    /// Makes `rendition` the current rendition.
    pub(super) fn rendition(&mut self, rendition: Rendition, links: &[Link]) {
        let link = links.get(usize::from(rendition.link).wrapping_sub(1));
        if link != self.link.as_ref() {
            let (id, uri) = link.map_or(("", ""), |link| (link.id.as_str(), link.uri.as_str()));
            let id = if id.is_empty() { String::new() } else { format!("id={id}") };
            self.raw(format_args!("\x1b]8;{id};{uri}\x1b\\"));
            self.link = link.cloned();
        }
        let rendition = Rendition { link: 0, ..rendition };
        if rendition != self.rendition {
            self.out.extend_from_slice(sgr(&rendition).as_bytes());
            self.rendition = rendition;
        }
    }

    /// Ends the hyperlink and resets the rendition.
    pub(super) fn reset(&mut self) {
        self.rendition(Rendition::default(), &[]);
    }
}

impl Row {
    /// Returns the first `cols` columns as ANSI text that ends with the default rendition. A wide character across the
    /// end may extend one column further.
    pub fn to_ansi(&self, cols: u16) -> String {
        let mut writer = AnsiWriter::default();
        let mut at = 0;
        for run in self.runs.iter().take_while(|run| run.start < cols) {
            let end = text_to(&self.text, cols.min(run.start.saturating_add(run.len))).len();
            let underline = if run.style.underline { Underline::Single } else { Underline::None };
            writer.rendition(Rendition { style: run.style, underline, ..Rendition::default() }, &[]);
            writer.raw(format_args!("{}", self.text.get(at..end).unwrap_or_default()));
            at = at.max(end);
        }
        writer.reset();
        let rest = self.to_text(cols);
        writer.raw(format_args!("{}", rest.get(at..).unwrap_or_default()));
        String::from_utf8(writer.out).unwrap_or_default()
    }

    /// Returns the first `cols` columns as plain text.
    pub fn to_text(&self, cols: u16) -> &str {
        text_to(&self.text, cols)
    }
}

/// Returns the SGR sequence (ECMA-48 §8.3.117) that sets `rendition` from any state.
fn sgr(rendition: &Rendition) -> String {
    let mut codes = String::from("\x1b[0");
    let style = &rendition.style;
    let attributes = [
        (style.bold, ";1"),
        (style.dim, ";2"),
        (style.italic, ";3"),
        (style.blink, ";5"),
        (style.inverse, ";7"),
        (style.hidden, ";8"),
        (style.strikeout, ";9"),
    ];
    attributes.iter().filter(|(on, _)| *on).for_each(|(_, code)| codes.push_str(code));
    codes.push_str(match rendition.underline {
        Underline::None => "",
        Underline::Single => ";4",
        Underline::Double => ";4:2",
        Underline::Curl => ";4:3",
        Underline::Dotted => ";4:4",
        Underline::Dashed => ";4:5",
    });
    push_color(&mut codes, style.fg, 30);
    push_color(&mut codes, style.bg, 40);
    push_color(&mut codes, rendition.underline_color, 50);
    codes.push('m');
    codes
}

/// Appends a colour. `base`: 30 for text, 40 for background, 50 for underlines (which have no short forms).
fn push_color(codes: &mut String, color: Color, base: u16) {
    let code = match color {
        Color::Default => return,
        Color::Indexed(n) if n < 8 && base < 50 => format!(";{}", base + u16::from(n)),
        Color::Indexed(n) if n < 16 && base < 50 => format!(";{}", base + 52 + u16::from(n)),
        Color::Indexed(n) => format!(";{};5;{n}", base + 8),
        Color::Rgb(r, g, b) => format!(";{};2;{r};{g};{b}", base + 8),
    };
    codes.push_str(&code);
}
