//! Runs one call of the command line and interprets its errors.

use std::time::Duration;

use nerve_host::backend::PaneError;
use tokio::process::Command;

use super::ensure_built;
use crate::exec::CommandLine;

/// Name in messages.
pub(super) const NAME: &str = "wezterm";
/// The output limit is far above a full scrollback.
const WEZTERM: CommandLine =
    CommandLine { ensure_built, name: NAME, action: "run wezterm", output_limit: 32 << 20 };

/// Runs `command` for at most `timeout` and returns its output.
///
/// # Errors
/// NotInstalled, Timeout, and errors of the program.
pub(super) async fn run(command: Command, input: &[u8], timeout: Duration) -> Result<Vec<u8>, PaneError> {
    let output = WEZTERM.run(command, input, timeout).await?;
    if output.status.success() { Ok(output.stdout) } else { Err(parse_error(&output.stderr)) }
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
