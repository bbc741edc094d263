//! Renders a recording as text, in windows of lines.

use std::io::{self, Write};
use std::path::Path;

use nerve_api::ErrorKind;
use nerve_record::ahr::Reader;
use nerve_record::export::{ReportFormat, report};
use nerve_record::meta::Meta;
use nerve_record::replay::TerminalReplay;
use nerve_types::Size;

use super::list::find;
use super::uri::{MAX_LINES, ResourceUri};
use crate::context::ServerContext;
use crate::tool_result::{Failure, truncate};

/// Maximum size of a recording that is rendered, in bytes.
const MAX_FILE_BYTES: u64 = 128 << 20;
/// Limits of the scrollback: rows and bytes.
const SCROLLBACK_LIMITS: (u64, usize) = (200_000, 64 << 20);
/// Maximum length of a reply in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Returns the lines from `from` (1-based), and the URI of the next ones.
pub(super) async fn read(
    context: &ServerContext,
    id: String,
    from: u64,
    lines: u64,
) -> Result<String, Failure> {
    let Some(store) = context.recordings.clone() else {
        return Err(Failure::new(ErrorKind::NotFound, "recordings are not available on this server"));
    };
    // Held until the recording is read. The semaphore is never closed.
    let _permit = context.read_permits.acquire().await;
    let task = tokio::task::spawn_blocking(move || {
        let path = find(&store, &id)?;
        let window = render(&path, from, lines)?;
        Ok(format_window(&id, &window))
    });
    task.await.map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?
}

fn render(path: &Path, from: u64, lines: u64) -> Result<Window, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(ErrorKind::Internal, format!("cannot read {}: {error}", path.display()))
    };
    let bytes = std::fs::metadata(path).map_err(|error| failed(&error))?.len();
    if bytes > MAX_FILE_BYTES {
        let failure = Failure::new(
            ErrorKind::TooLarge,
            format!("recording too large: {bytes} bytes, at most {MAX_FILE_BYTES}"),
        );
        return Err(failure.hint("export it to a file: nerve recording export --format txt"));
    }
    let meta = Meta::load(path).ok().flatten().unwrap_or_default();
    let size = if meta.cols > 0 && meta.rows > 0 { Size::new(meta.cols, meta.rows) } else { Size::default() };
    let mut reader = Reader::open(path).map_err(|error| failed(&error))?;
    let mut replay = TerminalReplay::new(size).with_limits(SCROLLBACK_LIMITS.0, SCROLLBACK_LIMITS.1);
    // Damaged parts are skipped; `nerve recording inspect` reports them.
    replay.read_rest(&mut reader, |_| ()).map_err(|error| failed(&error))?;
    let mut window = Window::new(from, lines);
    report(ReportFormat::Txt, &replay.terminal, &mut window).map_err(|error| failed(&error))?;
    Ok(window)
}

fn format_window(id: &str, window: &Window) -> String {
    let (text, _) = truncate(&String::from_utf8_lossy(&window.text), MAX_BYTES);
    let last = (window.from - 1 + window.lines).min(window.total);
    let mut note = match window.from > window.total {
        true => format!("[there are {} lines]", window.total),
        false => format!("[lines {} to {last} of {}]", window.from, window.total),
    };
    if last < window.total {
        let lines = window.lines.min(MAX_LINES);
        let next = ResourceUri::Recording { id: id.to_string(), from: last + 1, lines };
        note = format!("{}; next: {}]", note.trim_end_matches(']'), next.text());
    }
    format!("{text}{note}\n")
}

/// A writer that keeps a window of lines and counts all of them.
#[derive(Debug)]
struct Window {
    /// First line of the window, 1-based.
    from: u64,
    lines: u64,
    total: u64,
    text: Vec<u8>,
}

impl Window {
    fn new(from: u64, lines: u64) -> Window {
        Window { from: from.max(1), lines, total: 0, text: Vec::new() }
    }
}

impl Write for Window {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = self.total + 1;
            if line >= self.from && line - self.from < self.lines {
                self.text.extend_from_slice(part);
            }
            self.total += u64::from(part.ends_with(b"\n"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: u64, lines: u64) -> Window {
        let mut window = Window::new(from, lines);
        // Lines may be split over several writes.
        for piece in ["o", "ne\ntwo", "\nthree\nfo", "ur\n"] {
            window.write_all(piece.as_bytes()).unwrap();
        }
        window
    }

    #[test]
    fn windows_link_to_each_other() {
        assert_eq!(
            format_window("r", &window(1, 2)),
            "one\ntwo\n[lines 1 to 2 of 4; next: nerve://recordings/r?from=3&lines=2]\n"
        );
        assert_eq!(format_window("r", &window(3, 2)), "three\nfour\n[lines 3 to 4 of 4]\n");
        assert_eq!(format_window("r", &window(9, 2)), "[there are 4 lines]\n");
    }
}
