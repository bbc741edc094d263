//! A debate: two agents argue for opposing positions in turn.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nerve_graph::context::RunContext;
use nerve_graph::executable::Executable;
use nerve_node::error::EngineError;
use serde::Serialize;

use crate::conversation::{Message, Rules, converse};
use crate::text::fill;
use crate::{LoopError, setters};

/// Default prompt of each turn.
pub(crate) const PROMPT: &str = "\
You take part in a debate about: {topic}

Your position: {position}

Your opponent says:

{opponent_message}

Answer your opponent and argue for your position, in {max_words} words at most.";

/// Callback for a turn: round (from 1), position and message.
pub type DebateTurnFn = Arc<dyn Fn(u32, &str, &str) + Send + Sync>;
/// Callback for the end of a debate, with all turns.
pub type DebateEndFn = Arc<dyn Fn(&[DebateTurn]) + Send + Sync>;

/// Configuration of a debate.
///
/// ```
/// use nerve_patterns::debate::DebateConfig;
/// let config = DebateConfig::new("tabs or spaces", "tabs", "spaces").rounds(2);
/// assert_eq!((config.rounds, config.max_words), (2, 100));
/// ```
#[derive(Clone)]
pub struct DebateConfig {
    /// Topic of the debate.
    pub topic: String,
    /// Position of A, who begins.
    pub position_a: String,
    /// Position of B.
    pub position_b: String,
    /// Number of rounds, each a turn of A and one of B: at least 1 [default: 5].
    pub rounds: u32,
    /// Word limit per turn [default: 100]. Part of the prompt; longer messages are not truncated.
    pub max_words: u32,
    /// Prompt template with `{topic}`, `{position}`, `{opponent_position}`, `{opponent_message}`, `{round}`, `{rounds}`,
    /// `{max_words}`.
    pub prompt_template: String,
    /// Called after each turn.
    pub on_turn: Option<DebateTurnFn>,
    /// Called at the end with all turns, unless the debate failed.
    pub on_complete: Option<DebateEndFn>,
}

/// A turn of a debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DebateTurn {
    /// Round, from 1.
    pub round: u32,
    /// Position of the speaker.
    pub position: String,
    /// Id of the speaker's node.
    pub agent: String,
    /// The message.
    pub message: String,
}

/// The result of a debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DebateResult {
    /// Topic of the debate.
    pub topic: String,
    /// Number of completed rounds.
    pub rounds: u32,
    /// Last message of A.
    pub final_a: String,
    /// Last message of B.
    pub final_b: String,
    /// All turns.
    pub turns: Vec<DebateTurn>,
}

/// A debate between two agents.
#[derive(Debug, Clone)]
pub struct DebateLoop {
    a: Executable,
    b: Executable,
    config: DebateConfig,
    turn_timeout: Option<Duration>,
}

impl DebateLoop {
    /// Creates a debate.
    pub fn new(a: impl Into<Executable>, b: impl Into<Executable>, config: DebateConfig) -> DebateLoop {
        let (a, b) = (a.into(), b.into());
        DebateLoop { a, b, config, turn_timeout: None }
    }

    /// Sets the time limit of a turn [default: the node's limit]. The context's timeout limits the whole debate.
    #[must_use]
    pub fn turn_timeout(mut self, limit: Duration) -> DebateLoop {
        self.turn_timeout = Some(limit);
        self
    }

    /// Runs the debate. Turns are steps (`a#1`, `b#1` …) in the context's trace and budget. The context's input and upstream
    /// results are ignored.
    ///
    /// # Errors
    /// InvalidRequest: the configuration is invalid. Cancelled, Budget, Timeout, and errors of nodes. All include the turns so far.
    pub async fn run(&self, context: &RunContext) -> Result<DebateResult, LoopError<DebateTurn>> {
        let config = &self.config;
        let speakers = [("a", &self.a), ("b", &self.b)];
        let (messages, outcome) = converse("debate", speakers, config, self.turn_timeout, context).await;
        let turn = |Message { round, speaker, text }: Message| {
            let (position, agent) =
                (config.position(speaker).to_string(), speakers[speaker].1.id().to_string());
            DebateTurn { round, position, agent, message: text }
        };
        let turns: Vec<DebateTurn> = messages.into_iter().map(turn).collect();
        if let Err(error) = outcome {
            return Err(LoopError { error, history: turns });
        }
        if let Some(callback) = &config.on_complete {
            callback(&turns);
        }
        let last = |back: usize| turns.iter().nth_back(back).map(|turn| turn.message.clone());
        let (final_a, final_b) = (last(1).unwrap_or_default(), last(0).unwrap_or_default());
        Ok(DebateResult { topic: config.topic.clone(), rounds: config.rounds, turns, final_a, final_b })
    }
}

impl DebateConfig {
    /// Creates a configuration with defaults.
    pub fn new(
        topic: impl Into<String>,
        position_a: impl Into<String>,
        position_b: impl Into<String>,
    ) -> DebateConfig {
        DebateConfig {
            topic: topic.into(),
            position_a: position_a.into(),
            position_b: position_b.into(),
            rounds: 5,
            max_words: 100,
            prompt_template: PROMPT.to_string(),
            on_turn: None,
            on_complete: None,
        }
    }

    setters! {
        rounds: u32 = rounds;
        max_words: u32 = max_words;
        prompt_template: impl Into<String> = prompt_template.into();
        on_turn: impl Fn(u32, &str, &str) + Send + Sync + 'static = Some(Arc::new(on_turn));
        on_complete: impl Fn(&[DebateTurn]) + Send + Sync + 'static = Some(Arc::new(on_complete));
    }

    fn position(&self, speaker: usize) -> &str {
        [&self.position_a, &self.position_b][speaker]
    }
}

impl Rules for DebateConfig {
    fn check(&self) -> Result<(), EngineError> {
        match self {
            _ if self.topic.trim().is_empty() => Err(EngineError::invalid_request("topic must not be empty")),
            _ if self.rounds == 0 => Err(EngineError::invalid_request("rounds must be 1 or more")),
            _ if self.max_words == 0 => Err(EngineError::invalid_request("max_words must be 1 or more")),
            _ => Ok(()),
        }
    }

    fn prompt(&self, round: u32, speaker: usize, other: Option<&str>) -> String {
        let opening = format!("Let's debate: {}", self.topic);
        let values = [
            ("topic", &*self.topic),
            ("position", self.position(speaker)),
            ("opponent_position", self.position(1 - speaker)),
            ("opponent_message", other.unwrap_or(&opening)),
            ("round", &round.to_string()),
            ("rounds", &self.rounds.to_string()),
            ("max_words", &self.max_words.to_string()),
        ];
        fill(&self.prompt_template, &values)
    }

    fn notify(&self, message: &Message) {
        if let Some(callback) = &self.on_turn {
            callback(message.round, self.position(message.speaker), &message.text);
        }
    }

    fn is_over(&self, round: u32, _: [&str; 2]) -> bool {
        round == self.rounds
    }
}

impl fmt::Debug for DebateConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebateConfig")
            .field("topic", &self.topic)
            .field("position_a", &self.position_a)
            .field("position_b", &self.position_b)
            .field("rounds", &self.rounds)
            .field("max_words", &self.max_words)
            .finish_non_exhaustive()
    }
}
