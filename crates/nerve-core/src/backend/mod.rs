//! Where a terminal's bytes come from and go to.

mod hosted;
mod in_process;
pub mod pty;
mod spawn;
pub(crate) mod system;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nerve_term::driver::Foreground;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

pub use hosted::Hosted;
pub use in_process::InProcess;
pub use spawn::{Program, SpawnError};
pub(crate) use system::{no_descriptors, watch};

/// A terminal with a program on it: owns the bytes in both directions. Bytes are stamped and have passed the taps before they
/// come out of [`Backend::next`].
pub trait Backend: Send + 'static {
    /// Waits for what happens next, and meanwhile writes what waits for the program. May be dropped and called again: nothing
    /// is lost.
    fn next(&mut self) -> impl Future<Output = Happened> + Send;
    /// The bytes of the last [`Happened::Output`].
    fn output(&self) -> &[u8];
    /// Queues bytes for the program. `false` if too much waits already, or nobody is there to read: nothing was taken.
    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool;
    /// Bytes that wait for the program.
    fn waiting(&self) -> usize;
    /// Asks for another size; [`Happened::Resized`] tells when it counts.
    ///
    /// # Errors
    /// What the system says.
    fn resize(&mut self, now: TsNs, size: Size) -> io::Result<()>;
    /// Signals the program's process group and whatever group has the terminal.
    fn signal(&self, signal: Signal);
    /// Who has the terminal; see [`pty::Control::foreground`].
    fn foreground(&self, closely: bool, kin: &[String]) -> Foreground;
    /// What is typed now is not shown: a password is asked for.
    fn hides_input(&self) -> bool;
    /// Keeps this for whoever drives the terminal after us.
    fn remember(&mut self, memory: &Memory);
    /// How long [`Happened::Closed`] may come after [`Happened::Exited`].
    fn drain_time(&self) -> Duration;
    /// The program's process id, where it is known.
    fn pid(&self) -> Option<i32>;
    /// The node is left, the program is not: it goes on without us. `false` if it cannot.
    fn release(&mut self) -> bool;
}

/// What a node knows that the next one over the same terminal cannot see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The program has been ready once: it is not starting any more.
    pub was_ready: bool,
    /// The agent's own record of the conversation, as its hooks named it.
    pub transcript: Option<PathBuf>,
}

/// What can happen at a backend. Output and sizes come in the order in which the taps got them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The program wrote; [`Backend::output`] has the bytes.
    Output,
    /// The terminal has another size from here on.
    Resized(Size),
    /// A snapshot was taken here.
    Snapshot(nerve_term::terminal::Snapshot),
    /// There is no more output.
    Closed,
    /// The program ended.
    Exited(ExitStatus),
    /// Everything that came before we did has been told: what comes now is new.
    CaughtUp,
    /// Something failed that the terminal outlives; in words.
    Fault(String),
    /// The terminal is lost with what drove it; in words. Nothing comes after this.
    Lost(String),
}
