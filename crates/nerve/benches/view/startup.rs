//! `nerve view`: time to the first frame of a long recording, and memory of its lines.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use nerve_record::index::Index;
use nerve_testkit::Hermetic;
use nerve_types::Size;
use nerve_vt::screen::Screen;

use crate::support::{Figure, Goal, Report, Samples, memory_of};
use crate::viewer_terminal::ViewerTerminal;
use crate::{corpus, synthetic};

const LONG: u64 = 1_000_000_000;
const PIECE: usize = 2048;
const RUNS: usize = 5;
const ROWS: u64 = 1_000_000;
/// Output at the end of each recording, by which its end is recognized on the screen.
const END: &[u8] = b"\x1b[?1049l\x1b[r\x1b[m\x1b[999;1H\r\n\r\nTHE-END-OF-THE-RECORDING\r\n";

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let long = folder.path().join("long.ahr");
    eprintln!("writing a recording of {} MB", LONG / 1_000_000);
    let corpus = corpus::agents()?;
    synthetic::record(&long, Size::default(), corpus::pieces(&corpus, PIECE, LONG).chain([END]))?;
    let size = long.metadata()?.len() as f64 / 1e6;
    report.row("1 GB of output: the file", &Figure::one(size, "MB"));
    first_frames(report, &long)?;
    std::fs::remove_file(&long)?;
    memory(report, folder.path())
}

/// Measures the time to the first frame, with and without an index of the recording.
fn first_frames(report: &mut Report, recording: &Path) -> Result<()> {
    let home = Hermetic::new()?;
    let (mut without, mut with, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=RUNS {
        eprintln!("opening without an index: {run} of {RUNS}");
        let index = Index::sidecar_path(recording);
        if index.exists() {
            std::fs::remove_file(index)?;
        }
        let mut opened = open(&home, recording)?;
        without.push(opened.first);
        if run == RUNS {
            all.push(opened.whole()?);
        }
    }
    for run in 1..=RUNS {
        eprintln!("opening with an index: {run} of {RUNS}");
        with.push(open(&home, recording)?.first);
    }
    let goal = Goal::AtMost(200.0);
    report.goal("`nerve view` of 1 GB: to the first frame", &Samples::new(with).median("ms"), goal);
    let what = "`nerve view` of 1 GB, never opened before: to the first frame";
    report.goal(what, &Samples::new(without).median("ms"), goal);
    let what = "`nerve view` of 1 GB, never opened before: to all lines, and an index";
    report.row(what, &Samples::new(all).median("ms"));
    Ok(())
}

fn memory(report: &mut Report, folder: &Path) -> Result<()> {
    let path = folder.join("rows.ahr");
    eprintln!("writing a recording of {ROWS} rows");
    let log = corpus::log(1 << 24);
    let mut lines = 0;
    let rows = log.split_inclusive(|byte| *byte == b'\n').cycle().take_while(|_| {
        lines += 1;
        lines <= ROWS + 100
    });
    synthetic::record(&path, Size::default(), rows.chain([END]))?;
    let home = Hermetic::new()?;
    let mut opened = open(&home, &path)?;
    opened.whole()?;
    let pid = opened.terminal.pid();
    let megabytes = |field: &str| anyhow::Ok(Figure::one(memory_of(&pid, field)? * 1.048_576, "MB"));
    report.goal(
        &format!("`nerve view` of {ROWS} rows of a log: resident memory"),
        &megabytes("VmRSS")?,
        Goal::AtMost(120.0),
    );
    report.row("the same: peak, while it was read", &megabytes("VmHWM")?);
    Ok(())
}

/// A viewer and the time until it showed the recording's end.
struct Opened {
    terminal: ViewerTerminal,
    start: Instant,
    first: f64,
}

fn open(home: &Hermetic, recording: &Path) -> Result<Opened> {
    let start = Instant::now();
    let mut terminal =
        ViewerTerminal::start(home.command(env!("CARGO_BIN_EXE_nerve")).arg("view").arg(recording))?;
    terminal.until(|screen| screen.text().contains("THE-END-OF-THE-RECORDING"))?;
    Ok(Opened { terminal, start, first: start.elapsed().as_secs_f64() * 1e3 })
}

impl Opened {
    /// Returns milliseconds until all lines are loaded.
    fn whole(&mut self) -> Result<f64> {
        let is_reading = |screen: &Screen| screen.rows.last().is_some_and(|row| row.text.contains("reading"));
        self.terminal.until(|screen| !is_reading(screen))?;
        Ok(self.start.elapsed().as_secs_f64() * 1e3)
    }
}
