//! The journal of a run: its records, their fold, and a process's replica.

mod record;
mod replica;
mod state;

pub use record::{
    Decision, Epoch, OnMachineLost, Record, RecordKind, RunOutcome, StepResult, StepSpec, UndecodableRecord,
};
pub(crate) use replica::Replica;
pub use state::{Attempt, AttemptState, RunState, StepState, TurnLocation};
