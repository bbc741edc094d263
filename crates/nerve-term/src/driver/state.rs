//! The states of an agent and what they rest on (design section 5).

use crate::event::{ExitStatus, TsNs};
use crate::profile::BlockKind;

/// What an agent does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// It runs and has not been ready yet.
    Starting,
    /// It waits for a prompt.
    Ready,
    /// It works.
    Busy,
    /// It asks something a prompt must not answer.
    Blocked {
        /// What it asks.
        kind: BlockKind,
        /// The answers it offers, top to bottom; empty where they could not be read.
        choices: Vec<String>,
    },
    /// It has hit a usage limit and waits for its end.
    Suspended {
        /// When that is, where it says so in a way that can be told.
        until: Option<TsNs>,
    },
    /// It is gone.
    Exited(ExitStatus),
}

impl AgentState {
    /// When a suspended agent goes on, ISO 8601 in UTC to the second.
    pub fn until_text(&self) -> Option<String> {
        let AgentState::Suspended { until: Some(until) } = self else { return None };
        let time = jiff::Timestamp::from_nanosecond(i128::from(until.0)).ok()?;
        Some(format!("{time:.0}"))
    }
}

/// Kinds of signals, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The child's end.
    Exit,
    /// A hook of the agent itself.
    Hook,
    /// Shell integration marks (OSC 133).
    Mark,
    /// The window title.
    Title,
    /// The terminal's foreground process group.
    Foreground,
    /// The live region of the screen.
    Screen,
    /// Silence.
    Quiet,
    /// What we did ourselves: a prompt was just sent.
    Input,
}

impl Source {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Exit => "exit",
            Source::Hook => "hook",
            Source::Mark => "mark",
            Source::Title => "title",
            Source::Foreground => "foreground",
            Source::Screen => "screen",
            Source::Quiet => "quiet",
            Source::Input => "input",
        }
    }
}

/// What a state rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Which signal decided.
    pub source: Source,
    /// The signal in words.
    pub text: String,
    /// Output bytes of the terminal when it was seen.
    pub offset: u64,
    /// When it was seen.
    pub at: TsNs,
}

/// How far a prompt is proved to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// It was written to the terminal.
    Typed,
    /// It was seen to leave the composer (or Enter went with it, where there is none).
    Submitted,
    /// The agent was seen to work on it.
    Started,
}

impl Delivery {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Delivery::Typed => "typed",
            Delivery::Submitted => "submitted",
            Delivery::Started => "started",
        }
    }
}

/// Who reads the terminal's keys now, as the operating system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Foreground {
    /// Not known.
    #[default]
    Unknown,
    /// The program itself, and it sleeps.
    Idle,
    /// The program itself, and it is running.
    Awake,
    /// Another process group.
    Other,
}
