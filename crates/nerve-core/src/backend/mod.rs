//! Where a terminal's bytes come from and go to.

mod hosted;
pub(crate) mod os;
pub mod pane;
pub mod pty;
mod pty_backend;
mod spawn;
pub mod tmux;
mod tty;
pub mod wezterm;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use nerve_term::driver::Foreground;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

pub use hosted::HostedBackend;
pub use os::detach;
pub(crate) use os::{close_descriptors, watch};
pub use pty_backend::PtyBackend;
pub use spawn::{Program, SpawnError};

/// A terminal with a program on it: owns the bytes in both directions. Bytes are stamped and have passed the taps before they
/// come out of [`Backend::next`].
pub trait Backend: Send + 'static {
    /// Waits for what happens next, and meanwhile writes what waits for the program. May be dropped and called again: nothing
    /// is lost.
    fn next(&mut self) -> impl Future<Output = BackendEvent> + Send;
    /// The bytes of the last [`BackendEvent::Output`].
    fn output(&self) -> &[u8];
    /// Queues bytes for the program. `false` if too much waits already, or nobody is there to read: nothing was taken.
    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool;
    /// Bytes that wait for the program.
    fn waiting(&self) -> usize;
    /// Asks for another size; [`BackendEvent::Resized`] tells when it counts.
    ///
    /// # Errors
    /// What the system says.
    fn resize(&mut self, now: TsNs, size: Size) -> io::Result<()>;
    /// Why [`BackendEvent::Resized`] can tell another size than the one that was asked for, where that is a refusal.
    fn resize_refusal(&self) -> Option<&'static str> {
        None
    }
    /// Signals the program's process group and whatever group has the terminal.
    fn signal(&self, signal: Signal);
    /// Who has the terminal; see [`pty::Control::foreground`].
    fn foreground(&self, closely: bool, kin: &[String]) -> Foreground;
    /// What is typed now is not shown: a password is asked for.
    fn hides_input(&self) -> bool;
    /// Keeps this for whoever drives the terminal after us.
    fn remember(&mut self, memory: &Memory);
    /// How long [`BackendEvent::Closed`] may come after [`BackendEvent::Exited`].
    fn drain_time(&self) -> Duration;
    /// The program's process id, where it is known.
    fn pid(&self) -> Option<i32>;
    /// The node is left, the program is not: it goes on without us. `false` if it cannot.
    fn release(&mut self) -> bool;

    /// May a prompt be typed now? Somebody else may be typing into the same terminal, and theirs goes first.
    fn lease(&mut self, _now: TsNs) -> Lease {
        Lease::Free
    }

    /// All text as its owner has it, or the last `lines` rows, where what we know of it can be older (seed REQ-N7: always fresh).
    /// `None`: what was modelled is all there is.
    fn live_text(&self, _lines: Option<usize>) -> Option<BoxFuture<io::Result<String>>> {
        None
    }

    /// A turn may end at any moment, or it may not: where changes have to be looked for, how often they are.
    fn set_watchful(&mut self, _watchful: bool) {}

    /// Where the terminal is now, as told in the node's info: names and values. [`BackendEvent::PlaceChanged`] tells when it is another place.
    fn place(&self) -> &[(&'static str, String)] {
        &[]
    }

    /// Makes the pane the one that a person who looks at its window sees and types into. `None` where there is no pane.
    fn focus(&self) -> Option<BoxFuture<Result<(), pane::PaneError>>> {
        None
    }

    /// What its multiplexer tells of the pane. `None` where there is no pane.
    fn pane_info(&self) -> Option<BoxFuture<Result<pane::PaneInfo, pane::PaneError>>> {
        None
    }

    /// What [`BackendEvent::FinalScreen`] told is not what the output has made: what is missing comes as output.
    fn emit_final_screen(&mut self) {}

    /// Ends what a stop is to end. Signals for a program of our own; a pane that we made is closed, one that was there before us is
    /// only left.
    fn end(&mut self, signal: Signal) {
        self.signal(signal);
    }
}

/// A boxed future that can move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Who may type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// We may.
    Free,
    /// Not known yet: [`BackendEvent::LeaseChanged`] comes when it is.
    Pending,
    /// Somebody else does, in words. It is to be asked again then, or at [`BackendEvent::LeaseChanged`].
    Held {
        /// Who, and how that is known.
        by: String,
        /// When to ask again.
        until: TsNs,
    },
}

/// What a node knows that the next one over the same terminal cannot see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The program has been ready once: it is not starting any more.
    pub was_ready: bool,
    /// The agent's own record of the conversation, as its hooks named it.
    pub transcript: Option<PathBuf>,
    /// Id of the agent's own conversation: as it was started with, or as it said since.
    pub agent_session: Option<String>,
}

/// What can happen at a backend. Output and sizes come in the order in which the taps got them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendEvent {
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
    /// What comes next is at this output byte: what was before it is not told.
    Skipped(u64),
    /// The program is gone, and how it ended cannot be had; in words. There is no more output.
    Gone(String),
    /// What [`Backend::place`] answers is another now.
    PlaceChanged,
    /// The program is gone, and its terminal's owner shows this: if we show something else, [`Backend::emit_final_screen`] is to be called.
    FinalScreen(String),
    /// What [`Backend::lease`] answers may be another now.
    LeaseChanged,
    /// Something failed that the terminal outlives; in words.
    Fault(String),
    /// The terminal is lost with what drove it; in words. Nothing comes after this.
    Lost(String),
}
