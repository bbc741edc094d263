//! The node that gets the prompt of a call: the named one, a fork of it, or a new one.

use nerve_api::ErrorKind;
use nerve_api::reply::{NodeInfo, TranscriptSource, TranscriptTurn};
use nerve_api::request::{ConversationMessage, ForkNode, GetTranscript, NodeRef};

use super::config::{Mode, Template};
use super::conversation::Conversation;
use super::error::ApiError;
use super::model::{ModelTarget, find_node, model_name};
use super::temporary_node::TemporaryNode;
use crate::http::SiteState;
use crate::http::budget::MemoryReservation;
use crate::http::resource::call;

/// A node, with its prompt and the messages before it.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) at: NodeRef,
    /// Messages before the prompt.
    pub(super) messages: Vec<ConversationMessage>,
    pub(super) prompt: String,
    /// Removes a fork or a new node.
    pub(super) temporary: Option<TemporaryNode>,
}

impl Destination {
    /// Finds, forks or creates the node.
    ///
    /// # Errors
    /// There is no such node, it has another conversation than the request, or it cannot be forked or created.
    pub(super) async fn prepare(
        target: ModelTarget,
        conversation: Conversation,
        site: &SiteState,
    ) -> Result<Destination, ApiError> {
        match target {
            ModelTarget::New { name, template } => create(&name, *template, conversation, site).await,
            ModelTarget::Node { at, mode } => {
                let node = find_node(&at, site).await?;
                match mode {
                    Mode::Match => send_if_same(at, &node, conversation, site).await,
                    Mode::Node => {
                        let known = conversation.exchanges.len();
                        Ok(Destination::of_node(at, conversation, known))
                    }
                    Mode::Fork => fork(&at, &node, conversation, site).await,
                }
            }
        }
    }

    fn of_node(at: NodeRef, conversation: Conversation, known: usize) -> Destination {
        let messages = conversation.messages(known);
        Destination { at, messages, prompt: conversation.prompt, temporary: None }
    }
}

/// Selects the node if the request has the node's own conversation.
async fn send_if_same(
    at: NodeRef,
    node: &NodeInfo,
    conversation: Conversation,
    site: &SiteState,
) -> Result<Destination, ApiError> {
    let (turns, _memory) = turns_of(&at, node, site).await?;
    let (common, sent) =
        (conversation.count_common(&turns, &site.openai.sent_answers), conversation.exchanges.len());
    if common == sent && common == turns.len() {
        return Ok(Destination::of_node(at, conversation, common));
    }
    let message = format!(
        "node '{}' has another conversation: it has {} turns, the request has {sent} earlier prompts, and the first \
         {common} of them are the same",
        at.node,
        turns.len()
    );
    let name = model_name(&at.node, at.session.as_deref());
    let hint = format!(
        "model '{name}:node' sends only the last message, whatever the earlier ones are; '{name}:fork' sends it to a \
         copy of the node"
    );
    Err(ApiError::conflict(message, hint).code("conversation_mismatch").param("messages").at(&at))
}

/// Forks the node after the last turn that the request has too. Without a common turn, the fork continues from the node's present
/// conversation.
async fn fork(
    at: &NodeRef,
    node: &NodeInfo,
    conversation: Conversation,
    site: &SiteState,
) -> Result<Destination, ApiError> {
    let (turns, memory) = turns_of(at, node, site).await?;
    let common = conversation.count_common(&turns, &site.openai.sent_answers);
    // Forks count the turns of the agent's own file, without those that only the history has.
    let own = turns[..common].iter().filter(|turn| turn.source == TranscriptSource::Agent).count();
    let is_earlier = (1..turns.len()).contains(&common);
    let turn = is_earlier.then(|| u64::try_from(own.max(1)).unwrap_or(u64::MAX));
    drop((turns, memory));
    let temporary = TemporaryNode::reserve(&at.node, at.session.clone(), site)?;
    let request = ForkNode {
        source_id: at.node.clone(),
        target_id: temporary.at().node.clone(),
        at: turn,
        session_id: at.session.clone(),
    };
    call(request, site).await.map_err(|problem| ApiError::from(problem).at(at))?;
    let fork = temporary.at().clone();
    Ok(Destination { temporary: Some(temporary), ..Destination::of_node(fork, conversation, common) })
}

async fn create(
    name: &str,
    template: Template,
    conversation: Conversation,
    site: &SiteState,
) -> Result<Destination, ApiError> {
    let temporary = TemporaryNode::reserve(name, template.session(), site)?;
    let at = temporary.at().clone();
    call(template.node(at.clone()), site).await.map_err(|problem| ApiError::from(problem).at(&at))?;
    Ok(Destination { temporary: Some(temporary), ..Destination::of_node(at, conversation, 0) })
}

/// Returns the turns of a node, and their memory, without those that are only guessed from its screen. A node that has not been
/// recorded has none.
async fn turns_of(
    at: &NodeRef,
    node: &NodeInfo,
    site: &SiteState,
) -> Result<(Vec<TranscriptTurn>, MemoryReservation), ApiError> {
    // The history of a Claude Code node begins with its command.
    let is_start = |turn: &TranscriptTurn| {
        turn.source == TranscriptSource::History && turn.prompt == node.metadata.text("command")
    };
    let (node_id, session_id) = (Some(at.node.clone()), at.session.clone());
    match call(GetTranscript { node_id, session_id, ..GetTranscript::default() }, site).await {
        Ok((mut transcript, memory)) => {
            transcript.turns.retain(|turn| turn.source != TranscriptSource::Screen && !is_start(turn));
            Ok((transcript.turns, memory))
        }
        Err(problem) if problem.kind() == ErrorKind::NotFound => {
            Ok((Vec::new(), MemoryReservation::default()))
        }
        Err(problem) => Err(ApiError::from(problem).at(at)),
    }
}
