//! Placement of steps on machines.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::instance::MachineId;

/// Machines that can run a step. The default accepts every machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Requirement {
    /// The only accepted machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Labels that the machine must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// A workspace that the step uses; machines that have it are preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A machine that is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineInfo {
    /// The machine's identity.
    pub id: MachineId,
    /// The name in addresses.
    pub name: String,
    /// The labels that steps can require.
    pub labels: BTreeSet<String>,
    /// Number of steps that it can begin now.
    pub free_slots: u32,
    /// False if it begins no step at all: it has no slots, or it is drained.
    pub accepts_steps: bool,
    /// Workspaces that it has.
    pub workspaces: BTreeSet<String>,
}

/// Reason for the choice of a machine, kept in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The step names the machine.
    Named,
    /// No other present machine has the labels and a free slot.
    OnlyCandidate,
    /// The machine has the workspace.
    HasWorkspace,
    /// The machine has the most free slots.
    MostFreeSlots,
}

/// Reason why no machine was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMachine {
    /// No present machine has the name and the labels.
    NoMatch,
    /// All matching machines that accept steps are busy.
    NoFreeSlot,
    /// No matching machine accepts steps.
    NoneAccepts,
}

/// A step that waits for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingStep {
    /// The step.
    pub step: StepId,
    /// The reason.
    pub reason: NoMachine,
}

/// Chooses a machine that accepts steps: name and labels exclude, as does a lack of free slots; then the workspace decides, then the
/// number of free slots, then the lowest id.
///
/// # Errors
/// [`NoMachine`] if none remains.
pub fn place(requirement: &Requirement, machines: &[MachineInfo]) -> Result<(MachineId, Reason), NoMachine> {
    let has_workspace = |machine: &MachineInfo| {
        requirement.workspace.as_ref().is_some_and(|workspace| machine.workspaces.contains(workspace))
    };
    let matching = || machines.iter().filter(|machine| requirement.matches(machine));
    let accepting = || matching().filter(|machine| machine.accepts_steps);
    let candidates = || accepting().filter(|machine| machine.free_slots > 0);
    let rank = |machine: &&MachineInfo| (has_workspace(machine), machine.free_slots, Reverse(machine.id));
    let Some(chosen) = candidates().max_by_key(rank) else {
        return Err(if accepting().next().is_some() {
            NoMachine::NoFreeSlot
        } else if matching().next().is_some() {
            NoMachine::NoneAccepts
        } else {
            NoMachine::NoMatch
        });
    };
    let reason = if requirement.machine.is_some() {
        Reason::Named
    } else if candidates().count() == 1 {
        Reason::OnlyCandidate
    } else if has_workspace(chosen) {
        Reason::HasWorkspace
    } else {
        Reason::MostFreeSlots
    };
    Ok((chosen.id, reason))
}

impl Requirement {
    fn matches(&self, machine: &MachineInfo) -> bool {
        self.machine.as_ref().is_none_or(|name| *name == machine.name)
            && self.labels.is_subset(&machine.labels)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{MachineInfo, NoMachine, Reason, Requirement, place};
    use crate::instance::MachineId;

    fn set(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(String::from).collect()
    }

    fn machine(id: u128, labels: &str, free_slots: u32, workspaces: &str) -> MachineInfo {
        let (labels, workspaces) = (set(labels), set(workspaces));
        let (name, accepts_steps) = (format!("m{id}"), id != 5);
        MachineInfo { id: MachineId(id), name, labels, free_slots, accepts_steps, workspaces }
    }

    fn choose(requirement: &Requirement) -> Result<(u128, Reason), NoMachine> {
        let machines = [
            machine(1, "linux gpu", 0, "shop"),
            machine(2, "linux", 2, "shop"),
            machine(3, "linux", 5, ""),
            machine(4, "mac", 5, ""),
            machine(5, "linux mac drained", 9, "shop"),
        ];
        place(requirement, &machines).map(|(id, reason)| (id.0, reason))
    }

    #[test]
    fn most_free_slots_win_and_lowest_id_breaks_the_tie() {
        assert_eq!(choose(&Requirement::default()), Ok((3, Reason::MostFreeSlots)));
    }

    #[test]
    fn workspace_precedes_free_slots() {
        let requirement = Requirement { workspace: Some("shop".into()), ..Requirement::default() };
        assert_eq!(choose(&requirement), Ok((2, Reason::HasWorkspace)));
    }

    #[test]
    fn name_and_labels_exclude_machines() {
        let named = |name: &str| Requirement { machine: Some(name.into()), ..Requirement::default() };
        let labelled = |labels: &str| Requirement { labels: set(labels), ..Requirement::default() };
        assert_eq!(choose(&named("m2")), Ok((2, Reason::Named)));
        assert_eq!(choose(&named("m1")), Err(NoMachine::NoFreeSlot));
        assert_eq!(choose(&named("m9")), Err(NoMachine::NoMatch));
        assert_eq!(choose(&labelled("mac")), Ok((4, Reason::OnlyCandidate)));
        assert_eq!(choose(&labelled("linux gpu")), Err(NoMachine::NoFreeSlot));
        assert_eq!(choose(&labelled("mac gpu")), Err(NoMachine::NoMatch));
        assert_eq!(choose(&labelled("drained")), Err(NoMachine::NoneAccepts));
    }
}
