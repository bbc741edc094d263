//! Removes the carriage returns of terminal output.

/// Removes the carriage returns that a terminal inserts before line feeds (termios(3), `ONLCR`), across chunk
/// boundaries.
#[derive(Debug, Default)]
pub(crate) struct CrlfFilter {
    /// A carriage return is pending.
    held: bool,
}

impl CrlfFilter {
    /// Filters a chunk.
    pub(crate) fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            if std::mem::take(&mut self.held) && *byte != b'\n' {
                out.push(b'\r');
            }
            match byte {
                b'\r' => self.held = true,
                byte => out.push(*byte),
            }
        }
        out
    }

    /// Returns the pending bytes at the end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        if std::mem::take(&mut self.held) { vec![b'\r'] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_returns_before_line_feeds() {
        let bytes = b"a\r\nb\rc\r\r\n\r\n\n\rd\r";
        for step in 1..=bytes.len() {
            let mut lines = CrlfFilter::default();
            let mut out: Vec<u8> = bytes.chunks(step).flat_map(|piece| lines.filter(piece)).collect();
            out.extend(lines.finish());
            assert_eq!(out, b"a\nb\rc\r\n\n\n\rd\r", "in steps of {step}");
        }
    }
}
