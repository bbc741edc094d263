//! The web console in a real browser: first frames, latencies, and what an open page costs the server. The scripts in this
//! folder measure and print a JSON object per figure.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "../support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nerve_testkit::harness::browser_script;
use serde::Deserialize;

use server_process::LiveServer;
use support::{Figure, Goal, Report, Samples};

/// Measures with small numbers, in debug builds too: to try the benchmark.
const QUICK_VARIABLE: &str = "NERVE_BENCH_QUICK";

/// Names of the measures to run, separated by commas [default: all]: see `measure.mjs`.
const ONLY_VARIABLE: &str = "NERVE_BENCH_ONLY";

/// A line that the scripts print.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Figure { what: String, unit: String, values: Vec<f64>, at_most: Option<f64> },
    Note { note: String },
}

fn main() -> Result<()> {
    if std::env::var_os(QUICK_VARIABLE).is_none() && support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Web console",
        "Debian's Chromium without a window, on the machine of the server, over loopback and HTTP/1.1 without TLS. *First frame*: until \
         the end of the frame that shows the text; each run has an empty cache. *From the click*: on the tab \
         *Terminal* of a page that shows the node. *From the navigation*: the address is opened. *Key to echo*: 100 keys, one \
         after another, on bash; *in a terminal*: `nerve attach` in the pseudo-terminal of script(1). *10 MB/s*: coloured lines; \
         CPU time is of the server's process. Peers: [ttyd](https://github.com/tsl0922/ttyd) with the same renderer, if it \
         is in `PATH`, and asciinema-player with the same output, shown at its end. The chat of agentapi is not measured: it is in no \
         registry of packages.",
    );
    let server = LiveServer::start_listening(&["--http", "127.0.0.1:0"])?;
    let link = String::from_utf8(server.run(&["web", "--no-open"])?.stdout)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/web/measure.mjs");
    match browser_script(&server.home, "web", &script, link.trim()) {
        Some(command) => measure(&mut report, command, &server)?,
        None => report.note("Not measured: `cargo xtask setup` installs Chromium and its driver."),
    }
    report.print();
    Ok(())
}

/// Runs the scripts and reports what they print.
fn measure(report: &mut Report, mut command: Command, server: &LiveServer) -> Result<()> {
    command.env("NERVE_PROGRAM", env!("CARGO_BIN_EXE_nerve"));
    command.env("NERVE_SERVER_PID", server.process.id().to_string());
    let variables = [QUICK_VARIABLE, ONLY_VARIABLE].into_iter();
    command.envs(variables.filter_map(|name| Some((name, std::env::var_os(name)?))));
    let mut script = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut notes = Vec::new();
    let output = script.stdout.take().context("the script has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        match serde_json::from_str(&line).with_context(|| format!("not a figure: {line}"))? {
            Line::Note { note } => notes.push(note),
            Line::Figure { what, unit, values, at_most } => {
                // The report keeps units for the whole run.
                let unit: &'static str = unit.leak();
                let figure = match values[..] {
                    [value] => Figure::one(value, unit),
                    _ => Samples::new(values).median(unit),
                };
                match at_most {
                    Some(limit) => report.goal(&what, &figure, Goal::AtMost(limit)),
                    None => report.row(&what, &figure),
                }
            }
        }
    }
    notes.iter().for_each(|note| report.note(note));
    let status = script.wait()?;
    ensure!(status.success(), "the script failed: {status}");
    Ok(())
}
