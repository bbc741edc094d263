//! A developer works on a task, reviewed by a coach, until the coach accepts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nerve_graph::context::RunContext;
use nerve_graph::executable::Executable;
use nerve_node::error::EngineError;
use serde::Serialize;

use crate::conversation::{Message, Rules, converse};
use crate::text::{contains_phrase, fill, phrase_problem};
use crate::{LoopError, setters};

/// Default acceptance phrase of the coach.
pub const ACCEPTANCE: &str = "I ACCEPT TASK COMPLETION";

/// Coach message in the developer's first prompt.
pub(crate) const FIRST_COACH_MESSAGE: &str = "Please begin with the task.";

/// Default prompt of the developer.
pub(crate) const DEV_PROMPT: &str = "\
You are the developer. Your task:

{task}

Your coach says:

{coach_message}

Work on the task, then say in a few words what you have done and what is open.";

/// Default prompt of the coach. The phrase is not on its own line, so that an echo of the prompt does not count as acceptance.
pub(crate) const COACH_PROMPT: &str = "\
You coach a developer. The task:

{task}

The developer says:

{dev_message}

Check what was done. If anything is missing or wrong, say what to do next. \
If the task is done, and only then, answer with the phrase \"{acceptance_phrase}\" on a line of its own.";

/// Callback for a turn: round (from 1) and message.
pub type TurnFn = Arc<dyn Fn(u32, &str) + Send + Sync>;

/// Configuration of a developer-coach loop.
///
/// ```
/// use nerve_patterns::dev_coach::DevCoachConfig;
/// let config = DevCoachConfig::new("Make the tests pass")
///     .max_rounds(5)
///     .acceptance_phrases(["LGTM"])
///     .on_coach_turn(|round, message| println!("{round}: {message}"));
/// assert_eq!(config.max_rounds, 5);
/// ```
#[derive(Clone)]
pub struct DevCoachConfig {
    /// The task.
    pub task: String,
    /// Maximum number of rounds: at least 1 [default: 50].
    pub max_rounds: u32,
    /// Prompt template of the developer, with `{task}`, `{coach_message}`, `{round}`.
    pub dev_prompt_template: String,
    /// Prompt template of the coach, with `{task}`, `{dev_message}`, `{round}`, `{acceptance_phrase}` (the first one).
    pub coach_prompt_template: String,
    /// The coach accepts with one of these phrases on its own line.
    pub acceptance_phrases: Vec<String>,
    /// The developer reports completion with one of these phrases on its own line. Unless empty, the coach can only accept in a
    /// round in which the developer did so.
    pub completion_phrases: Vec<String>,
    /// Called with the developer's messages.
    pub on_dev_turn: Option<TurnFn>,
    /// Called with the coach's messages.
    pub on_coach_turn: Option<TurnFn>,
    /// Called at the end with the last round and `accepted` or `max_rounds`, unless the loop failed.
    pub on_complete: Option<TurnFn>,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// The developer.
    Dev,
    /// The coach.
    Coach,
}

/// The speakers in the order of their turns.
const ROLES: [Role; 2] = [Role::Dev, Role::Coach];

/// A turn of the loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DevCoachTurn {
    /// Round, from 1.
    pub round: u32,
    /// Author of the message.
    pub role: Role,
    /// The message.
    pub message: String,
}

/// The result of the loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DevCoachResult {
    /// True if the coach accepted.
    pub completed: bool,
    /// Number of completed rounds.
    pub rounds: u32,
    /// Last message of the developer.
    pub final_dev_message: String,
    /// Last message of the coach.
    pub final_coach_message: String,
    /// All turns.
    pub history: Vec<DevCoachTurn>,
}

/// A developer-coach loop.
///
/// ```
/// use std::sync::Arc;
/// use nerve_graph::context::RunContext;
/// use nerve_graph::function::FunctionNode;
/// use nerve_graph::session::Session;
/// use nerve_patterns::dev_coach::{DevCoachConfig, DevCoachLoop};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let dev = Arc::new(FunctionNode::new("dev", |_| Ok(json!("done"))));
/// let coach = Arc::new(FunctionNode::new("coach", |_| Ok(json!("Good.\nI ACCEPT TASK COMPLETION"))));
/// let pair = DevCoachLoop::new(dev, coach, DevCoachConfig::new("nothing"));
/// let result = pair.run(&RunContext::new(&Session::new("work"))).await.unwrap();
/// assert!(result.completed && result.rounds == 1);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct DevCoachLoop {
    developer: Executable,
    coach: Executable,
    config: DevCoachConfig,
    turn_timeout: Option<Duration>,
}

impl DevCoachLoop {
    /// Creates a loop.
    pub fn new(
        developer: impl Into<Executable>,
        coach: impl Into<Executable>,
        config: DevCoachConfig,
    ) -> DevCoachLoop {
        let (developer, coach) = (developer.into(), coach.into());
        DevCoachLoop { developer, coach, config, turn_timeout: None }
    }

    /// Sets the time limit of a turn [default: the node's limit]. The context's timeout limits the whole loop.
    #[must_use]
    pub fn turn_timeout(mut self, limit: Duration) -> DevCoachLoop {
        self.turn_timeout = Some(limit);
        self
    }

    /// Runs the loop. Turns are steps (`dev#1`, `coach#1` …) in the context's trace and budget. The context's input and upstream
    /// results are ignored.
    ///
    /// # Errors
    /// InvalidRequest: the configuration is invalid. Cancelled, Budget, Timeout, and errors of nodes. All include the turns so far.
    pub async fn run(&self, context: &RunContext) -> Result<DevCoachResult, LoopError<DevCoachTurn>> {
        let config = &self.config;
        let speakers = [(Role::Dev.as_str(), &self.developer), (Role::Coach.as_str(), &self.coach)];
        let (messages, outcome) = converse("dev-coach", speakers, config, self.turn_timeout, context).await;
        let turn = |Message { round, speaker, text }: Message| DevCoachTurn {
            round,
            role: ROLES[speaker],
            message: text,
        };
        let history: Vec<DevCoachTurn> = messages.into_iter().map(turn).collect();
        if let Err(error) = outcome {
            return Err(LoopError { error, history });
        }
        let (final_dev_message, final_coach_message) =
            (last(&history, Role::Dev), last(&history, Role::Coach));
        let completed = config.is_accepted(&final_dev_message, &final_coach_message);
        let rounds = history.last().map_or(0, |turn| turn.round);
        notify(&config.on_complete, rounds, if completed { "accepted" } else { "max_rounds" });
        Ok(DevCoachResult { completed, rounds, final_dev_message, final_coach_message, history })
    }
}

impl DevCoachConfig {
    /// Creates a configuration with defaults.
    pub fn new(task: impl Into<String>) -> DevCoachConfig {
        DevCoachConfig {
            task: task.into(),
            max_rounds: 50,
            dev_prompt_template: DEV_PROMPT.to_string(),
            coach_prompt_template: COACH_PROMPT.to_string(),
            acceptance_phrases: vec![ACCEPTANCE.to_string()],
            completion_phrases: Vec::new(),
            on_dev_turn: None,
            on_coach_turn: None,
            on_complete: None,
        }
    }

    setters! {
        max_rounds: u32 = max_rounds;
        dev_prompt_template: impl Into<String> = dev_prompt_template.into();
        coach_prompt_template: impl Into<String> = coach_prompt_template.into();
        acceptance_phrases: impl IntoIterator<Item: Into<String>> = texts(acceptance_phrases);
        completion_phrases: impl IntoIterator<Item: Into<String>> = texts(completion_phrases);
        on_dev_turn: impl Fn(u32, &str) + Send + Sync + 'static = Some(Arc::new(on_dev_turn));
        on_coach_turn: impl Fn(u32, &str) + Send + Sync + 'static = Some(Arc::new(on_coach_turn));
        on_complete: impl Fn(u32, &str) + Send + Sync + 'static = Some(Arc::new(on_complete));
    }

    /// Returns true if the coach accepts with these messages.
    fn is_accepted(&self, dev: &str, coach: &str) -> bool {
        let may_end = self.completion_phrases.is_empty() || contains_phrase(dev, &self.completion_phrases);
        may_end && contains_phrase(coach, &self.acceptance_phrases)
    }
}

impl Rules for DevCoachConfig {
    fn check(&self) -> Result<(), EngineError> {
        if self.task.trim().is_empty() {
            return Err(EngineError::invalid_request("task must not be empty"));
        }
        if self.max_rounds == 0 {
            return Err(EngineError::invalid_request("max_rounds must be 1 or more"));
        }
        if self.acceptance_phrases.is_empty() {
            return Err(EngineError::invalid_request(
                "acceptance_phrases must not be empty: the coach could never accept",
            ));
        }
        let problem = phrase_problem(&self.acceptance_phrases, "acceptance_phrases")
            .or_else(|| phrase_problem(&self.completion_phrases, "completion_phrases"));
        problem.map_or(Ok(()), |problem| Err(EngineError::invalid_request(problem)))
    }

    fn prompt(&self, round: u32, speaker: usize, other: Option<&str>) -> String {
        let round = round.to_string();
        let phrase = self.acceptance_phrases.first().map_or(ACCEPTANCE, |phrase| phrase);
        let mut values = vec![("task", &*self.task), ("round", &round)];
        match ROLES[speaker] {
            Role::Dev => {
                values.push(("coach_message", other.unwrap_or(FIRST_COACH_MESSAGE)));
                fill(&self.dev_prompt_template, &values)
            }
            Role::Coach => {
                values.extend([("dev_message", other.unwrap_or_default()), ("acceptance_phrase", phrase)]);
                fill(&self.coach_prompt_template, &values)
            }
        }
    }

    fn notify(&self, message: &Message) {
        let callback = match ROLES[message.speaker] {
            Role::Dev => &self.on_dev_turn,
            Role::Coach => &self.on_coach_turn,
        };
        notify(callback, message.round, &message.text);
    }

    fn is_over(&self, round: u32, [dev, coach]: [&str; 2]) -> bool {
        round == self.max_rounds || self.is_accepted(dev, coach)
    }
}

impl fmt::Debug for DevCoachConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevCoachConfig")
            .field("task", &self.task)
            .field("max_rounds", &self.max_rounds)
            .field("acceptance_phrases", &self.acceptance_phrases)
            .field("completion_phrases", &self.completion_phrases)
            .finish_non_exhaustive()
    }
}

impl Role {
    /// Returns `dev` or `coach`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn texts(texts: impl IntoIterator<Item: Into<String>>) -> Vec<String> {
    texts.into_iter().map(Into::into).collect()
}

fn last(history: &[DevCoachTurn], role: Role) -> String {
    history.iter().rfind(|turn| turn.role == role).map(|turn| turn.message.clone()).unwrap_or_default()
}

fn notify(callback: &Option<TurnFn>, round: u32, message: &str) {
    if let Some(callback) = callback {
        callback(round, message);
    }
}
