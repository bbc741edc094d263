//! Placement of steps on the machines of a cluster.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;

/// Machines of a cluster that can run a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Placement {
    /// Every machine.
    #[default]
    Any,
    /// The machine with this name.
    Machine(String),
    /// The machines with all of these labels.
    Labels(BTreeSet<String>),
}

/// The accepted forms of a placement. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the accepted forms to the schema")]
pub(super) enum PlacementForm {
    /// `any`, or the name of a machine.
    Name(String),
    /// Labels that the machine must have.
    Labels {
        /// The labels.
        labels: Vec<String>,
    },
}

impl Placement {
    /// The text that stands for every machine.
    pub(super) const ANY: &'static str = "any";
}

impl Serialize for Placement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Placement::Any => Placement::ANY.serialize(serializer),
            Placement::Machine(name) => name.serialize(serializer),
            Placement::Labels(labels) => json!({ "labels": labels }).serialize(serializer),
        }
    }
}
