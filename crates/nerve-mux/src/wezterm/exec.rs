//! Runs one call of the command line and interprets its errors.

use std::time::Duration;

use nerve_host::backend::PaneError;
use tokio::process::Command;

use super::ensure_built;
use crate::exec::MultiplexerCli;

/// Name in messages.
pub(super) const NAME: &str = "wezterm";
/// The output limit is far above a full scrollback.
const WEZTERM: MultiplexerCli =
    MultiplexerCli { ensure_built, name: NAME, action: "run wezterm", output_limit: 32 << 20 };

/// Runs `command` for at most `timeout` and returns its output.
///
/// # Errors
/// NotInstalled, Timeout, and errors of the program.
pub(super) async fn run(command: Command, input: &[u8], timeout: Duration) -> Result<Vec<u8>, PaneError> {
    let output = WEZTERM.run(command, input, timeout).await?;
    if output.status.success() { Ok(output.stdout) } else { Err(parse_error(&output.stderr)) }
}

/// Parses an error: `HH:MM:SS.mmm  ERROR  wezterm > MESSAGE; terminating`. The message may be wrapped in a debug format.
fn parse_error(stderr: &[u8]) -> PaneError {
    let stderr = String::from_utf8_lossy(stderr);
    let line = stderr.lines().rfind(|line| line.contains("ERROR")).or_else(|| stderr.lines().last());
    let line = line.unwrap_or("failed without a message").trim();
    let message = line.split_once(" > ").map_or(line, |(_, message)| message);
    let message = message.trim_end_matches("; terminating").trim();
    // A server that dies during the call causes the second message.
    if ["failed to connect to", "decoding response pdu"].iter().any(|words| message.contains(words)) {
        return PaneError::NoServer(NAME);
    }
    for (before, after) in [("no such pane ", ""), ("pane ", " not found"), ("pane_id ", " invalid")] {
        let rest = message.split_once(before).map_or("", |(_, rest)| rest);
        let id: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if !id.is_empty() && rest[id.len()..].starts_with(after) {
            return PaneError::NoPane(id);
        }
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
        let wrapped = r#"12:00:00.000  ERROR  wezterm > unexpected response Ok(ErrorResponse(ErrorResponse { reason: "Error: no such pane 9" })); terminating"#;
        assert_eq!(message(wrapped), "no such pane: 9");
        assert_eq!(message("12:00:00.000  ERROR  wezterm > pane_id 8 invalid"), "no such pane: 8");
        let died = "12:00:00.000  ERROR  wezterm > Error while decoding response pdu: reading leb128: EOF; terminating";
        assert_eq!(message(died), "no wezterm server is running");
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
