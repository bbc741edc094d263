//! The draft of a prompt: text and paste chips.

use super::line::{Line, Style, printable, wrap};

/// Pastes longer than this many characters, or than [`CHIP_LINES`] lines, become chips.
const CHIP_CHARS: usize = 800;
const CHIP_LINES: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(String),
    Chip { number: u32, text: String },
}

/// A prompt in its displayed and its submitted form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Draft {
    segments: Vec<Segment>,
}

impl Draft {
    /// Returns the text displayed in the composer and the echo.
    pub(super) fn shown(&self) -> String {
        self.join(|number, text| match text.matches('\n').count() {
            0 => format!("[Pasted text #{number}]"),
            lines => format!("[Pasted text #{number} +{lines} lines]"),
        })
    }

    /// Returns the full text, pastes included.
    pub(super) fn sent(&self) -> String {
        self.join(|_, text| text.to_owned())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn join(&self, chip: impl Fn(u32, &str) -> String) -> String {
        let piece = |segment: &Segment| match segment {
            Segment::Text(text) => text.clone(),
            Segment::Chip { number, text } => chip(*number, text),
        };
        self.segments.iter().map(piece).collect()
    }
}

/// The composer: the draft and the pastes so far.
#[derive(Debug, Default)]
pub(super) struct Composer {
    draft: Draft,
    pastes: u32,
}

impl Composer {
    pub(super) fn is_empty(&self) -> bool {
        self.draft.is_empty()
    }

    pub(super) fn has_chip(&self) -> bool {
        self.draft.segments.iter().any(|segment| matches!(segment, Segment::Chip { .. }))
    }

    pub(super) fn ends_with_backslash(&self) -> bool {
        matches!(self.draft.segments.last(), Some(Segment::Text(text)) if text.ends_with('\\'))
    }

    pub(super) fn type_text(&mut self, text: &str) {
        let text = printable(text);
        match self.draft.segments.last_mut() {
            _ if text.is_empty() => {}
            Some(Segment::Text(before)) => before.push_str(&text),
            _ => self.draft.segments.push(Segment::Text(text)),
        }
    }

    pub(super) fn paste(&mut self, text: &str, chips: bool) {
        let text = printable(text);
        let long = text.chars().nth(CHIP_CHARS).is_some() || text.matches('\n').count() >= CHIP_LINES;
        if chips && long {
            self.pastes += 1;
            self.draft.segments.push(Segment::Chip { number: self.pastes, text });
        } else {
            self.type_text(&text);
        }
    }

    pub(super) fn backspace(&mut self) {
        if let Some(Segment::Text(text)) = self.draft.segments.last_mut() {
            text.pop();
            if !text.is_empty() {
                return;
            }
        }
        self.draft.segments.pop();
    }

    pub(super) fn clear(&mut self) {
        self.draft = Draft::default();
    }

    /// Takes the draft and empties the composer.
    pub(super) fn take(&mut self) -> Draft {
        std::mem::take(&mut self.draft)
    }

    /// Puts a prompt back before the current draft.
    pub(super) fn put_back(&mut self, mut prompt: Draft) {
        if !self.draft.is_empty() {
            prompt.segments.push(Segment::Text("\n".into()));
            prompt.segments.append(&mut self.draft.segments);
        }
        self.draft = prompt;
    }

    /// Renders the draft in at most `max_rows` lines and returns the cursor's row and column. A longer draft is cut at
    /// its beginning.
    pub(super) fn lines(&self, cols: usize, max_rows: usize) -> (Vec<Line>, (usize, usize)) {
        let rows = wrap(&self.draft.shown(), cols.saturating_sub(3));
        let rows = &rows[rows.len().saturating_sub(max_rows.max(1))..];
        let mut lines: Vec<Line> = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            // The marker is followed by a no-break space; in an echo by a plain one.
            let start = if at == 0 { "❯\u{a0}" } else { "  " };
            lines.push(Line::plain(start).put(Style::Plain, row));
        }
        let last = lines.len() - 1;
        let column = lines[last].width();
        lines[last] = std::mem::take(&mut lines[last]).put(Style::Inverse, " ");
        (lines, (last, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pasted(text: &str) -> Draft {
        let mut composer = Composer::default();
        composer.paste(text, true);
        composer.take()
    }

    #[test]
    fn long_pastes_become_chips_and_are_sent_whole() {
        let text = (1..=30).map(|n| format!("row {n}")).collect::<Vec<_>>().join("\n");
        assert_eq!(pasted(&text).shown(), "[Pasted text #1 +29 lines]");
        assert_eq!(pasted(&text).sent(), text);
        assert_eq!(pasted(&"x".repeat(801)).shown(), "[Pasted text #1]");
    }

    #[test]
    fn short_pastes_stay_text() {
        assert_eq!(pasted("a\nb\nc").shown(), "a\nb\nc");
        assert_eq!(pasted(&"x".repeat(800)).shown(), "x".repeat(800));
    }

    #[test]
    fn a_chip_goes_with_one_backspace() {
        let mut composer = Composer::default();
        composer.type_text("ab");
        composer.paste(&"x".repeat(900), true);
        assert!(composer.has_chip());
        composer.backspace();
        assert_eq!(composer.draft.shown(), "ab");
        composer.backspace();
        composer.backspace();
        composer.backspace();
        assert!(composer.is_empty());
    }

    #[test]
    fn a_prompt_comes_back_before_what_was_typed_since() {
        let mut composer = Composer::default();
        composer.type_text("first");
        let prompt = composer.take();
        composer.type_text("second");
        composer.put_back(prompt);
        assert_eq!(composer.take().sent(), "first\nsecond");
    }

    #[test]
    fn a_long_draft_shows_its_end() {
        let mut composer = Composer::default();
        composer.type_text(&(1..=50).map(|n| format!("{n}\n")).collect::<String>());
        composer.type_text("end");
        let (lines, cursor) = composer.lines(80, 5);
        assert_eq!(lines.len(), 5);
        assert_eq!(cursor, (4, 5));
    }
}
