//! Sample output for recordings: of real agents, and of programs that log.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

use nerve_testkit::Random;

/// Recorded sessions of real agents, nine turns each.
pub(crate) const SESSIONS: [&str; 7] = [
    "claude/classic-modern",
    "claude/classic-noanswer",
    "claude/fs-noanswer",
    "gemini/default-modern",
    "codex/inline-none",
    "codex/default-none",
    "opencode/default-modern",
];

/// Returns the output of the agents of all sessions, 1.4 MB, without queries to the terminal. Answering them would cost time, and
/// not answering them would block.
pub(crate) fn agents() -> Result<Vec<u8>> {
    Ok(sessions()?.concat())
}

/// Returns the output of each session, without queries to the terminal.
pub(crate) fn sessions() -> Result<Vec<Vec<u8>>> {
    SESSIONS.iter().map(|session| Ok(without_queries(&read(session, "raw")?))).collect()
}

/// Returns the pieces of an agent's output in a session, with the time since its start.
pub(crate) fn timed(session: &str) -> Result<Vec<(Duration, Vec<u8>)>> {
    let (output, timing) = (read(session, "raw")?, String::from_utf8(read(session, "timing")?)?);
    let (mut pieces, mut at, mut rest) = (Vec::new(), Duration::ZERO, output.as_slice());
    for line in timing.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().context("a short line in the timing");
        let (kind, pause, bytes) = (word()?, word()?.parse()?, word()?.parse()?);
        at += Duration::from_secs_f64(pause);
        if kind == "O" {
            let (piece, more) =
                rest.split_at_checked(bytes).context("the timing is longer than the bytes")?;
            pieces.push((at, piece.to_vec()));
            rest = more;
        }
    }
    Ok(pieces)
}

/// Returns log lines of a server: times, levels in colour, changing numbers.
pub(crate) fn log(bytes: usize) -> Vec<u8> {
    const LEVELS: [&str; 4] =
        ["\x1b[32m INFO\x1b[0m", "\x1b[32m INFO\x1b[0m", "\x1b[34mDEBUG\x1b[0m", "\x1b[33m WARN\x1b[0m"];
    const PATHS: [&str; 5] =
        ["/api/v1/items", "/api/v1/users", "/health", "/static/app.js", "/api/v1/orders/search"];
    let (mut random, mut text, mut micros) = (Random(1), Vec::with_capacity(bytes + 256), 0);
    while text.len() < bytes {
        micros += random.below(20_000);
        let (minute, second) = (micros / 60_000_000 % 60, micros / 1_000_000 % 60);
        let level = LEVELS[random.below(4) as usize];
        let path = PATHS[random.below(5) as usize];
        let line = format!(
            "\x1b[2m2026-11-22T02:{minute:02}:{second:02}.{:06}Z\x1b[0m {level} request{{id={:016x} method=GET \
             path={path}}}: served status=200 bytes={} latency={:.1}ms\r\n",
            micros % 1_000_000,
            random.below(u64::MAX),
            random.below(60_000),
            random.below(5_000) as f64 / 10.0,
        );
        text.extend(line.into_bytes());
    }
    text
}

/// Repeats `corpus` in pieces of at most `size` bytes, `total` bytes in all.
pub(crate) fn pieces(corpus: &[u8], size: usize, total: u64) -> impl Iterator<Item = &[u8]> {
    let mut remaining = total;
    corpus.chunks(size).cycle().map_while(move |piece| {
        let len = usize::try_from(remaining).unwrap_or(usize::MAX).min(piece.len());
        remaining -= len as u64;
        (len > 0).then(|| &piece[..len])
    })
}

/// Writes `corpus` repeatedly, `total` bytes in all.
pub(crate) fn write_over_and_over(path: &Path, corpus: &[u8], total: u64) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for piece in pieces(corpus, corpus.len(), total) {
        file.write_all(piece)?;
    }
    Ok(file.flush()?)
}

fn read(session: &str, extension: &str) -> Result<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nerve-vt/tests/fixtures/recordings");
    let path: PathBuf = folder.join(session).with_extension(extension);
    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Removes every sequence that the terminal answers.
fn without_queries(output: &[u8]) -> Vec<u8> {
    let mut terminal = TerminalState::new(Size::default());
    let (mut result, mut sequence_start) = (Vec::with_capacity(output.len()), 0);
    for (at, byte) in output.iter().enumerate() {
        // ESC \ ends a string, every other ESC begins a sequence.
        if *byte == b'\x1b' && output.get(at + 1) != Some(&b'\\') {
            sequence_start = result.len();
        }
        result.push(*byte);
        if !terminal.process_data(TsNs(1), &[*byte]).replies.is_empty() {
            result.truncate(sequence_start);
        }
    }
    result
}
