//! Starts a host as a process of its own, and is that process.
//!
//! The spec goes to its standard input; one line on its standard output says that the program runs, or why not.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use super::HostSpec;
use super::process::Host;
use super::registry::Entry;
use crate::backend::{SpawnError, close_descriptors};

/// A machine that needs longer than this to start a process is stuck.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// A spec is read up to here.
const SPEC_LIMIT: u64 = 64 << 20;

/// What a host says of its start.
#[derive(Debug, Serialize, Deserialize)]
enum StartReport {
    Started(Box<Entry>),
    Empty,
    NoProgram { program: String, place: String },
    NotExecutable { program: String, path: PathBuf, why: String },
    NoDirectory(PathBuf),
    ZeroByte,
    Failed(String),
}

/// Starts a host: runs `program host run`. Returns when its program runs. The host is in a session of its own and goes on when
/// this process ends.
///
/// # Errors
/// [`SpawnError`], as if the program had been started here.
pub async fn launch(program: &Path, spec: &HostSpec) -> Result<Entry, SpawnError> {
    let mut command = tokio::process::Command::new(program);
    // Nothing of ours is held open by it: it outlives us.
    command.args(["host", "run"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    close_descriptors(&mut command);
    let mut child =
        command.kill_on_drop(false).spawn().map_err(SpawnError::system("start a host process"))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let handshake = async {
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("it has no pipes"));
        };
        stdin.write_all(&serde_json::to_vec(spec)?).await?;
        drop(stdin);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        if line.is_empty() {
            return Err(io::Error::other("it ended without a word"));
        }
        Ok(serde_json::from_str::<StartReport>(&line)?)
    };
    let report = tokio::time::timeout(START_TIMEOUT, handshake)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    if report.is_err() {
        // It must not start anything after nothing was started.
        let _ = child.start_kill();
    }
    // Reaped when it ends; its end is seen on the connection.
    tokio::spawn(async move { child.wait().await });
    match report.map_err(SpawnError::system("start a host"))? {
        StartReport::Started(entry) => Ok(*entry),
        StartReport::Empty => Err(SpawnError::Empty),
        StartReport::NoProgram { program, place } => Err(SpawnError::NoProgram { program, place }),
        StartReport::NotExecutable { program, path, why } => {
            Err(SpawnError::NotExecutable { program, path, why })
        }
        StartReport::NoDirectory(path) => Err(SpawnError::NoDirectory(path)),
        StartReport::ZeroByte => Err(SpawnError::ZeroByte),
        StartReport::Failed(text) => Err(SpawnError::Host(text)),
    }
}

/// Is a host process: reads the spec, starts the program, and stays until it has ended. SIGTERM ends the program.
///
/// # Errors
/// Standard input holds no spec, or the runtime cannot be made. A program that does not start is told to the one who started us.
pub fn serve() -> io::Result<()> {
    // Away from the terminal it was started in. It fails only for a group leader (setsid(2)): started by hand, then.
    let _ = rustix::process::setsid();
    let mut spec = Vec::new();
    io::stdin().lock().take(SPEC_LIMIT).read_to_end(&mut spec)?;
    let spec: HostSpec = serde_json::from_slice(&spec)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut host = match Host::start(spec).await {
            Ok(host) => host,
            Err(error) => return report_start(&StartReport::from(error)),
        };
        report_start(&StartReport::Started(Box::new(host.entry.clone())))?;
        loop {
            tokio::select! {
                _ = host.finished() => return Ok(()),
                _ = term.recv() => host.stop().await,
                _ = hangup.recv() => host.stop().await,
                _ = interrupt.recv() => host.stop().await,
            }
        }
    });
    // A thread may wait for a disk that hangs.
    runtime.shutdown_background();
    served
}

impl From<SpawnError> for StartReport {
    fn from(error: SpawnError) -> StartReport {
        match error {
            SpawnError::Empty => StartReport::Empty,
            SpawnError::NoProgram { program, place } => StartReport::NoProgram { program, place },
            SpawnError::NotExecutable { program, path, why } => {
                StartReport::NotExecutable { program, path, why }
            }
            SpawnError::NoDirectory(path) => StartReport::NoDirectory(path),
            SpawnError::ZeroByte => StartReport::ZeroByte,
            error @ (SpawnError::System { .. }
            | SpawnError::Host(_)
            | SpawnError::Multiplexer(_)
            | SpawnError::NoPane(_)) => StartReport::Failed(error.to_string()),
        }
    }
}

/// One line, then standard output is closed: the pipe belongs to somebody who may be gone soon.
fn report_start(report: &StartReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    // The one who started us may be gone: the program runs all the same.
    let _ = io::stdout().lock().write_all(&line).and_then(|()| io::stdout().lock().flush());
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}
