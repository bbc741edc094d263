//! Where bytes come from and go to.

pub mod pty;
mod spawn;
mod system;

pub use spawn::{Program, SpawnError};
