//! Tells what a node's agent does: its status, its dialogs, what failed, and what its transcript says.
//!
//! | the node | status told |
//! |---|---|
//! | starts | provisioning |
//! | busy | running |
//! | ready, blocked by a dialog, suspended by a limit | paused: nothing goes on until somebody says something, or the limit ends |
//! | is being stopped | stopping |
//! | was stopped | cancelled |
//! | its program ended by itself, with 0 | completed |
//! | with another code, by a signal, or nobody knows how | failed |
//!
//! Of an agent without a transcript that we can read, tools, thoughts and errors are told at the end of a turn, as its screen showed
//! them: the screen does not say when each of them happened.
//!
//! A status is told when it is another one than the last. A node that a new server takes back tells nothing until its state is known.

use std::path::PathBuf;

use nerve_record::activity::{Activity, Level, Status, TsMs};
use nerve_term::driver::AgentState;
use nerve_term::event::{ExitStatus, TsNs};
use nerve_term::parse::{Section, SectionKind};
use nerve_term::profile::TranscriptKind;

use crate::activity::Tail;
use crate::clock::Clock;
use crate::command::{EventKind, NodeRef};
use crate::events::Publisher;
use crate::executions::Noter;
use crate::node::terminal::TerminalSpec;

/// What was told of a node, and the eye on its transcript.
pub(super) struct Telling {
    node: NodeRef,
    events: Publisher,
    status: Option<Status>,
    /// The dialog that was told last, while it stands there.
    dialog: Option<String>,
    tail: Option<Tail>,
    /// Lists what the agent runs, beside its recording.
    noter: Option<Noter>,
}

impl Telling {
    pub(super) fn new(spec: &TerminalSpec, noter: Option<Noter>, clock: Clock, now: TsNs) -> Telling {
        let (node, events) = (spec.node.clone(), spec.events.clone());
        let tail = spec.profile.transcript.map(|TranscriptKind::Claude| {
            let (node, events, noter) = (node.clone(), events.clone(), noter.clone());
            let tell = move |activity| {
                noter.iter().for_each(|noter| noter.note(&activity));
                events.publish(Some(&node), EventKind::Activity(Box::new(activity)));
            };
            Tail::new(clock, now.into(), tell)
        });
        let mut telling = Telling { node, events, status: None, dialog: None, tail, noter };
        if spec.adopted.is_none() {
            telling.status(now, Status::Provisioning);
        }
        telling
    }

    /// The terminal has written so much.
    pub(super) fn reached(&self, offset: u64) {
        self.noter.iter().for_each(|noter| noter.reached(offset));
    }

    /// The driver has another opinion of the program.
    pub(super) fn state(&mut self, now: TsNs, state: &AgentState) {
        match state {
            AgentState::Busy => self.status(now, Status::Running),
            AgentState::Ready => self.status(now, Status::Paused),
            AgentState::Blocked { .. } | AgentState::Suspended { .. } => self.status(now, Status::Paused),
            AgentState::Starting | AgentState::Exited(_) => {}
        }
        let dialog = dialog(state);
        if let Some(dialog) = dialog.clone().filter(|dialog| self.dialog.as_ref() != Some(dialog)) {
            self.warn(now, dialog);
        }
        self.dialog = dialog;
    }

    pub(super) fn stopping(&mut self, now: TsNs) {
        self.status(now, Status::Stopping);
    }

    /// It is over. What the transcript still says comes first. Reads a file: for a task that has nothing else to do any more.
    pub(super) fn ended(&mut self, now: TsNs, exit: ExitStatus, was_stopped: bool) {
        if let Some(tail) = self.tail.take() {
            tail.finish();
        }
        self.status(
            now,
            match exit {
                _ if was_stopped => Status::Cancelled,
                ExitStatus::Code(0) => Status::Completed,
                _ => Status::Failed,
            },
        );
    }

    pub(super) fn warn(&self, now: TsNs, message: String) {
        self.tell(Activity::Log { level: Level::Warn, message, execution: None, at: TsMs::from(now) });
    }

    /// The agent keeps its record of the conversation here.
    pub(super) fn transcript_at(&self, path: PathBuf) {
        if let Some(tail) = &self.tail {
            tail.at(path);
        }
    }

    /// What the screen showed of a finished turn; nothing where a transcript tells it.
    pub(super) fn shown(&self, now: TsNs, turn: u64, sections: &[Section]) {
        if self.tail.is_some() {
            return;
        }
        let told = sections.iter().enumerate();
        let told: Vec<Activity> =
            told.flat_map(|(nth, section)| activities(now, turn, nth + 1, section)).collect();
        if let Some(noter) = self.noter.clone() {
            let told = told.clone();
            tokio::task::spawn_blocking(move || told.iter().for_each(|activity| noter.note(activity)));
        }
        told.into_iter().for_each(|activity| self.tell(activity));
    }

    /// The eye on the transcript, for tasks that find one.
    pub(super) fn tail(&self) -> Option<Tail> {
        self.tail.clone()
    }

    fn status(&mut self, now: TsNs, status: Status) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.tell(Activity::Status { status, at: TsMs::from(now) });
        }
    }

    fn tell(&self, activity: Activity) {
        self.events.publish(Some(&self.node), EventKind::Activity(Box::new(activity)));
    }
}

/// What a section of a screen tells of the `nth` thing that was done in a turn.
fn activities(now: TsNs, turn: u64, nth: usize, section: &Section) -> Vec<Activity> {
    let (at, text) = (TsMs::from(now), section.content.clone());
    let fact = |key: &str| section.metadata.get(key).cloned().unwrap_or_default();
    match section.kind {
        SectionKind::Thinking => vec![Activity::Thought { text, reasoning: None, at }],
        SectionKind::Error => vec![Activity::Error { message: text, at }],
        SectionKind::ToolCall => {
            // Screens name no runs.
            let execution = format!("turn-{turn}-{nth}");
            let status = match fact("status").as_str() {
                "error" => Status::Failed,
                "rejected" => Status::Cancelled,
                "running" | "waiting" | "asking" | "pending" => Status::Running,
                _ => Status::Completed,
            };
            let start = Activity::ToolStart {
                name: fact("tool"),
                args: fact("args"),
                execution: execution.clone(),
                status: Status::Running,
                at,
            };
            vec![start, Activity::ToolOutput { name: fact("tool"), output: text, execution, status, at }]
        }
        SectionKind::Text | SectionKind::Interrupted => Vec::new(),
    }
}

/// What keeps the agent from going on, in words.
fn dialog(state: &AgentState) -> Option<String> {
    match state {
        AgentState::Blocked { kind, choices } if choices.is_empty() => {
            Some(format!("it asks something ({})", kind.as_str()))
        }
        AgentState::Blocked { kind, choices } => {
            let choices = choices.iter().enumerate().map(|(at, choice)| format!("{}. {choice}", at + 1));
            Some(format!("it asks ({}): {}", kind.as_str(), choices.collect::<Vec<_>>().join(", ")))
        }
        AgentState::Suspended { .. } => Some(match state.until_text() {
            Some(until) => format!("a usage limit holds it up until {until}"),
            None => "a usage limit holds it up".to_string(),
        }),
        AgentState::Starting | AgentState::Ready | AgentState::Busy | AgentState::Exited(_) => None,
    }
}
