//! Errors that commands report, with their exit codes.

use std::fmt;

use nerve_api::value::Delivery;
use nerve_client::{ClientError, ServerError};
use nerve_machine::MachineError;
use nerve_node::error::{EngineError, ErrorKind};
use serde::Serialize;

/// Success.
pub const DONE: u8 = 0;
/// Failure.
pub const FAILED: u8 = 1;
/// Invalid command line or request.
pub const USAGE: u8 = 2;
/// Server, node, session or entry not found.
pub const NOT_FOUND: u8 = 3;
/// Timeout.
pub const TIMED_OUT: u8 = 4;
/// A dialog of the agent blocks the node.
pub const BLOCKED: u8 = 5;
/// There is no proof that the prompt arrived.
pub const NOT_DELIVERED: u8 = 6;
/// The agent showed no work and no answer.
pub const NO_ANSWER: u8 = 7;
/// The answer is known or suspected to be incomplete.
pub const INCOMPLETE: u8 = 8;
/// The agent or its model's API reported an error, or the connection to the API failed.
pub const API_ERROR: u8 = 9;
/// Interrupted by Ctrl+C, or the turn was interrupted (128 + SIGINT).
pub const INTERRUPTED: u8 = 130;

/// Names of request fields and requests in the engine's hints, with the option or command that replaces each.
const TERMS: [(&str, &str); 17] = [
    ("at", "--at"),
    ("dir", "--dir"),
    ("force", "--force"),
    ("in_place", "--in-place"),
    ("limit", "--limit"),
    ("no_files", "--no-files"),
    ("no_proxy", "--no-proxy"),
    ("proxy", "--proxy"),
    ("recording", "--recording"),
    ("snapshot_id", "--id"),
    ("target_id", "--node"),
    ("to", "--to"),
    ("LIST_BRANCHES", "nerve recording branches"),
    ("LIST_NODES", "nerve ls"),
    ("LIST_RECORDINGS", "nerve recording list"),
    ("LIST_SNAPSHOTS", "nerve snapshot list"),
    ("TAKE_SNAPSHOT", "nerve snapshot"),
];

/// An error of a command, with its exit code and a hint.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Failure {
    /// Exit code: one of the constants above.
    pub code: u8,
    /// `what failed: why`.
    #[serde(rename = "error")]
    pub message: String,
    /// Kind of error.
    pub error_type: ErrorKind,
    /// Hint on how to solve the problem, preferably a command to run.
    pub hint: Option<String>,
    /// The node's screen, if it explains the error.
    pub screen: Option<String>,
    /// The choices of the blocking dialog.
    pub choices: Vec<String>,
    /// Delivery of the prompt.
    pub delivery: Option<Delivery>,
    /// The part of the answer that arrived before the turn failed.
    pub text: Option<Box<str>>,
}

impl Failure {
    /// Creates an error without a hint.
    pub fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), error_type: kind_of_exit_code(code), ..Failure::default() }
    }

    /// Creates the error of a command that Ctrl+C or a signal ended.
    pub fn interrupted() -> Failure {
        Failure::new(INTERRUPTED, "interrupted")
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Replaces the exit code of a model's API by [`FAILED`]: a connection to a server or a machine failed in the same way.
    pub fn without_model(self) -> Failure {
        Failure { code: if self.code == API_ERROR { FAILED } else { self.code }, ..self }
    }

    /// Converts the first error in the chain that has an exit code of its own; other chains become a [`FAILED`] error.
    pub fn from_error(error: &anyhow::Error) -> Failure {
        for cause in error.chain() {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return failure.clone();
            }
            if let Some(error) = cause.downcast_ref::<ClientError>() {
                return Failure::from(error);
            }
            if let Some(error) = cause.downcast_ref::<MachineError>() {
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
            code: exit_code_of(error.kind),
            message: error.message,
            error_type: error.kind,
            hint: error.hint.as_deref().map(replace_terms),
            screen: error.screen,
            choices: error.choices.into(),
            delivery: error.delivery,
            text: error.text,
        }
    }
}

impl From<&MachineError> for Failure {
    fn from(error: &MachineError) -> Failure {
        let MachineError { kind, message, hint } = error.clone();
        let failure =
            Failure { code: exit_code_of(kind), error_type: kind, message, hint, ..Failure::default() };
        failure.without_model()
    }
}

impl From<&ServerError> for Failure {
    fn from(ServerError { message, details, .. }: &ServerError) -> Failure {
        Failure {
            code: exit_code_of(details.error_type),
            message: message.clone(),
            error_type: details.error_type,
            hint: details.hint.as_deref().map(replace_terms),
            screen: details.screen.clone(),
            choices: details.choices.clone(),
            delivery: details.delivery,
            text: details.text.as_deref().map(Box::from),
        }
    }
}

impl From<&ClientError> for Failure {
    fn from(error: &ClientError) -> Failure {
        match error {
            ClientError::Server(error) => Failure::from(&**error),
            ClientError::NotRunning { .. } => Failure::new(NOT_FOUND, error.to_string()),
            ClientError::Ssh(error) => Failure::from(&MachineError::from(&**error)),
            ClientError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Failure::new(FAILED, error.to_string())
                    .hint("it belongs to another user: unset NERVE_HOME, or set it to a directory of yours")
            }
            ClientError::Closed(_) | ClientError::Io { .. } | ClientError::Protocol(_) => {
                Failure::new(FAILED, error.to_string())
            }
        }
    }
}

/// Replaces the names of fields and requests in a hint of the engine, such as `` `to` ``, by options and commands.
fn replace_terms(hint: &str) -> String {
    TERMS.iter().fold(hint.to_string(), |hint, (term, option)| hint.replace(&format!("`{term}`"), option))
}

/// Returns the exit code of a kind of error.
pub fn exit_code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Timeout => TIMED_OUT,
        ErrorKind::Blocked => BLOCKED,
        ErrorKind::InvalidRequest => USAGE,
        ErrorKind::Delivery => NOT_DELIVERED,
        ErrorKind::NoAnswer => NO_ANSWER,
        ErrorKind::Incomplete => INCOMPLETE,
        ErrorKind::Api
        | ErrorKind::Authentication
        | ErrorKind::Permission
        | ErrorKind::RateLimit
        | ErrorKind::Network => API_ERROR,
        ErrorKind::Interrupted | ErrorKind::Cancelled => INTERRUPTED,
        _ => FAILED,
    }
}

/// Returns the kind of an error that has only an exit code.
fn kind_of_exit_code(code: u8) -> ErrorKind {
    match code {
        USAGE => ErrorKind::InvalidRequest,
        NOT_FOUND => ErrorKind::NotFound,
        TIMED_OUT => ErrorKind::Timeout,
        BLOCKED => ErrorKind::Blocked,
        NOT_DELIVERED => ErrorKind::Delivery,
        NO_ANSWER => ErrorKind::NoAnswer,
        INCOMPLETE => ErrorKind::Incomplete,
        API_ERROR => ErrorKind::Api,
        INTERRUPTED => ErrorKind::Interrupted,
        _ => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io;

    use super::*;

    #[test]
    fn error_kinds_have_their_exit_codes() {
        let code = |kind| Failure::from(EngineError::new(kind, "x")).code;
        assert_eq!(code(ErrorKind::NotFound), 3);
        assert_eq!(code(ErrorKind::Timeout), 4);
        assert_eq!(code(ErrorKind::Blocked), 5);
        assert_eq!(code(ErrorKind::InvalidRequest), 2);
        assert_eq!(code(ErrorKind::Delivery), 6);
        assert_eq!(code(ErrorKind::NoAnswer), 7);
        assert_eq!(code(ErrorKind::Incomplete), 8);
        assert_eq!(code(ErrorKind::Interrupted), 130);
        assert_eq!(code(ErrorKind::Cancelled), 130);
        for kind in [
            ErrorKind::Api,
            ErrorKind::Authentication,
            ErrorKind::Permission,
            ErrorKind::RateLimit,
            ErrorKind::Network,
        ] {
            assert_eq!(code(kind), 9, "{kind}");
            let machine = MachineError::new(kind, "x");
            assert_eq!(Failure::from(&machine).code, 1, "{kind} of a connection to a machine");
        }
        assert_eq!(code(ErrorKind::Process), 1);
        assert_eq!(code(ErrorKind::Internal), 1);
    }

    #[test]
    fn failed_turns_have_distinct_exit_codes() {
        let kinds = [
            ErrorKind::Api,
            ErrorKind::NoAnswer,
            ErrorKind::Delivery,
            ErrorKind::Interrupted,
            ErrorKind::Incomplete,
        ];
        let codes: BTreeSet<u8> = kinds.into_iter().map(exit_code_of).collect();
        assert_eq!(codes.len(), kinds.len());
        assert!(!codes.contains(&FAILED) && !codes.contains(&DONE));
    }

    #[test]
    fn exit_codes_have_their_error_kinds() {
        let codes = [
            USAGE,
            NOT_FOUND,
            TIMED_OUT,
            BLOCKED,
            NOT_DELIVERED,
            NO_ANSWER,
            INCOMPLETE,
            API_ERROR,
            INTERRUPTED,
            FAILED,
        ];
        for code in codes {
            assert_eq!(exit_code_of(Failure::new(code, "x").error_type), code);
        }
    }

    #[test]
    fn hints_name_options_instead_of_request_fields() {
        let error = EngineError::process("x").hint("use `no_files`, or `LIST_SNAPSHOTS`: `other`");
        let hint = Failure::from(error).hint.unwrap();
        assert_eq!(hint, "use --no-files, or nerve snapshot list: `other`");
    }

    #[test]
    fn failure_is_found_under_context() {
        let error = anyhow::Error::new(Failure::new(NOT_FOUND, "no node 'x'")).context("while looking");
        assert_eq!(Failure::from_error(&error).message, "no node 'x'");
        let other = anyhow::Error::new(io::Error::other("disk")).context("cannot read f");
        assert_eq!(Failure::from_error(&other).message, "cannot read f: disk");
    }
}
