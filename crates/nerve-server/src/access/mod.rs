//! Access over a network: authentication by token, TLS, and limits for unauthenticated clients.
//!
//! | module | contents |
//! |---|---|
//! | [`token`] | the token file, and the comparison in constant time |
//! | [`tls`] | certificate and key of a server |
//! | [`address`] | which addresses need TLS |
//! | `auth` | authentication, with delayed answers to wrong tokens |
//! | `preauth_limit` | limits connections that are not authenticated yet |
//! | `subnet` | the network that a client counts for |
//! | `log_limit` | rate limit for log lines |

pub mod address;
mod auth;
mod log_limit;
pub(crate) mod preauth_limit;
mod subnet;
pub mod tls;
pub mod token;

pub(crate) use auth::{Authenticator, Credential};
pub(crate) use log_limit::LogLimiter;
pub(crate) use preauth_limit::{PreauthLimiter, PreauthSlot};
