//! Who may come in over a network: a token that a client must know, and TLS where the way to it is not this machine's own.
//!
//! | module | what it is |
//! |---|---|
//! | [`token`] | the secret file, and the comparison |
//! | [`tls`] | certificate and key of a server |
//! | [`address`] | which addresses need TLS |
//! | `door` | who knows the token comes in; who does not is held off |
//! | `strangers` | who has not shown it yet; few, and the oldest goes first |
//! | `origin` | from which network a client comes |
//! | `notices` | what of all that is logged |

pub mod address;
mod door;
mod notices;
mod origin;
pub(crate) mod strangers;
pub mod tls;
pub mod token;

pub(crate) use door::{Door, Pass};
pub(crate) use notices::Notices;
pub(crate) use strangers::{Stranger, Strangers};
