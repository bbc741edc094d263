//! Arguments of `wezterm cli`, as types that exclude values which crash its server.

/// A range of rows that ends at the bottom of the screen, so it cannot end before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRange {
    /// Rows of the scrollback.
    back: u32,
    /// Rows of the screen.
    rows: u16,
}

impl RowRange {
    /// Returns the screen of a pane with this many rows.
    pub fn screen(rows: u16) -> RowRange {
        RowRange::with_scrollback(rows, 0)
    }

    /// Returns the screen and up to `back` rows above it.
    pub fn with_scrollback(rows: u16, back: u32) -> RowRange {
        RowRange { back, rows: rows.max(1) }
    }

    pub(super) fn start(self) -> String {
        if self.back == 0 { "0".to_string() } else { format!("-{}", self.back) }
    }

    pub(super) fn end(self) -> String {
        self.rows.saturating_sub(1).to_string()
    }
}

/// A few exact bytes: Enter, Escape, an arrow key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(String);

impl Keys {
    /// Maximum bytes.
    pub const MAX: usize = 64;

    /// Returns `None` for more than [`Keys::MAX`] bytes, and for invalid UTF-8, which the command line rejects.
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
                let range = RowRange::with_scrollback(rows, back);
                let (start, end): (i64, i64) = (range.start().parse().unwrap(), range.end().parse().unwrap());
                assert!(start <= 0 && end >= 0, "{range:?}: {start}..{end}");
            }
        }
    }

    #[test]
    fn keys_are_limited_and_utf8() {
        assert!(Keys::new(&[b'x'; Keys::MAX]).is_some());
        assert!(Keys::new(&[b'x'; Keys::MAX + 1]).is_none());
        assert!(Keys::new(b"\xff").is_none());
    }
}
