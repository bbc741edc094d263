//! A command that could not be started: exit codes as those of shells.

use nerve_core::backend::SpawnError;

use crate::exit::{FAILED, Failure};

/// As a shell has it: there is such a file, and it cannot be run (POSIX XCU 2.8.2).
const NOT_RUNNABLE: u8 = 126;
/// As a shell has it: no such command.
const NO_COMMAND: u8 = 127;

/// Why `argv` does not run. `as_line`: how a line for a shell is given.
pub(super) fn failure(error: &SpawnError, argv: &[String], as_line: &str) -> Failure {
    match error {
        SpawnError::NoProgram { .. } => Failure::new(NO_COMMAND, error.to_string()).hint(format!(
            "look at its spelling and at PATH; a line with pipes or variables is for a shell: {as_line}"
        )),
        SpawnError::NotExecutable { .. } => Failure::new(NOT_RUNNABLE, error.to_string()),
        _ => {
            let name = argv.first().map_or("", String::as_str);
            Failure::new(FAILED, format!("'{name}' was not started: {error}"))
        }
    }
}
