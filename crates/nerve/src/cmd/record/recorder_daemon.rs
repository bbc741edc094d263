//! The recorder process behind a viewer. It has its own session and outlives the viewer.
//!
//! The recorder is this program with the same arguments. When the recorded program runs, the recorder writes the host's entry as
//! one line to a pipe. Its standard error is printed after the screen is restored. Its exit code is that of the recorded program.

use std::ffi::OsString;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_host::registry::Entry;
use nerve_types::Size;
use nerve_types::os::{detach, signal_name};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::exit::{FAILED, Failure};
use nerve_cli::record::DaemonArgs;

/// Time limit for the recorder to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of the entry line in bytes.
const MAX_ENTRY: u64 = 1 << 20;
/// Maximum number of bytes kept of the recorder's standard error.
const MAX_STDERR: u64 = 64 << 10;
/// Time limit for the rest of standard error.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// A recorder process.
pub(super) struct Recorder {
    pub(super) entry: Entry,
    child: Child,
    stderr_text: JoinHandle<Vec<u8>>,
}

/// Result of starting a recorder.
pub(super) enum StartResult {
    /// The program is running.
    Started(Box<Recorder>),
    /// Nothing was started. The reason was printed; this is the exit code.
    Failed(u8),
}

/// Reports to the starting process that the program runs.
pub(super) fn report_start(entry: &Entry, mut start_pipe: File) {
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    // The starting process may be gone; 'nerve host list' shows the program.
    let _ = start_pipe.write_all(&line);
}

impl Recorder {
    /// Starts the recorder. `inherited` is a descriptor to pass on.
    pub(super) async fn start(size: Size, inherited: Option<u32>) -> Result<StartResult> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        let daemon = DaemonArgs { fd: u32::try_from(writer.as_raw_fd()).unwrap_or_default(), size };
        let keep: Vec<RawFd> = inherited.into_iter().filter_map(|fd| RawFd::try_from(fd).ok()).collect();
        let mut args = std::env::args_os();
        let mut command = Command::new(crate::current_exe::path()?);
        // Keeps the name of the program as it was called.
        command.arg0(args.next().unwrap_or_default()).args(insert_daemon_args(args, daemon));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(false);
        detach(&mut command, [keep, vec![writer.as_raw_fd()]].concat());
        let mut child = command.spawn().context("cannot start the recorder")?;
        drop(writer);
        let stderr_text = tokio::spawn(collect_stderr(child.stderr.take()));
        let entry_pipe =
            pipe::Receiver::from_owned_fd(reader.into()).context("cannot listen to the recorder")?;
        let mut line = String::new();
        let mut entry_pipe = BufReader::new(entry_pipe.take(MAX_ENTRY));
        let read = tokio::time::timeout(START_TIMEOUT, entry_pipe.read_line(&mut line)).await;
        let Ok(entry) = serde_json::from_str::<Entry>(&line) else {
            if read.is_err() || !line.is_empty() {
                // A recorder that failed to report must not start the program later.
                let _ = child.start_kill();
            }
            let status = child.wait().await.context("cannot wait for the recorder")?;
            return Ok(StartResult::Failed(exit_code(status, stderr_text).await?));
        };
        Ok(StartResult::Started(Box::new(Recorder { entry, child, stderr_text })))
    }

    /// Requests the program's end.
    pub(super) fn stop(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The child was not reaped, so its pid is still valid.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for the recorder's end, prints its messages and returns the program's exit code. A signal in `stop`
    /// ends the program.
    pub(super) async fn wait(mut self, stop: impl Future<Output = ()>) -> Result<u8> {
        let mut stop = pin!(stop);
        let mut stopped = false;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status.context("cannot wait for the recorder")?,
                () = &mut stop, if !stopped => {
                    stopped = true;
                    self.stop();
                }
            }
        };
        exit_code(status, self.stderr_text).await
    }
}

/// Inserts the recorder's arguments.
fn insert_daemon_args(args: impl Iterator<Item = OsString>, daemon: DaemonArgs) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    // Only subcommands precede the command's name.
    let command = args.iter().position(|arg| arg == "record").map_or(args.len(), |at| at + 1);
    args.splice(command..command, ["--daemon".into(), daemon.to_string().into()]);
    args
}

/// Returns the first bytes of standard error and drains the rest.
async fn collect_stderr(stderr: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut stderr_text = Vec::new();
    if let Some(mut stderr) = stderr {
        let _ = (&mut stderr).take(MAX_STDERR).read_to_end(&mut stderr_text).await;
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    }
    stderr_text
}

/// Prints the messages and returns the exit code.
async fn exit_code(status: ExitStatus, stderr_text: JoinHandle<Vec<u8>>) -> Result<u8> {
    if let Ok(Ok(stderr_text)) = tokio::time::timeout(STDERR_TIMEOUT, stderr_text).await {
        let _ = std::io::stderr().write_all(&stderr_text);
    }
    match status.code() {
        Some(code) => Ok(u8::try_from(code).unwrap_or(FAILED)),
        None => {
            let signal = signal_name(status.signal().unwrap_or_default());
            let message = format!("the recorder was killed by {signal}; its program lost its terminal");
            Err(Failure::new(FAILED, message)
                .hint("a recording contains all but the last 250 ms; close it with 'nerve recording repair'")
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorder_gets_the_same_arguments() {
        let daemon = DaemonArgs { fd: 5, size: Size::new(79, 23) };
        let with = |args: &[&str]| insert_daemon_args(args.iter().map(OsString::from), daemon);
        assert_eq!(
            with(&["record", "--out-file", "record", "--", "record"]),
            ["record", "--daemon", "5:79x23", "--out-file", "record", "--", "record"]
        );
        assert_eq!(
            with(&["agent", "record", "--", "x"]),
            ["agent", "record", "--daemon", "5:79x23", "--", "x"]
        );
        assert_eq!("5:79x23".parse(), Ok(daemon));
        assert!("5:79".parse::<DaemonArgs>().is_err());
    }
}
