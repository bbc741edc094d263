//! Looks and lines as escape sequences.

use std::io::Write;

use super::line::{Line, Link, Look, Underline, text_to};
use crate::screen::{Color, Row};

/// Writes lines as ANSI text and remembers the look in force, so that only changes cost bytes.
#[derive(Debug, Default)]
pub(super) struct AnsiWriter {
    /// What has been written.
    pub(super) out: Vec<u8>,
    look: Look,
    link: Option<Link>,
}

impl AnsiWriter {
    /// Puts `args` out as they are.
    pub(super) fn raw(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = self.out.write_fmt(args);
    }

    /// The line's text with its looks; what follows has the look of its last span.
    pub(super) fn line(&mut self, line: &Line) {
        for (text, look) in line.pieces() {
            self.look(look, &line.links);
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    /// Makes `look` the look in force.
    pub(super) fn look(&mut self, look: Look, links: &[Link]) {
        let link = links.get(usize::from(look.link).wrapping_sub(1));
        if link != self.link.as_ref() {
            let (id, uri) = link.map_or(("", ""), |link| (link.id.as_str(), link.uri.as_str()));
            let id = if id.is_empty() { String::new() } else { format!("id={id}") };
            self.raw(format_args!("\x1b]8;{id};{uri}\x1b\\"));
            self.link = link.cloned();
        }
        let look = Look { link: 0, ..look };
        if look != self.look {
            self.out.extend_from_slice(sgr(&look).as_bytes());
            self.look = look;
        }
    }

    /// Ends hyperlink and look.
    pub(super) fn reset(&mut self) {
        self.look(Look::default(), &[]);
    }
}

impl Row {
    /// The first `cols` columns as ANSI text, which ends with the default look. A wide character that lies across the end may
    /// reach one column further.
    pub fn to_ansi(&self, cols: u16) -> String {
        let mut writer = AnsiWriter::default();
        let mut at = 0;
        for run in self.runs.iter().take_while(|run| run.start < cols) {
            let end = text_to(&self.text, cols.min(run.start.saturating_add(run.len))).len();
            let underline = if run.style.underline { Underline::Single } else { Underline::None };
            writer.look(Look { style: run.style, underline, ..Look::default() }, &[]);
            writer.raw(format_args!("{}", self.text.get(at..end).unwrap_or_default()));
            at = at.max(end);
        }
        writer.reset();
        let rest = self.to_text(cols);
        writer.raw(format_args!("{}", rest.get(at..).unwrap_or_default()));
        String::from_utf8(writer.out).unwrap_or_default()
    }

    /// The first `cols` columns without looks.
    pub fn to_text(&self, cols: u16) -> &str {
        text_to(&self.text, cols)
    }
}

/// The SGR sequence (ECMA-48 §8.3.117) that gives `look`, whatever was before.
fn sgr(look: &Look) -> String {
    let mut codes = String::from("\x1b[0");
    let style = &look.style;
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
    codes.push_str(match look.underline {
        Underline::None => "",
        Underline::Single => ";4",
        Underline::Double => ";4:2",
        Underline::Curl => ";4:3",
        Underline::Dotted => ";4:4",
        Underline::Dashed => ";4:5",
    });
    push_color(&mut codes, style.fg, 30);
    push_color(&mut codes, style.bg, 40);
    push_color(&mut codes, look.underline_color, 50);
    codes.push('m');
    codes
}

/// `base`: 30 text, 40 background, 50 underline (which has no short forms).
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
