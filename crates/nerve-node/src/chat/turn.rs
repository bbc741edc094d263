//! A turn of a conversation: calls the API, runs the requested tools, and repeats until there is an answer.

use nerve_agent::parse::{Section, SectionKind};
use nerve_api::reply::ModelTokens;
use nerve_host::clock::Clock;
use nerve_llm::answer::{LENGTH, Usage};
use nerve_llm::message::{Message, ToolCall};
use nerve_llm::request::{ModelRequest, ToolSelection};
use nerve_llm::{anthropic, openai};
use tokio::time::Instant;

use super::request::Api;
use super::tools::{self, Tool};
use super::{ChatSettings, Provider, settings};
use crate::budget::Checkpoint;
use crate::context::TurnContext;
use crate::error::{EngineError, ErrorKind};
use crate::usage_ledger::UsageLedger;

/// The finish reason of an answer that was forced by the limit of tool rounds.
const MAX_TOOL_ROUNDS: &str = "max_tool_rounds";

/// A turn in progress. Its usage is known however it ends.
pub(super) struct Turn<'a> {
    pub(super) settings: &'a ChatSettings,
    pub(super) api: &'a Api,
    pub(super) tools: &'a [Tool],
    /// The previous messages, followed by those of this turn.
    pub(super) messages: Vec<Message>,
    /// Its cancellation ends the turn, and its sink receives the chunks of the answer.
    pub(super) context: &'a TurnContext,
    pub(super) deadline: Instant,
    pub(super) clock: &'a Clock,
    /// Counts each answer of the model.
    pub(super) ledger: &'a UsageLedger,
    pub(super) spent: Usage,
    /// The tokens in `spent` count toward the budget already.
    pub(super) is_counted: bool,
}

/// A completed turn.
#[derive(Debug, Default)]
pub(super) struct TurnResult {
    /// The whole conversation.
    pub(super) messages: Vec<Message>,
    pub(super) sections: Vec<Section>,
    /// The text of the last answer.
    pub(super) content: String,
    pub(super) calls: Vec<tools::FinishedCall>,
    pub(super) model: Option<String>,
    pub(super) finish: String,
    pub(super) retries: u32,
    pub(super) requests: u32,
    pub(super) bytes: u64,
}

impl Turn<'_> {
    /// Exchanges requests and answers with the model, and runs its tools, until an answer calls none.
    ///
    /// # Errors
    /// The errors of [`Api::send`]; Budget; Api: the model calls tools although it may not.
    pub(super) async fn run(&mut self, prompt: &str) -> Result<TurnResult, EngineError> {
        let mut result = TurnResult::default();
        let (mut rounds, mut is_over) = (0, false);
        self.messages.push(Message::User { text: prompt.to_string() });
        loop {
            self.check_budget()?;
            let selection = match is_over {
                true => ToolSelection::None,
                false => tools::select(self.settings, self.tools, result.requests == 0),
            };
            let body = match self.settings.provider {
                Provider::Anthropic => anthropic::request(&self.request(&selection)),
                Provider::Openai => openai::request(&self.request(&selection)),
            };
            let reply = self.api.send(&body, self.context, self.deadline, self.clock).await?;
            result.requests = self.api.sent();
            result.retries += reply.retries;
            result.bytes += reply.bytes;
            let answer = reply.answer;
            self.spent += answer.usage;
            result.model = answer.model.or(result.model);
            let tokens = ModelTokens {
                model: Some(result.model.as_ref().unwrap_or(&self.settings.model).clone()),
                tokens: answer.usage.into(),
            };
            self.context.add_cost(self.ledger.add_response(&tokens, None).unwrap_or(0.0));
            push_section(&mut result.sections, SectionKind::Thinking, &answer.thinking);
            push_section(&mut result.sections, SectionKind::Text, &answer.text);
            result.content.clone_from(&answer.text);
            let calls = answer.tool_calls;
            self.messages.push(Message::Assistant { text: answer.text, tool_calls: calls.clone() });
            if calls.is_empty() {
                result.finish = if is_over { MAX_TOOL_ROUNDS.to_string() } else { answer.finish };
                result.messages = std::mem::take(&mut self.messages);
                return Ok(result);
            }
            if answer.finish == LENGTH {
                return Err(self.truncated_call_error());
            }
            if is_over || selection == ToolSelection::None {
                return Err(self.forbidden_call_error(&calls));
            }
            let finished = if rounds < self.settings.max_tool_rounds {
                rounds += 1;
                tools::run(self.tools, calls, self.context, self.settings.parallel_tool_calls).await
            } else {
                is_over = true;
                tools::refuse(self.tools, calls, self.settings.max_tool_rounds)
            };
            self.context.check_cancelled()?;
            for call in &finished {
                let mut section = Section::new(SectionKind::ToolCall, call.result.content.clone());
                section.metadata = tools::call_metadata(call);
                result.sections.push(section);
            }
            let results = finished.iter().map(|call| call.result.clone()).collect();
            self.messages.push(Message::Tools { results });
            result.calls.extend(finished);
        }
    }

    /// Returns the request with the conversation so far.
    fn request<'a>(&'a self, selection: &'a ToolSelection) -> ModelRequest<'a> {
        ModelRequest {
            model: &self.settings.model,
            system: self.settings.system.as_deref(),
            messages: &self.messages,
            tools: self.tools.iter().map(|tool| &tool.definition).collect(),
            selection,
            max_tokens: self.settings.max_tokens,
            temperature: self.settings.temperature,
            parallel_tool_calls: self.settings.parallel_tool_calls,
            is_openai: settings::is_openai(self.settings),
        }
    }

    /// Checks the budget before each request. The turn's own usage is counted at its end, or here if it exceeds the budget.
    fn check_budget(&mut self) -> Result<(), EngineError> {
        let pool = self.context.pool();
        pool.check_stops(Checkpoint::WithinStep)?;
        if pool.would_stop_at_token_limit(self.spent.total()) {
            self.is_counted = true;
            pool.add_tokens(self.spent.total());
            pool.check_stops(Checkpoint::WithinStep)?;
        }
        Ok(())
    }

    fn truncated_call_error(&self) -> EngineError {
        let limit = self.settings.max_tokens;
        let message = format!("the answer was cut at {limit} tokens in a tool call");
        EngineError::new(ErrorKind::Api, message).hint("give the node a larger max_tokens")
    }

    fn forbidden_call_error(&self, calls: &[ToolCall]) -> EngineError {
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        let message = format!("the model called tools ({}) although it may not use any", names.join(", "));
        let hint = match self.settings.max_tool_rounds {
            0 => "max_tool_rounds is 0".to_string(),
            rounds => format!("max_tool_rounds limits a turn to {rounds} rounds of tools"),
        };
        EngineError::new(ErrorKind::Api, message).hint(hint)
    }
}

fn push_section(sections: &mut Vec<Section>, kind: SectionKind, text: &str) {
    if !text.trim().is_empty() {
        sections.push(Section::new(kind, text));
    }
}
