//! The list of scenarios, and one agent that runs them.

use std::time::Duration;

use super::harness::Harness;
use super::variants::Variant;
use super::{Times, Verdict, lifecycle, turns};

/// The scenarios, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// The agent starts and becomes ready.
    Ready,
    /// A short answer is returned verbatim.
    Short,
    /// Fifteen short answers in quick succession.
    QuickTurns,
    /// An answer of 300 lines is complete.
    Long,
    /// An answer that takes seconds does not end early.
    Slow,
    /// A paste of 300 lines reaches the model unchanged.
    Paste,
    /// A tool runs without permission.
    Tool,
    /// A permission request is reported with its choices and granted; the turn continues.
    Dialog,
    /// A permission request is refused: the tool does not run, and the next prompt is answered.
    Refusal,
    /// A long answer is interrupted, and the next prompt is answered.
    Interrupt,
    /// The API answers with this status: the turn fails, and the next prompt is answered.
    Status(u16),
    /// The connection is reset before any text: the turn fails.
    CutBefore,
    /// The connection is reset after some text: the turn fails and keeps the text.
    CutAfter,
    /// A fork knows the conversation and leaves its source alone.
    Fork,
    /// The agent's exit is detected.
    Exit,
    /// Twenty nodes are created at once, each with a prompt.
    Nodes,
    /// The server is killed in a turn; the next one finds the agent again.
    Kill,
    /// `nerve ask` prints the answer.
    Ask,
}

impl Scenario {
    pub(crate) const ALL: [Scenario; 21] = [
        Scenario::Ready,
        Scenario::Short,
        Scenario::QuickTurns,
        Scenario::Long,
        Scenario::Slow,
        Scenario::Paste,
        Scenario::Tool,
        Scenario::Dialog,
        Scenario::Refusal,
        Scenario::Interrupt,
        Scenario::Status(400),
        Scenario::Status(401),
        Scenario::Status(429),
        Scenario::Status(529),
        Scenario::CutBefore,
        Scenario::CutAfter,
        Scenario::Fork,
        Scenario::Exit,
        Scenario::Nodes,
        Scenario::Kill,
        Scenario::Ask,
    ];

    /// Returns the column title.
    pub(crate) fn title(self) -> String {
        let title = match self {
            Scenario::Ready => "ready",
            Scenario::Short => "short",
            Scenario::QuickTurns => "15 turns",
            Scenario::Long => "long",
            Scenario::Slow => "slow",
            Scenario::Paste => "paste",
            Scenario::Tool => "tool",
            Scenario::Dialog => "dialog",
            Scenario::Refusal => "refusal",
            Scenario::Interrupt => "interrupt",
            Scenario::Status(status) => return status.to_string(),
            Scenario::CutBefore => "cut before",
            Scenario::CutAfter => "cut after",
            Scenario::Fork => "fork",
            Scenario::Exit => "exit",
            Scenario::Nodes => "20 nodes",
            Scenario::Kill => "kill -9",
            Scenario::Ask => "ask",
        };
        title.to_string()
    }

    /// Returns true if the result depends on the size of the terminal.
    pub(crate) fn depends_on_size(self) -> bool {
        use Scenario::{Ask, Exit, Fork, Kill, Nodes, QuickTurns};
        !matches!(self, QuickTurns | Fork | Exit | Nodes | Kill | Ask)
    }

    /// Returns true if the scenario has agents of its own, instead of the cell's.
    fn is_separate(self) -> bool {
        matches!(self, Scenario::Nodes | Scenario::Kill | Scenario::Ask)
    }

    /// Returns the time after which the scenario has failed.
    fn limit(self, step: Duration) -> Duration {
        match self {
            Scenario::Nodes => step * 4,
            _ => step * 2,
        }
    }
}

/// One agent in one size of terminal.
pub(crate) struct Cell {
    variant: &'static Variant,
    harness: Harness,
    /// Durations of the turns so far.
    pub(crate) times: Times,
    /// Why the agent runs no further scenario.
    lost: Option<String>,
}

impl Cell {
    /// Prepares the agent's home, model and engine; `step` limits each step of a scenario.
    ///
    /// # Errors
    /// If files cannot be written.
    pub(crate) async fn new(
        variant: &'static Variant,
        size: (u16, u16),
        step: Duration,
    ) -> std::io::Result<Cell> {
        let harness = Harness::new(variant, size, step).await?;
        Ok(Cell { variant, harness, times: Times::default(), lost: None })
    }

    /// Returns the version that the program reports.
    pub(crate) async fn version(&self) -> Option<String> {
        self.harness.version().await
    }

    /// Runs a scenario. A failed one includes the screen.
    pub(crate) async fn run(&mut self, scenario: Scenario) -> Verdict {
        if let Some(lost) = self.lost.as_ref().filter(|_| !scenario.is_separate()) {
            return Verdict::Skipped(lost.clone());
        }
        let limit = scenario.limit(self.harness.nodes.limit);
        let outcome = tokio::time::timeout(limit, self.attempt(scenario)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("not done within {limit:?}")));
        let verdict = match outcome {
            Ok(verdict) => verdict,
            Err(reason) if scenario.is_separate() => Verdict::Failed(reason),
            Err(reason) => Verdict::Failed(format!("{reason}\n{}", self.harness.screen().await)),
        };
        if matches!(verdict, Verdict::Failed(_)) && !scenario.is_separate() {
            let is_lost = scenario == Scenario::Ready || self.harness.recover().await.is_err();
            self.lost = is_lost.then(|| format!("not usable after '{}'", scenario.title()));
        }
        verdict
    }

    async fn attempt(&mut self, scenario: Scenario) -> turns::Outcome {
        let (harness, variant) = (&mut self.harness, self.variant);
        match scenario {
            Scenario::Ready => {
                self.times.ready.push(harness.start().await.map_err(turns::describe)?);
                Ok(Verdict::Passed)
            }
            Scenario::Short => turns::short(harness, 1, &mut self.times).await,
            Scenario::QuickTurns => turns::short(harness, 15, &mut self.times).await,
            Scenario::Long => turns::long(harness).await,
            Scenario::Slow => turns::slow(harness).await,
            Scenario::Paste => turns::paste(harness).await,
            Scenario::Tool => turns::tool(harness, variant).await,
            Scenario::Dialog => turns::dialog(harness, variant).await,
            Scenario::Refusal => turns::refusal(harness, variant).await,
            Scenario::Interrupt => turns::interrupt(harness).await,
            Scenario::Status(status) => turns::api_error(harness, &format!("ERR {status} now"), "").await,
            Scenario::CutBefore => turns::api_error(harness, super::harness::CUT_BEFORE, "").await,
            Scenario::CutAfter => {
                turns::api_error(harness, super::harness::CUT_AFTER, super::harness::CUT_TEXT).await
            }
            Scenario::Fork => lifecycle::fork(harness, variant).await,
            Scenario::Exit => lifecycle::exit(harness, variant).await,
            Scenario::Nodes => lifecycle::nodes(harness, 20).await,
            Scenario::Kill => lifecycle::kill(harness).await,
            Scenario::Ask => lifecycle::ask(harness).await,
        }
    }

    /// Times this many short answers; each must be the model's.
    pub(crate) async fn time_answers(&mut self, count: usize) -> Result<(), String> {
        turns::short(&self.harness, count, &mut self.times).await.map(drop)
    }

    /// Creates this many nodes at once, each with a prompt, and stops them.
    ///
    /// # Errors
    /// Describes the first node that did not answer.
    pub(crate) async fn start_nodes(&mut self, count: usize) -> Result<(), String> {
        lifecycle::nodes(&self.harness, count).await.map(drop)
    }

    /// Stops the agent.
    pub(crate) async fn stop(&self) {
        self.harness.stop().await;
    }
}
