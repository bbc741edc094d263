//! A turn of a conversation: ask, run the tools that the model wants, ask again, until it has an answer.

use nerve_term::parse::{Section, SectionKind};
use tokio::time::Instant;

use super::answer::{LENGTH, Usage};
use super::message::{Message, ToolCall};
use super::request::Api;
use super::spec::{ChatSpec, Provider};
use super::tools::{self, Choice, Tool};
use super::{anthropic, openai};
use crate::clock::Clock;
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};

/// The reason of an answer that was given because no more tools were run.
const MAX_TOOL_ROUNDS: &str = "max_tool_rounds";

/// A turn on its way. What it has used is known however it ends.
pub(super) struct Turn<'a> {
    pub(super) spec: &'a ChatSpec,
    pub(super) api: &'a Api,
    pub(super) tools: &'a [Tool],
    /// What was said before, then what this turn adds.
    pub(super) messages: Vec<Message>,
    /// Its cancellation ends the turn; pieces of the answer go to its chunks.
    pub(super) context: &'a ExecutionContext,
    pub(super) deadline: Instant,
    pub(super) clock: &'a Clock,
    pub(super) spent: Usage,
}

/// A turn that came to its end.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The whole conversation.
    pub(super) messages: Vec<Message>,
    pub(super) sections: Vec<Section>,
    /// The last answer.
    pub(super) content: String,
    pub(super) calls: Vec<tools::Done>,
    pub(super) model: Option<String>,
    pub(super) finish: String,
    pub(super) retries: u32,
    pub(super) requests: u32,
    pub(super) bytes: u64,
}

impl Turn<'_> {
    /// Takes the turn.
    ///
    /// # Errors
    /// What [`Api::ask`] says; Budget; Api: the model wants tools where it was told that there are none.
    pub(super) async fn take(&mut self, prompt: &str) -> Result<Done, EngineError> {
        let mut done = Done::default();
        let (mut rounds, mut is_over) = (0, false);
        self.messages.push(Message::User { text: prompt.to_string() });
        loop {
            self.check_budget()?;
            let choice = match is_over {
                true => Choice::None,
                false => tools::choice(self.spec, self.tools, done.requests == 0),
            };
            let body = match self.spec.provider {
                Provider::Anthropic => anthropic::request(self.spec, &self.messages, self.tools, &choice),
                Provider::Openai => openai::request(self.spec, &self.messages, self.tools, &choice),
            };
            let (context, chunks) = (self.context, self.context.chunks());
            let asked = self.api.ask(&body, context, chunks, self.deadline, self.clock).await?;
            done.requests = self.api.sent();
            done.retries += asked.retries;
            done.bytes += asked.bytes;
            let answer = asked.answer;
            self.spent += answer.usage;
            done.model = answer.model.or(done.model);
            tell(&mut done.sections, SectionKind::Thinking, &answer.thinking);
            tell(&mut done.sections, SectionKind::Text, &answer.text);
            done.content.clone_from(&answer.text);
            let calls = answer.tool_calls;
            self.messages.push(Message::Assistant { text: answer.text, tool_calls: calls.clone() });
            if calls.is_empty() {
                done.finish = if is_over { MAX_TOOL_ROUNDS.to_string() } else { answer.finish };
                done.messages = std::mem::take(&mut self.messages);
                return Ok(done);
            }
            if answer.finish == LENGTH {
                return Err(self.cut_call());
            }
            if is_over || choice == Choice::None {
                return Err(self.forbidden(&calls));
            }
            let ran = if rounds < self.spec.max_tool_rounds {
                rounds += 1;
                tools::run(self.tools, calls, self.context, self.spec.parallel_tool_calls).await
            } else {
                is_over = true;
                tools::refuse(self.tools, calls, self.spec.max_tool_rounds)
            };
            self.context.check_cancelled()?;
            for ran in &ran {
                let mut section = Section::new(SectionKind::ToolCall, ran.result.content.clone());
                section.metadata = tools::facts(ran);
                done.sections.push(section);
            }
            let results = ran.iter().map(|ran| ran.result.clone()).collect();
            self.messages.push(Message::Tools { results });
            done.calls.extend(ran);
        }
    }

    /// What this turn has used counts when it ends; what it may not use any more is looked at before each request.
    fn check_budget(&mut self) -> Result<(), EngineError> {
        let pool = self.context.pool();
        pool.check(false)?;
        if pool.is_reached_with(self.spent.total()) {
            pool.add_tokens(std::mem::take(&mut self.spent).total());
            pool.check(false)?;
        }
        Ok(())
    }

    fn cut_call(&self) -> EngineError {
        let limit = self.spec.max_tokens;
        let message = format!("the answer was cut at {limit} tokens in the middle of the call of a tool");
        EngineError::new(ErrorKind::Api, message).hint("give the node a larger max_tokens")
    }

    fn forbidden(&self, calls: &[ToolCall]) -> EngineError {
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        let message = format!("the model wants tools ({}) where it may use none", names.join(", "));
        let hint = match self.spec.max_tool_rounds {
            0 => "max_tool_rounds is 0".to_string(),
            rounds => format!("the limit is {rounds} rounds of tools in a turn: max_tool_rounds"),
        };
        EngineError::new(ErrorKind::Api, message).hint(hint)
    }
}

fn tell(sections: &mut Vec<Section>, kind: SectionKind, text: &str) {
    if !text.trim().is_empty() {
        sections.push(Section::new(kind, text));
    }
}
