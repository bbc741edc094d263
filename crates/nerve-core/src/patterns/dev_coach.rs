//! A developer works on a task, a coach looks at what it says, until the coach accepts (facts: agent capabilities).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::text::{fill, problem, says};
use super::turns::Turns;
use super::{LoopError, Spoken, invalid};
use crate::context::ExecutionContext;
use crate::error::EngineError;
use crate::node::NodeHandle;

/// What the coach says to accept, if nothing else is agreed on.
pub const ACCEPTANCE: &str = "I ACCEPT TASK COMPLETION";

/// What the developer hears of the coach before the coach has said anything.
pub const FIRST_COACH_MESSAGE: &str = "Please begin with the task.";

/// What the developer is told each round.
pub const DEV_PROMPT: &str = "\
You are the developer. Your task:

{task}

Your coach says:

{coach_message}

Work on the task, then say in a few words what you have done and what is open.";

/// What the coach is told each round. The phrase does not stand on a line of its own: a terminal that shows the prompt again does not
/// accept.
pub const COACH_PROMPT: &str = "\
You coach a developer. The task:

{task}

The developer says:

{dev_message}

Check what was done. If anything is missing or wrong, say what to do next. \
If the task is done, and only then, answer with the phrase \"{acceptance_phrase}\" on a line of its own.";

/// Is told the round (from 1) and what was said.
pub type TurnFn = Arc<dyn Fn(u32, &str) + Send + Sync>;

/// What the two are to do.
///
/// ```
/// use nerve_core::patterns::dev_coach::DevCoachConfig;
/// let config = DevCoachConfig::new("Make the tests pass")
///     .max_rounds(5)
///     .acceptance_phrases(["LGTM"])
///     .on_coach_turn(|round, said| println!("{round}: {said}"));
/// assert_eq!(config.max_rounds, 5);
/// ```
#[derive(Clone)]
pub struct DevCoachConfig {
    /// The task.
    pub task: String,
    /// Rounds at most: 1 or more, 50 if nothing is said.
    pub max_rounds: u32,
    /// What the developer is told: `{task}`, `{coach_message}`, `{round}`.
    pub dev_prompt_template: String,
    /// What the coach is told: `{task}`, `{dev_message}`, `{round}`, `{acceptance_phrase}` (the first one).
    pub coach_prompt_template: String,
    /// The coach accepts with one of these on a line of its own.
    pub acceptance_phrases: Vec<String>,
    /// The developer says with one of these on a line of its own that it is done. Where there are any, the coach can only accept
    /// in a round in which the developer said so.
    pub completion_phrases: Vec<String>,
    /// Is told what the developer said.
    pub on_dev_turn: Option<TurnFn>,
    /// Is told what the coach said.
    pub on_coach_turn: Option<TurnFn>,
    /// Is told the last round, and `accepted` or `max_rounds`. Not told of a loop that failed.
    pub on_complete: Option<TurnFn>,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The developer.
    Dev,
    /// The coach.
    Coach,
}

/// What was said in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevCoachTurn {
    /// From 1.
    pub round: u32,
    /// Who.
    pub role: Role,
    /// What.
    pub message: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevCoachResult {
    /// The coach has accepted.
    pub completed: bool,
    /// Rounds that were done.
    pub rounds: u32,
    /// The last the developer said.
    pub final_dev_message: String,
    /// The last the coach said.
    pub final_coach_message: String,
    /// All that was said.
    pub history: Vec<DevCoachTurn>,
}

/// A developer, a coach and a task.
///
/// ```
/// use std::sync::Arc;
/// use nerve_core::context::ExecutionContext;
/// use nerve_core::node::function::FunctionNode;
/// use nerve_core::patterns::dev_coach::{DevCoachConfig, DevCoachLoop};
/// use nerve_core::session::Session;
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let dev = Arc::new(FunctionNode::new("dev", |_| Ok(json!("done"))));
/// let coach = Arc::new(FunctionNode::new("coach", |_| Ok(json!("Good.\nI ACCEPT TASK COMPLETION"))));
/// let pair = DevCoachLoop::new(dev, coach, DevCoachConfig::new("nothing"));
/// let result = pair.run(&ExecutionContext::new(&Session::new("work"))).await.unwrap();
/// assert!(result.completed && result.rounds == 1);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct DevCoachLoop {
    developer: NodeHandle,
    coach: NodeHandle,
    config: DevCoachConfig,
    turn_timeout: Option<Duration>,
}

impl DevCoachLoop {
    /// Nothing runs yet.
    pub fn new(developer: NodeHandle, coach: NodeHandle, config: DevCoachConfig) -> DevCoachLoop {
        DevCoachLoop { developer, coach, config, turn_timeout: None }
    }

    /// How long one turn may take; the node's own limit if nothing is said. All of it may take as long as the context says.
    #[must_use]
    pub fn turn_timeout(mut self, limit: Duration) -> DevCoachLoop {
        self.turn_timeout = Some(limit);
        self
    }

    /// Runs it to its end. Turns are steps of the context's trace (`dev#1`, `coach#1` …) and of its budget; input and upstream of the
    /// context are not looked at.
    ///
    /// # Errors
    /// InvalidRequest: the config makes no sense. Cancelled, Budget, Timeout; what a node says. With what was said until then.
    pub async fn run(&self, context: &ExecutionContext) -> Result<DevCoachResult, LoopError<DevCoachTurn>> {
        let turns = Turns::new(context, self.turn_timeout);
        let mut history = Vec::new();
        let done = match self.config.check() {
            Ok(()) => self.rounds(&turns, &mut history).await,
            Err(error) => Err(error),
        };
        turns.end(done.as_ref().err());
        match done {
            Ok((completed, rounds)) => Ok(DevCoachResult {
                completed,
                rounds,
                final_dev_message: last(&history, Role::Dev),
                final_coach_message: last(&history, Role::Coach),
                history,
            }),
            Err(error) => Err(LoopError { error, history }),
        }
    }

    async fn rounds(
        &self,
        turns: &Turns<'_>,
        history: &mut Vec<DevCoachTurn>,
    ) -> Result<(bool, u32), EngineError> {
        let config = &self.config;
        let mut coach_message = FIRST_COACH_MESSAGE.to_string();
        for round in 1..=config.max_rounds {
            let number = round.to_string();
            let values = [("task", &*config.task), ("coach_message", &coach_message), ("round", &number)];
            let prompt = fill(&config.dev_prompt_template, &values);
            let dev_message = turns.take(&self.developer, &format!("dev#{round}"), prompt).await?;
            history.push(DevCoachTurn { round, role: Role::Dev, message: dev_message.clone() });
            tell(&config.on_dev_turn, round, &dev_message);

            let phrase = config.acceptance_phrases.first().map_or(ACCEPTANCE, |phrase| phrase);
            let values = [
                ("task", &*config.task),
                ("dev_message", &dev_message),
                ("round", &number),
                ("acceptance_phrase", phrase),
            ];
            let prompt = fill(&config.coach_prompt_template, &values);
            coach_message = turns.take(&self.coach, &format!("coach#{round}"), prompt).await?;
            history.push(DevCoachTurn { round, role: Role::Coach, message: coach_message.clone() });
            tell(&config.on_coach_turn, round, &coach_message);

            let may_end =
                config.completion_phrases.is_empty() || says(&dev_message, &config.completion_phrases);
            if may_end && says(&coach_message, &config.acceptance_phrases) {
                tell(&config.on_complete, round, "accepted");
                return Ok((true, round));
            }
        }
        tell(&config.on_complete, config.max_rounds, "max_rounds");
        Ok((false, config.max_rounds))
    }
}

impl DevCoachConfig {
    /// A task, and for all else what is usual.
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

    /// Sets [`DevCoachConfig::max_rounds`].
    #[must_use]
    pub fn max_rounds(mut self, rounds: u32) -> DevCoachConfig {
        self.max_rounds = rounds;
        self
    }

    /// Sets [`DevCoachConfig::dev_prompt_template`].
    #[must_use]
    pub fn dev_prompt_template(mut self, template: impl Into<String>) -> DevCoachConfig {
        self.dev_prompt_template = template.into();
        self
    }

    /// Sets [`DevCoachConfig::coach_prompt_template`].
    #[must_use]
    pub fn coach_prompt_template(mut self, template: impl Into<String>) -> DevCoachConfig {
        self.coach_prompt_template = template.into();
        self
    }

    /// Sets [`DevCoachConfig::acceptance_phrases`].
    #[must_use]
    pub fn acceptance_phrases<I: IntoIterator<Item: Into<String>>>(mut self, phrases: I) -> DevCoachConfig {
        self.acceptance_phrases = phrases.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`DevCoachConfig::completion_phrases`].
    #[must_use]
    pub fn completion_phrases<I: IntoIterator<Item: Into<String>>>(mut self, phrases: I) -> DevCoachConfig {
        self.completion_phrases = phrases.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`DevCoachConfig::on_dev_turn`].
    #[must_use]
    pub fn on_dev_turn(mut self, tell: impl Fn(u32, &str) + Send + Sync + 'static) -> DevCoachConfig {
        self.on_dev_turn = Some(Arc::new(tell));
        self
    }

    /// Sets [`DevCoachConfig::on_coach_turn`].
    #[must_use]
    pub fn on_coach_turn(mut self, tell: impl Fn(u32, &str) + Send + Sync + 'static) -> DevCoachConfig {
        self.on_coach_turn = Some(Arc::new(tell));
        self
    }

    /// Sets [`DevCoachConfig::on_complete`].
    #[must_use]
    pub fn on_complete(mut self, tell: impl Fn(u32, &str) + Send + Sync + 'static) -> DevCoachConfig {
        self.on_complete = Some(Arc::new(tell));
        self
    }

    fn check(&self) -> Result<(), EngineError> {
        if self.task.trim().is_empty() {
            return Err(invalid("there is no task"));
        }
        if self.max_rounds == 0 {
            return Err(invalid("max_rounds must be 1 or more"));
        }
        if self.acceptance_phrases.is_empty() {
            return Err(invalid("acceptance_phrases: without one the coach can never accept"));
        }
        let problem = problem(&self.acceptance_phrases, "acceptance_phrases")
            .or_else(|| problem(&self.completion_phrases, "completion_phrases"));
        problem.map_or(Ok(()), |problem| Err(invalid(&problem)))
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
    /// `dev` or `coach`.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Dev => "dev",
            Role::Coach => "coach",
        }
    }
}

impl Spoken for DevCoachTurn {
    fn to_dict(&self) -> Value {
        json!({"round": self.round, "role": self.role.as_str(), "message": self.message})
    }
}

impl DevCoachResult {
    /// For machines: its fields by their names.
    pub fn to_dict(&self) -> Value {
        json!({
            "completed": self.completed, "rounds": self.rounds,
            "final_dev_message": self.final_dev_message, "final_coach_message": self.final_coach_message,
            "history": self.history.iter().map(Spoken::to_dict).collect::<Vec<_>>(),
        })
    }
}

fn last(history: &[DevCoachTurn], role: Role) -> String {
    history.iter().rfind(|turn| turn.role == role).map(|turn| turn.message.clone()).unwrap_or_default()
}

fn tell(whom: &Option<TurnFn>, round: u32, what: &str) {
    if let Some(whom) = whom {
        whom(round, what);
    }
}
