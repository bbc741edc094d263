//! An interface for clients of OpenAI's Chat Completions API: each node is a model.
//!
//! | module | contents |
//! |---|---|
//! | `types` | the objects of the API |
//! | `chat_request` | reads a request, and refuses what an agent cannot do |
//! | `conversation` | the messages of a request, and their comparison with a node's turns |
//! | `config` | the user's settings, `openai.toml` |
//! | `model` | names of models, and their list |
//! | `destination` | the node that gets the prompt: the named one, a fork or a new one |
//! | `temporary_node` | a node that is removed after its call |
//! | `turn`, `outcome` | the turn of a call, and its end |
//! | `streamed_text` | the part of an answer that was streamed |
//! | `sent_answers` | recognizes streamed answers that clients send back |
//! | `completion`, `stream` | responses at the end, and in chunks |
//! | `client_connection` | notices that a client has left |
//! | `error` | errors in the format of the API |

mod chat_request;
mod client_connection;
mod completion;
mod config;
mod conversation;
mod destination;
mod error;
mod model;
mod outcome;
mod sent_answers;
mod stream;
mod streamed_text;
mod temporary_node;
mod turn;
mod types;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nerve_api::request::NodeRef;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::config::Config;
pub(super) use self::error::{ApiError, adapt};
use self::sent_answers::SentAnswers;
pub(super) use self::types::{ChatCompletion, ChatCompletionChunk, ChatRequest, ErrorBody, Model, ModelList};
use super::operation::Builtin;
use super::resource::{PathParams, raw_query};
use super::{SiteState, query};

/// Beginning of the paths of this interface.
const PREFIX: &str = "/v1/";
/// Maximum number of calls at a time.
const MAX_CALLS: usize = 64;
/// Maximum number of nodes at a time that exist for one call only.
const MAX_TEMPORARY_NODES: usize = 8;

/// The settings and the limits of the interface.
#[derive(Debug)]
pub(super) struct ChatEndpoint {
    config_file: PathBuf,
    calls: Arc<Semaphore>,
    temporary_nodes: Mutex<HashSet<NodeRef>>,
    sent_answers: SentAnswers,
}

impl ChatEndpoint {
    /// Creates the interface with the settings in this file, which need not exist and is read for each request.
    pub(super) fn new(config_file: PathBuf) -> ChatEndpoint {
        ChatEndpoint {
            config_file,
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            temporary_nodes: Mutex::default(),
            sent_answers: SentAnswers::default(),
        }
    }

    async fn config(&self) -> Result<Config, ApiError> {
        Config::load(&self.config_file).await
    }

    /// Takes the place of a call.
    fn begin_call(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let busy = |_| ApiError::too_many(format!("{MAX_CALLS} calls are running"));
        self.calls.clone().try_acquire_owned().map_err(busy)
    }

    /// Adds a node that exists for one call.
    fn add_temporary_node(&self, at: NodeRef) -> Result<(), ApiError> {
        let mut nodes = self.temporary_nodes.lock();
        if nodes.len() >= MAX_TEMPORARY_NODES {
            return Err(ApiError::too_many(format!(
                "{MAX_TEMPORARY_NODES} nodes for single calls are running"
            )));
        }
        nodes.insert(at);
        Ok(())
    }

    fn remove_temporary_node(&self, at: &NodeRef) {
        self.temporary_nodes.lock().remove(at);
    }

    fn is_temporary(&self, at: &NodeRef) -> bool {
        self.temporary_nodes.lock().contains(at)
    }
}

/// Returns true if errors at this path have the format of OpenAI's API.
pub(super) fn is_path(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// Answers a request.
pub(super) async fn serve(
    which: Builtin,
    State(site): State<SiteState>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, ApiError> {
    // Unknown parameters are errors: a token in a URL would be logged.
    query::read(&[], &raw_query(request.uri())?)?;
    match which {
        Builtin::Models => model::list(&site).await,
        Builtin::Model => {
            let id = path.iter().next().map(|(_, id)| id.to_string()).unwrap_or_default();
            model::retrieve(&site, &id).await
        }
        _ => completion::complete(site, request).await,
    }
}
