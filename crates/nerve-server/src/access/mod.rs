//! Who may come in over a network: a token that a client must know, and TLS where the way to it is not this machine's own.
//!
//! | module | what it is |
//! |---|---|
//! | [`token`] | the secret file, and the comparison |
//! | [`tls`] | certificate and key of a server |
//! | [`address`] | which addresses need TLS |
//! | `auth` | who knows the token comes in; who does not is held off |
//! | `preauth_limit` | who has not shown it yet; few, and the oldest goes first |
//! | `subnet` | from which network a client comes |
//! | `log_limit` | what of all that is logged |

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
