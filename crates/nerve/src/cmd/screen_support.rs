//! Checks whether this process has a terminal for full-screen output.

use std::io::{self, IsTerminal};

use crate::exit::{Failure, USAGE};

/// Returns true for a terminal without cursor movement (terminfo(5), the entry `dumb`), such as Emacs' shell.
pub(super) fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Returns true if standard input and output are a terminal with cursor movement.
pub(super) fn is_available() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb_terminal()
}

/// Fails unless full-screen output is possible. `feature` is the subject of "… needs a terminal", `alternative` is the hint.
pub(super) fn require(feature: &str, alternative: &str) -> Result<(), Failure> {
    if is_available() {
        return Ok(());
    }
    let message = match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => format!("{feature} needs a terminal with cursor movement: TERM is 'dumb'"),
        false => format!("{feature} needs a terminal for input and output"),
    };
    Err(Failure::new(USAGE, message).hint(alternative))
}
