//! The error of the viewer and the player.

use std::io;

use nerve_record::ahr::AhrError;

/// Reason why a program or a recording cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal cannot be taken.
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    /// The terminal does not accept output.
    #[error("cannot write")]
    Write(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    /// The host of a program does not answer.
    #[error("the program's terminal does not answer")]
    Handshake(#[source] io::Error),
    /// The connection to a host failed.
    #[error(transparent)]
    Host(io::Error),
    /// Standard output does not accept output.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// No profile matches the program.
    #[error("no profile fits the program")]
    NoProfile,
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] AhrError),
}
