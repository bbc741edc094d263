//! Access over a network: authentication by token, and TLS.
//!
//! | module | contents |
//! |---|---|
//! | [`token`] | the token file, and the comparison in constant time |
//! | [`tls`] | certificate and key of a server |
//! | [`address`] | which addresses need TLS |
//! | `auth` | authentication, with delayed answers to wrong tokens |
//! | `log_limit` | rate limit for log lines |
//! | `secret` | random secrets and their digests |

pub mod address;
mod auth;
mod log_limit;
pub(crate) mod secret;
pub mod tls;
pub mod token;

pub(crate) use auth::{Authenticator, Credential, wait_for_revocation};
pub(crate) use log_limit::LogLimiter;
