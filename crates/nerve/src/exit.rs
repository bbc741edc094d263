//! Exit codes, and errors as people and programs see them.

use std::fmt;

use nerve_client::ClientError;
use nerve_core::error::{EngineError, ErrorKind};
use nerve_server::error::ServerError;
use nerve_term::event::ExitStatus;
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::low_level::emulate_default_handler;

/// Done.
pub(crate) const DONE: u8 = 0;
/// It failed.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// There is no such server, node, session or entry.
pub(crate) const NOT_FOUND: u8 = 3;
/// Not done in time.
pub(crate) const TIMED_OUT: u8 = 4;
/// A dialog of the agent must be answered first.
pub(crate) const BLOCKED: u8 = 5;
/// Ctrl+C.
pub(crate) const INTERRUPTED: u8 = 130;

/// What went wrong, to what, and what to do; decides the exit code.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    /// One of the constants above.
    pub(crate) code: u8,
    /// What happened, to what.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// What the terminal showed, where that explains it.
    pub(crate) screen: Option<String>,
    /// The choices of the dialog that blocks.
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

    /// Finds the most telling error in a chain.
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
            code: code_of(error.kind.as_str()),
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
                code: code_of(&error.error_type),
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

/// The exit code of an `error_type` (see [`ErrorKind::as_str`]).
pub(crate) fn code_of(error_type: &str) -> u8 {
    let is = |kind: ErrorKind| kind.as_str() == error_type;
    if is(ErrorKind::NotFound) {
        NOT_FOUND
    } else if is(ErrorKind::Timeout) {
        TIMED_OUT
    } else if is(ErrorKind::Blocked) {
        BLOCKED
    } else if is(ErrorKind::InvalidRequest) {
        USAGE
    } else {
        FAILED
    }
}

/// How a program has ended, as a shell gives it: 128 and the number of the signal that ended it.
pub(crate) fn shell_code(exit: ExitStatus) -> u8 {
    let code = match exit {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
        ExitStatus::Unknown => i32::from(FAILED),
    };
    u8::try_from(code).unwrap_or(FAILED)
}

/// What a signal is called: `SIGHUP`. Those that are for a program's own use are called by their number.
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

/// Somebody interrupted this process and the program in it, which has ended by that (SIGINT): this process ends the same way once all is given
/// back. A shell takes any exit code for a program that has dealt with it, and goes on with its loop or its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// By a signal, which others had too if it was for them.
    Signalled,
    /// By Ctrl+C in a terminal that was raw: nobody but us knows of it.
    Typed,
}

impl Interrupted {
    /// Ends this process by SIGINT. By a key, so is told who the terminal would have told: the whole process group.
    pub(crate) fn terminate(self) -> u8 {
        if self == Interrupted::Typed {
            // Listened for as it is, this one does nothing to ourselves.
            let _ = kill_current_process_group(Signal::INT);
        }
        // Comes back only where the signal cannot be had.
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

/// What comes of a program that has ended, if this process was interrupted meanwhile: an error if it ended by that, else its exit code.
///
/// # Errors
/// [`Interrupted`].
pub(crate) fn program_exit_code(
    exit: ExitStatus,
    interrupted: Option<Interrupted>,
) -> Result<u8, Interrupted> {
    match interrupted {
        Some(interrupted) if exit == ExitStatus::Signal(Signal::INT.as_raw()) => Err(interrupted),
        _ => Ok(shell_code(exit)),
    }
}

/// The reader of our standard output went away (`nerve … | head`): that ends the command, and is no failure.
#[derive(Debug)]
pub(crate) struct BrokenPipe;

impl std::error::Error for BrokenPipe {}

impl fmt::Display for BrokenPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output any more")
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
    fn only_what_an_interrupt_has_ended_ends_us_by_it() {
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
    fn the_failure_is_found_under_its_context() {
        let error = anyhow::Error::new(Failure::new(NOT_FOUND, "no node 'x'")).context("while looking");
        assert_eq!(Failure::from_error(&error).message, "no node 'x'");
        let other = anyhow::Error::new(io::Error::other("disk")).context("cannot read f");
        assert_eq!(Failure::from_error(&other).message, "cannot read f: disk");
    }
}
