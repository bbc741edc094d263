//! Errors about machines.

use std::fmt::Display;

use nerve_api::ErrorKind;
use nerve_client::{ClientError, SshError, SshErrorKind};

/// An error about a machine, or about the list of machines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MachineError {
    /// Kind of error.
    pub kind: ErrorKind,
    /// `what failed: why`.
    pub message: String,
    /// What helps, preferably a command to run.
    pub hint: Option<String>,
}

impl MachineError {
    /// Creates an error without a hint.
    pub fn new(kind: ErrorKind, message: impl Display) -> MachineError {
        MachineError { kind, message: message.to_string(), hint: None }
    }

    /// Sets the hint.
    pub fn hint(self, hint: impl Into<String>) -> MachineError {
        MachineError { hint: Some(hint.into()), ..self }
    }

    /// Adds the name of the machine, unless it is empty.
    pub(crate) fn about(self, name: &str) -> MachineError {
        match name {
            "" => self,
            _ => MachineError { message: format!("machine '{name}': {}", self.message), ..self },
        }
    }
}

impl From<ClientError> for MachineError {
    fn from(error: ClientError) -> MachineError {
        let message = error.to_string();
        match error {
            ClientError::Ssh(error) => MachineError::from(&*error),
            ClientError::Server(error) => MachineError {
                kind: error.details.error_type,
                message: error.message.clone(),
                hint: error.details.hint.clone(),
            },
            ClientError::NotRunning { .. } => MachineError::new(ErrorKind::NotFound, message),
            ClientError::Io { source, .. } if source.kind() == std::io::ErrorKind::TimedOut => {
                MachineError::new(ErrorKind::Timeout, message)
                    .hint("check that the machine is on and reachable")
            }
            // TLS reports an untrusted certificate as invalid data.
            ClientError::Io { source, .. } if source.kind() == std::io::ErrorKind::InvalidData => {
                MachineError::new(ErrorKind::Authentication, message).hint(
                    "if the machine has its own certificate, copy it here, and add the machine again with --ca FILE",
                )
            }
            ClientError::Closed(_) | ClientError::Io { .. } => MachineError::new(ErrorKind::Network, message)
                .hint("check there that a server listens at the address: nerve server status"),
            ClientError::Protocol(_) => MachineError::new(ErrorKind::InvalidRequest, message)
                .hint("check the address, and the file of --ca: nerve machine list"),
        }
    }
}

impl From<&SshError> for MachineError {
    fn from(error: &SshError) -> MachineError {
        MachineError::new(kind_of(error.kind), error).hint(error.hint())
    }
}

/// Returns the kind of a failed connection through ssh.
fn kind_of(kind: SshErrorKind) -> ErrorKind {
    match kind {
        SshErrorKind::NotInstalled | SshErrorKind::NerveOutdated | SshErrorKind::Failed => ErrorKind::Process,
        SshErrorKind::HostKey | SshErrorKind::Authentication => ErrorKind::Authentication,
        SshErrorKind::Unreachable => ErrorKind::Network,
        SshErrorKind::TimedOut => ErrorKind::Timeout,
        SshErrorKind::NerveMissing | SshErrorKind::NotRunning => ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn untrusted_certificate_and_absent_listener_have_hints() {
        let error = |kind: io::ErrorKind| {
            MachineError::from(ClientError::Io { action: "x".to_string(), source: kind.into() })
        };
        let untrusted = error(io::ErrorKind::InvalidData);
        assert_eq!(untrusted.kind, ErrorKind::Authentication);
        assert!(untrusted.hint.unwrap().contains("--ca"));
        let absent = error(io::ErrorKind::ConnectionRefused);
        assert_eq!(absent.kind, ErrorKind::Network);
        assert!(absent.hint.unwrap().contains("nerve server status"));
    }
}
