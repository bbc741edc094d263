//! The viewer: cost of a frame, latency of output, time to open a long recording.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/corpus.rs"]
mod corpus;
mod frames;
mod live;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/process.rs"]
mod process;
mod startup;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/synthetic.rs"]
mod synthetic;
mod viewer_terminal;

use anyhow::{Context, Result};
use nerve_types::Size;

use support::Report;

/// Size of the window.
const WINDOW: Size = Size { cols: 200, rows: 60 };

fn main() -> Result<()> {
    if let Some(arguments) = support::fresh_process_arguments() {
        return live::act(arguments.first().context("which program?")?);
    }
    if support::is_debug_build() {
        return Ok(());
    }
    let about = format!(
        "A window of {} × {}. *Frame*: the lines looked up and drawn, and the differences from the last frame encoded as bytes, \
         through ratatui into memory. *Byte to cell*: `nerve record` in a pseudo-terminal; the program writes the time, and the reader of \
         the terminal compares it with the current time when it is complete: pump, recorder, socket, viewer, frame. *100 kB/s*: agents' \
         output in 50 pieces a second. *First frame*: from the start of the process until the end of the recording is on the \
         screen, files in the page cache.",
        WINDOW.cols, WINDOW.rows
    );
    let mut report = Report::new("Viewer", &about);
    frames::measure(&mut report)?;
    live::measure(&mut report)?;
    startup::measure(&mut report)?;
    report.print();
    Ok(())
}
