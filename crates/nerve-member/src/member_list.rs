//! The members of a cluster, as one reading of their leases shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nerve_cluster::journal::AttemptState;
use nerve_cluster::placement::MachineInfo;
use nerve_cluster::{Instance, MachineId, RunState};
use nerve_nats::{PresentMachine, PresentMachines};
use nerve_types::{millis, name};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{ClusterConfig, MAX_LABELS};

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    /// Name of the machine; empty if a later version wrote the description.
    pub machine_name: String,
    /// Id of the machine.
    pub machine_id: MachineId,
    /// Number of starts of its member.
    pub boot: u64,
    /// Version of its nerve.
    pub version: String,
    /// Time since the last renewal of its lease, by the brokers' clocks, in milliseconds.
    pub lease_age_ms: u64,
    /// Time since this process became a member, in milliseconds.
    pub member_for_ms: u64,
    /// Labels that steps can require.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// Number of steps that it executes at the same time.
    #[serde(default)]
    pub slots: u32,
}

/// The members at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberList {
    /// The members, by name and id.
    pub members: Vec<MemberInfo>,
    /// Number of members that this version cannot read.
    pub unsupported: usize,
}

/// The description that the lease of a machine carries. Fields of later versions are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Presence {
    machine_name: String,
    version: String,
    /// Time since the process became a member, by its own clock, at the renewal.
    member_for_ms: u64,
    labels: BTreeSet<String>,
    slots: u32,
}

impl Presence {
    /// Creates the description of this machine.
    pub(crate) fn new(config: &ClusterConfig, member_for: Duration) -> Presence {
        Presence {
            machine_name: config.machine.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            member_for_ms: millis(member_for),
            labels: config.labels.clone(),
            slots: config.slots,
        }
    }

    /// Returns the form in which the lease carries it.
    pub(crate) fn to_value(&self) -> Value {
        // Texts and numbers: this cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl MemberList {
    /// Converts the leases of the machines that are present.
    pub(crate) fn new(present: PresentMachines) -> MemberList {
        let mut members: Vec<MemberInfo> = present.machines.into_iter().map(MemberInfo::new).collect();
        members.sort_by(|a, b| (&a.machine_name, a.machine_id).cmp(&(&b.machine_name, b.machine_id)));
        MemberList { members, unsupported: present.unsupported }
    }

    /// Returns name, id and starts of each member.
    pub(crate) fn processes(&self) -> Vec<(&str, MachineId, u64)> {
        self.members
            .iter()
            .map(|member| (member.machine_name.as_str(), member.machine_id, member.boot))
            .collect()
    }

    /// Returns the members for the placement of steps, with the slots that these runs leave. Members without a readable description
    /// have no name, label or slot.
    pub fn machines<'a>(&self, runs: impl IntoIterator<Item = &'a RunState>) -> Vec<MachineInfo> {
        let steps = runs.into_iter().flat_map(|run| run.steps.values());
        let mut used: BTreeMap<MachineId, u32> = BTreeMap::new();
        for attempt in steps.filter_map(|step| step.current()).map(|(_, attempt)| attempt) {
            if matches!(attempt.state, AttemptState::Started { .. }) {
                *used.entry(attempt.machine).or_default() += 1;
            }
        }
        let machine = |member: &MemberInfo| MachineInfo {
            id: member.machine_id,
            name: member.machine_name.clone(),
            labels: member.labels.clone(),
            free_slots: member.slots.saturating_sub(used.get(&member.machine_id).copied().unwrap_or(0)),
            workspaces: BTreeSet::new(),
        };
        self.members.iter().map(machine).collect()
    }

    /// Returns true if the same processes are members. Their leases may have other ages.
    pub(crate) fn has_same_members(&self, other: &MemberList) -> bool {
        self.processes() == other.processes() && self.unsupported == other.unsupported
    }

    /// Returns the names that several members have, in order. `on: NAME` selects any of them.
    pub fn shared_names(&self) -> BTreeSet<&str> {
        let (mut known, mut shared) = (BTreeSet::new(), BTreeSet::new());
        let names = self.members.iter().map(|member| member.machine_name.as_str());
        for name in names.filter(|name| !name.is_empty()) {
            if !known.insert(name) {
                shared.insert(name);
            }
        }
        shared
    }

    /// Returns the id of a machine with this name, other than this machine.
    pub(crate) fn namesake(&self, name: &str, own_id: Option<MachineId>) -> Option<MachineId> {
        let is_namesake =
            |member: &&MemberInfo| member.machine_name == name && Some(member.machine_id) != own_id;
        self.members.iter().find(is_namesake).map(|member| member.machine_id)
    }
}

impl MemberInfo {
    fn new(machine: PresentMachine) -> MemberInfo {
        let Instance { machine: machine_id, boot, .. } = machine.holder;
        let presence: Presence = serde_json::from_value(machine.presence).unwrap_or_default();
        // The text comes from another machine and is displayed.
        let is_name = name::check("machine", &presence.machine_name).is_ok();
        let is_label = |label: &String| name::check("label", label).is_ok();
        MemberInfo {
            machine_name: if is_name { presence.machine_name } else { String::new() },
            machine_id,
            boot,
            version: presence.version.chars().filter(|char| !char.is_control()).take(64).collect(),
            lease_age_ms: millis(machine.lease_age),
            member_for_ms: presence.member_for_ms.saturating_add(millis(machine.lease_age)),
            labels: presence.labels.into_iter().filter(is_label).take(MAX_LABELS).collect(),
            slots: if is_name { presence.slots } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use nerve_cluster::Sequence;
    use serde_json::json;

    use super::*;

    fn machine(id: u128, presence: Value) -> PresentMachine {
        let holder = Instance { machine: MachineId(id), boot: 3, nonce: 1 };
        PresentMachine { holder, presence, lease_age: Duration::from_millis(200) }
    }

    fn presence(machine: &str, member_for: Duration) -> Value {
        Presence {
            machine_name: machine.into(),
            version: "1.2.3".into(),
            member_for_ms: millis(member_for),
            labels: ["gpu", "No label"].map(String::from).into(),
            slots: 2,
        }
        .to_value()
    }

    fn list(machines: Vec<PresentMachine>) -> MemberList {
        MemberList::new(PresentMachines { machines, unsupported: 0 })
    }

    #[test]
    fn member_has_the_age_of_its_lease() {
        let list = list(vec![
            machine(1, presence("b", Duration::from_secs(1))),
            machine(2, presence("a", Duration::ZERO)),
        ]);
        let ages: Vec<_> =
            list.members.iter().map(|m| (m.machine_name.as_str(), m.lease_age_ms, m.member_for_ms)).collect();
        assert_eq!(ages, [("a", 200, 200), ("b", 200, 1_200)]);
        assert!(list.members.iter().all(|member| member.boot == 3 && !member.version.is_empty()));
    }

    #[test]
    fn foreign_descriptions_cannot_control_the_terminal() {
        let odd = json!({ "machine_name": "a\u{1b}[2J", "version": "1\u{1b}]0;x", "labels": ["new"] });
        let list = list(vec![machine(1, odd), machine(2, Value::Null), machine(3, json!(7))]);
        let text = serde_json::to_string(&list).unwrap();
        assert!(!text.contains("\\u001b") && list.members.len() == 3, "{text}");
    }

    #[test]
    fn machines_have_valid_labels_and_slots() {
        let list = list(vec![machine(1, presence("a", Duration::ZERO)), machine(2, json!({ "slots": 3 }))]);
        let machines: Vec<_> = list
            .machines([])
            .into_iter()
            .map(|m| (m.name, m.labels.into_iter().collect::<Vec<_>>(), m.free_slots))
            .collect();
        let labels = vec!["gpu".to_string()];
        assert_eq!(machines, [(String::new(), vec![], 0), ("a".to_string(), labels, 2)]);
    }

    #[test]
    fn started_steps_use_slots() {
        let list =
            list(vec![machine(1, presence("a", Duration::ZERO)), machine(2, presence("b", Duration::ZERO))]);
        let record = |json: Value| serde_json::from_value(json).unwrap();
        let by = json!({ "machine": MachineId(1), "boot": 1, "nonce": 1 });
        let mut run = RunState::default();
        for (sequence, json) in (1..).zip([
            json!({ "epoch": 0, "kind": "planned", "steps": [{ "id": "s" }] }),
            json!({ "epoch": 0, "kind": "offered", "step": "s", "attempt": 1, "machine": MachineId(1), "reason": "named" }),
            json!({ "epoch": 0, "kind": "started", "step": "s", "attempt": 1, "by": by, "node": "n", "offset": 0 }),
        ]) {
            assert!(run.apply(Sequence(sequence), &record(json)));
        }
        let free: Vec<u32> = list.machines([&run, &run]).iter().map(|machine| machine.free_slots).collect();
        assert_eq!(free, [0, 2]);
    }

    #[test]
    fn namesake_is_another_machine() {
        let list = list(vec![machine(1, presence("a", Duration::ZERO))]);
        assert_eq!(list.namesake("a", None), Some(MachineId(1)));
        assert_eq!(list.namesake("a", Some(MachineId(2))), Some(MachineId(1)));
        assert_eq!(list.namesake("a", Some(MachineId(1))), None);
        assert_eq!(list.namesake("b", None), None);
    }

    #[test]
    fn names_of_several_members_are_shared() {
        let named = |id, name| machine(id, presence(name, Duration::ZERO));
        let list = list(vec![named(1, "b"), named(2, "a"), named(3, "b"), machine(4, Value::Null)]);
        assert_eq!(list.shared_names().into_iter().collect::<Vec<_>>(), ["b"]);
        let one = MemberList { members: list.members[1..3].to_vec(), unsupported: 0 };
        assert!(one.shared_names().is_empty(), "{one:?}");
    }

    #[test]
    fn age_is_no_change_of_members() {
        let first = list(vec![machine(1, presence("a", Duration::ZERO))]);
        let later = list(vec![machine(1, presence("a", Duration::from_secs(9)))]);
        assert!(first.has_same_members(&later) && first != later);
        assert!(!first.has_same_members(&MemberList::default()));
    }
}
