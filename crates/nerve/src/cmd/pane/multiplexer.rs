//! A common interface to the command lines of tmux and WezTerm.

use std::time::Duration;

use anyhow::Result;
use nerve_host::backend::{PaneError, PaneInfo};
use nerve_mux::pane::NewPane;
use nerve_mux::tmux::{self, Tmux};
use nerve_mux::wezterm::{self, Wezterm};
use nerve_vt::keys::Key;
use nerve_vt::screen::Modes;
use tokio::time::Instant;

use crate::exit::{FAILED, Failure, NOT_FOUND, TIMED_OUT};

/// More rows than any scrollback has.
const ALL_ROWS: u32 = 1_000_000;
/// Time limit for a paste to appear before Enter is sent anyway.
const ECHO_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between reads of a pane.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A terminal multiplexer.
#[derive(Debug, Clone)]
pub(crate) enum Multiplexer {
    Tmux(Tmux),
    Wezterm(Wezterm),
}

impl Multiplexer {
    pub(crate) fn tmux(socket: Option<&str>) -> Multiplexer {
        Multiplexer::Tmux(Tmux::new(socket))
    }

    pub(crate) fn wezterm(socket: Option<&str>) -> Multiplexer {
        Multiplexer::Wezterm(Wezterm::new(socket.map(str::to_string)))
    }

    /// Selects the multiplexer by the form of a pane id: WezTerm's are numbers.
    pub(crate) fn for_pane(pane: &str, socket: Option<&str>) -> Multiplexer {
        let is_number = !pane.is_empty() && pane.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Multiplexer::wezterm(socket) } else { Multiplexer::tmux(socket) }
    }

    /// Returns the display name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Multiplexer::Tmux(_) => "tmux",
            Multiplexer::Wezterm(_) => "WezTerm",
        }
    }

    pub(crate) async fn list(&self) -> Result<Vec<PaneInfo>> {
        self.map_error(match self {
            Multiplexer::Tmux(tmux) => tmux.list().await,
            Multiplexer::Wezterm(wezterm) => wezterm.list().await,
        })
    }

    /// Creates a pane and returns its id.
    pub(crate) async fn spawn(&self, new: &NewPane) -> Result<String> {
        self.map_error(match self {
            Multiplexer::Tmux(tmux) => tmux.spawn(new).await,
            Multiplexer::Wezterm(wezterm) => wezterm.spawn(new).await,
        })
    }

    /// Returns the text of a pane: the last `lines` rows, everything if `full`, otherwise the screen.
    pub(crate) async fn text(&self, pane: &str, full: bool, lines: Option<u32>) -> Result<String> {
        self.map_error(match self {
            Multiplexer::Tmux(tmux) => {
                let range = match (lines, full) {
                    (Some(lines), _) => tmux::RowRange::Last(lines as usize),
                    (None, true) => tmux::RowRange::All,
                    (None, false) => tmux::RowRange::Screen,
                };
                tmux.text(pane, range).await
            }
            Multiplexer::Wezterm(wezterm) => wezterm_text(wezterm, pane, full, lines).await,
        })
    }

    /// Pastes text and waits until the pane changes, so that the program does not treat the next key as part of the
    /// paste.
    pub(crate) async fn paste(&self, pane: &str, text: &str) -> Result<()> {
        let before = self.text(pane, false, None).await?;
        self.map_error(match self {
            Multiplexer::Tmux(tmux) => tmux.paste(pane, text.as_bytes()).await,
            Multiplexer::Wezterm(wezterm) => wezterm.paste(pane, text.as_bytes()).await,
        })?;
        let deadline = Instant::now() + ECHO_TIMEOUT;
        // Blanks and passwords do not appear.
        while !text.trim().is_empty() && Instant::now() < deadline {
            if self.text(pane, false, None).await? != before {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Presses a key. Uses the default terminal modes, because the actual ones are unknown; programs accept this form
    /// in any mode.
    pub(crate) async fn press(&self, pane: &str, key: Key) -> Result<()> {
        let bytes = key.bytes(Modes::default());
        self.map_error(match self {
            Multiplexer::Tmux(tmux) => tmux.keys(pane, &bytes).await,
            Multiplexer::Wezterm(wezterm) => match wezterm::Keys::new(&bytes) {
                Some(keys) => wezterm.keys(pane, &keys).await,
                None => Ok(()),
            },
        })
    }

    pub(crate) async fn kill(&self, pane: &str) -> Result<()> {
        self.map_error(match self {
            Multiplexer::Tmux(tmux) => tmux.kill(pane).await,
            Multiplexer::Wezterm(wezterm) => wezterm.kill(pane).await,
        })
    }

    fn map_error<T>(&self, outcome: Result<T, PaneError>) -> Result<T> {
        outcome.map_err(|error| self.failure(&error).into())
    }

    fn failure(&self, error: &PaneError) -> Failure {
        let code = match error {
            PaneError::NoPane(_) | PaneError::NoServer(_) => NOT_FOUND,
            PaneError::Timeout(..) => TIMED_OUT,
            PaneError::NotBuilt(_)
            | PaneError::NotInstalled(_)
            | PaneError::TooOld { .. }
            | PaneError::Refused(_)
            | PaneError::System { .. } => FAILED,
        };
        let failure = Failure::new(code, error.to_string());
        let command = self.name().to_lowercase();
        match (error, self) {
            (PaneError::NoPane(_), _) => failure.hint(format!("list the panes: nerve {command} list")),
            (PaneError::NoServer(_), Multiplexer::Tmux(_)) => {
                failure.hint("start one with 'nerve tmux spawn', or select another with --socket")
            }
            (PaneError::NoServer(_), Multiplexer::Wezterm(_)) => failure.hint(
                "start WezTerm or 'wezterm-mux-server --daemonize', or select another server with --socket",
            ),
            (PaneError::NotBuilt(_), _) => {
                failure.hint(format!("install a build of nerve with the feature '{command}'"))
            }
            (PaneError::NotInstalled(_), _) => failure.hint("check this machine: nerve doctor"),
            (PaneError::TooOld { .. }, _) => failure.hint("install a newer one"),
            _ => failure,
        }
    }
}

async fn wezterm_text(
    wezterm: &Wezterm,
    pane: &str,
    full: bool,
    lines: Option<u32>,
) -> Result<String, PaneError> {
    let rows = wezterm.pane_info(pane).await?.rows;
    let range = match (lines, full) {
        (Some(lines), _) => wezterm::RowRange::with_scrollback(rows, lines.min(ALL_ROWS)),
        (None, true) => wezterm::RowRange::with_scrollback(rows, ALL_ROWS),
        (None, false) => wezterm::RowRange::screen(rows),
    };
    let text = wezterm.text(pane, range, false).await?;
    let rows: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    let from = lines.map_or(0, |lines| rows.len().saturating_sub(lines as usize));
    Ok(rows[from..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_pane_id_selects_wezterm() {
        assert_eq!(Multiplexer::for_pane("7", None).name(), "WezTerm");
        for pane in ["%3", "work:0.1", "", "work"] {
            assert_eq!(Multiplexer::for_pane(pane, None).name(), "tmux", "{pane}");
        }
    }

    #[test]
    fn errors_have_codes_and_hints() {
        let tmux = Multiplexer::tmux(None);
        let missing = tmux.failure(&PaneError::NoPane("%9".to_string()));
        assert!(missing.code == NOT_FOUND && missing.message.contains("%9"), "{}", missing.message);
        assert!(missing.hint.is_some_and(|hint| hint.contains("nerve tmux list")));
        let late = tmux.failure(&PaneError::Timeout("tmux", Duration::from_secs(1)));
        assert_eq!(late.code, TIMED_OUT);
        let not_built = tmux.failure(&PaneError::NotBuilt("tmux"));
        assert!(not_built.code == FAILED && not_built.message.contains("tmux"), "{}", not_built.message);
        assert!(not_built.hint.is_some_and(|hint| hint.contains("the feature 'tmux'")));
        let none = Multiplexer::wezterm(None).failure(&PaneError::NoServer("wezterm"));
        assert!(none.hint.is_some_and(|hint| hint.contains("wezterm-mux-server")));
    }
}
