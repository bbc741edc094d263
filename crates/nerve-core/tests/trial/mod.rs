//! What nerve does with a real agent, tried on the agent itself: one scenario for all of them, each with no human, a home of its own and
//! the scripted model API on loopback. The tests of this crate, the benchmark `agents` and through it `cargo xtask agents` share it.

mod harness;
mod scenario;
mod table;
mod variants;

pub(crate) use scenario::try_out;
pub(crate) use table::table;
pub(crate) use variants::{WAYS, Way};

use std::time::Duration;

/// What an agent is tried for, in the order in which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Started with no human, it comes to be ready.
    Start,
    /// A short answer, word for word.
    Short,
    /// An answer of 300 lines, each of them.
    Long,
    /// A tool that needs no permission.
    Tool,
    /// A permission is asked, told with its choices, given, and the turn goes on.
    Permission,
    /// 300 lines arrive at the model as they were pasted.
    Paste,
    /// A long answer is interrupted, and the next prompt answered.
    Interrupt,
    /// An error of the API is no success.
    ApiError,
    /// Its own end is noticed.
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

    /// Its column in the table.
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

/// How a behaviour turned out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As it should be.
    Done,
    /// Less than it should be, and the reply says so.
    Partly(String),
    /// What went wrong.
    Failed(String),
    /// Something before it failed for good.
    NotTried,
}

/// What came of one agent.
#[derive(Debug)]
pub(crate) struct Row {
    /// Of what.
    pub(crate) way: &'static Way,
    /// The version the agent names.
    pub(crate) version: String,
    /// In the order of [`Behaviour::ALL`].
    pub(crate) verdicts: Vec<(Behaviour, Verdict)>,
    /// How long what took.
    pub(crate) times: Times,
}

/// Times of one agent, each of the short answers a value of its own.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From the start of the program to its being ready.
    pub(crate) ready: Vec<Duration>,
    /// From the prompt given to nerve to the first byte of the agent's request at the model.
    pub(crate) submit: Vec<Duration>,
    /// From the model's last byte to the reply of nerve.
    pub(crate) reply: Vec<Duration>,
}

impl Row {
    /// What is not as it should be, for people.
    pub(crate) fn faults(&self) -> Vec<String> {
        let fault = |(behaviour, verdict): &(Behaviour, Verdict)| match verdict {
            Verdict::Done => None,
            Verdict::Partly(why) => Some(format!("{}: partly: {why}", behaviour.title())),
            Verdict::Failed(why) => Some(format!("{}: {why}", behaviour.title())),
            Verdict::NotTried => Some(format!("{}: not tried", behaviour.title())),
        };
        self.verdicts.iter().filter_map(fault).collect()
    }
}
