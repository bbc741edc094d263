//! Web Push: messages to browsers whose page is closed.
//!
//! | module | contents |
//! |---|---|
//! | [`subscription`] | where a browser receives messages, and its keys |
//! | [`encryption`] | the encryption of a message for a browser (RFC 8291) |
//! | [`vapid`] | the key with which a server identifies itself to push services (RFC 8292) |
#![warn(missing_docs)]

pub mod encryption;
pub mod subscription;
pub mod vapid;
