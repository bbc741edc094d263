//! Errors of the broker.

/// Error of JetStream: it is temporarily unavailable, because its cluster has no leader.
const NO_LEADER: u32 = 10_008;

/// An error of the broker, or of the way to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// No response within the deadline, or no connection. A write may take effect, even later.
    #[error("the broker is unavailable: {0}")]
    Unavailable(String),
    /// The broker does not accept the credentials.
    #[error("the broker refused the credentials: {0}")]
    Authentication(String),
    /// The address, or a file for TLS, is invalid.
    #[error("cannot connect to the broker: {0}")]
    Configuration(String),
    /// The stream does not exist, or JetStream is disabled.
    #[error("the broker has no stream {0}")]
    NoStream(String),
    /// The stream or the disk is full. The write had no effect.
    #[error("the broker is full: {0}")]
    Full(String),
    /// Another message is the last of the subject. The write had no effect.
    #[error("another message is the last of the subject")]
    WrongSequence,
    /// Records of a journal that the broker had acknowledged are gone.
    #[error("the broker lost records of the journal")]
    LostRecords,
    /// JetStream refused the request.
    #[error("the broker refused the request: {description} (error {code})")]
    Refused {
        /// JetStream's number of the error.
        code: u32,
        /// JetStream's sentence.
        description: String,
    },
    /// A message or a reply has another form than expected.
    #[error("invalid message from the broker: {0}")]
    Invalid(String),
}

impl BrokerError {
    /// Returns true if the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, BrokerError::Unavailable(_) | BrokerError::Full(_))
    }

    /// Returns true for the errors of a broker that has just started, too: its streams are not loaded, or its cluster has no leader.
    pub fn is_startup(&self) -> bool {
        matches!(self, BrokerError::NoStream(_) | BrokerError::Refused { code: NO_LEADER, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_stream_and_leader_are_errors_of_the_startup() {
        let refused = |code| BrokerError::Refused { code, description: String::new() };
        for error in [BrokerError::NoStream("s".into()), refused(NO_LEADER)] {
            assert!(error.is_startup() && !error.is_temporary(), "{error}");
        }
        assert!(!refused(10_003).is_startup());
        assert!(!BrokerError::WrongSequence.is_startup());
    }
}
