//! Options of a connection to the broker.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Options of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// URLs of the servers, `nats://HOST:PORT` or `tls://HOST:PORT`. The client chooses one, and another if that fails.
    pub servers: Vec<String>,
    /// Proof of identity.
    pub credentials: Credentials,
    /// PEM file with the certificate authorities to trust, instead of the system's.
    pub ca: Option<PathBuf>,
    /// PEM files of this client's certificate and key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Name of this client in the broker's lists.
    pub client_name: String,
    /// Limit of each call.
    pub deadline: Duration,
}

/// Proof of identity. Its debug form has no secrets.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Credentials {
    /// No proof, or a certificate.
    #[default]
    None,
    /// A token.
    Token {
        /// The token.
        token: String,
    },
    /// A user of the broker.
    Password {
        /// Name of the user.
        user: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => f.write_str("None"),
            Credentials::Token { .. } => f.write_str("Token(…)"),
            Credentials::Password { user, .. } => write!(f, "Password({user}, …)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Credentials;

    #[test]
    fn debug_form_has_no_secrets() {
        let password = Credentials::Password { user: "ann".into(), password: "hunter2".into() };
        let token = Credentials::Token { token: "hunter2".into() };
        let text = format!("{password:?} {token:?}");
        assert!(text.contains("ann") && !text.contains("hunter2"), "{text}");
    }
}
