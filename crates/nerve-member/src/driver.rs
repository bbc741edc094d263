//! Drives the core of a membership against the broker and the engine until it is stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use nerve_cluster::journal::AttemptState;
use nerve_cluster::placement::MachineInfo;
use nerve_cluster::{
    AttemptId, BootTime, Effect, Input, Instance, LeaseTimes, Request, Response, RunId, ServerCore,
    TurnReport,
};
use nerve_nats::{
    BrokerError, BrokerOptions, Connection, JournalChanges, NatsStore, PresentMachines, Streams,
};
use nerve_types::{millis, os};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::catch_up::CatchUp;
use crate::config::ClusterConfig;
use crate::member_list::{MemberList, Presence, StepActivity};
use crate::status::{MemberState, StatusFile};
use crate::step_executor::StepExecutor;
use crate::step_graph::StepGraph;
use crate::write_problems::WriteProblems;

/// Longest delay between attempts to connect for the first time.
const MAX_CONNECT_DELAY: Duration = Duration::from_secs(2);
/// Time limit for the release of the lease. Afterwards it expires.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Drives the core of one membership.
struct MemberDriver {
    config: ClusterConfig,
    me: Instance,
    times: LeaseTimes,
    store: NatsStore,
    core: ServerCore,
    steps: StepExecutor,
    /// Working directory of nodes that have none.
    home: PathBuf,
    status: StatusFile,
    /// The known runs, with the number of their records at the last list.
    runs: BTreeMap<RunId, u64>,
    /// Runs whose journals are to be read.
    catch_up: CatchUp,
    /// True once this process has read the journals in which an earlier one may have begun a step.
    has_caught_up: bool,
    /// The members at the last list.
    members: MemberList,
    /// The machines that the core knows.
    machines: Vec<MachineInfo>,
    /// Time at which this process got its lease for the first time.
    joined: Option<BootTime>,
    /// Another process that uses the id of this machine.
    conflict: Option<Instance>,
    /// Last error of a lease, and of a list, unless a later call succeeded.
    lease_problem: Option<String>,
    list_problem: Option<String>,
    /// Records that the broker refused.
    write_problems: WriteProblems,
}

/// The result of a call to the broker or the engine.
enum Reply {
    /// The input for the core, with the error of the broker. `appended_to`: the run to whose journal a record was sent; `read`: the run
    /// whose journal was read.
    Stored {
        input: Input,
        error: Option<BrokerError>,
        appended_to: Option<RunId>,
        read: Option<RunId>,
    },
    Listed(Result<(PresentMachines, BTreeMap<RunId, u64>), BrokerError>),
    Step(Option<Input>),
}

type Calls = FuturesUnordered<BoxFuture<'static, Reply>>;

/// Joins the cluster, and is a member until `stop`; then releases the lease.
pub(crate) async fn run(
    config: &ClusterConfig,
    options: &BrokerOptions,
    me: Instance,
    steps: StepExecutor,
    mut status: StatusFile,
    stop: &CancellationToken,
) {
    let times = config.lease_times();
    let Some(connection) = connect(options, times, &mut status, stop).await else { return };
    let driver = MemberDriver {
        config: config.clone(),
        me,
        times,
        store: NatsStore::new(connection, Streams::new(config.cluster.clone())),
        core: ServerCore::new(me, times),
        steps,
        home: std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from),
        status,
        runs: BTreeMap::new(),
        catch_up: CatchUp::default(),
        has_caught_up: false,
        members: MemberList::default(),
        machines: Vec::new(),
        joined: None,
        conflict: None,
        lease_problem: None,
        list_problem: None,
        write_problems: WriteProblems::default(),
    };
    driver.serve(stop).await;
}

/// Connects for the first time; `None` if stopped. Later, the client connects again by itself.
async fn connect(
    options: &BrokerOptions,
    times: LeaseTimes,
    status: &mut StatusFile,
    stop: &CancellationToken,
) -> Option<Connection> {
    let attempts = async {
        loop {
            match Connection::open(options).await {
                Ok(connection) => return connection,
                Err(error) => status.set_state(MemberState::Joining, Some(error.to_string())),
            }
            sleep(times.renewal().min(MAX_CONNECT_DELAY)).await;
        }
    };
    stop.run_until_cancelled(attempts).await
}

impl MemberDriver {
    async fn serve(mut self, stop: &CancellationToken) {
        let (mut ticks, mut lists) = (delayed(self.times.retry()), delayed(self.times.renewal()));
        let mut calls = Calls::new();
        let mut is_listing = false;
        // Without hints, the lists show the changes.
        let mut changes = self.store.journal_changes().await.ok();
        while !stop.is_cancelled() {
            let has_joined = self.joined.is_some();
            tokio::select! {
                () = stop.cancelled() => {}
                _ = ticks.tick() => {
                    self.handle(Input::Tick, &calls);
                    self.update_machines(&calls);
                    self.release_slots();
                }
                _ = lists.tick(), if !is_listing => {
                    is_listing = true;
                    calls.push(list(self.store.clone()).boxed());
                }
                run = next_change(&mut changes) => match run {
                    Some(run) => {
                        self.runs.entry(run.clone()).or_default();
                        self.catch_up.remove(&run);
                        self.handle(Input::JournalChanged(run), &calls);
                    }
                    None => changes = None,
                },
                Some(reply) = calls.next() => {
                    is_listing &= !matches!(reply, Reply::Listed(_));
                    self.accept(reply, &calls);
                }
            }
            if self.joined.is_some() && !has_joined {
                // Only a list with its own lease shows whether this machine is drained.
                lists.reset_immediately();
            }
            self.report();
        }
        self.release(&mut calls, &mut ticks).await;
    }

    /// Releases the identity for the next process. Leases of steps stay.
    async fn release(&mut self, calls: &mut Calls, ticks: &mut Interval) {
        let release = async {
            self.handle(Input::Stop, calls);
            while !self.core.is_released() {
                tokio::select! {
                    _ = ticks.tick() => self.handle(Input::Tick, calls),
                    // The next process finds the results of steps.
                    Some(reply) = calls.next() => if matches!(reply, Reply::Stored { .. }) {
                        self.accept(reply, calls);
                    },
                }
            }
        };
        if tokio::time::timeout(RELEASE_TIMEOUT, release).await.is_err() {
            tracing::warn!("the lease of this machine is not released: it expires");
        }
    }

    /// Gives the core an input, and performs the effects.
    fn handle(&mut self, input: Input, calls: &Calls) {
        let now = now();
        let effects = self.core.handle(now, input);
        if !self.core.is_suspended(now) {
            self.joined.get_or_insert(now);
            self.conflict = None;
        }
        for effect in effects {
            self.perform(now, effect, calls);
        }
    }

    fn perform(&mut self, now: BootTime, effect: Effect, calls: &Calls) {
        let steps = self.steps.clone();
        match effect {
            Effect::Store { id, request } => {
                if matches!(request, Request::Put { .. }) {
                    let presence = self.presence(now);
                    self.store.set_presence(presence.to_value());
                }
                let (appended_to, read) = match &request {
                    Request::Append { run, .. } => (Some(run.clone()), None),
                    Request::Read { run, .. } => (None, Some(run.clone())),
                    _ => (None, None),
                };
                let store = self.store.clone();
                let perform = async move {
                    let (response, error) = match store.try_perform(&request).await {
                        Ok(response) => {
                            let error =
                                has_lost_records(&request, &response).then_some(BrokerError::LostRecords);
                            (response, error)
                        }
                        Err(error) => (Response::Unavailable, Some(error)),
                    };
                    Reply::Stored { input: Input::Stored { id, response }, error, appended_to, read }
                };
                calls.push(perform.boxed());
            }
            Effect::Prepare { attempt } => {
                let graph = self.step_graph(&attempt);
                calls.push(steps.prepare(attempt, graph).map(Reply::Step).boxed());
            }
            Effect::TypePrompt { attempt } => {
                let graph = self.step_graph(&attempt);
                calls.push(steps.execute(attempt, graph).map(Reply::Step).boxed());
            }
            Effect::CancelTurn { attempt } => steps.cancel(&attempt),
            Effect::InspectTurn { attempt } => calls.push(steps.inspect(attempt).map(Reply::Step).boxed()),
            Effect::ReportIdentityConflict { holder } => self.conflict = Some(holder),
            Effect::ReportOutdatedLease { run } => {
                tracing::warn!(%run, "the run stands still: the broker's leases were replaced");
            }
            // Offers are in the journal, whose changes every member sees.
            Effect::NotifyOffer { .. } | Effect::Acknowledge { .. } => {}
        }
    }

    /// Returns the graph of an attempt, or the reason why it has none.
    fn step_graph(&self, attempt: &AttemptId) -> Result<StepGraph, String> {
        let state = self.core.run(&attempt.run).ok_or_else(|| "the run is unknown".to_string())?;
        StepGraph::new(state, attempt, &self.home)
    }

    fn accept(&mut self, reply: Reply, calls: &Calls) {
        match reply {
            Reply::Stored { input, error, appended_to, read } => {
                let read = read.filter(|_| error.is_none());
                self.update_problems(error, appended_to);
                self.handle(input, calls);
                if let Some(run) = read {
                    self.finish_read(run, calls);
                }
                self.read_next(calls);
            }
            Reply::Listed(result) => {
                self.list_problem = result.as_ref().err().map(ToString::to_string);
                if let Ok((present, runs)) = result {
                    self.accept_lists(present, runs, calls);
                }
            }
            Reply::Step(None) => {}
            Reply::Step(Some(input)) => {
                if let Input::TurnInspected { attempt, report: TurnReport::Running } = &input {
                    calls.push(self.steps.clone().resume(attempt.clone()).map(Reply::Step).boxed());
                }
                self.handle(input, calls);
            }
        }
    }

    /// Updates the problems with the error of a request. A refused record is no problem of the leases, and their success does not end it.
    fn update_problems(&mut self, error: Option<BrokerError>, appended_to: Option<RunId>) {
        match (appended_to, error) {
            (Some(run), Some(error)) if !matches!(error, BrokerError::Unavailable(_)) => {
                self.write_problems.add(now(), run, &error);
            }
            (Some(run), None) => {
                self.write_problems.remove(&run);
                self.lease_problem = None;
            }
            (_, error) => self.lease_problem = error.map(|error| error.to_string()),
        }
    }

    /// Updates the core with the machines and the runs. Runs that have ended are forgotten until they have new records.
    fn accept_lists(&mut self, present: PresentMachines, runs: BTreeMap<RunId, u64>, calls: &Calls) {
        for run in self.ended_runs() {
            self.handle(Input::RunForgotten(run), calls);
        }
        let changed = runs.iter().filter(|(run, records)| self.runs.get(*run) != Some(*records));
        for run in changed.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            if self.core.run(&run).is_some() {
                self.handle(Input::RunFound(run), calls);
            } else {
                self.catch_up.add(run);
            }
        }
        self.runs = runs;
        // The queue comes first: a machine whose queue is not empty does not call itself drained.
        self.members = MemberList::new(present);
        self.status.set_members(self.members.clone());
        self.update_machines(calls);
        self.read_next(calls);
    }

    /// Reads the next journals. Without the identity it reads none, because this machine could do nothing for their runs.
    fn read_next(&mut self, calls: &Calls) {
        while !self.core.is_suspended(now())
            && let Some(run) = self.catch_up.next()
        {
            self.handle(Input::RunFound(run), calls);
        }
    }

    /// Forgets a run whose journal was read for the first time, if it has ended. The reply may be to a read before the run was forgotten
    /// and found again, so a run without records may have another read under way.
    fn finish_read(&mut self, run: RunId, calls: &Calls) {
        let is_first = self.catch_up.remove(&run);
        let has_ended = self.core.run(&run).is_some_and(|state| state.outcome.is_some());
        let is_over = is_first && has_ended && !self.core.is_suspended(now());
        if is_over {
            self.handle(Input::RunForgotten(run), calls);
        }
    }

    /// Gives the core the machines if they or their free slots have changed.
    fn update_machines(&mut self, calls: &Calls) {
        let machines = self.members.machines(self.runs.keys().filter_map(|run| self.core.run(run)));
        if machines != self.machines {
            self.machines.clone_from(&machines);
            self.handle(Input::Machines(machines), calls);
        }
    }

    /// Returns the runs that have ended. None without the identity, because the core may have to inspect their steps first.
    fn ended_runs(&self) -> Vec<RunId> {
        if self.core.is_suspended(now()) {
            return Vec::new();
        }
        let has_ended = |run: &&RunId| self.core.run(run).is_some_and(|state| state.outcome.is_some());
        self.runs.keys().filter(has_ended).cloned().collect()
    }

    /// Returns true if this machine is drained, as far as known.
    fn is_drained(&self) -> bool {
        self.members.is_drained(self.me.machine)
    }

    /// Frees the slots of attempts that were prepared and then offered to another machine, or that this machine does not begin.
    fn release_slots(&self) {
        let is_ours = |attempt: &AttemptId| {
            let state = self.core.run(&attempt.run);
            let found = state.and_then(|state| state.attempt(&attempt.step, attempt.attempt));
            found.is_some_and(|found| match found.state {
                AttemptState::Offered => {
                    let is_open = state.is_some_and(|state| !state.is_stopping());
                    found.machine == self.me.machine && is_open && !self.is_drained()
                }
                // In doubt, this process may resume it once its leases are back.
                AttemptState::Started { by } | AttemptState::InDoubt { by } => by == self.me,
                _ => false,
            })
        };
        self.steps.release(is_ours);
    }

    /// Returns the description of this machine for its lease.
    fn presence(&mut self, now: BootTime) -> Presence {
        let member_for = self.joined.and_then(|joined| now.since(joined)).unwrap_or_default();
        let is_drained = self.is_drained();
        self.has_caught_up |= is_drained && self.catch_up.is_empty() && self.core.has_read_all();
        let activity =
            StepActivity { running: self.core.running_steps(), is_drained: is_drained && self.has_caught_up };
        Presence::new(&self.config, member_for, activity)
    }

    /// Updates the status file.
    fn report(&mut self) {
        let state = if !self.core.is_suspended(now()) {
            MemberState::Member
        } else if self.conflict.is_some() {
            MemberState::IdentityConflict
        } else if self.joined.is_some() {
            MemberState::Suspended
        } else {
            MemberState::Joining
        };
        let refused = self.write_problems.current(now(), self.times.ttl());
        let problem = self.lease_problem.as_ref().or(refused).or(self.list_problem.as_ref());
        self.status.set_state(state, problem.cloned());
    }
}

/// Returns true if a journal ends before a record that the broker had acknowledged.
fn has_lost_records(request: &Request, response: &Response) -> bool {
    matches!((request, response),
        (Request::Append { expected, .. }, Response::WrongSequence { last }) if last < expected)
}

/// Reads the machines that are present, and the runs.
async fn list(store: NatsStore) -> Reply {
    let lists = async { Ok((store.present_machines().await?, store.runs().await?)) };
    Reply::Listed(lists.await)
}

/// Waits for the next change of a journal; forever without a subscription.
async fn next_change(changes: &mut Option<JournalChanges>) -> Option<RunId> {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}

fn delayed(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Returns the time of this machine's clock, which includes suspension.
fn now() -> BootTime {
    BootTime(millis(os::boot_time()))
}
