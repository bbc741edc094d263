//! One scenario for all real agents, each in its own home and against the scripted model API on loopback. Shared by the tests of
//! this crate, the benchmark `agents` and, through it, `cargo xtask agents`.

mod harness;
mod scenario;
mod table;
mod variants;

pub(crate) use scenario::run_scenario;
pub(crate) use table::table;
pub(crate) use variants::{VARIANTS, Variant};

use std::time::Duration;

/// The behaviours to test, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// The agent starts and becomes ready.
    Start,
    /// A short answer is returned verbatim.
    Short,
    /// An answer of 300 lines is complete.
    Long,
    /// A tool runs without permission.
    Tool,
    /// A permission request is reported with its choices and answered; the turn continues.
    Permission,
    /// A paste of 300 lines reaches the model unchanged.
    Paste,
    /// A long answer is interrupted, and the next prompt is answered.
    Interrupt,
    /// An API error is reported as a failure.
    ApiError,
    /// The agent's exit is detected.
    Exit,
}

impl Behaviour {
    pub(crate) const ALL: [Behaviour; 9] = [
        Behaviour::Start,
        Behaviour::Short,
        Behaviour::Long,
        Behaviour::Tool,
        Behaviour::Permission,
        Behaviour::Paste,
        Behaviour::Interrupt,
        Behaviour::ApiError,
        Behaviour::Exit,
    ];

    /// Returns the column title in the table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Behaviour::Start => "start",
            Behaviour::Short => "short answer",
            Behaviour::Long => "long answer",
            Behaviour::Tool => "tool",
            Behaviour::Permission => "permission",
            Behaviour::Paste => "large paste",
            Behaviour::Interrupt => "interrupt",
            Behaviour::ApiError => "API error",
            Behaviour::Exit => "exit",
        }
    }
}

/// The result of a behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As expected.
    Passed,
    /// Incomplete, as stated by the reply.
    Partial(String),
    /// The reason of the failure.
    Failed(String),
    /// An earlier behaviour failed and the agent did not recover.
    NotTried,
}

/// The results of one agent.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) variant: &'static Variant,
    /// Version reported by the agent.
    pub(crate) version: String,
    /// In the order of [`Behaviour::ALL`].
    pub(crate) verdicts: Vec<(Behaviour, Verdict)>,
    pub(crate) times: Times,
}

/// Durations of one agent; one value for each short answer.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From the start of the program to its ready state.
    pub(crate) ready: Vec<Duration>,
    /// From submission of the prompt to the first byte of the agent's request at the model.
    pub(crate) submit: Vec<Duration>,
    /// From the model's last byte to the reply of nerve.
    pub(crate) reply: Vec<Duration>,
}

impl Row {
    /// Describes all behaviours that did not pass.
    pub(crate) fn faults(&self) -> Vec<String> {
        let fault = |(behaviour, verdict): &(Behaviour, Verdict)| match verdict {
            Verdict::Passed => None,
            Verdict::Partial(reason) => Some(format!("{}: partial: {reason}", behaviour.title())),
            Verdict::Failed(reason) => Some(format!("{}: {reason}", behaviour.title())),
            Verdict::NotTried => Some(format!("{}: not tried", behaviour.title())),
        };
        self.verdicts.iter().filter_map(fault).collect()
    }
}
