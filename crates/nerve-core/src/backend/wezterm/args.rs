//! What is asked of the command line, in values that cannot ask for what takes its server down.

/// A range of a pane's text that ends on its last row: there is none that ends before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Rows of the scrollback.
    back: u32,
    /// Rows of the screen.
    rows: u16,
}

impl Range {
    /// The screen of a pane of so many rows.
    pub fn screen(rows: u16) -> Range {
        Range::with_scrollback(rows, 0)
    }

    /// The screen and up to `back` rows above it. There may be fewer.
    pub fn with_scrollback(rows: u16, back: u32) -> Range {
        Range { back, rows: rows.max(1) }
    }

    pub(super) fn start(self) -> String {
        if self.back == 0 { "0".to_string() } else { format!("-{}", self.back) }
    }

    pub(super) fn end(self) -> String {
        self.rows.saturating_sub(1).to_string()
    }
}

/// A few exact bytes: Enter, Escape, an arrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(String);

impl Keys {
    /// The most there can be.
    pub const MAX: usize = 64;

    /// `None` if they are more than [`Keys::MAX`] bytes, or no UTF-8, which the command line does not take.
    pub fn new(bytes: &[u8]) -> Option<Keys> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= Keys::MAX)?;
        Some(Keys(text.to_string()))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_range_ends_before_it_starts() {
        for rows in [0, 1, 24, u16::MAX] {
            for back in [0, 1, 3500, u32::MAX] {
                let range = Range::with_scrollback(rows, back);
                let (start, end): (i64, i64) = (range.start().parse().unwrap(), range.end().parse().unwrap());
                assert!(start <= 0 && end >= 0, "{range:?}: {start}..{end}");
            }
        }
    }

    #[test]
    fn keys_are_few_and_text() {
        assert!(Keys::new(&[b'x'; Keys::MAX]).is_some());
        assert!(Keys::new(&[b'x'; Keys::MAX + 1]).is_none());
        assert!(Keys::new(b"\xff").is_none());
    }
}
