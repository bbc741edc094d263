//! Starts a host as a process of its own, and implements that process.
//!
//! The host reads its spec from standard input and reports its start as one line on standard output.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use crate::HostSpec;
use nerve_types::os::{close_descriptors, rlimit};

use crate::backend::SpawnError;
use crate::process::Host;
use crate::registry::Entry;

/// Time limit for the start of the process.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// File descriptors that a new host leaves free: its own, and those of clients and their requests.
const RESERVED_DESCRIPTORS: u64 = 24;
/// Maximum bytes read of a spec.
const SPEC_LIMIT: u64 = 64 << 20;

/// The outcome of a host's start, as sent to its parent.
#[derive(Debug, Serialize, Deserialize)]
enum StartReport {
    Started(Box<Entry>),
    #[serde(untagged)]
    Failed(SpawnError),
}

/// Starts a host by running `program host run`, and returns when its program runs. The host has its own session and outlives
/// this process.
///
/// # Errors
/// [`SpawnError`], as if the program had been started here.
pub async fn launch(program: &Path, spec: &HostSpec) -> Result<Entry, SpawnError> {
    // Without free descriptors, no client could stop a node.
    rlimit::check_room(RESERVED_DESCRIPTORS).map_err(SpawnError::system("start a host process"))?;
    let mut command = tokio::process::Command::new(program);
    // No inherited descriptors: the host would keep them open after we end.
    command.args(["host", "run"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    close_descriptors(&mut command);
    let mut child =
        command.kill_on_drop(false).spawn().map_err(SpawnError::system("start a host process"))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let handshake = async {
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("no pipes to the host"));
        };
        stdin.write_all(&serde_json::to_vec(spec)?).await?;
        drop(stdin);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        if line.is_empty() {
            return Err(io::Error::other("the host exited without reporting its start"));
        }
        Ok(serde_json::from_str::<StartReport>(&line)?)
    };
    let report = tokio::time::timeout(START_TIMEOUT, handshake)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    if report.is_err() {
        // The caller treats the start as failed, so it must not succeed later.
        let _ = child.start_kill();
    }
    // Reaps the process; its end is noticed on the connection.
    tokio::spawn(async move { child.wait().await });
    match report.map_err(SpawnError::system("start a host"))? {
        StartReport::Started(entry) => Ok(*entry),
        StartReport::Failed(error) => Err(error),
    }
}

/// Runs a host in this process: reads the spec, starts the program and waits for its end. SIGTERM, SIGHUP and SIGINT stop the
/// program; SIGUSR1 [repairs](Host::repair) the host's files.
///
/// # Errors
/// Standard input holds no spec, or the runtime cannot be created. A failed start of the program is reported to the parent
/// instead.
pub fn serve() -> io::Result<()> {
    // Leaves the terminal of the parent. Fails only for a process group leader (setsid(2)), when started by hand.
    let _ = rustix::process::setsid();
    let mut spec = Vec::new();
    io::stdin().lock().take(SPEC_LIMIT).read_to_end(&mut spec)?;
    let spec: HostSpec = serde_json::from_slice(&spec)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut repair = signal(SignalKind::user_defined1())?;
        let mut host = match Host::start(spec).await {
            Ok(host) => host,
            Err(error) => return report_start(&StartReport::Failed(error.reportable())),
        };
        report_start(&StartReport::Started(Box::new(host.entry.clone())))?;
        loop {
            tokio::select! {
                _ = host.wait() => return Ok(()),
                _ = term.recv() => host.stop().await,
                _ = hangup.recv() => host.stop().await,
                _ = interrupt.recv() => host.stop().await,
                _ = repair.recv() => host.repair().await,
            }
        }
    });
    // A thread may be blocked on a hanging disk.
    runtime.shutdown_background();
    served
}

/// Writes one line and closes standard output: the parent may exit soon.
fn report_start(report: &StartReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    // The parent may be gone: the program runs nevertheless.
    let _ = io::stdout().lock().write_all(&line).and_then(|()| io::stdout().lock().flush());
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(error: SpawnError) -> (String, SpawnError) {
        let line = serde_json::to_string(&StartReport::Failed(error.reportable())).unwrap();
        match serde_json::from_str(&line).unwrap() {
            StartReport::Failed(error) => (line, error),
            StartReport::Started(_) => panic!("{line}"),
        }
    }

    #[test]
    fn errors_reach_the_parent() {
        let (line, error) = round_trip(SpawnError::Empty);
        assert!(line == r#""Empty""# && matches!(error, SpawnError::Empty), "{line}");
        let missing = SpawnError::NoProgram { program: "x".into(), place: "in PATH".into() };
        let (line, error) = round_trip(missing);
        assert_eq!(line, r#"{"NoProgram":{"program":"x","place":"in PATH"}}"#);
        assert_eq!(error.to_string(), "no program 'x' in PATH");
        let (line, error) = round_trip(SpawnError::system("open a terminal")(io::ErrorKind::NotFound.into()));
        assert!(line.starts_with(r#"{"Failed":"cannot open a terminal"#), "{line}");
        assert!(matches!(error, SpawnError::Host(_)), "{error:?}");
    }
}
