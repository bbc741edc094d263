//! Reports the activities of a node's agent: its status, dialogs, failures, and the contents of its transcript.
//!
//! | the node | reported status |
//! |---|---|
//! | starts | provisioning |
//! | is busy | running |
//! | is ready, blocked by a dialog, or suspended by a limit | paused |
//! | is being stopped | stopping |
//! | was stopped | cancelled |
//! | ended by itself with exit code 0 | completed |
//! | ended by itself with another code, by a signal, or in an unknown way | failed |
//!
//! If the agent has no readable transcript, tools, thoughts and errors are reported at the end of a turn, as parsed from the
//! screen. The screen does not show when each of them happened.
//!
//! Only changes of the status are reported. A node that a new server takes over reports nothing until its state is known.

use std::path::PathBuf;
use std::sync::Arc;

use nerve_agent::driver::AgentState;
use nerve_agent::parse::{Section, SectionKind};
use nerve_api::event::EventKind;
use nerve_api::reply::{ModelTokens, ModelUsage};
use nerve_api::request::NodeRef;
use nerve_host::clock::Clock;
use nerve_record::activity::{Activity, Level, Status, TsMs};
use nerve_record::executions::log::ExecutionLog;
use nerve_transcript::{Location, TranscriptTail};
use nerve_types::token_usage::TokenUsage;
use nerve_types::{ExitStatus, TsNs};
use parking_lot::Mutex;

use crate::events::Publisher;
use crate::terminal::spec::TerminalSpec;

use super::turn_meter::TurnMeter;

/// Maximum number of models that are counted separately.
const MAX_MODELS: usize = 32;

/// Publishes activities and remembers the last reported state.
pub(super) struct ActivityReporter {
    node: NodeRef,
    events: Publisher,
    status: Option<Status>,
    /// The last dialog reported, while it is open.
    dialog: Option<String>,
    /// The agent's deviation from its profile, as reported last.
    mismatch: Option<String>,
    tail: Option<TranscriptTail>,
    /// Tokens of all responses reported so far, by model.
    models: Arc<Mutex<Vec<ModelTokens>>>,
    meter: TurnMeter,
    /// The list of executions next to the recording.
    execution_log: Option<ExecutionLog>,
}

impl ActivityReporter {
    pub(super) fn new(
        spec: &TerminalSpec,
        execution_log: Option<ExecutionLog>,
        clock: Clock,
        now: TsNs,
    ) -> ActivityReporter {
        let (node, events) = (spec.node.clone(), spec.events.clone());
        let models = Arc::new(Mutex::new(Vec::new()));
        let totals = Arc::clone(&models);
        let meter = TurnMeter::default();
        let turn_meter = meter.clone();
        let tail = spec.profile.transcript.map(|kind| {
            let (node, events, execution_log) = (node.clone(), events.clone(), execution_log.clone());
            // A proxy counts the responses itself, with their costs.
            let ledger = spec.proxy.is_none().then(|| spec.ledger.clone());
            let publish = move |activity| {
                if let Some(response) = response_tokens(&activity) {
                    if let Some(ledger) = &ledger {
                        let cost_usd = ledger.add_response(&response, None);
                        turn_meter.record(
                            activity.at(),
                            &ModelUsage { tokens: response.tokens, cost_usd, requests: 1 },
                        );
                    }
                    add_usage(&mut totals.lock(), response);
                }
                execution_log.iter().for_each(|log| log.record(&activity));
                events.publish(Some(&node), EventKind::NodeActivity(Box::new(activity)));
            };
            TranscriptTail::new(kind, clock, now.into(), publish)
        });
        let mut reporter = ActivityReporter {
            node,
            events,
            status: None,
            dialog: None,
            mismatch: None,
            tail,
            models,
            meter,
            execution_log,
        };
        if spec.adopted.is_none() {
            reporter.report_status(now, Status::Provisioning);
        }
        reporter
    }

    /// Adds the tokens that were counted for an earlier server.
    pub(super) fn continue_counting(&self, models: Vec<ModelTokens>) {
        models.into_iter().for_each(|tokens| add_usage(&mut self.models.lock(), tokens));
    }

    /// Returns the meter of the node's turns.
    pub(super) fn meter(&self) -> &TurnMeter {
        &self.meter
    }

    /// Records the number of bytes that the terminal has output.
    pub(super) fn set_offset(&self, offset: u64) {
        self.execution_log.iter().for_each(|log| log.set_offset(offset));
    }

    /// Reports a new state of the driver.
    pub(super) fn report_state(&mut self, now: TsNs, state: &AgentState) {
        match state {
            AgentState::Busy => self.report_status(now, Status::Running),
            AgentState::Ready => self.report_status(now, Status::Paused),
            AgentState::Blocked { .. } | AgentState::Suspended { .. } => {
                self.report_status(now, Status::Paused)
            }
            AgentState::Starting | AgentState::Exited(_) => {}
        }
        let dialog = dialog(state);
        if let Some(dialog) = dialog.clone().filter(|dialog| self.dialog.as_ref() != Some(dialog)) {
            self.warn(now, dialog);
        }
        self.dialog = dialog;
    }

    /// Reports how the agent differs from its profile: by its screen, or by unknown entries in its session file.
    pub(super) fn report_mismatch(&mut self, now: TsNs, screen: Option<String>) {
        let has_unknown = self.tail.as_ref().is_some_and(TranscriptTail::has_unknown_entries);
        let file = has_unknown.then(|| "its session file has entries of unknown kinds".to_string());
        let mismatch = screen.or(file);
        if self.mismatch != mismatch {
            if let Some(mismatch) = &mismatch {
                self.warn(now, format!("{mismatch}; {}", self.report_hint()));
            }
            self.mismatch = mismatch;
        }
    }

    /// Returns how the agent differs from its profile.
    pub(super) fn mismatch(&self) -> Option<&str> {
        self.mismatch.as_deref()
    }

    /// Returns the tokens of all responses reported so far, by model.
    pub(super) fn models(&self) -> Vec<ModelTokens> {
        self.models.lock().clone()
    }

    /// Names the command that collects the data needed to fix the profile.
    pub(super) fn report_hint(&self) -> String {
        format!(
            "if the agent's screens have changed, attach the file of `nerve doctor --report {}` to a bug report",
            self.node.arguments()
        )
    }

    pub(super) fn report_stopping(&mut self, now: TsNs) {
        self.report_status(now, Status::Stopping);
    }

    /// Reports the rest of the transcript and the final status. Reads a file: call it only when the node's task has nothing left
    /// to do.
    pub(super) fn report_end(&mut self, now: TsNs, exit: ExitStatus, was_stopped: bool) {
        if let Some(tail) = self.tail.take() {
            tail.finish();
        }
        self.report_status(
            now,
            match exit {
                _ if was_stopped => Status::Cancelled,
                ExitStatus::Code(0) => Status::Completed,
                _ => Status::Failed,
            },
        );
    }

    pub(super) fn warn(&self, now: TsNs, message: String) {
        self.publish(Activity::Log { level: Level::Warn, message, execution: None, at: TsMs::from(now) });
    }

    /// Follows the transcript at this path from now on.
    pub(super) fn follow_transcript(&self, path: PathBuf) {
        if let Some(tail) = &self.tail {
            tail.follow(Location::File(path));
        }
    }

    /// Reports the activities that the screen showed during a finished turn, unless a transcript reports them.
    pub(super) fn report_screen(&self, now: TsNs, turn: u64, sections: &[Section]) {
        if self.tail.as_ref().is_some_and(|tail| tail.location().is_some()) {
            return;
        }
        let activities = sections.iter().enumerate();
        let activities: Vec<Activity> =
            activities.flat_map(|(nth, section)| section_activities(now, turn, nth + 1, section)).collect();
        if let Some(execution_log) = self.execution_log.clone() {
            let activities = activities.clone();
            tokio::task::spawn_blocking(move || {
                activities.iter().for_each(|activity| execution_log.record(activity))
            });
        }
        activities.into_iter().for_each(|activity| self.publish(activity));
    }

    /// Returns the transcript follower, for tasks that find a transcript.
    pub(super) fn transcript_tail(&self) -> Option<TranscriptTail> {
        self.tail.clone()
    }

    fn report_status(&mut self, now: TsNs, status: Status) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.publish(Activity::Status { status, at: TsMs::from(now) });
        }
    }

    fn publish(&self, activity: Activity) {
        self.events.publish(Some(&self.node), EventKind::NodeActivity(Box::new(activity)));
    }
}

/// Returns the tokens of a response.
fn response_tokens(activity: &Activity) -> Option<ModelTokens> {
    let Activity::Usage { input, output, cache_read, cache_write, model, .. } = activity else { return None };
    let [input, output, cache_read, cache_write] = [*input, *output, *cache_read, *cache_write];
    let tokens = TokenUsage { input, output, cache_read, cache_write };
    Some(ModelTokens { model: model.clone(), tokens })
}

/// Adds the tokens of a response to those of its model.
fn add_usage(models: &mut Vec<ModelTokens>, response: ModelTokens) {
    match models.iter().position(|known| known.model == response.model) {
        Some(at) => models[at].tokens += response.tokens,
        None if models.len() < MAX_MODELS => models.push(response),
        // The last entry collects all further models.
        None => models.last_mut().into_iter().for_each(|last| {
            last.model = None;
            last.tokens += response.tokens;
        }),
    }
}

/// Converts a section of a screen into activities. `nth` counts the sections of a turn from 1.
fn section_activities(now: TsNs, turn: u64, nth: usize, section: &Section) -> Vec<Activity> {
    let (at, text) = (TsMs::from(now), section.content.clone());
    let metadata = |key: &str| section.metadata.get(key).cloned().unwrap_or_default();
    match section.kind {
        SectionKind::Thinking => vec![Activity::Thought { text, reasoning: None, at }],
        SectionKind::Error => vec![Activity::Error { message: text, at }],
        SectionKind::ToolCall => {
            // Screens show no execution ids.
            let execution = format!("turn-{turn}-{nth}");
            let status = match metadata("status").as_str() {
                "error" => Status::Failed,
                "rejected" => Status::Cancelled,
                "running" | "waiting" | "asking" | "pending" => Status::Running,
                _ => Status::Completed,
            };
            let start = Activity::ToolStart {
                name: metadata("tool"),
                args: metadata("args"),
                execution: execution.clone(),
                status: Status::Running,
                at,
            };
            vec![start, Activity::ToolOutput { name: metadata("tool"), output: text, execution, status, at }]
        }
        SectionKind::Text | SectionKind::Interrupted | SectionKind::Unknown => Vec::new(),
    }
}

/// Describes what blocks the agent.
fn dialog(state: &AgentState) -> Option<String> {
    match state {
        AgentState::Blocked { kind, choices } if choices.is_empty() => {
            Some(format!("the agent waits for input ({})", kind.as_str()))
        }
        AgentState::Blocked { kind, choices } => {
            let choices = choices.iter().enumerate().map(|(at, choice)| format!("{}. {choice}", at + 1));
            Some(format!("the agent asks ({}): {}", kind.as_str(), choices.collect::<Vec<_>>().join(", ")))
        }
        AgentState::Suspended { .. } => Some(match state.until_text() {
            Some(until) => format!("the agent is suspended by a usage limit until {until}"),
            None => "the agent is suspended by a usage limit".to_string(),
        }),
        AgentState::Starting | AgentState::Ready | AgentState::Busy | AgentState::Exited(_) => None,
    }
}
