//! Daily work: the node list and the dashboard, search, fan-out, and the restore of all nodes.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

mod archive;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/corpus.rs"]
mod corpus;
mod fan_out;
mod list;
#[path = "../support/paced_output.rs"]
mod paced_output;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/process.rs"]
mod process;
mod restore;
mod search;
mod search_index;
#[path = "../support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/synthetic.rs"]
mod synthetic;
mod top;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../view/viewer_terminal.rs"]
mod viewer_terminal;
mod words;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use nerve_types::Size;

use archive::Archive;
use support::Report;

/// Size of the terminal of `nerve top`.
const WINDOW: Size = Size { cols: 160, rows: 50 };
/// Gigabytes of recorded output that are searched [default: 1].
const OUTPUT_VARIABLE: &str = "NERVE_BENCH_OUTPUT_GB";

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    if let Some(arguments) = support::fresh_process_arguments() {
        let [corpus, seconds] = arguments.as_slice() else { bail!("expected a file and a time") };
        return paced_output::write(Path::new(corpus), seconds.parse()?);
    }
    let output_bytes = output_bytes()?;
    let mut report = Report::new("Daily work", &about(output_bytes));
    list::measure(&mut report).await?;
    top::measure(&mut report).await?;
    fan_out::measure(&mut report)?;
    restore::measure(&mut report).await?;
    let archive = Archive::create(output_bytes)?;
    search::measure(&mut report, &archive)?;
    search_index::measure(&mut report, archive).await?;
    for note in [fan_out::NOTE, search_index::NOTE] {
        report.note(note);
    }
    report.print();
    Ok(())
}

fn output_bytes() -> Result<u64> {
    let gigabytes: f64 = std::env::var(OUTPUT_VARIABLE).map_or(Ok(1.0), |text| text.parse())?;
    ensure!((0.01..=100.0).contains(&gigabytes), "{OUTPUT_VARIABLE} must be 0.01 to 100");
    Ok((gigabytes * 1e9) as u64)
}

fn about(output_bytes: u64) -> String {
    format!(
        "Commands are whole processes, timed from start to end. *Busy*: a turn of {} s in a bash node, which prints every \
         {} s. *Fan-out*: {} attempts with `{}` as agent and prompt; *added* is the difference to the same commands in \
         parallel without nerve, of pairs. *Restore*: `nerve server start --restore` after `kill -9` of the server and of all \
         hosts. *Search*: {} turns and {:.3} GB of recorded output in {} recordings of {} nodes, over {} days: sessions of \
         Claude Code, Codex, Gemini CLI and opencode, repeated with other words; `{OUTPUT_VARIABLE}=10` for 10 GB. Each kind of query \
         has {} different texts. *Indexing*: a node of a server with these data writes agents' output at {} MB/s for {} s \
         while another node has a turn every {} s; CPU time is that of the threads `search-index`.",
        top::TURN_SECONDS,
        top::PRINT_SECONDS,
        fan_out::ATTEMPTS,
        fan_out::TASK,
        archive::TURNS,
        output_bytes as f64 / 1e9,
        archive::RECORDINGS,
        archive::NODES,
        archive::DAYS,
        archive::RARE_WORDS,
        paced_output::RATE / 1_000_000,
        search_index::SECONDS,
        search_index::TURN_INTERVAL.as_secs(),
    )
}

/// Measures the time of an action in milliseconds.
fn time(action: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    action()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
