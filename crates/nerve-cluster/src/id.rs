//! Ids of runs, steps and attempts, and positions in the store.

use std::fmt;

use nerve_types::name::{self, NameError};
use serde::{Deserialize, Serialize};

/// Position of a message in the store. Increases with every accepted write of the same stream; 0 stands for "no message yet". All keys
/// share one stream, so sequences of leases are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// Id of a run, a name by the rule of [`nerve_types::name`]. Ids are joined by dots in subjects of the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RunId(String);

/// Id of a step in its run, a name by the rule of [`nerve_types::name`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct StepId(String);

impl RunId {
    /// Creates the id.
    ///
    /// # Errors
    /// [`NameError`] quotes an invalid id.
    pub fn new(id: impl Into<String>) -> Result<RunId, NameError> {
        RunId::try_from(id.into())
    }
}

impl StepId {
    /// Creates the id.
    ///
    /// # Errors
    /// [`NameError`] quotes an invalid id.
    pub fn new(id: impl Into<String>) -> Result<StepId, NameError> {
        StepId::try_from(id.into())
    }
}

impl TryFrom<String> for RunId {
    type Error = NameError;

    fn try_from(id: String) -> Result<RunId, NameError> {
        name::check("run", &id)?;
        Ok(RunId(id))
    }
}

impl TryFrom<String> for StepId {
    type Error = NameError;

    fn try_from(id: String) -> Result<StepId, NameError> {
        name::check("step", &id)?;
        Ok(StepId(id))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.run, self.step, self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::{RunId, StepId};

    #[test]
    fn ids_that_are_no_names_are_rejected() {
        for id in ["", "a.b", "a b", "*", ">", "A", &"x".repeat(33)] {
            let json = serde_json::to_string(id).unwrap();
            assert!(RunId::new(id).is_err() && serde_json::from_str::<RunId>(&json).is_err(), "{id:?}");
            assert!(StepId::new(id).is_err() && serde_json::from_str::<StepId>(&json).is_err(), "{id:?}");
        }
    }
}
