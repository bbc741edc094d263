//! A conversation as a graph: two steps, of which the second depends on the first, repeated until a condition holds.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_graph::Graph;
use nerve_graph::context::RunContext;
use nerve_graph::event::{StepEvent, StepEventKind};
use nerve_graph::executable::Executable;
use nerve_graph::policy::ErrorPolicy;
use nerve_graph::step::{Scope, Step};
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::{EngineError, ErrorKind};
use parking_lot::Mutex;
use serde_json::Value;

use crate::text::message_text;

/// A message of a conversation.
pub(crate) struct Message {
    /// From 1.
    pub(crate) round: u32,
    /// 0 or 1.
    pub(crate) speaker: usize,
    pub(crate) text: String,
}

/// The rules of a conversation between the speakers 0 and 1.
pub(crate) trait Rules: Clone + Send + Sync + 'static {
    /// Checks the rules.
    ///
    /// # Errors
    /// InvalidRequest.
    fn check(&self) -> Result<(), EngineError>;
    /// Returns the prompt of a turn. `other`: last message of the other speaker, if there is one.
    fn prompt(&self, round: u32, speaker: usize, other: Option<&str>) -> String;
    /// Reports a message.
    fn notify(&self, message: &Message);
    /// Returns true if the conversation ends after a round with these messages.
    fn is_over(&self, round: u32, messages: [&str; 2]) -> bool;
}

/// Runs a conversation until it is over. Returns the messages, and why it failed. `speakers`: the ids of the steps, whose turns are
/// `id#1`, `id#2` …, and the nodes. The steps belong to the context's trace, budget and events.
pub(crate) async fn converse<R: Rules>(
    id: &str,
    speakers: [(&'static str, &Executable); 2],
    rules: &R,
    turn_timeout: Option<Duration>,
    context: &RunContext,
) -> (Vec<Message>, Result<(), EngineError>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let outcome = match graph(id, speakers, rules, turn_timeout, context.turn.parser) {
        Ok(graph) => {
            let ids = speakers.map(|(id, _)| id);
            match graph.run(&with_message_observer(context, ids, rules, &messages)).await.error {
                None => Ok(()),
                Some(error) if error.kind == ErrorKind::Cancelled => Err(cancelled_error()),
                Some(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    let messages = std::mem::take(&mut *messages.lock());
    (messages, outcome)
}

fn graph<R: Rules>(
    id: &str,
    speakers: [(&'static str, &Executable); 2],
    rules: &R,
    turn_timeout: Option<Duration>,
    parser: Option<ParserKind>,
) -> Result<Graph, EngineError> {
    let mut graph = Graph::new(id);
    let ids = speakers.map(|(id, _)| id);
    for (speaker, (id, node)) in speakers.into_iter().enumerate() {
        let (rules, other) = (rules.clone(), ids[1 - speaker]);
        // The first speaker answers the previous round.
        let mut step = Step::new(id).depends_on(ids[..speaker].iter().copied()).input_from(move |scope| {
            let other = scope.upstream.get(other).or_else(|| scope.result?.get(other)).map(message_text);
            Ok(Value::from(rules.prompt(scope.round, speaker, other.as_deref())))
        });
        step = step.error_policy(ErrorPolicy { timeout: turn_timeout, ..ErrorPolicy::default() });
        graph.add_step(node.clone(), if let Some(parser) = parser { step.parser(parser) } else { step })?;
    }
    let (checked, ended) = (rules.clone(), rules.clone());
    graph.set_input(move |input| checked.check().map(|()| input));
    let is_over = move |scope: &Scope<'_>| {
        let [first, second] =
            ids.map(|id| scope.result.map(|all| message_text(&all[id])).unwrap_or_default());
        Ok(ended.is_over(scope.round, [&first, &second]))
    };
    graph.set_until(is_over, u32::MAX);
    Ok(graph)
}

/// Returns the context with an observer that reports each message before the next turn begins.
fn with_message_observer<R: Rules>(
    context: &RunContext,
    ids: [&'static str; 2],
    rules: &R,
    messages: &Arc<Mutex<Vec<Message>>>,
) -> RunContext {
    let (rules, messages) = (rules.clone(), Arc::clone(messages));
    let (outer, observer) = (context.step.clone(), context.observer().cloned());
    context.clone().with_observer(Arc::new(move |event: StepEvent| {
        if let StepEventKind::Complete { .. } = event.kind
            && let Some((speaker, round)) = parse_turn(&event.step, outer.as_deref(), ids)
        {
            let message = Message { round, speaker, text: message_text(&event.data) };
            rules.notify(&message);
            messages.lock().push(message);
        }
        if let Some(observer) = &observer {
            observer(event);
        }
    }))
}

/// Returns speaker and round of a turn's path. Steps inside a turn are no turns.
fn parse_turn(path: &str, outer: Option<&str>, ids: [&'static str; 2]) -> Option<(usize, u32)> {
    let path = match outer {
        Some(outer) => path.strip_prefix(outer)?.strip_prefix('/')?,
        None => path,
    };
    let (id, round) = path.split_once('#')?;
    Some((ids.iter().position(|known| *known == id)?, round.parse().ok()?))
}
