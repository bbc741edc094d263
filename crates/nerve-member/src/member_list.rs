//! The members of a cluster, as one reading of their leases shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nerve_cluster::journal::AttemptState;
use nerve_cluster::placement::MachineInfo;
use nerve_cluster::{Instance, MachineId, RunState};
use nerve_nats::{NameHolder, PresentMachine, PresentMachines};
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
    /// Number of steps that it executed at the last renewal of its lease.
    #[serde(default)]
    pub running_steps: u32,
    /// State of the machine's drain; `None` unless it is drained.
    #[serde(default)]
    pub drain: Option<DrainState>,
    /// True if the name belongs to another machine, which `on: NAME` selects.
    #[serde(default)]
    pub name_conflict: bool,
}

/// State of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainState {
    /// The machine does not know of it yet, or of all steps that may run since its last start; or it is away.
    Requested,
    /// The machine begins no step, and some steps still run.
    Draining,
    /// The machine begins no step, and none runs.
    Drained,
}

/// A machine that has a name in the cluster and no lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwayMember {
    /// Its name.
    pub machine_name: String,
    /// Its id.
    pub machine_id: MachineId,
    /// True if it will begin no step when it is back.
    #[serde(rename = "drained")]
    pub is_drained: bool,
}

/// The members at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberList {
    /// The members, by name and id.
    pub members: Vec<MemberInfo>,
    /// The machines that are away, by name.
    #[serde(default)]
    pub away: Vec<AwayMember>,
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
    running_steps: u32,
    /// True if the machine knows that it is drained, and which steps may run.
    #[serde(rename = "drained")]
    is_drained: bool,
}

/// The steps that a machine runs, and whether it begins others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepActivity {
    /// Number of steps that run, or may run.
    pub(crate) running: u32,
    /// True if no other step begins, and `running` has all that may run.
    pub(crate) is_drained: bool,
}

impl Presence {
    /// Creates the description of this machine.
    pub(crate) fn new(config: &ClusterConfig, member_for: Duration, activity: StepActivity) -> Presence {
        Presence {
            machine_name: config.machine.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            member_for_ms: millis(member_for),
            labels: config.labels.clone(),
            slots: config.slots,
            running_steps: activity.running,
            is_drained: activity.is_drained,
        }
    }

    /// Returns the state of a drain that was requested.
    fn drain(&self) -> DrainState {
        match (self.is_drained, self.running_steps) {
            (false, _) => DrainState::Requested,
            (true, 0) => DrainState::Drained,
            (true, _) => DrainState::Draining,
        }
    }

    /// Returns the form in which the lease carries it.
    pub(crate) fn to_value(&self) -> Value {
        // Texts and numbers: this cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl MemberList {
    /// Converts the leases of the machines that are present, and the names of all machines.
    pub(crate) fn new(present: PresentMachines) -> MemberList {
        let PresentMachines { machines, unsupported, names } = present;
        let is_away =
            |holder: &NameHolder| machines.iter().all(|machine| machine.holder.machine != holder.machine_id);
        let is_name = |name: &String| name::check("machine", name).is_ok();
        let away = names
            .iter()
            .filter(|(name, holder)| is_name(name) && is_away(holder))
            .map(|(name, holder)| AwayMember {
                machine_name: name.clone(),
                machine_id: holder.machine_id,
                is_drained: holder.is_drained,
            })
            .collect();
        let mut members: Vec<MemberInfo> =
            machines.into_iter().map(|machine| MemberInfo::new(machine, &names)).collect();
        members.sort_by(|a, b| (&a.machine_name, a.machine_id).cmp(&(&b.machine_name, b.machine_id)));
        MemberList { members, away, unsupported }
    }

    /// Returns the member that has a name. Of several, the one to which the name belongs.
    pub(crate) fn find(&self, name: &str) -> Option<&MemberInfo> {
        let named = || self.members.iter().filter(|member| member.machine_name == name);
        named().find(|member| !member.name_conflict).or_else(|| named().next())
    }

    /// Returns true if a member is drained, as far as the last reading shows.
    pub(crate) fn is_drained(&self, id: MachineId) -> bool {
        self.members.iter().any(|member| member.machine_id == id && member.drain.is_some())
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
            // `on: NAME` selects only the machine to which the name belongs.
            name: if member.name_conflict { String::new() } else { member.machine_name.clone() },
            labels: member.labels.clone(),
            free_slots: member.slots.saturating_sub(used.get(&member.machine_id).copied().unwrap_or(0)),
            accepts_steps: member.slots > 0 && member.drain.is_none(),
            workspaces: BTreeSet::new(),
        };
        self.members.iter().map(machine).collect()
    }

    /// Returns true if the same processes are members, in the same state. Their leases may have other ages.
    pub(crate) fn has_same_members(&self, other: &MemberList) -> bool {
        let states = |list: &MemberList| {
            let state = |member: &MemberInfo| (member.drain, member.name_conflict);
            list.members.iter().map(state).collect::<Vec<_>>()
        };
        self.processes() == other.processes()
            && states(self) == states(other)
            && self.away == other.away
            && self.unsupported == other.unsupported
    }

    /// Returns the names that several members have, in order.
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
    fn new(machine: PresentMachine, names: &BTreeMap<String, NameHolder>) -> MemberInfo {
        let Instance { machine: machine_id, boot, .. } = machine.holder;
        let presence: Presence = serde_json::from_value(machine.presence).unwrap_or_default();
        // The text comes from another machine and is displayed.
        let is_name = name::check("machine", &presence.machine_name).is_ok();
        let is_label = |label: &String| name::check("label", label).is_ok();
        let holder = names.get(&presence.machine_name);
        let drain = match holder {
            Some(holder) if holder.machine_id == machine_id && holder.is_drained => Some(presence.drain()),
            _ => None,
        };
        MemberInfo {
            running_steps: presence.running_steps,
            drain,
            name_conflict: holder.is_some_and(|holder| holder.machine_id != machine_id),
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
            ..Presence::default()
        }
        .to_value()
    }

    fn list(machines: Vec<PresentMachine>) -> MemberList {
        with_names(machines, &[])
    }

    /// Creates the list of these machines and of the machines that have these names and are drained.
    fn with_names(machines: Vec<PresentMachine>, names: &[(&str, u128)]) -> MemberList {
        let holder = |id| NameHolder { machine_id: MachineId(id), is_drained: true };
        let names = names.iter().map(|(name, id)| ((*name).to_string(), holder(*id))).collect();
        MemberList::new(PresentMachines { machines, unsupported: 0, names })
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
            .map(|m| (m.name, m.labels.into_iter().collect::<Vec<_>>(), m.free_slots, m.accepts_steps))
            .collect();
        let labels = vec!["gpu".to_string()];
        assert_eq!(machines, [(String::new(), vec![], 0, false), ("a".to_string(), labels, 2, true)]);
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
        let one = MemberList { members: list.members[1..3].to_vec(), ..MemberList::default() };
        assert!(one.shared_names().is_empty(), "{one:?}");
    }

    #[test]
    fn name_selects_only_the_machine_that_has_it() {
        let named = |id| machine(id, presence("b", Duration::ZERO));
        let list = with_names(vec![named(1), named(2)], &[("b", 2), ("gone", 7), ("odd\u{1b}", 8)]);
        let conflicts: Vec<bool> = list.members.iter().map(|member| member.name_conflict).collect();
        assert_eq!(conflicts, [true, false]);
        let names: Vec<String> = list.machines([]).into_iter().map(|machine| machine.name).collect();
        assert_eq!(names, [String::new(), "b".to_string()]);
        assert_eq!(list.find("b").map(|member| member.machine_id), Some(MachineId(2)));
        let away: Vec<_> =
            list.away.iter().map(|away| (away.machine_name.as_str(), away.is_drained)).collect();
        assert_eq!(away, [("gone", true)]);
    }

    #[test]
    fn drained_machine_accepts_no_steps() {
        let describe = |running_steps, is_drained| {
            let known = Presence {
                machine_name: "a".into(),
                slots: 2,
                running_steps,
                is_drained,
                ..Presence::default()
            };
            machine(1, known.to_value())
        };
        for (running, knows, state) in [
            (1, false, DrainState::Requested),
            (1, true, DrainState::Draining),
            (0, true, DrainState::Drained),
        ] {
            let list = with_names(vec![describe(running, knows)], &[("a", 1)]);
            assert_eq!((list.members[0].drain, list.members[0].running_steps), (Some(state), running));
            assert!(!list.machines([])[0].accepts_steps && list.is_drained(MachineId(1)));
            assert!(!list.has_same_members(&with_names(vec![describe(0, true)], &[])));
        }
        let over = with_names(vec![describe(0, true)], &[]);
        assert!(over.machines([])[0].accepts_steps && !over.is_drained(MachineId(1)));
    }

    #[test]
    fn age_is_no_change_of_members() {
        let first = list(vec![machine(1, presence("a", Duration::ZERO))]);
        let later = list(vec![machine(1, presence("a", Duration::from_secs(9)))]);
        assert!(first.has_same_members(&later) && first != later);
        assert!(!first.has_same_members(&MemberList::default()));
    }
}
