//! Who may come in over a network: a token that a client must know, and TLS where the way to it is not this machine's own.
//!
//! | module | what it is |
//! |---|---|
//! | [`token`] | the secret file, and the comparison |
//! | [`tls`] | certificate and key of a server |
//! | [`address`] | which addresses need TLS |
//! | `door` | who knows the token comes in; who does not is held off |

pub mod address;
mod door;
pub mod tls;
pub mod token;

pub(crate) use door::{Door, Stranger};
