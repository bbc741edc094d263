//! Records of a run's journal.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{Sequence, StepId};
use crate::instance::{Instance, MachineId};
use crate::placement::{Reason, Requirement};

/// Time of one owner: the sequence of its lease when it took the run over. The default, 0, is the time before the first owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch(pub Sequence);

/// A record of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The epoch in which the writer wrote it. Except for `OwnerTookOver`, readers reject it in another epoch.
    pub epoch: Epoch,
    /// The kind of record, with its fields.
    #[serde(flatten)]
    pub kind: RecordKind,
}

/// A message of the journal that this version cannot decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndecodableRecord {
    /// No version writes this. The message is void for all readers.
    Garbage,
    /// A later version may have written it, so it may be valid for others. A reader that meets it does not write any more.
    Unsupported,
}

impl Record {
    /// Decodes a message of the journal. Fields that this version does not know are ignored.
    ///
    /// # Errors
    /// [`UndecodableRecord::Unsupported`] if the message has an epoch and a kind, else [`UndecodableRecord::Garbage`].
    pub fn decode(json: &[u8]) -> Result<Record, UndecodableRecord> {
        serde_json::from_slice(json).map_err(|_| {
            let value: Value = serde_json::from_slice(json).unwrap_or_default();
            if value["epoch"].is_u64() && value["kind"].is_string() {
                UndecodableRecord::Unsupported
            } else {
                UndecodableRecord::Garbage
            }
        })
    }
}

/// The kind of a record and its fields. `by`: the process that wrote it. `attempt`: number of the attempt, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields repeat, and are described here and at their variants")]
pub enum RecordKind {
    /// The run has these steps. The first record of a run, written by the client's server in epoch 0. Void if there are no steps, two
    /// with the same id, or some that can never be ready. `work`: what the steps do, which the core does not read.
    Planned {
        steps: Vec<StepSpec>,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        work: Value,
    },
    /// A process owns the run. Its epoch must exceed the current one, and becomes the current one.
    OwnerTookOver { by: Instance },
    /// A machine may take this attempt. May be repeated with another machine until the attempt starts. The first failure of a step ends
    /// all offers of the run.
    Offered { step: StepId, attempt: u32, machine: MachineId, reason: Reason },
    /// A process is about to type the prompt: the fence. `offset`: the node's output so far, in bytes.
    Started { step: StepId, attempt: u32, by: Instance, node: String, offset: u64 },
    /// The workspace or the node could not be prepared, so no prompt is typed. The step fails.
    PreparationFailed { step: StepId, attempt: u32, by: Instance, error: String },
    /// A process of the machine that started the attempt has its turn, after a restart or after doubt.
    Resumed { step: StepId, attempt: u32, by: Instance },
    /// The machine is lost, or has lost the turn. Its effects are unknown.
    InDoubt { step: StepId, attempt: u32 },
    /// The attempt has a result, which is the step's.
    Finished { step: StepId, attempt: u32, by: Instance, result: StepResult },
    /// An attempt that no longer counts has a result. Shown, and used only on request.
    LateResult { step: StepId, attempt: u32, by: Instance, result: StepResult },
    /// A person decided on a step in doubt. `doubt`: sequence of the `InDoubt`; the decision is void for a later one.
    Decided { step: StepId, attempt: u32, doubt: Sequence, decision: Decision },
    /// A step in doubt fails, because of [`OnMachineLost::Fail`], [`Decision::Fail`], or another failure, which excludes a retry.
    Failed { step: StepId, attempt: u32 },
    /// A person cancels the run: nothing more begins, and the turns that run are cancelled.
    Cancelled,
    /// A person continues a run that has failed or was cancelled: its steps without a successful result run again.
    Continued,
    /// The run has ended. Void unless the steps have reached this outcome. Afterwards only results and `Continued` count.
    Ended { outcome: RunOutcome },
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The step's id.
    pub id: StepId,
    /// Steps that must have succeeded before.
    #[serde(default)]
    pub after: Vec<StepId>,
    /// True if the step may run twice, for example a test suite. False for agents.
    #[serde(default)]
    pub is_safe: bool,
    /// Treatment of a started step that is not safe, if its machine is lost.
    #[serde(default)]
    pub on_machine_lost: OnMachineLost,
    /// Machines that can run the step.
    #[serde(default)]
    pub requirement: Requirement,
}

/// Treatment of a step in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMachineLost {
    /// Waits for the machine or for a person.
    #[default]
    Wait,
    /// Offers another attempt after each loss, without a maximum: the prompt may be typed once per attempt.
    Retry,
    /// Fails the step.
    Fail,
}

/// A person's decision on a step in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Offers another attempt: the prompt may be typed once more.
    Retry,
    /// Fails the step.
    Fail,
}

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// True if the step succeeded.
    pub is_success: bool,
    /// The result, or the address of a large one. The core does not read it.
    pub value: String,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every step succeeded.
    Completed,
    /// A step failed, and nothing runs any more.
    Failed,
    /// A person cancelled the run, and nothing runs any more.
    Cancelled,
}
