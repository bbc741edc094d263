//! Machines: computers that run nerve servers, each reached through ssh or TLS.
//!
//! | module | content |
//! |---|---|
//! | [`machine`] | a machine: its name, its address and what a connection needs |
//! | [`machines`] | the user's list of machines, its file, and the time of the last contact |
//! | [`address`] | `MACHINE/SESSION/NODE`, and servers named by a URL |
//! | [`connect`] | connections to one machine, or to all in parallel |
//! | [`doctor`] | the steps of a connection, checked one by one |
//! | [`bridge`] | `nerve connect`: the standard streams as a connection to a server |
//! | [`recordings`] | copies of recordings of other machines |
//! | [`relay`] | requests and events of other programs, over one connection to each machine |
//! | [`error`] | the error of all these |
#![warn(missing_docs)]

pub mod address;
pub mod bridge;
pub mod connect;
pub mod doctor;
pub mod error;
pub mod machine;
pub mod machines;
pub mod recordings;
pub mod relay;

pub use error::MachineError;
pub use machine::Machine;
pub use machines::Machines;
