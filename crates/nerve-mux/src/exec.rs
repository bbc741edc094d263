//! Runs the command line of a multiplexer: one short-lived process per call, with limits for its time and output.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use nerve_host::backend::PaneError;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Limit of the standard error that is read.
const STDERR_LIMIT: u64 = 64 << 10;

/// The command line of a multiplexer.
#[derive(Debug)]
pub(crate) struct MultiplexerCli {
    /// Fails in a build without the multiplexer's feature.
    pub(crate) ensure_built: fn() -> Result<(), PaneError>,
    /// Name in errors, also of the program in PATH.
    pub(crate) name: &'static str,
    /// The action in errors of the system: `run NAME`.
    pub(crate) action: &'static str,
    /// Limit of the output that is read.
    pub(crate) output_limit: u64,
}

impl MultiplexerCli {
    /// Starts a command whose output and standard error are read.
    ///
    /// # Errors
    /// NotBuilt, NotInstalled, System.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Child, PaneError> {
        (self.ensure_built)()?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PaneError::NotInstalled(self.name),
            _ => self.system_error(error),
        })
    }

    /// Runs a command to its end, for at most `timeout`.
    ///
    /// # Errors
    /// NotBuilt, NotInstalled, Timeout, System. A command that fails is not an error.
    pub(crate) async fn run(
        &self,
        mut command: Command,
        input: &[u8],
        timeout: Duration,
    ) -> Result<Output, PaneError> {
        command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut child = self.spawn(&mut command)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let exchange = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // If it stops reading, its standard error has the reason.
                    let _ = stdin.write_all(input).await;
                }
                Ok(())
            };
            let ((), stdout, stderr) =
                tokio::try_join!(write, read(stdout, self.output_limit), read(stderr, STDERR_LIMIT))?;
            Ok(Output { status: child.wait().await?, stdout, stderr })
        };
        let ended = tokio::time::timeout(timeout, exchange).await;
        let output = ended.map_err(|_| PaneError::Timeout(self.name, timeout))?;
        output.map_err(|error| self.system_error(error))
    }

    /// Returns the error of a failed system call.
    pub(crate) fn system_error(&self, error: io::Error) -> PaneError {
        PaneError::System { action: self.action, error }
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
