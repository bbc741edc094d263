//! Whether this process has a terminal on which it can draw.

use std::io::{self, IsTerminal};

use crate::exit::{Failure, USAGE};

/// A terminal that only writes lines, one below the other (terminfo(5), the entry `dumb`): Emacs' shell, some consoles of build systems.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Somebody sits in front of a terminal that can be drawn on.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb()
}

/// Refuses where nothing can be drawn. `what`: for a sentence, "… needs a terminal"; `instead`: what to do.
pub(super) fn needed(what: &str, instead: &str) -> Result<(), Failure> {
    if is_there() {
        return Ok(());
    }
    let message = match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => format!("{what} needs a terminal that it can draw on, and TERM is 'dumb'"),
        false => format!("{what} needs a terminal, for output and for keys"),
    };
    Err(Failure::new(USAGE, message).hint(instead))
}
