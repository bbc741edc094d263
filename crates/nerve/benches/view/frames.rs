//! Cost of a frame: looking up and drawing the lines of the window, and encoding the differences for a terminal.

use std::time::Instant;

use anyhow::Result;
use nerve_tui::view::ansi_writer;
use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::decorations::Decorations;
use nerve_tui::view::document::Document;
use nerve_tui::view::draw::{Gutter, Layout, StatusInfo, draw};
use nerve_tui::view::regions::FrameContext;
use nerve_tui::view::tools::{InputReader, Tool, ToolState, ToolUpdate, ToolUpdates};
use nerve_tui::view::viewer::{Source, Viewer};
use nerve_types::{Size, TsNs};
use nerve_vt::keys::{Code, Input, Key};
use nerve_vt::terminal::TerminalState;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::WINDOW;
use crate::support::{Goal, Report, Samples};

const FRAMES: usize = 500;
/// Number of tools that an agent runs in a long session.
const TOOLS: u64 = 10_000;
/// Numbers of changed rows. The last one exceeds the window, so that all of it changes.
const CHANGES: [u16; 3] = [1, 40, 200];

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for rows in CHANGES {
        eprintln!("frames with {rows} changed rows");
        let (times, bytes) = frames(rows, Tools::default())?;
        let what = format!("frame, {rows} changed rows");
        let goal = Goal::AtMost(2.0);
        report.goal(&format!("{what}: CPU"), &Samples::new(times).median("ms"), goal);
        report.row(&format!("{what}: written to the terminal"), &Samples::new(bytes).median("bytes"));
    }
    for is_open in [false, true] {
        eprintln!("frames with {TOOLS} tools");
        let (times, _) = frames(1, Tools { count: TOOLS, is_open })?;
        let what = if is_open { "with their list" } else { "" };
        let what = format!("frame, 1 changed row, {TOOLS} tools {what}: CPU").replace(" :", ":");
        report.goal(&what, &Samples::new(times).median("ms"), Goal::AtMost(2.0));
    }
    Ok(())
}

/// Tools of an agent.
#[derive(Clone, Copy, Default)]
struct Tools {
    count: u64,
    /// True if their list is shown.
    is_open: bool,
}

/// Returns `count` tools, of which every tenth is running.
fn tool_updates(count: u64) -> ToolUpdates {
    let updates = (0..count).map(|number| {
        let state = if number % 10 == 0 { ToolState::Running } else { ToolState::Ended(Some(0)) };
        let (id, command) = (format!("toolu_{number:08}"), "cargo test --workspace".to_string());
        ToolUpdate { number, tool: Tool { id, command, state }, reader: InputReader::Tool }
    });
    ToolUpdates { reset: false, first: 0, updates: updates.collect() }
}

/// Returns milliseconds and bytes of each frame.
fn frames(rows: u16, tools: Tools) -> Result<(Vec<f64>, Vec<f64>)> {
    let size = Layout::program_size(WINDOW.cols, WINDOW.rows, Gutter::Right);
    let mut terminal = TerminalState::new(size);
    let mut viewer = Viewer::new(Source::Live, Bindings::default());
    viewer.update_tools(tool_updates(tools.count));
    if tools.is_open {
        let document = Document::live(&terminal);
        let key = Key { code: Code::Char('t'), shift: true, ..Key::ctrl('t') };
        viewer.input(Input::Key(key), &FrameContext::new(&document, Default::default()));
        anyhow::ensure!(viewer.modal().is_some(), "the list of tools does not open");
    }
    let area = Rect::new(0, 0, WINDOW.cols, WINDOW.rows);
    let (mut shown, mut next, mut decorations) =
        (Buffer::empty(area), Buffer::empty(area), Decorations::default());
    let (mut times, mut bytes) = (Vec::new(), Vec::new());
    for nth in 0..FRAMES as u64 {
        terminal.process_data(TsNs(nth), &changed(size, rows, nth));
        let start = Instant::now();
        let document = Document::live(&terminal);
        let info = StatusInfo { name: "bench".to_string(), recorded: Some(nth), ..StatusInfo::default() };
        next.reset();
        decorations.tidy(&mut shown);
        let layout = Layout::new(Source::Live, area, size, Gutter::Right);
        let regions = layout.regions(&viewer, None, info.capabilities);
        viewer.set_regions(&regions);
        viewer.update_document(&document);
        draw(&viewer, &FrameContext::new(&document, regions), &info, &layout, &mut next, &mut decorations);
        let mut written = Vec::new();
        ansi_writer::write(shown.diff_iter(&next), &decorations, true, &mut written);
        std::mem::swap(&mut shown, &mut next);
        times.push(start.elapsed().as_secs_f64() * 1e3);
        bytes.push(written.len() as f64);
    }
    // The first frame draws everything.
    Ok((times.split_off(1), bytes.split_off(1)))
}

/// Returns output that changes `rows` rows: in place, or by scrolling if the screen has fewer.
fn changed(size: Size, rows: u16, nth: u64) -> Vec<u8> {
    let mut output = Vec::new();
    for row in 0..rows {
        let place = if rows < size.rows { format!("\x1b[{};1H\x1b[K", row + 1) } else { "\r\n".to_string() };
        let number = nth * 1000 + u64::from(row);
        output.extend(format!("{place}{}", line(number, size.cols.into())).into_bytes());
    }
    output
}

/// Returns a full row in six styles.
fn line(number: u64, cols: usize) -> String {
    let words = "the quick brown fox jumps over the lazy dog 日本語 while five boxing wizards jump quickly ";
    let text: String = words.chars().cycle().skip(number as usize % 80).take(cols - 60).collect();
    format!(
        "\x1b[2m12:00:00\x1b[0m \x1b[32mINFO\x1b[0m \x1b[1;36mserver\x1b[0m \x1b[38;2;200;120;40m{number:09}\x1b[0m {text}"
    )
}
