//! Errors of starting a program, with a shell's exit codes.

use nerve_host::backend::SpawnError;

use crate::exit::{FAILED, Failure};

/// The file exists but cannot be executed (POSIX XCU 2.8.2).
const NOT_RUNNABLE: u8 = 126;
/// Command not found (POSIX XCU 2.8.2).
const NO_COMMAND: u8 = 127;

/// Converts the error of starting `argv`. `as_line`: the arguments that run a shell line instead.
pub(super) fn failure(error: &SpawnError, argv: &[String], as_line: &str) -> Failure {
    match error {
        SpawnError::NoProgram { .. } => Failure::new(NO_COMMAND, error.to_string()).hint(format!(
            "check the spelling and PATH; for a shell line with pipes or variables: {as_line}"
        )),
        SpawnError::NotExecutable { .. } => Failure::new(NOT_RUNNABLE, error.to_string()),
        _ => {
            let name = argv.first().map_or("", String::as_str);
            Failure::new(FAILED, format!("cannot start '{name}': {error}"))
        }
    }
}
