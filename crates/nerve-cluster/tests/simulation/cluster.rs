//! Machines, their processes and agents, the network and the faults, driven by one random number generator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nerve_cluster::journal::{
    AttemptState, Decision, Epoch, OnMachineLost, RunOutcome, StepResult, StepSpec, StepState,
};
use nerve_cluster::placement::{MachineInfo, Requirement};
use nerve_cluster::{
    AttemptId, BootTime, Effect, Input, Instance, Key, LeaseTimes, MachineId, Record, RecordKind, Request,
    RequestId, Response, RunId, RunState, Sequence, ServerCore, StepId, TurnReport,
};

use crate::checker::{Checker, Violation};
use crate::lease_ages::LeaseAges;
use crate::random::Random;
use crate::store::{MemoryStore, Sabotage};

const TTL: u64 = 1200;
/// Interval of ticks.
const TICK: u64 = TTL / 12;
/// Deadline of a request.
const DEADLINE: u64 = TTL / 4;
/// Faults begin before this time.
const FAULTS_END: u64 = 5 * TTL;
/// No run is allowed to need more than this after the faults.
const RECOVERY: u64 = 40 * TTL;
const HOUR: u64 = 3_600_000;

/// A cluster in simulated time.
#[derive(Debug)]
pub(crate) struct Cluster {
    random: Random,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    last_event: u64,
    /// One of this many messages is lost, and one repeated.
    loss: u64,
    store: MemoryStore,
    hosts: Vec<Host>,
    processes: Vec<Process>,
    /// Notifications of offers that were acknowledged.
    acknowledged: BTreeSet<u64>,
    last_delivery: u64,
    /// Appends that were sent, which a client library may send again.
    sent: Vec<(RunId, Record)>,
    pub(crate) checker: Checker,
    is_traced: bool,
}

/// A computer. Its agents survive a crash of the server process.
#[derive(Debug)]
struct Host {
    machine: MachineId,
    boot: u64,
    process: Option<usize>,
    clock: Clock,
    partitioned_until: u64,
    agents: BTreeMap<AttemptId, TurnReport>,
    /// Never starts again.
    is_dead: bool,
}

/// A clock that can stop.
#[derive(Debug)]
struct Clock {
    base: u64,
    /// Time of the simulation that corresponds to `base`.
    since: u64,
    stopped_until: u64,
}

#[derive(Debug)]
struct Process {
    host: usize,
    me: Instance,
    core: ServerCore,
    leases: LeaseAges,
    /// True if the machine accepts steps according to the last list that the process received.
    accepts_steps: bool,
    is_alive: bool,
    paused_until: u64,
}

#[derive(Debug, Clone)]
enum Event {
    Tick(usize),
    /// A request reaches the store. `is_answered`: the response is sent.
    Arrive {
        process: usize,
        id: RequestId,
        request: Request,
        is_answered: bool,
    },
    /// An input reaches a process.
    Deliver(usize, Input),
    /// The queue delivers the notification of an offer that is not acknowledged.
    NotifyOffer {
        machine: MachineId,
        attempt: AttemptId,
        delivery: u64,
        deliveries: u32,
    },
    TurnEnds(usize, AttemptId),
    Fault,
    /// A client library sends an old append again.
    Resubmit,
    /// A person decides on a step in doubt.
    Decide,
    /// A person cancels a run, or continues one that has ended.
    CancelOrContinue,
    Start(usize),
    /// A process ends, which has released its identity if it could.
    Stop(usize),
}

impl Cluster {
    /// Creates a cluster from a seed. Equal seeds have equal histories.
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>, is_traced: bool) -> Cluster {
        let mut cluster = Cluster {
            random: Random(seed),
            now: 0,
            events: BTreeMap::new(),
            last_event: 0,
            loss: 0,
            store: MemoryStore::new(sabotage),
            hosts: Vec::new(),
            processes: Vec::new(),
            acknowledged: BTreeSet::new(),
            last_delivery: 0,
            sent: Vec::new(),
            checker: Checker::default(),
            is_traced,
        };
        cluster.loss = *cluster.random.pick(&[5, 20, 100]).unwrap();
        for run in 0..1 + cluster.random.below(2) {
            cluster.submit(RunId::new(format!("r{run}")).unwrap());
        }
        for machine in 0..2 + cluster.random.below(3) {
            cluster.add_host(MachineId(u128::from(machine)), 0);
        }
        for _ in 0..2 + cluster.random.below(8) {
            let time = cluster.random.below(FAULTS_END);
            cluster.schedule(time, Event::Fault);
        }
        for _ in 0..cluster.random.below(8) {
            let time = cluster.random.below(2 * FAULTS_END);
            cluster.schedule(time, Event::Resubmit);
        }
        for _ in 0..cluster.random.below(4) {
            let time = cluster.random.below(2 * FAULTS_END);
            cluster.schedule(time, Event::Decide);
        }
        for _ in 0..cluster.random.below(4).saturating_sub(1) {
            let time = cluster.random.below(2 * FAULTS_END);
            cluster.schedule(time, Event::CancelOrContinue);
        }
        cluster
    }

    /// Runs until every run is settled, or until an invariant is broken.
    pub(crate) fn run(&mut self) -> Option<Violation> {
        let mut next_check = FAULTS_END + TTL;
        while self.checker.violation.is_none() {
            let Some(((time, _), event)) = self.events.pop_first() else {
                // Every process has ended for good.
                let unsettled = self.checker.runs.keys().find(|run| !self.is_settled(run)).cloned();
                self.checker.violation = unsettled.map(Violation::StepLost);
                self.check_end();
                break;
            };
            self.now = time;
            self.handle(event);
            if self.now < next_check {
                continue;
            }
            next_check += TICK;
            let unsettled = self.checker.runs.keys().find(|run| !self.is_settled(run)).cloned();
            match unsettled {
                None => {
                    self.check_end();
                    break;
                }
                Some(run) if self.now > FAULTS_END + RECOVERY => {
                    self.checker.violation.get_or_insert(Violation::StepLost(run));
                }
                Some(_) => {}
            }
        }
        self.checker.violation.clone()
    }

    /// Returns the journals of all runs.
    pub(crate) fn journals(&self) -> BTreeMap<RunId, Vec<(Sequence, Record)>> {
        self.checker.runs.keys().map(|run| (run.clone(), self.store.records(run).to_vec())).collect()
    }

    fn submit(&mut self, run: RunId) {
        let lost = [OnMachineLost::Wait, OnMachineLost::Retry, OnMachineLost::Fail];
        let mut steps: Vec<StepSpec> = Vec::new();
        for number in 0..1 + self.random.below(3) {
            let after = steps.last().filter(|_| self.random.once_in(2)).map(|step| step.id.clone());
            steps.push(StepSpec {
                id: StepId::new(format!("s{number}")).unwrap(),
                after: after.into_iter().collect(),
                is_safe: self.random.once_in(3),
                on_machine_lost: *self.random.pick(&lost).unwrap(),
                requirement: Requirement::default(),
            });
        }
        self.append(
            &run,
            &Record {
                epoch: Epoch::default(),
                kind: RecordKind::Planned { steps, work: Default::default() },
            },
            false,
        );
    }

    /// Appends a record behind the last one, whatever it is.
    fn append(&mut self, run: &RunId, record: &Record, is_forged: bool) {
        let expected = self.store.last(run);
        let request = Request::Append { run: run.clone(), record: record.clone(), expected };
        if let Response::Accepted(sequence) = self.store.perform(self.now, &request) {
            self.checker.on_append(run, sequence, record, is_forged);
        }
    }

    fn add_host(&mut self, machine: MachineId, boot: u64) {
        let clock = Clock { base: self.random.below(HOUR), since: self.now, stopped_until: 0 };
        let agents = BTreeMap::new();
        let host = Host { machine, boot, process: None, clock, partitioned_until: 0, agents, is_dead: false };
        self.hosts.push(host);
        let delay = self.random.below(TTL / 2);
        self.schedule(delay, Event::Start(self.hosts.len() - 1));
    }

    fn schedule(&mut self, delay: u64, event: Event) {
        self.last_event += 1;
        self.events.insert((self.now + delay, self.last_event), event);
    }

    fn is_faulty(&self) -> bool {
        self.now < FAULTS_END
    }

    /// Returns true once in `times` while faults are allowed.
    fn fault_once_in(&mut self, times: u64) -> bool {
        self.is_faulty() && self.random.once_in(times)
    }

    fn latency(&mut self) -> u64 {
        1 + if self.random.once_in(8) { self.random.below(DEADLINE) } else { self.random.below(30) }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick(process) => self.tick(process),
            Event::Arrive { process, id, request, is_answered } => {
                let response = self.arrive(&request);
                if is_answered {
                    self.reply(process, id, response);
                }
            }
            Event::Deliver(process, input) => self.deliver(process, input),
            Event::NotifyOffer { machine, attempt, delivery, deliveries } => {
                self.notify_offer(machine, attempt, delivery, deliveries);
            }
            Event::TurnEnds(host, attempt) => self.end_turn(host, attempt),
            Event::Fault => self.fault(),
            Event::Resubmit => self.resubmit(),
            Event::Decide => self.decide(),
            Event::CancelOrContinue => self.cancel_or_continue(),
            Event::Start(host) => self.start(host),
            Event::Stop(process) => {
                let Process { host, ref core, .. } = self.processes[process];
                self.checker.counts.released_identities += u64::from(core.is_released());
                if self.hosts[host].process == Some(process) {
                    self.stop(host);
                }
            }
        }
    }

    fn tick(&mut self, process: usize) {
        let Process { is_alive, host, .. } = self.processes[process];
        if !is_alive {
            return;
        }
        let delay = TICK / 2 + self.random.below(TICK / 2);
        self.schedule(delay, Event::Tick(process));
        if self.random.once_in(20) {
            self.forget(process);
        }
        let is_connected = self.hosts[host].partitioned_until <= self.now;
        if is_connected && self.random.once_in(4) {
            let machines = self.present_machines();
            self.deliver(process, Input::Machines(machines));
        } else {
            self.deliver(process, Input::Tick);
        }
    }

    /// Sends `RunForgotten` for a run, which may not have ended, and finds it again soon after.
    fn forget(&mut self, process: usize) {
        let runs: Vec<RunId> = self.checker.runs.keys().cloned().collect();
        let run = self.random.pick(&runs).unwrap().clone();
        self.deliver(process, Input::RunForgotten(run.clone()));
        self.checker.counts.forgotten_runs += u64::from(self.processes[process].core.run(&run).is_none());
        let delay = self.random.below(TICK);
        self.schedule(delay, Event::Deliver(process, Input::RunFound(run)));
    }

    fn present_machines(&mut self) -> Vec<MachineInfo> {
        let ids: BTreeSet<MachineId> = self.hosts.iter().map(|host| host.machine).collect();
        let mut present = Vec::new();
        for id in ids {
            if self.store.holder(self.now, &Key::Machine(id)).is_some() {
                let free_slots = u32::try_from(self.random.below(3)).unwrap();
                // Some machines are drained for a while.
                let accepts_steps = !self.random.once_in(5);
                let (labels, workspaces) = (BTreeSet::new(), BTreeSet::new());
                let name = format!("m{}", id.0);
                present.push(MachineInfo { id, name, labels, free_slots, accepts_steps, workspaces });
            }
        }
        present
    }

    /// Performs a request at the store.
    fn arrive(&mut self, request: &Request) -> Response {
        let response = self.store.perform(self.now, request);
        if self.is_traced {
            eprintln!("{:6}   store {request:?} -> {response:?}", self.now);
        }
        if let Request::Append { run, record, .. } = request {
            let is_lost = self.store.sabotage == Some(Sabotage::LoseStarted)
                && matches!(record.kind, RecordKind::Started { .. });
            if let Response::Accepted(sequence) = response
                && !is_lost
            {
                self.checker.on_append(run, sequence, record, false);
            }
        }
        response
    }

    /// Sends a request through a network that loses, delays and duplicates.
    fn send(&mut self, process: usize, id: RequestId, request: Request) {
        if let Request::Append { run, record, .. } = &request {
            self.sent.push((run.clone(), record.clone()));
        }
        let host = self.processes[process].host;
        let is_partitioned = self.hosts[host].partitioned_until > self.now;
        let is_lost = is_partitioned || self.fault_once_in(self.loss);
        if is_lost {
            let response = Response::Unavailable;
            self.schedule(DEADLINE, Event::Deliver(process, Input::Stored { id, response }));
            // It may still arrive, after the deadline.
            if self.random.once_in(3) {
                let limit = if self.random.once_in(4) { 2 * TTL } else { 3 * DEADLINE };
                let delay = self.random.below(limit);
                self.schedule(delay, Event::Arrive { process, id, request, is_answered: false });
            }
            return;
        }
        let copies = if self.fault_once_in(self.loss) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = self.latency();
            self.schedule(delay, Event::Arrive { process, id, request: request.clone(), is_answered: true });
        }
    }

    fn reply(&mut self, process: usize, id: RequestId, response: Response) {
        let host = self.processes[process].host;
        let is_lost = self.hosts[host].partitioned_until > self.now || self.fault_once_in(self.loss);
        let (delay, response) =
            if is_lost { (DEADLINE, Response::Unavailable) } else { (self.latency(), response) };
        self.schedule(delay, Event::Deliver(process, Input::Stored { id, response }));
    }

    fn deliver(&mut self, process: usize, input: Input) {
        let Process { is_alive, paused_until, host, .. } = self.processes[process];
        if !is_alive {
            return;
        }
        if paused_until > self.now {
            // A paused process is not ticked twice, but all else waits for it.
            if input != Input::Tick {
                let delay = paused_until - self.now + self.random.below(5);
                self.schedule(delay, Event::Deliver(process, input));
            }
            return;
        }
        let now = self.hosts[host].clock.read(self.now);
        if let Input::Stored { id, response } = &input {
            self.processes[process].leases.on_response(*id, response);
        }
        if let Input::Machines(machines) = &input {
            let Process { me, accepts_steps, .. } = &mut self.processes[process];
            *accepts_steps = machines.iter().any(|own| own.id == me.machine && own.accepts_steps);
        }
        if self.is_traced && input != Input::Tick {
            eprintln!("{:6} p{process} {now:?} {input:?}", self.now);
        }
        for effect in self.processes[process].core.handle(now, input) {
            self.processes[process].leases.on_effect(now, &effect);
            if !self.processes[process].leases.may_begin(now, &effect) {
                self.checker.violation.get_or_insert(Violation::BegunWithoutLease(format!("{effect:?}")));
            }
            if begins_attempt(&effect) && !self.processes[process].accepts_steps {
                self.checker.violation.get_or_insert(Violation::BegunWhileDrained(format!("{effect:?}")));
            }
            // The process may crash before it performs an effect.
            if self.fault_once_in(400) {
                self.checker.counts.crashes_before_effects += 1;
                self.stop(host);
                let delay = self.random.below(2 * TTL);
                self.schedule(delay, Event::Start(host));
                return;
            }
            self.perform(process, effect);
        }
    }

    fn perform(&mut self, process: usize, effect: Effect) {
        if self.is_traced && !matches!(effect, Effect::Store { .. }) {
            eprintln!("{:6} p{process}   => {effect:?}", self.now);
        }
        let Process { host, me, .. } = self.processes[process];
        match effect {
            Effect::Store { id, request } => self.send(process, id, request),
            Effect::NotifyOffer { machine, attempt } => {
                if !self.fault_once_in(6) {
                    self.last_delivery += 1;
                    let (delay, delivery) = (self.latency(), self.last_delivery);
                    self.schedule(delay, Event::NotifyOffer { machine, attempt, delivery, deliveries: 3 });
                }
            }
            Effect::Acknowledge { delivery } => {
                self.acknowledged.insert(delivery);
            }
            Effect::Prepare { attempt } => {
                let input = if self.random.once_in(12) {
                    Input::PreparationFailed { attempt, error: "no workspace".into() }
                } else {
                    Input::Prepared { attempt, node: "me".into(), offset: self.random.below(1 << 20) }
                };
                let delay = self.random.below(TTL / 2);
                self.schedule(delay, Event::Deliver(process, input));
            }
            Effect::TypePrompt { attempt } => {
                self.checker.on_typed(&attempt, me);
                self.hosts[host].agents.insert(attempt.clone(), TurnReport::Running);
                let delay = self.random.below(2 * TTL);
                self.schedule(delay, Event::TurnEnds(host, attempt));
            }
            Effect::CancelTurn { attempt } => {
                self.checker.counts.cancelled_turns += 1;
                let delay = self.random.below(TTL);
                self.schedule(delay, Event::TurnEnds(host, attempt));
            }
            Effect::InspectTurn { attempt } => {
                let report = self.hosts[host].agents.get(&attempt).cloned().unwrap_or(TurnReport::Lost);
                let delay = self.random.below(50);
                self.schedule(delay, Event::Deliver(process, Input::TurnInspected { attempt, report }));
            }
            Effect::ReportOutdatedLease { run } => {
                self.checker.violation.get_or_insert(Violation::LeaseReportedOutdated(run));
            }
            Effect::ReportIdentityConflict { .. } => {
                self.checker.counts.identity_conflicts += 1;
                // Some servers end and are started again later, others wait for the other process to end.
                if self.random.once_in(2) {
                    self.stop(host);
                    let delay = self.random.below(5 * TTL);
                    self.schedule(delay, Event::Start(host));
                }
            }
        }
    }

    fn notify_offer(&mut self, machine: MachineId, attempt: AttemptId, delivery: u64, deliveries: u32) {
        if deliveries == 0 || self.acknowledged.contains(&delivery) {
            return;
        }
        let receivers: Vec<usize> = self
            .hosts
            .iter()
            .filter(|host| host.machine == machine && host.partitioned_until <= self.now)
            .filter_map(|host| host.process)
            .collect();
        for process in receivers {
            self.deliver(process, Input::OfferNotification { delivery, attempt: attempt.clone() });
        }
        let next = Event::NotifyOffer { machine, attempt, delivery, deliveries: deliveries - 1 };
        self.schedule(TTL / 2, next);
    }

    fn end_turn(&mut self, host: usize, attempt: AttemptId) {
        let is_success = !self.random.once_in(8);
        let agents = &mut self.hosts[host].agents;
        let Some(turn @ TurnReport::Running) = agents.get_mut(&attempt) else { return };
        let result = StepResult { is_success, value: attempt.to_string() };
        *turn = TurnReport::Finished(result.clone());
        if let Some(process) = self.hosts[host].process {
            self.deliver(process, Input::TurnFinished { attempt, result });
        }
    }

    fn start(&mut self, host: usize) {
        let nonce = self.random.below(u64::MAX);
        let runs: Vec<RunId> = self.checker.runs.keys().cloned().collect();
        let Host { machine, ref mut boot, ref mut process, is_dead, .. } = self.hosts[host];
        if is_dead || process.is_some() {
            return;
        }
        *boot += 1;
        *process = Some(self.processes.len());
        let me = Instance { machine, boot: *boot, nonce };
        let core = ServerCore::new(me, LeaseTimes::new(Duration::from_millis(TTL)));
        self.processes.push(Process {
            host,
            me,
            core,
            leases: LeaseAges::new(me, TTL),
            accepts_steps: false,
            is_alive: true,
            paused_until: 0,
        });
        let number = self.processes.len() - 1;
        if self.is_traced {
            eprintln!("{:6} p{number} starts on host {host} as {me:?}", self.now);
        }
        self.schedule(0, Event::Tick(number));
        for run in runs {
            let delay = self.latency();
            self.schedule(delay, Event::Deliver(number, Input::RunFound(run)));
        }
    }

    fn stop(&mut self, host: usize) {
        if let Some(process) = self.hosts[host].process.take() {
            self.processes[process].is_alive = false;
        }
    }

    fn fault(&mut self) {
        let host = usize::try_from(self.random.below(self.hosts.len() as u64)).unwrap();
        let until = self.now + self.random.below(3 * TTL).min(FAULTS_END - self.now);
        let kind = self.random.below(7);
        if self.is_traced {
            eprintln!("{:6} fault {kind} on host {host} until {until}", self.now);
        }
        match kind {
            0 => {
                if let Some(process) = self.hosts[host].process
                    && self.random.once_in(2)
                {
                    self.deliver(process, Input::Stop);
                    self.schedule(DEADLINE, Event::Stop(process));
                } else {
                    self.stop(host);
                }
                self.schedule(DEADLINE + until - self.now, Event::Start(host));
            }
            1 => self.crash(host, until),
            2 => {
                if let Some(process) = self.hosts[host].process {
                    self.processes[process].paused_until = until;
                }
            }
            3 => self.hosts[host].partitioned_until = until,
            4 => self.hosts[host].clock.stop(self.now, until),
            5 if self.hosts.len() < 5 => {
                let Host { machine, boot, .. } = self.hosts[host];
                // The copy may be from before the last start.
                let boot = boot.saturating_sub(self.random.below(2));
                self.add_host(machine, boot);
            }
            _ => {
                for host in &mut self.hosts {
                    host.partitioned_until = until;
                }
            }
        }
    }

    fn decide(&mut self) {
        let mut in_doubt = Vec::new();
        for (run, check) in &self.checker.runs {
            for (step, state) in &check.state.steps {
                if let Some((number, attempt)) = state.current()
                    && let Some(doubt) = attempt.undecided_doubt()
                {
                    let id = AttemptId { run: run.clone(), step: step.clone(), attempt: number };
                    in_doubt.push((id, doubt));
                }
            }
        }
        let Some((attempt, doubt)) = self.random.pick(&in_doubt).cloned() else { return };
        let decision = if self.random.once_in(2) { Decision::Retry } else { Decision::Fail };
        let process = usize::try_from(self.random.below(self.processes.len() as u64)).unwrap();
        // People think for a while.
        let delay = self.random.below(TTL);
        self.schedule(delay, Event::Deliver(process, Input::Decide { attempt, doubt, decision }));
    }

    /// Cancels a run, or continues it if it has ended. Each process then reads the journal, sooner or later.
    fn cancel_or_continue(&mut self) {
        let runs: Vec<RunId> = self.checker.runs.keys().cloned().collect();
        let run = self.random.pick(&runs).unwrap().clone();
        let state = &self.checker.runs[&run].state;
        let kind = if state.outcome.is_some() { RecordKind::Continued } else { RecordKind::Cancelled };
        let record = Record { epoch: state.epoch, kind };
        self.append(&run, &record, false);
        for process in 0..self.processes.len() {
            let delay = self.random.below(TTL);
            self.schedule(delay, Event::Deliver(process, Input::JournalChanged(run.clone())));
        }
    }

    /// Crashes a computer, with its agents. Some never come back, unless it is the last one.
    fn crash(&mut self, host: usize, until: u64) {
        self.stop(host);
        let base = self.random.below(HOUR);
        let is_last = self.hosts.iter().filter(|host| !host.is_dead).count() == 1;
        let host_state = &mut self.hosts[host];
        host_state.agents.clear();
        host_state.clock = Clock { base, since: self.now, stopped_until: 0 };
        host_state.is_dead |= self.random.once_in(2) && !is_last;
        self.schedule(until - self.now, Event::Start(host));
    }

    /// Appends an old record with the sequence that the store expects, as a client library does that knows nothing of the journal.
    fn resubmit(&mut self) {
        let Some((run, mut record)) = self.random.pick(&self.sent).cloned() else { return };
        let current = self.checker.runs[&run].state.epoch;
        let is_forged = self.store.sabotage == Some(Sabotage::ForgeEpoch) && record.epoch < current;
        if is_forged {
            record.epoch = current;
        }
        if self.is_traced {
            eprintln!("{:6} resubmits {record:?}", self.now);
        }
        self.append(&run, &record, is_forged);
    }

    /// Returns true if a run ended, or if all that is left waits for steps in doubt whose turn no present machine has. Results that
    /// came too late must be in the journal too.
    fn is_settled(&self, run: &RunId) -> bool {
        let state = &self.checker.runs[run].state;
        let is_waiting = |step: &StepState| match step.current() {
            Some((number, attempt)) => {
                matches!(attempt.state, AttemptState::InDoubt { .. })
                    && (needs_person(step) && attempt.decision.is_none())
                    && !self.is_turn_present(run, step, number)
            }
            None => false,
        };
        let is_blocked = |step: &StepState| match step.current() {
            Some((_, attempt)) => attempt.state == AttemptState::Offered && state.is_stopping(),
            None => !state.is_ready(&step.spec) || state.is_stopping(),
        };
        let is_quiet = |step: &StepState| {
            step.has_succeeded() || step.has_failed() || is_waiting(step) || is_blocked(step)
        };
        let has_ended = state.outcome.is_some()
            || (state.steps.values().any(is_waiting) && state.steps.values().all(is_quiet));
        has_ended && !state.steps.values().any(|step| self.has_unreported_turn(run, step))
    }

    /// Returns true if a present machine has the turn of an attempt that does not count any more, without its result in the journal.
    fn has_unreported_turn(&self, run: &RunId, step: &StepState) -> bool {
        (1..).zip(&step.attempts).any(|(number, attempt)| {
            matches!(attempt.state, AttemptState::Superseded { .. } | AttemptState::Failed { .. })
                && attempt.late.is_none()
                && self.is_turn_present(run, step, number)
        })
    }

    /// Returns true if a process that has its machine's identity runs on a host with the turn, or can still start there.
    fn is_turn_present(&self, run: &RunId, step: &StepState, attempt: u32) -> bool {
        let id = AttemptId { run: run.clone(), step: step.spec.id.clone(), attempt };
        self.hosts.iter().any(|host| {
            let now = host.clock.read(self.now);
            let is_active = match host.process {
                Some(process) => !self.processes[process].core.is_suspended(now),
                None => !host.is_dead,
            };
            is_active && host.agents.contains_key(&id)
        })
    }

    /// Compares the replicas that have read everything, and counts the outcomes.
    fn check_end(&mut self) {
        let Checker { runs, counts, violation, .. } = &mut self.checker;
        for (id, check) in runs {
            match check.state.outcome {
                Some(RunOutcome::Completed) => counts.completed_runs += 1,
                Some(RunOutcome::Failed) => counts.failed_runs += 1,
                Some(RunOutcome::Cancelled) => counts.cancelled_runs += 1,
                None => counts.waiting_runs += 1,
            }
            let mut state = RunState::default();
            let records = self.store.records(id);
            for part in records.windows(3.min(records.len())) {
                for (sequence, record) in part {
                    state.apply(*sequence, record);
                }
            }
            if state != check.state {
                violation.get_or_insert(Violation::FoldDiffers(id.clone()));
            }
            let replicas = self.processes.iter().filter(|process| process.is_alive);
            let differs = replicas
                .filter_map(|process| process.core.run(id))
                .any(|state| state.last == check.state.last && *state != check.state);
            if differs {
                violation.get_or_insert(Violation::ReplicaDiffers(id.clone()));
            }
        }
    }
}

impl Clock {
    fn read(&self, now: u64) -> BootTime {
        BootTime(self.base + now.max(self.stopped_until) - self.since.max(self.stopped_until))
    }

    /// Stops the clock. It continues with the same reading.
    fn stop(&mut self, now: u64, until: u64) {
        self.base = self.read(now).0;
        (self.since, self.stopped_until) = (now, self.stopped_until.max(until));
    }
}

/// Returns true for the effects with which a machine begins an attempt.
fn begins_attempt(effect: &Effect) -> bool {
    match effect {
        Effect::Prepare { .. } => true,
        Effect::Store { request: Request::Append { record, .. }, .. } => {
            matches!(record.kind, RecordKind::Started { .. } | RecordKind::PreparationFailed { .. })
        }
        _ => false,
    }
}

/// Returns true if only a person or the machine can resolve the step's doubt.
fn needs_person(step: &StepState) -> bool {
    !step.spec.is_safe && step.spec.on_machine_lost == OnMachineLost::Wait
}
