//! Measures the speed of the terminal model and the memory of its stored rows.
//!
//! `cargo run --release -p nerve-vt --example feed_speed [FILE…]`

use std::time::Instant;

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{LineIndex, TerminalState};

const CHUNK: usize = 32 * 1024;

fn main() -> std::io::Result<()> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    for path in &paths {
        let bytes = std::fs::read(path)?;
        let times = (20_000_000 / bytes.len().max(1)).max(1);
        measure(path, &bytes.repeat(times));
    }
    if paths.is_empty() {
        measure_generated();
    }
    Ok(())
}

/// Measures output that resembles that of common programs.
fn measure_generated() {
    let numbers: String = (1..=2_000_000).map(|n| format!("{n}\r\n")).collect();
    let log: String = (0..300_000)
        .map(|n| {
            format!(
                "\x1b[2m12:00:{:02}\x1b[0m \x1b[1;32mINFO\x1b[0m module::{} request {n} took {} ms\r\n",
                n % 60,
                n % 17,
                n % 997
            )
        })
        .collect();
    let wide: String = (0..1_000_000).map(|n| format!("{n:->119}\r\n")).collect();
    let text: String = (0..200_000)
        .map(|n| format!("{n} 日本語のテキスト — café ● ─────────── 😀👩\u{200d}👩\u{200d}👧\r\n"))
        .collect();
    let frames: String = (0..100_000)
        .map(|n| format!("\x1b[?2026h\x1b[4A\r\x1b[2K⠋ Working ({n}s)\r\n\x1b[2K────\r\n\x1b[2K❯ \r\n\x1b[2K────\r\n\x1b[?2026l"))
        .collect();
    measure("seq 1 2000000", numbers.as_bytes());
    measure("colour log", log.as_bytes());
    measure("a million rows of 119", wide.as_bytes());
    measure("unicode", text.as_bytes());
    measure("frames", frames.as_bytes());
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn measure(name: &str, bytes: &[u8]) {
    let feed = |_| {
        let mut terminal = TerminalState::new(Size::default());
        let start = Instant::now();
        for chunk in bytes.chunks(CHUNK) {
            terminal.process_data(TsNs(0), chunk);
        }
        (start.elapsed(), terminal)
    };
    // The best of five runs: other programs can only slow it down.
    let Some((fed, terminal)) = (0..5).map(feed).min_by_key(|(fed, _)| *fed) else { return };
    let rows = terminal.line_count() - terminal.first_kept_line().0;
    let start = Instant::now();
    for _ in 0..100 {
        std::hint::black_box(terminal.screen());
    }
    let screen = start.elapsed() / 100;
    let start = Instant::now();
    std::hint::black_box(terminal.tail(50));
    let tail = start.elapsed();
    let start = Instant::now();
    std::hint::black_box(terminal.text(LineIndex(0)..LineIndex(u64::MAX)));
    let all = start.elapsed();
    println!(
        "{name}: {:.0} MB/s, {rows} rows, {:.1} MB stored, screen {screen:.1?}, last 50 rows {tail:.1?}, all rows {all:.1?}",
        bytes.len() as f64 / 1e6 / fed.as_secs_f64(),
        terminal.memory() as f64 / 1e6,
    );
}
