//! Runs one call of the command line and interprets its errors.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use nerve_host::backend::PaneError;

/// Name in messages.
pub(super) const NAME: &str = "wezterm";
/// Limit of the output that is read, far above a full scrollback.
const OUTPUT_LIMIT: u64 = 32 * 1024 * 1024;

/// Runs `command` for at most `timeout` and returns its output. `what` names the action in errors.
///
/// # Errors
/// NotInstalled, Timeout, and errors of the program.
pub(super) async fn run(
    what: &'static str,
    mut command: Command,
    stdin: Option<&[u8]>,
    timeout: Duration,
) -> Result<Vec<u8>, PaneError> {
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => PaneError::NotInstalled(NAME),
        _ => PaneError::System { what: "run wezterm", error },
    })?;
    let ended = tokio::time::timeout(timeout, finish(child, stdin)).await;
    let output = ended.map_err(|_| PaneError::Timeout(NAME, timeout))?;
    let output = output.map_err(|error| PaneError::System { what, error })?;
    if output.status.success() { Ok(output.stdout) } else { Err(parse_error(&output.stderr)) }
}

async fn finish(mut child: Child, stdin: Option<&[u8]>) -> io::Result<Output> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let (Some(mut input), Some(bytes)) = (input, stdin) {
            // If it stops reading, its standard error has the reason.
            let _ = input.write_all(bytes).await;
            let _ = input.shutdown().await;
        }
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let read_output = async {
        match output {
            Some(output) => output.take(OUTPUT_LIMIT).read_to_end(&mut stdout).await,
            None => Ok(0),
        }
    };
    let read_errors = async {
        match errors {
            Some(errors) => errors.take(64 * 1024).read_to_end(&mut stderr).await,
            None => Ok(0),
        }
    };
    let ((), read, _) = tokio::join!(feed, read_output, read_errors);
    read?;
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

/// Parses an error: `HH:MM:SS.mmm  ERROR  wezterm > no such pane 999; terminating`.
fn parse_error(stderr: &[u8]) -> PaneError {
    let stderr = String::from_utf8_lossy(stderr);
    let line = stderr.lines().rfind(|line| line.contains("ERROR")).or_else(|| stderr.lines().last());
    let line = line.unwrap_or("failed without a message").trim();
    let message = line.split_once(" > ").map_or(line, |(_, message)| message);
    let message = message.trim_end_matches("; terminating").trim();
    if message.contains("failed to connect to") {
        return PaneError::NoServer(NAME);
    }
    let pane = |found: &str| found.chars().take_while(char::is_ascii_digit).collect::<String>();
    if let Some((_, id)) = message.split_once("no such pane ") {
        return PaneError::NoPane(pane(id));
    }
    if let Some(id) = message.strip_prefix("pane ").filter(|message| message.ends_with("not found")) {
        return PaneError::NoPane(pane(id));
    }
    PaneError::Refused(format!("wezterm: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stderr: &str) -> String {
        parse_error(stderr.as_bytes()).to_string()
    }

    #[test]
    fn classifies_error_messages() {
        assert_eq!(
            message("12:00:00.000  ERROR  wezterm > no such pane 999; terminating\n"),
            "no such pane: 999"
        );
        assert_eq!(
            message("12:00:00.000  ERROR  wezterm > pane 7 not found; terminating\n"),
            "no such pane: 7"
        );
        let connect =
            "12:00:00.000  ERROR  wezterm > failed to connect to Socket(\"/x\"): gone; terminating\n";
        assert_eq!(message(connect), "no wezterm server is running");
        assert_eq!(
            message("12:00:00.000  ERROR  wezterm > something else; terminating"),
            "wezterm: something else"
        );
        assert_eq!(message(""), "wezterm: failed without a message");
    }
}
