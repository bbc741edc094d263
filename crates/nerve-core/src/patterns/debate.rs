//! Two agents argue for two positions, in turn (facts: agent capabilities).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::text::fill;
use super::turns::Turns;
use super::{LoopError, Spoken, invalid};
use crate::context::ExecutionContext;
use crate::error::EngineError;
use crate::node::NodeHandle;

/// What an agent is told each turn.
pub const PROMPT: &str = "\
You take part in a debate about: {topic}

Your position: {position}

Your opponent says:

{opponent_message}

Answer your opponent and argue for your position, in {max_words} words at most.";

/// Is told the round (from 1), the position and what was said for it.
pub type DebateTurnFn = Arc<dyn Fn(u32, &str, &str) + Send + Sync>;
/// Is told all that was said.
pub type DebateEndFn = Arc<dyn Fn(&[DebateTurn]) + Send + Sync>;

/// What the two debate, and how.
///
/// ```
/// use nerve_core::patterns::debate::DebateConfig;
/// let config = DebateConfig::new("tabs or spaces", "tabs", "spaces").rounds(2);
/// assert_eq!((config.rounds, config.max_words), (2, 100));
/// ```
#[derive(Clone)]
pub struct DebateConfig {
    /// What it is about.
    pub topic: String,
    /// What A argues for; A begins.
    pub position_a: String,
    /// What B argues for.
    pub position_b: String,
    /// Rounds, each a turn of A and one of B: 1 or more, 5 if nothing is said.
    pub rounds: u32,
    /// How long a turn is to be, 100 if nothing is said. Agents are told; nothing is cut.
    pub max_words: u32,
    /// What an agent is told: `{topic}`, `{position}`, `{opponent_position}`, `{opponent_message}`, `{round}`, `{rounds}`, `{max_words}`.
    pub prompt_template: String,
    /// Is told what was said.
    pub on_turn: Option<DebateTurnFn>,
    /// Is told all turns at the end. Not told of a debate that failed.
    pub on_complete: Option<DebateEndFn>,
}

/// What was said in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebateTurn {
    /// From 1.
    pub round: u32,
    /// The position that was argued for.
    pub position: String,
    /// Id of the node that did.
    pub agent: String,
    /// What it said.
    pub message: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebateResult {
    /// What it was about.
    pub topic: String,
    /// Rounds that were done.
    pub rounds: u32,
    /// All that was said.
    pub turns: Vec<DebateTurn>,
    /// The last A said.
    pub final_a: String,
    /// The last B said.
    pub final_b: String,
}

/// Two agents and what they debate.
#[derive(Debug, Clone)]
pub struct DebateLoop {
    a: NodeHandle,
    b: NodeHandle,
    config: DebateConfig,
    turn_timeout: Option<Duration>,
}

impl DebateLoop {
    /// Nothing runs yet.
    pub fn new(a: NodeHandle, b: NodeHandle, config: DebateConfig) -> DebateLoop {
        DebateLoop { a, b, config, turn_timeout: None }
    }

    /// How long one turn may take; the node's own limit if nothing is said. All of it may take as long as the context says.
    #[must_use]
    pub fn turn_timeout(mut self, limit: Duration) -> DebateLoop {
        self.turn_timeout = Some(limit);
        self
    }

    /// Runs it to its end. Turns are steps of the context's trace (`a#1`, `b#1` …) and of its budget; input and upstream of the context
    /// are not looked at.
    ///
    /// # Errors
    /// InvalidRequest: the config makes no sense. Cancelled, Budget, Timeout; what a node says. With what was said until then.
    pub async fn run(&self, context: &ExecutionContext) -> Result<DebateResult, LoopError<DebateTurn>> {
        let turns = Turns::new(context, self.turn_timeout);
        let mut history = Vec::new();
        let done = match self.config.check() {
            Ok(()) => self.rounds(&turns, &mut history).await,
            Err(error) => Err(error),
        };
        turns.end(done.as_ref().err());
        match done {
            Ok([final_a, final_b]) => {
                if let Some(tell) = &self.config.on_complete {
                    tell(&history);
                }
                let (topic, rounds) = (self.config.topic.clone(), self.config.rounds);
                Ok(DebateResult { topic, rounds, turns: history, final_a, final_b })
            }
            Err(error) => Err(LoopError { error, history }),
        }
    }

    async fn rounds(
        &self,
        turns: &Turns<'_>,
        history: &mut Vec<DebateTurn>,
    ) -> Result<[String; 2], EngineError> {
        let config = &self.config;
        let sides = [
            ("a", &self.a, &config.position_a, &config.position_b),
            ("b", &self.b, &config.position_b, &config.position_a),
        ];
        let mut said = [String::new(), format!("Let's debate: {}", config.topic)];
        for round in 1..=config.rounds {
            for (at, (side, node, position, opponent_position)) in sides.into_iter().enumerate() {
                let prompt = config.prompt(round, position, opponent_position, &said[1 - at]);
                let message = turns.take(node, &format!("{side}#{round}"), prompt).await?;
                history.push(DebateTurn {
                    round,
                    position: position.clone(),
                    agent: node.id().to_string(),
                    message: message.clone(),
                });
                if let Some(tell) = &config.on_turn {
                    tell(round, position, &message);
                }
                said[at] = message;
            }
        }
        Ok(said)
    }
}

impl DebateConfig {
    /// A topic and two positions, and for all else what is usual.
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

    /// Sets [`DebateConfig::rounds`].
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> DebateConfig {
        self.rounds = rounds;
        self
    }

    /// Sets [`DebateConfig::max_words`].
    #[must_use]
    pub fn max_words(mut self, words: u32) -> DebateConfig {
        self.max_words = words;
        self
    }

    /// Sets [`DebateConfig::prompt_template`].
    #[must_use]
    pub fn prompt_template(mut self, template: impl Into<String>) -> DebateConfig {
        self.prompt_template = template.into();
        self
    }

    /// Sets [`DebateConfig::on_turn`].
    #[must_use]
    pub fn on_turn(mut self, tell: impl Fn(u32, &str, &str) + Send + Sync + 'static) -> DebateConfig {
        self.on_turn = Some(Arc::new(tell));
        self
    }

    /// Sets [`DebateConfig::on_complete`].
    #[must_use]
    pub fn on_complete(mut self, tell: impl Fn(&[DebateTurn]) + Send + Sync + 'static) -> DebateConfig {
        self.on_complete = Some(Arc::new(tell));
        self
    }

    fn prompt(&self, round: u32, position: &str, opponent_position: &str, opponent_message: &str) -> String {
        let values = [
            ("topic", &*self.topic),
            ("position", position),
            ("opponent_position", opponent_position),
            ("opponent_message", opponent_message),
            ("round", &round.to_string()),
            ("rounds", &self.rounds.to_string()),
            ("max_words", &self.max_words.to_string()),
        ];
        fill(&self.prompt_template, &values)
    }

    fn check(&self) -> Result<(), EngineError> {
        match self {
            _ if self.topic.trim().is_empty() => Err(invalid("there is no topic")),
            _ if self.rounds == 0 => Err(invalid("rounds must be 1 or more")),
            _ if self.max_words == 0 => Err(invalid("max_words must be 1 or more")),
            _ => Ok(()),
        }
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

impl Spoken for DebateTurn {
    fn to_dict(&self) -> Value {
        let DebateTurn { round, position, agent, message } = self;
        json!({"round": round, "position": position, "agent": agent, "message": message})
    }
}

impl DebateResult {
    /// For machines: its fields by their names.
    pub fn to_dict(&self) -> Value {
        json!({
            "topic": self.topic, "rounds": self.rounds, "final_a": self.final_a, "final_b": self.final_b,
            "turns": self.turns.iter().map(Spoken::to_dict).collect::<Vec<_>>(),
        })
    }
}
