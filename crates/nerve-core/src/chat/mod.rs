//! Conversations with a model's API, without a terminal (seed: StatefulLLMNode).

use serde::{Deserialize, Serialize};

/// The model of a chat node, and how it is talked to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSpec {
    /// The model's name, as its API knows it.
    pub model: String,
}
