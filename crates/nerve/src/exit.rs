//! Converts errors and exit statuses of programs to exit codes, and ends this process by a signal.

pub(crate) use nerve_commands::failure::{
    DONE, FAILED, Failure, INTERRUPTED, NOT_FOUND, TIMED_OUT, USAGE, exit_code_of,
};
use nerve_server::error::ServerError;
use nerve_tui::stdio_relay::Interrupted;
use nerve_types::ExitStatus;
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::low_level::emulate_default_handler;

/// Converts an error to its message, exit code and hint, including errors of a server's files and addresses.
pub(crate) fn failure(error: &anyhow::Error) -> Failure {
    match error.chain().find_map(|cause| cause.downcast_ref::<ServerError>()) {
        Some(error) => {
            let is_usage = matches!(error, ServerError::Name(_) | ServerError::NeedsTls { .. });
            let code = if is_usage { USAGE } else { FAILED };
            Failure { hint: error.hint(), ..Failure::new(code, error.to_string()) }
        }
        None => Failure::from_error(error),
    }
}

/// Returns the shell's exit code for a program: its own, or 128 plus the signal's number.
pub(crate) fn shell_code(exit: ExitStatus) -> u8 {
    exit.shell_code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Ends this process by SIGINT. After a key press, first signals the process group, as a cooked terminal would have.
pub(crate) fn terminate(interrupted: Interrupted) -> u8 {
    if interrupted == Interrupted::Typed {
        // This process handles SIGINT, so its own copy has no effect.
        let _ = kill_current_process_group(Signal::INT);
    }
    // Returns only if the default handler cannot be restored.
    let _ = emulate_default_handler(Signal::INT.as_raw());
    INTERRUPTED
}

/// Returns the exit code of a program that has ended.
///
/// # Errors
/// [`Interrupted`] if the program was ended by an interrupt of this process.
pub(crate) fn program_exit_code(
    exit: ExitStatus,
    interrupted: Option<Interrupted>,
) -> Result<u8, Interrupted> {
    match interrupted {
        Some(interrupted) if exit == ExitStatus::Signal(Signal::INT.as_raw()) => Err(interrupted),
        _ => Ok(shell_code(exit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sigint_with_interrupt_terminates_process() {
        let typed = Some(Interrupted::Typed);
        assert_eq!(program_exit_code(ExitStatus::Signal(2), typed), Err(Interrupted::Typed));
        assert_eq!(program_exit_code(ExitStatus::Signal(2), None), Ok(130));
        assert_eq!(program_exit_code(ExitStatus::Signal(15), typed), Ok(143));
        assert_eq!(program_exit_code(ExitStatus::Code(130), typed), Ok(130));
    }
}
