//! One machine against the in-memory store, one request at a time: the order of effects.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

#[expect(dead_code, reason = "the simulation uses the rest")]
#[path = "simulation/store.rs"]
mod store;

use std::collections::BTreeSet;
use std::time::Duration;

use nerve_cluster::journal::{
    AttemptState, Decision, Epoch, RunOutcome, StepResult, StepSpec, UndecodableRecord,
};
use nerve_cluster::placement::{MachineInfo, NoMachine, WaitingStep};
use nerve_cluster::{
    AttemptId, BootTime, Effect, Input, Instance, LeaseTimes, MachineId, Record, RecordKind, Request,
    Response, RunId, RunState, Sequence, ServerCore, StepId, TurnReport,
};
use store::MemoryStore;

const ME: Instance = Instance { machine: MachineId(1), boot: 1, nonce: 5 };
const RESTARTED: Instance = Instance { machine: MachineId(1), boot: 2, nonce: 6 };
const OTHER: Instance = Instance { machine: MachineId(2), boot: 1, nonce: 7 };

/// A cluster in which messages take no time.
struct Cluster {
    now: u64,
    store: MemoryStore,
}

/// A process, and the effects that concern its host, in order.
struct Process {
    core: ServerCore,
    effects: Vec<Effect>,
    connection: Connection,
}

/// The part of the store that a process reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connection {
    All,
    Journals,
    None,
}

impl Connection {
    fn has(self, request: &Request) -> bool {
        match request {
            Request::Read { .. } | Request::Append { .. } => self != Connection::None,
            _ => self == Connection::All,
        }
    }
}

impl Cluster {
    fn new() -> Cluster {
        Cluster::with_steps(r#"[{"id":"s"}]"#)
    }

    fn with_steps(json: &str) -> Cluster {
        let steps: Vec<StepSpec> = serde_json::from_str(json).unwrap();
        let mut store = MemoryStore::new(None);
        let record =
            Record { epoch: Epoch::default(), kind: RecordKind::Planned { steps, work: Default::default() } };
        store.perform(0, &Request::Append { run: run(), record, expected: Sequence(0) });
        Cluster { now: 0, store }
    }

    /// Starts a process that sees the given machines.
    fn start(&mut self, me: Instance, machines: &[u128]) -> Process {
        let core = ServerCore::new(me, LeaseTimes::new(Duration::from_secs(15)));
        let mut process = Process { core, effects: Vec::new(), connection: Connection::All };
        self.input(&mut process, Input::Machines(machines.iter().map(|id| machine(*id)).collect()));
        self.input(&mut process, Input::RunFound(run()));
        process
    }

    /// Hands an input to a process, and performs its requests and their consequences.
    fn input(&mut self, process: &mut Process, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in process.core.handle(BootTime(self.now), input) {
                match effect {
                    Effect::Store { id, request } => {
                        let response = if process.connection.has(&request) {
                            self.store.perform(self.now, &request)
                        } else {
                            Response::Unavailable
                        };
                        inputs.push(Input::Stored { id, response });
                    }
                    effect => process.effects.push(effect),
                }
            }
        }
    }

    /// Lets time pass for some processes.
    fn pass(&mut self, seconds: u64, processes: &mut [&mut Process]) {
        for _ in 0..seconds {
            self.now += 1_000;
            for process in &mut *processes {
                self.input(process, Input::Tick);
            }
        }
    }

    fn state(&self) -> RunState {
        let mut state = RunState::default();
        for (sequence, record) in self.store.records(&run()) {
            state.apply(*sequence, record);
        }
        state
    }

    /// Appends the record of a person, and notifies a process.
    fn append(&mut self, process: &mut Process, kind: RecordKind) {
        let state = self.state();
        let record = Record { epoch: state.epoch, kind };
        self.store.perform(self.now, &Request::Append { run: run(), record, expected: state.last });
        self.input(process, Input::JournalChanged(run()));
    }

    /// Returns the decision to retry the attempt that is in doubt.
    fn retry(&self) -> Input {
        let doubt = self.state().attempt(&attempt().step, 1).unwrap().undecided_doubt().unwrap();
        Input::Decide { attempt: attempt(), doubt, decision: Decision::Retry }
    }

    fn attempt_state(&self) -> AttemptState {
        self.state().attempt(&attempt().step, 1).unwrap().state.clone()
    }
}

impl Process {
    fn has(&self, effect: &Effect) -> bool {
        self.effects.contains(effect)
    }
}

fn run() -> RunId {
    RunId::new("r").unwrap()
}

fn attempt() -> AttemptId {
    AttemptId { run: run(), step: StepId::new("s").unwrap(), attempt: 1 }
}

fn machine(id: u128) -> MachineInfo {
    let (labels, workspaces) = (BTreeSet::new(), BTreeSet::new());
    let (id, name) = (MachineId(id), format!("m{id}"));
    MachineInfo { id, name, labels, free_slots: 1, accepts_steps: true, workspaces }
}

fn drained(id: u128) -> MachineInfo {
    MachineInfo { accepts_steps: false, ..machine(id) }
}

fn prepared() -> Input {
    Input::Prepared { attempt: attempt(), node: "me".into(), offset: 9 }
}

fn preparation_failed() -> Input {
    Input::PreparationFailed { attempt: attempt(), error: "no workspace".into() }
}

fn finished() -> Input {
    Input::TurnFinished { attempt: attempt(), result: StepResult { is_success: true, value: "done".into() } }
}

#[test]
fn offered_steps_take_the_slots_of_their_machines() {
    let mut cluster = Cluster::with_steps(r#"[{"id":"s"},{"id":"t"}]"#);
    cluster.start(OTHER, &[1, 3]);
    let machines: Vec<_> =
        cluster.state().steps.values().map(|step| step.current().unwrap().1.machine).collect();
    assert_eq!(machines, [MachineId(1), MachineId(3)]);
}

#[test]
fn offer_to_a_drained_machine_moves() {
    let mut cluster = Cluster::new();
    let mut owner = cluster.start(OTHER, &[1]);
    let place = |cluster: &Cluster| {
        let state = cluster.state();
        let (number, attempt) = state.steps[&attempt().step].current().unwrap();
        (number, attempt.machine)
    };
    assert_eq!(place(&cluster), (1, MachineId(1)));
    // No other machine can run it.
    cluster.input(&mut owner, Input::Machines(vec![drained(1)]));
    assert_eq!(place(&cluster), (1, MachineId(1)));
    let waiting = owner.core.waiting_steps(BootTime(cluster.now), &run());
    assert!(matches!(waiting[..], [WaitingStep { reason: NoMachine::NoneAccepts, .. }]), "{waiting:?}");
    cluster.input(&mut owner, Input::Machines(vec![drained(1), machine(3)]));
    assert_eq!(place(&cluster), (1, MachineId(3)));
}

#[test]
fn drained_machine_begins_nothing() {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    assert!(process.has(&Effect::Prepare { attempt: attempt() }));
    cluster.input(&mut process, Input::Machines(vec![drained(1)]));
    cluster.input(&mut process, prepared());
    cluster.pass(10, &mut [&mut process]);
    assert_eq!(cluster.attempt_state(), AttemptState::Offered);
    cluster.input(&mut process, Input::Machines(vec![machine(1)]));
    assert!(process.has(&Effect::TypePrompt { attempt: attempt() }), "{:?}", process.effects);
    // What has begun ends.
    cluster.input(&mut process, Input::Machines(vec![drained(1)]));
    cluster.input(&mut process, finished());
    assert!(matches!(cluster.attempt_state(), AttemptState::Finished { .. }));
}

#[test]
fn machine_outside_the_list_begins_nothing() {
    let mut cluster = Cluster::new();
    cluster.start(OTHER, &[1]);
    let mut process = cluster.start(ME, &[2]);
    cluster.pass(10, &mut [&mut process]);
    assert_eq!(process.effects, []);
    cluster.input(&mut process, Input::Machines(vec![machine(1)]));
    assert_eq!(process.effects, [Effect::Prepare { attempt: attempt() }]);
}

/// Returns a cluster and a process that has typed the step's prompt.
fn typed() -> (Cluster, Process) {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    cluster.input(&mut process, prepared());
    assert!(process.has(&Effect::TypePrompt { attempt: attempt() }), "{:?}", process.effects);
    (cluster, process)
}

#[test]
fn cancelled_run_cancels_its_turn_and_can_continue() {
    let (mut cluster, mut process) = typed();
    cluster.append(&mut process, RecordKind::Cancelled);
    let cancel = Effect::CancelTurn { attempt: attempt() };
    cluster.pass(20, &mut [&mut process]);
    assert_eq!(process.effects.iter().filter(|effect| **effect == cancel).count(), 1);
    assert_eq!(cluster.state().outcome, None, "the turn runs");
    let result = StepResult { is_success: false, value: "cancelled".into() };
    cluster.input(&mut process, Input::TurnFinished { attempt: attempt(), result });
    assert_eq!(cluster.state().outcome, Some(RunOutcome::Cancelled));
    // The machine forgets the run, and finds it again.
    cluster.input(&mut process, Input::RunForgotten(run()));
    cluster.append(&mut process, RecordKind::Continued);
    let second = AttemptId { attempt: 2, ..attempt() };
    assert!(process.has(&Effect::Prepare { attempt: second.clone() }), "{:?}", process.effects);
    cluster.input(&mut process, Input::Prepared { attempt: second.clone(), node: "me".into(), offset: 0 });
    let result = StepResult { is_success: true, value: "done".into() };
    cluster.input(&mut process, Input::TurnFinished { attempt: second, result });
    assert_eq!(cluster.state().outcome, Some(RunOutcome::Completed));
}

#[test]
fn machine_that_returns_cancels_the_turn_of_a_cancelled_run() {
    let (mut cluster, mut process) = typed();
    let mut owner = cluster.start(OTHER, &[1]);
    cluster.pass(40, &mut [&mut owner]);
    cluster.append(&mut owner, RecordKind::Cancelled);
    cluster.pass(20, &mut [&mut owner]);
    assert_eq!(cluster.state().outcome, Some(RunOutcome::Cancelled));
    cluster.pass(20, &mut [&mut process, &mut owner]);
    assert!(process.has(&Effect::CancelTurn { attempt: attempt() }), "{:?}", process.effects);
}

#[test]
fn machine_that_returns_cancels_its_turn_although_the_run_continued() {
    let (mut cluster, mut process) = typed();
    let mut owner = cluster.start(OTHER, &[1]);
    cluster.pass(40, &mut [&mut owner]);
    cluster.append(&mut owner, RecordKind::Cancelled);
    cluster.pass(20, &mut [&mut owner]);
    cluster.input(&mut owner, Input::Machines(vec![machine(2)]));
    cluster.append(&mut owner, RecordKind::Continued);
    let second = AttemptId { attempt: 2, ..attempt() };
    assert!(owner.has(&Effect::Prepare { attempt: second.clone() }), "{:?}", owner.effects);
    cluster.input(&mut owner, Input::Prepared { attempt: second.clone(), node: "me".into(), offset: 0 });
    assert!(owner.has(&Effect::TypePrompt { attempt: second.clone() }), "{:?}", owner.effects);
    cluster.pass(20, &mut [&mut process, &mut owner]);
    assert!(process.has(&Effect::CancelTurn { attempt: attempt() }), "{:?}", process.effects);
    assert!(!owner.has(&Effect::CancelTurn { attempt: second }));
}

#[test]
fn lost_turn_of_a_living_process_is_in_doubt() {
    let (mut cluster, mut process) = typed();
    let report = TurnReport::Lost;
    cluster.input(&mut process, Input::TurnInspected { attempt: attempt(), report });
    cluster.pass(20, &mut [&mut process]);
    assert!(matches!(cluster.attempt_state(), AttemptState::InDoubt { .. }));
}

#[test]
fn run_of_one_step_completes() {
    let (mut cluster, mut process) = typed();
    cluster.input(&mut process, finished());
    let kinds: Vec<_> = cluster.store.records(&run()).iter().map(|(_, record)| &record.kind).collect();
    assert!(
        matches!(
            kinds[..],
            [
                RecordKind::Planned { .. },
                RecordKind::OwnerTookOver { .. },
                RecordKind::Offered { .. },
                RecordKind::Started { offset: 9, .. },
                RecordKind::Finished { .. },
                RecordKind::Ended { .. }
            ]
        ),
        "{kinds:#?}"
    );
}

#[test]
fn prompt_is_not_typed_without_acknowledgement() {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    assert!(process.has(&Effect::Prepare { attempt: attempt() }), "{:?}", process.effects);
    process.connection = Connection::None;
    cluster.input(&mut process, prepared());
    cluster.pass(5, &mut [&mut process]);
    assert!(!process.has(&Effect::TypePrompt { attempt: attempt() }));
    process.connection = Connection::All;
    cluster.pass(3, &mut [&mut process]);
    assert!(process.has(&Effect::TypePrompt { attempt: attempt() }));
}

#[test]
fn offer_notification_is_acknowledged_once_the_lease_is_held() {
    let mut cluster = Cluster::new();
    let mut owner = cluster.start(OTHER, &[1]);
    assert!(
        owner.has(&Effect::NotifyOffer { machine: MachineId(1), attempt: attempt() }),
        "{:?}",
        owner.effects
    );
    let mut executor = cluster.start(ME, &[1]);
    executor.connection = Connection::None;
    cluster.input(&mut executor, Input::OfferNotification { delivery: 4, attempt: attempt() });
    assert!(!executor.has(&Effect::Acknowledge { delivery: 4 }));
    executor.connection = Connection::All;
    cluster.pass(3, &mut [&mut owner, &mut executor]);
    assert!(executor.has(&Effect::Acknowledge { delivery: 4 }), "{:?}", executor.effects);
}

#[test]
fn nothing_begins_after_two_thirds_without_renewal() {
    for (seconds, is_started) in [(9, true), (10, false)] {
        let mut cluster = Cluster::new();
        let mut process = cluster.start(ME, &[1]);
        assert!(process.has(&Effect::Prepare { attempt: attempt() }), "{:?}", process.effects);
        process.connection = Connection::Journals;
        cluster.pass(seconds, &mut [&mut process]);
        cluster.input(&mut process, prepared());
        assert_eq!(cluster.attempt_state() == AttemptState::Started { by: ME }, is_started);
        assert_eq!(process.has(&Effect::TypePrompt { attempt: attempt() }), is_started);
        assert_eq!(process.core.is_suspended(BootTime(cluster.now)), !is_started);
    }
}

#[test]
fn owner_offers_nothing_after_two_thirds_without_renewal() {
    for (seconds, is_offered) in [(9, true), (10, false)] {
        let mut cluster = Cluster::new();
        let mut owner = cluster.start(OTHER, &[]);
        owner.connection = Connection::Journals;
        cluster.pass(seconds, &mut [&mut owner]);
        cluster.input(&mut owner, Input::Machines(vec![machine(1)]));
        assert_eq!(cluster.state().attempt(&attempt().step, 1).is_some(), is_offered);
    }
}

#[test]
fn restarted_server_inspects_the_turn_and_never_types_it() {
    let (mut cluster, _) = typed();
    let mut restarted = cluster.start(RESTARTED, &[1]);
    // The predecessor's identity must expire first.
    cluster.pass(25, &mut [&mut restarted]);
    assert!(restarted.has(&Effect::InspectTurn { attempt: attempt() }), "{:?}", restarted.effects);
    cluster.input(&mut restarted, Input::TurnInspected { attempt: attempt(), report: TurnReport::Running });
    cluster.pass(5, &mut [&mut restarted]);
    assert_eq!(cluster.attempt_state(), AttemptState::Started { by: RESTARTED });
    cluster.input(&mut restarted, finished());
    assert!(cluster.state().outcome.is_some());
    assert!(!restarted.has(&Effect::TypePrompt { attempt: attempt() }));
}

#[test]
fn turn_that_a_restart_lost_is_in_doubt() {
    let (mut cluster, _) = typed();
    let mut restarted = cluster.start(RESTARTED, &[1]);
    cluster.pass(25, &mut [&mut restarted]);
    assert_eq!(cluster.attempt_state(), AttemptState::Started { by: ME });
    cluster.input(&mut restarted, Input::TurnInspected { attempt: attempt(), report: TurnReport::Lost });
    cluster.pass(15, &mut [&mut restarted]);
    assert_eq!(cluster.attempt_state(), AttemptState::InDoubt { by: ME });
}

#[test]
fn lost_machine_leaves_the_step_in_doubt_until_a_person_decides() {
    let (mut cluster, _) = typed();
    let mut owner = cluster.start(OTHER, &[2]);
    cluster.pass(60, &mut [&mut owner]);
    assert_eq!(cluster.attempt_state(), AttemptState::InDoubt { by: ME });
    let retry = cluster.retry();
    cluster.input(&mut owner, retry);
    assert_eq!(cluster.attempt_state(), AttemptState::Superseded { by: ME });
    assert_eq!(cluster.state().attempt(&attempt().step, 2).unwrap().machine, MachineId(2));
}

#[test]
fn result_after_the_retry_is_late() {
    let (mut cluster, mut lost) = typed();
    let mut owner = cluster.start(OTHER, &[2]);
    cluster.pass(60, &mut [&mut owner]);
    let retry = cluster.retry();
    cluster.input(&mut owner, retry);
    cluster.input(&mut lost, finished());
    cluster.pass(10, &mut [&mut owner, &mut lost]);
    let state = cluster.state();
    assert!(state.attempt(&attempt().step, 1).unwrap().late.is_some());
    assert!(!state.steps[&attempt().step].has_succeeded());
}

#[test]
fn run_is_not_forgotten_before_its_end() {
    let (mut cluster, mut process) = typed();
    cluster.input(&mut process, Input::RunForgotten(run()));
    assert!(process.core.run(&run()).is_some());
    cluster.input(&mut process, finished());
    cluster.input(&mut process, Input::RunForgotten(run()));
    assert!(process.core.run(&run()).is_none());
}

#[test]
fn late_start_of_a_forgotten_run_is_inspected() {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    cluster.append(&mut process, RecordKind::Cancelled);
    assert_eq!(cluster.state().outcome, Some(RunOutcome::Cancelled));
    cluster.input(&mut process, Input::RunForgotten(run()));
    cluster.input(&mut process, Input::RunFound(run()));
    cluster.append(&mut process, RecordKind::Continued);
    let AttemptId { step, attempt: number, .. } = attempt();
    let started = RecordKind::Started { step, attempt: number, by: ME, node: "me".into(), offset: 9 };
    cluster.append(&mut process, started);
    assert!(process.has(&Effect::InspectTurn { attempt: attempt() }), "{:?}", process.effects);
    assert!(!process.has(&Effect::TypePrompt { attempt: attempt() }));
}

#[test]
fn responses_from_before_a_run_was_forgotten_are_dropped() {
    let mut cluster = Cluster::new();
    let mut core = ServerCore::new(ME, LeaseTimes::new(Duration::from_secs(15)));
    let mut read = |input| {
        core.handle(BootTime(0), input).into_iter().find_map(|effect| match effect {
            Effect::Store { id, request: Request::Read { .. } } => Some(id),
            _ => None,
        })
    };
    let old = read(Input::RunFound(run())).unwrap();
    assert_eq!(read(Input::RunForgotten(run())), None);
    let new = read(Input::RunFound(run())).unwrap();
    let mut response = || cluster.store.perform(0, &Request::Read { run: run(), after: Sequence(0) });
    read(Input::Stored { id: old, response: response() });
    assert_eq!(core.run(&run()).unwrap().last, Sequence(0));
    core.handle(BootTime(0), Input::Stored { id: new, response: response() });
    assert_eq!(core.run(&run()).unwrap().last, Sequence(1));
}

#[test]
fn preparation_that_fails_fails_the_step_without_a_start() {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    cluster.input(&mut process, preparation_failed());
    assert!(cluster.state().steps[&attempt().step].has_failed());
    let is_started = |(_, record): &(Sequence, Record)| matches!(record.kind, RecordKind::Started { .. });
    assert!(!cluster.store.records(&run()).iter().any(is_started));
}

#[test]
fn failed_preparation_is_no_result_of_a_turn_of_another_process() {
    let (mut cluster, _) = typed();
    let mut restarted = cluster.start(RESTARTED, &[1]);
    cluster.pass(25, &mut [&mut restarted]);
    assert!(restarted.has(&Effect::InspectTurn { attempt: attempt() }), "{:?}", restarted.effects);
    cluster.input(&mut restarted, preparation_failed());
    cluster.input(&mut restarted, Input::TurnInspected { attempt: attempt(), report: TurnReport::Running });
    cluster.pass(5, &mut [&mut restarted]);
    assert_eq!(cluster.attempt_state(), AttemptState::Started { by: RESTARTED });
}

#[test]
fn takeover_with_an_outdated_lease_is_reported_and_not_appended() {
    let mut cluster = Cluster::new();
    let record = Record { epoch: Epoch(Sequence(1_000)), kind: RecordKind::OwnerTookOver { by: OTHER } };
    cluster.store.perform(0, &Request::Append { run: run(), record, expected: Sequence(1) });
    let mut process = cluster.start(ME, &[1]);
    cluster.pass(4, &mut [&mut process]);
    assert_eq!(process.effects, [Effect::ReportOutdatedLease { run: run() }]);
    assert_eq!(cluster.store.last(&run()), Sequence(2));
}

#[test]
fn step_without_machine_waits_with_the_reason() {
    let mut cluster = Cluster::with_steps(r#"[{"id":"s"},{"id":"t"}]"#);
    let mut owner = cluster.start(OTHER, &[2]);
    let waiting = |owner: &Process, now| owner.core.waiting_steps(BootTime(now), &run());
    let t = StepId::new("t").unwrap();
    assert_eq!(waiting(&owner, 0), [WaitingStep { step: t.clone(), reason: NoMachine::NoFreeSlot }]);
    cluster.input(&mut owner, Input::Machines(vec![]));
    assert_eq!(waiting(&owner, 0).last(), Some(&WaitingStep { step: t, reason: NoMachine::NoMatch }));
    cluster.input(&mut owner, Input::Machines(vec![machine(2), machine(3)]));
    assert_eq!(waiting(&owner, 0), []);
}

#[test]
fn ordinary_restart_puts_no_step_in_doubt() {
    let (mut cluster, mut process) = typed();
    let mut owner = cluster.start(OTHER, &[1]);
    cluster.input(&mut process, Input::Stop);
    assert!(process.core.is_released());
    cluster.pass(2, &mut [&mut owner]);
    let mut restarted = cluster.start(RESTARTED, &[1]);
    assert!(restarted.has(&Effect::InspectTurn { attempt: attempt() }), "{:?}", restarted.effects);
    cluster.input(&mut restarted, Input::TurnInspected { attempt: attempt(), report: TurnReport::Running });
    cluster.pass(60, &mut [&mut owner, &mut restarted]);
    assert_eq!(cluster.attempt_state(), AttemptState::Started { by: RESTARTED });
    let is_doubt = |(_, record): &(Sequence, Record)| matches!(record.kind, RecordKind::InDoubt { .. });
    assert!(!cluster.store.records(&run()).iter().any(is_doubt));
}

#[test]
fn stopped_process_begins_nothing() {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    cluster.input(&mut process, Input::Stop);
    cluster.input(&mut process, prepared());
    cluster.pass(30, &mut [&mut process]);
    assert_eq!(cluster.attempt_state(), AttemptState::Offered);
}

#[test]
fn step_of_an_earlier_process_counts_until_it_has_ended() {
    for (report, count) in [(TurnReport::Running, 1), (TurnReport::Lost, 0)] {
        let (mut cluster, process) = typed();
        assert_eq!(process.core.running_steps(), 1);
        let mut restarted = cluster.start(RESTARTED, &[1]);
        assert_eq!((restarted.core.running_steps(), restarted.core.has_read_all()), (1, true));
        cluster.pass(25, &mut [&mut restarted]);
        assert!(restarted.has(&Effect::InspectTurn { attempt: attempt() }), "{:?}", restarted.effects);
        assert_eq!(restarted.core.running_steps(), 1);
        cluster.input(&mut restarted, Input::TurnInspected { attempt: attempt(), report });
        assert_eq!(restarted.core.running_steps(), count);
        cluster.input(&mut restarted, finished());
        assert_eq!(restarted.core.running_steps(), 0);
    }
}

#[test]
fn steps_are_known_once_the_journals_were_read() {
    let (mut cluster, _) = typed();
    let core = ServerCore::new(RESTARTED, LeaseTimes::new(Duration::from_secs(15)));
    let mut restarted = Process { core, effects: Vec::new(), connection: Connection::None };
    cluster.input(&mut restarted, Input::RunFound(run()));
    assert!(!restarted.core.has_read_all());
    restarted.connection = Connection::All;
    cluster.pass(3, &mut [&mut restarted]);
    assert_eq!((restarted.core.running_steps(), restarted.core.has_read_all()), (1, true));
    // The hint was wrong.
    cluster.input(&mut restarted, Input::RunFound(RunId::new("absent").unwrap()));
    assert!(restarted.core.has_read_all());
}

#[test]
fn start_that_is_under_way_counts_as_a_running_step() {
    let mut cluster = Cluster::new();
    let mut process = cluster.start(ME, &[1]);
    assert_eq!(process.core.running_steps(), 0);
    process.connection = Connection::None;
    cluster.input(&mut process, prepared());
    cluster.input(&mut process, Input::Machines(vec![drained(1)]));
    assert_eq!(process.core.running_steps(), 1, "the store may have accepted it");
    process.connection = Connection::All;
    cluster.pass(3, &mut [&mut process]);
    assert_eq!((cluster.attempt_state(), process.core.running_steps()), (AttemptState::Offered, 0));
}

#[test]
fn lost_hints_delay_a_reader_but_do_not_stop_it() {
    let mut cluster = Cluster::new();
    let mut owner = cluster.start(ME, &[1]);
    let mut reader = cluster.start(OTHER, &[]);
    cluster.input(&mut owner, prepared());
    cluster.input(&mut owner, finished());
    assert!(cluster.state().outcome.is_some());
    assert_eq!(reader.core.run(&run()).unwrap().outcome, None);
    cluster.pass(16, &mut [&mut reader]);
    assert_eq!(*reader.core.run(&run()).unwrap(), cluster.state());
}

/// Returns a process that has typed a prompt and then read a message that it cannot decode, and the number of its later appends.
fn appends_after(error: UndecodableRecord) -> (Process, usize) {
    let (mut cluster, mut process) = typed();
    let effects = process.core.handle(BootTime(0), Input::JournalChanged(run()));
    let [Effect::Store { id, request: Request::Read { after, .. } }] = effects[..] else {
        panic!("{effects:?}")
    };
    let response = Response::Records(vec![(Sequence(after.0 + 1), Err(error))]);
    cluster.input(&mut process, Input::Stored { id, response });
    let effects = process.core.handle(BootTime(0), finished());
    let is_append =
        |effect: &&Effect| matches!(effect, Effect::Store { request: Request::Append { .. }, .. });
    let count = effects.iter().filter(is_append).count();
    (process, count)
}

#[test]
fn record_of_a_later_version_stops_its_reader_from_writing() {
    let (process, appends) = appends_after(UndecodableRecord::Unsupported);
    assert!(process.core.has_unsupported_records(&run()));
    assert_eq!(appends, 0);
}

#[test]
fn garbage_in_a_journal_is_void() {
    let (process, appends) = appends_after(UndecodableRecord::Garbage);
    assert_eq!(process.core.run(&run()).unwrap().void_records, 1);
    assert_eq!(appends, 1);
}
