//! Exit codes, and the errors that the commands report.

use std::fmt;

use nerve_client::ClientError;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_server::error::ServerError;
use nerve_types::ExitStatus;
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::low_level::emulate_default_handler;

/// Success.
pub(crate) const DONE: u8 = 0;
/// Failure.
pub(crate) const FAILED: u8 = 1;
/// Invalid command line or request.
pub(crate) const USAGE: u8 = 2;
/// Server, node, session or entry not found.
pub(crate) const NOT_FOUND: u8 = 3;
/// Timeout.
pub(crate) const TIMED_OUT: u8 = 4;
/// A dialog of the agent blocks the node.
pub(crate) const BLOCKED: u8 = 5;
/// Interrupted by Ctrl+C (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

/// An error of a command, with its exit code and a hint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    /// Exit code: one of the constants above.
    pub(crate) code: u8,
    /// `what failed: why`.
    pub(crate) message: String,
    /// Hint on how to solve the problem, preferably a command to run.
    pub(crate) hint: Option<String>,
    /// The node's screen, if it explains the error.
    pub(crate) screen: Option<String>,
    /// The choices of the blocking dialog.
    pub(crate) choices: Vec<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), ..Failure::default() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Converts the first error in the chain that has an exit code of its own; other chains become a [`FAILED`] error.
    pub(crate) fn from_error(error: &anyhow::Error) -> Failure {
        for cause in error.chain() {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return failure.clone();
            }
            if let Some(error) = cause.downcast_ref::<ServerError>() {
                let usage = matches!(error, ServerError::Name(_) | ServerError::NeedsTls { .. });
                let code = if usage { USAGE } else { FAILED };
                return Failure { hint: error.hint(), ..Failure::new(code, error.to_string()) };
            }
            if let Some(error) = cause.downcast_ref::<ClientError>() {
                return Failure::from(error);
            }
            if let Some(error) = cause.downcast_ref::<EngineError>() {
                return Failure::from(error.clone());
            }
        }
        Failure::new(FAILED, format!("{error:#}"))
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure {
            code: code_of(error.kind),
            message: error.message,
            hint: error.hint,
            screen: error.screen,
            choices: error.choices.into(),
        }
    }
}

impl From<&ClientError> for Failure {
    fn from(error: &ClientError) -> Failure {
        match error {
            ClientError::Server(error) => Failure {
                code: code_of(error.error_type),
                message: error.message.clone(),
                hint: error.hint.clone(),
                screen: error.screen.clone(),
                choices: error.choices.clone(),
            },
            ClientError::NotRunning { .. } => Failure::new(NOT_FOUND, error.to_string()),
            ClientError::Closed(_) | ClientError::Io { .. } | ClientError::Protocol(_) => {
                Failure::new(FAILED, error.to_string())
            }
        }
    }
}

/// Returns the exit code of a kind of error.
pub(crate) fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Timeout => TIMED_OUT,
        ErrorKind::Blocked => BLOCKED,
        ErrorKind::InvalidRequest => USAGE,
        _ => FAILED,
    }
}

/// Returns the shell's exit code for a program: its own, or 128 plus the signal's number.
pub(crate) fn shell_code(exit: ExitStatus) -> u8 {
    let code = match exit {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
        ExitStatus::Unknown => i32::from(FAILED),
    };
    u8::try_from(code).unwrap_or(FAILED)
}

/// Returns the name of a signal, such as `SIGHUP`, or `signal N` for one without a standard name.
pub(crate) fn signal_name(number: i32) -> String {
    let named = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let name = named.iter().find(|(signal, _)| signal.as_raw() == number);
    name.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_string())
}

/// SIGINT ended the program in this process. After cleaning up, this process must end by SIGINT too: a shell that sees
/// an exit code assumes that the program handled the signal, and continues its loop or script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// A signal that the whole process group received.
    Signalled,
    /// Ctrl+C in a raw terminal: only this process noticed it.
    Typed,
}

impl Interrupted {
    /// Ends this process by SIGINT. After a key press, first signals the process group, as a cooked terminal would
    /// have.
    pub(crate) fn terminate(self) -> u8 {
        if self == Interrupted::Typed {
            // This process handles SIGINT, so its own copy has no effect.
            let _ = kill_current_process_group(Signal::INT);
        }
        // Returns only if the default handler cannot be restored.
        let _ = emulate_default_handler(Signal::INT.as_raw());
        INTERRUPTED
    }
}

impl std::error::Error for Interrupted {}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
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

/// The reader of standard output closed it (`nerve … | head`). This ends the command successfully.
#[derive(Debug)]
pub(crate) struct BrokenPipe;

impl std::error::Error for BrokenPipe {}

impl fmt::Display for BrokenPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn error_kinds_have_their_exit_codes() {
        let code = |kind| Failure::from(EngineError::new(kind, "x")).code;
        assert_eq!(code(ErrorKind::NotFound), 3);
        assert_eq!(code(ErrorKind::Timeout), 4);
        assert_eq!(code(ErrorKind::Blocked), 5);
        assert_eq!(code(ErrorKind::InvalidRequest), 2);
        assert_eq!(code(ErrorKind::Delivery), 1);
        assert_eq!(code(ErrorKind::Internal), 1);
    }

    #[test]
    fn only_sigint_with_interrupt_terminates_process() {
        let typed = Some(Interrupted::Typed);
        assert_eq!(program_exit_code(ExitStatus::Signal(2), typed), Err(Interrupted::Typed));
        assert_eq!(program_exit_code(ExitStatus::Signal(2), None), Ok(130));
        assert_eq!(program_exit_code(ExitStatus::Signal(15), typed), Ok(143));
        assert_eq!(program_exit_code(ExitStatus::Code(130), typed), Ok(130));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!((signal_name(1), signal_name(15)), ("SIGHUP".into(), "SIGTERM".into()));
        assert_eq!(signal_name(40), "signal 40");
    }

    #[test]
    fn failure_is_found_under_context() {
        let error = anyhow::Error::new(Failure::new(NOT_FOUND, "no node 'x'")).context("while looking");
        assert_eq!(Failure::from_error(&error).message, "no node 'x'");
        let other = anyhow::Error::new(io::Error::other("disk")).context("cannot read f");
        assert_eq!(Failure::from_error(&other).message, "cannot read f: disk");
    }
}
