//! Backends: the sources and sinks of a terminal's bytes.

mod hosted;
mod pane_info;
pub mod pty;
mod pty_backend;
mod spawn;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use nerve_types::Foreground;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

pub use hosted::HostedBackend;
pub use pane_info::{PaneError, PaneInfo};
pub use pty_backend::PtyBackend;
pub use spawn::{Program, SpawnError};

/// A terminal with a program on it. Its bytes are stamped and have passed the taps before [`Backend::next`] reports them.
pub trait Backend: Send + 'static {
    /// Waits for the next event, and meanwhile sends queued input. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = BackendEvent> + Send;
    /// Returns the bytes of the last [`BackendEvent::Output`].
    fn output(&self) -> &[u8];
    /// Queues bytes for the program. Returns false and takes nothing if too much is queued or the program is gone.
    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool;
    /// Returns the bytes queued for the program.
    fn queued_input(&self) -> usize;
    /// Requests another size; [`BackendEvent::Resized`] confirms it.
    ///
    /// # Errors
    /// The size cannot be changed.
    fn resize(&mut self, now: TsNs, size: Size) -> io::Result<()>;
    /// Returns why [`BackendEvent::Resized`] may report another size than the requested one.
    fn resize_refusal(&self) -> Option<&'static str> {
        None
    }
    /// Signals the program's process group and the foreground process group.
    fn signal(&self, signal: Signal);
    /// Returns who has the foreground; see [`pty::Control::foreground`].
    fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground;
    /// Returns true if the terminal does not echo input, as at a password prompt.
    fn hides_input(&self) -> bool;
    /// Stores state for the next driver of this terminal.
    fn remember(&mut self, memory: &Memory);
    /// Returns true if keys were typed between the last [`Backend::remember`] of an earlier driver and the takeover.
    fn was_typed(&self) -> bool {
        false
    }
    /// Maximum time between [`BackendEvent::Exited`] and [`BackendEvent::Closed`].
    fn drain_time(&self) -> Duration;
    /// Returns the program's process id, if known.
    fn pid(&self) -> Option<i32>;
    /// Detaches from the terminal and leaves the program running. Returns false if that is impossible.
    fn release(&mut self) -> bool;

    /// Returns whether a prompt may be typed now. Another person may be typing into the same terminal and has precedence.
    fn lease(&mut self, _now: TsNs) -> Lease {
        Lease::Free
    }

    /// Reads the current text from the terminal's owner, all of it or the last `lines` rows. `None` if the terminal model is
    /// always current.
    fn live_text(&self, _lines: Option<usize>) -> Option<BoxFuture<io::Result<String>>> {
        None
    }

    /// Returns true if the output is reconstructed from screens: repeated output and no output look the same.
    fn is_approximate(&self) -> bool {
        false
    }

    /// Returns true if someone else started the program, so its earlier input is unknown.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Sets whether changes are polled frequently, because a turn may end.
    fn set_watchful(&mut self, _watchful: bool) {}

    /// Returns the location of the terminal for the node's info, as names and values. [`BackendEvent::PlaceChanged`] reports a
    /// change.
    fn place(&self) -> &[(&'static str, String)] {
        &[]
    }

    /// Performs one step of a stop: signals a program of ours, and detaches from any other.
    fn end(&mut self, signal: Signal) {
        self.signal(signal);
    }
}

/// A boxed future that can move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Permission to type input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// Granted.
    Free,
    /// Not known yet; [`BackendEvent::LeaseChanged`] follows.
    Pending,
    /// A person is typing. Check again at `until` or on [`BackendEvent::LeaseChanged`].
    Held {
        /// Holder of the lease, for messages.
        by: String,
        /// Time of the next check.
        until: TsNs,
    },
}

/// The state of a node that a later node over the same terminal cannot observe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The program has been ready once, so it is no longer starting.
    pub was_ready: bool,
    /// Output bytes when the program became ready last. It is still ready if it has written nothing since.
    pub ready_at: Option<u64>,
    /// The transcript of the agent's conversation, as named by its hooks.
    pub transcript: Option<PathBuf>,
    /// Id of the agent's conversation: as started, or as reported since.
    #[serde(rename = "agent_session", alias = "conversation_id")]
    pub conversation_id: Option<String>,
    /// The beginning of a prompt that may stand in the agent's composer because it was not submitted.
    pub unsent_prompt: Option<String>,
    /// Text of the prompt that a line-based program draws.
    pub drawn_prompt: Option<String>,
    /// Limits and usage of the node.
    pub budget: Option<serde_json::Value>,
    /// The last prompt and answer, and the tokens so far.
    pub progress: Option<serde_json::Value>,
}

/// An event of a backend. Output and size changes come in the order in which the taps received them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendEvent {
    /// The program wrote; [`Backend::output`] returns the bytes.
    Output,
    /// The size of the terminal from here on.
    Resized(Size),
    /// A snapshot was taken here.
    Snapshot(nerve_vt::terminal::Snapshot),
    /// The output is complete.
    Closed,
    /// The program ended.
    Exited(ExitStatus),
    /// Everything written before we attached has been reported.
    CaughtUp,
    /// Output up to this byte is not reported.
    Skipped(u64),
    /// The program is gone with an unknown exit status; the reason. The output is complete.
    Gone(String),
    /// [`Backend::place`] returns another value.
    PlaceChanged,
    /// [`Backend::lease`] may return another value.
    LeaseChanged,
    /// A non-fatal failure; the message.
    Fault(String),
    /// The terminal is lost; the reason. This is the last event.
    Lost(String),
}
