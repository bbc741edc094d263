//! CPU time of the search index while a node writes, and after its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_api::request::{CommandLine, CreateNode};
use nerve_api::value::NodeState;
use nerve_client::RemoteNode;
use nerve_testkit::wait_until_async;
use tokio::time::sleep;

use crate::archive::Archive;
use crate::paced_output::RATE;
use crate::server_process::{self, LiveServer};
use crate::support::{self, Figure, Goal, Report};
use crate::{corpus, process};

/// Duration of the output.
pub(crate) const SECONDS: u64 = 25;
/// Name of the thread that updates the index; it lives for one update.
const THREAD: &str = "search-index";
/// Interval of the samples, and so the time of an update that may be missed.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);
/// Time between two turns of the other node: longer than the 2 s after which the index is updated.
pub(crate) const TURN_INTERVAL: Duration = Duration::from_secs(4);
/// Without an update for this time, the index is up to date: an update comes 2 s after a change.
const QUIET: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(300);
const GOAL: Goal = Goal::AtMost(3.0);
/// Explains what limits the indexing of screens.
pub(crate) const NOTE: &str = "\
    Indexing: the screens are read after the node's end, by a replay of its recording. The terminal model alone takes \
    about 1.2 s for the output of 25 s at 10 MB/s, which is more than the goal. The goal is met while the output is \
    written.";

pub(crate) async fn measure(report: &mut Report, archive: Archive) -> Result<()> {
    let server = LiveServer::start_in(archive.home)?;
    let client = server.client().await?;
    let other = server_process::bash(&client, "other", "$ ").await?;
    let output = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    std::fs::write(output.path(), corpus::agents()?)?;
    let path = output.path().to_str().context("the folder's name is no UTF-8")?;
    let program = std::env::current_exe()?;
    let program = program.to_str().context("this program's name is no UTF-8")?;
    let seconds = SECONDS.to_string();
    let argv = [program, support::FRESH, path, &seconds].map(String::from).to_vec();

    eprintln!("daily: indexing");
    let sampler = CpuSampler::start(server.process.id().to_string());
    let begun = Instant::now();
    let mut params = CreateNode::new("writer");
    params.command = Some(CommandLine::Argv(argv));
    let writer = client.create_node(&params).await?;
    let turns = tokio::spawn(take_turns(other));
    writer.wait(&[NodeState::Stopped], Some(PATIENCE)).await?;
    let written = begun.elapsed().as_secs_f64();
    let (during, updates) = sampler.cpu();
    turns.abort();
    ensure!(updates > 0, "the index was not updated");
    sampler.wait_until_quiet().await?;
    let (total, _) = sampler.stop();

    let share = |cpu: f64| Figure::one(100.0 * cpu / SECONDS as f64, "% of a core");
    let rate = format!("{} MB/s", RATE / 1_000_000);
    report.goal(&format!("indexing while a node writes {rate}"), &share(during), GOAL);
    report.row("the same: updates", &Figure::one(updates as f64, ""));
    report.row("the same: duration of the output", &Figure::one(written, "s"));
    let what = format!("indexing of {rate}, with the screens, which are read after the node's end");
    report.goal(&what, &share(total), GOAL);
    report.row("the same: CPU time after the end", &Figure::one(total - during, "s"));
    Ok(())
}

async fn take_turns(node: RemoteNode) {
    while node.execute("echo a turn").await.is_ok() {
        sleep(TURN_INTERVAL).await;
    }
}

/// Samples the CPU time of the threads that update the index.
struct CpuSampler {
    shared: Arc<Shared>,
    thread: thread::JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    is_stopped: AtomicBool,
    samples: parking_lot::Mutex<Samples>,
}

#[derive(Default)]
struct Samples {
    /// Last known CPU time of each thread in seconds.
    cpu: BTreeMap<OsString, f64>,
    last_seen: Option<Instant>,
}

impl CpuSampler {
    fn start(pid: String) -> CpuSampler {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = thread::spawn(move || {
            while !of_thread.is_stopped.load(Ordering::Relaxed) {
                let threads = process::threads(&pid, THREAD).unwrap_or_default();
                if !threads.is_empty() {
                    let mut samples = of_thread.samples.lock();
                    samples.last_seen = Some(Instant::now());
                    samples.cpu.extend(threads);
                }
                thread::sleep(SAMPLE_INTERVAL);
            }
        });
        CpuSampler { shared, thread }
    }

    /// Returns the CPU time in seconds, and the number of updates.
    fn cpu(&self) -> (f64, usize) {
        let samples = self.shared.samples.lock();
        (samples.cpu.values().sum(), samples.cpu.len())
    }

    async fn wait_until_quiet(&self) -> Result<()> {
        let before = self.cpu().1;
        let is_quiet = async || {
            let last_seen = self.shared.samples.lock().last_seen;
            last_seen.is_none_or(|at| at.elapsed() >= QUIET) && self.cpu().1 > before
        };
        ensure!(wait_until_async(PATIENCE, is_quiet).await, "the index is not up to date");
        Ok(())
    }

    /// Returns as [`CpuSampler::cpu`] does.
    fn stop(self) -> (f64, usize) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        let samples = self.shared.samples.lock();
        (samples.cpu.values().sum(), samples.cpu.len())
    }
}
