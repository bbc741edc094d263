//! One membership: drives the cluster's core against the broker until it is stopped.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nerve_cluster::{
    BootTime, Effect, Input, Instance, LeaseTimes, Request, RequestId, Response, ServerCore,
};
use nerve_nats::{BrokerError, BrokerOptions, Connection, NatsStore, PresentMachines, Streams};
use nerve_types::{millis, os};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::ClusterConfig;
use crate::member_list::{MemberList, presence};
use crate::status::{MemberState, StatusFile};

/// Longest delay between attempts to connect for the first time.
const MAX_CONNECT_DELAY: Duration = Duration::from_secs(2);
/// Time limit for the release of the lease. Afterwards it expires.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// A membership with its connection.
struct Member {
    name: String,
    times: LeaseTimes,
    store: NatsStore,
    core: ServerCore,
    status: StatusFile,
    /// Time at which this process got its lease for the first time.
    joined: Option<BootTime>,
    /// Another process that uses the id of this machine.
    conflict: Option<Instance>,
    /// Last error of a lease, and of a list, unless a later call succeeded.
    lease_problem: Option<String>,
    list_problem: Option<String>,
}

/// A call to the broker.
enum Call {
    Perform(RequestId, Request),
    List,
}

/// The result of a call.
enum Reply {
    Performed(RequestId, Result<Response, BrokerError>),
    Listed(Result<PresentMachines, BrokerError>),
}

/// Joins the cluster, and is a member until `stop`; then releases the lease.
pub(crate) async fn run(
    config: &ClusterConfig,
    options: &BrokerOptions,
    me: Instance,
    mut status: StatusFile,
    stop: &CancellationToken,
) {
    let times = config.lease_times();
    let Some(connection) = connect(options, times, &mut status, stop).await else { return };
    let member = Member {
        name: config.machine.clone(),
        times,
        store: NatsStore::new(connection, Streams::new(config.cluster.clone())),
        core: ServerCore::new(me, times),
        status,
        joined: None,
        conflict: None,
        lease_problem: None,
        list_problem: None,
    };
    member.serve(stop).await;
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

impl Member {
    async fn serve(mut self, stop: &CancellationToken) {
        let (mut ticks, mut lists) = (interval(self.times.retry()), interval(self.times.renewal()));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        lists.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut calls = FuturesUnordered::new();
        let mut is_listing = false;
        let input = |calls: &FuturesUnordered<_>, member: &mut Member, input: Input| {
            for call in member.handle(input) {
                calls.push(perform(member.store.clone(), call));
            }
        };
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = ticks.tick() => input(&calls, &mut self, Input::Tick),
                _ = lists.tick(), if !is_listing => {
                    is_listing = true;
                    calls.push(perform(self.store.clone(), Call::List));
                }
                Some(reply) = calls.next() => match reply {
                    Reply::Performed(id, result) => {
                        let response = self.accept(result);
                        input(&calls, &mut self, Input::Stored { id, response });
                    }
                    Reply::Listed(result) => {
                        is_listing = false;
                        self.accept_list(result);
                    }
                },
            }
            self.report();
        }
        let release = async {
            input(&calls, &mut self, Input::Stop);
            while !self.core.is_released() {
                tokio::select! {
                    _ = ticks.tick() => input(&calls, &mut self, Input::Tick),
                    Some(reply) = calls.next() => if let Reply::Performed(id, result) = reply {
                        let response = self.accept(result);
                        input(&calls, &mut self, Input::Stored { id, response });
                    },
                }
            }
        };
        if tokio::time::timeout(RELEASE_TIMEOUT, release).await.is_err() {
            tracing::warn!("the lease of this machine is not released: it expires");
        }
    }

    /// Gives the core an input and returns the calls that follow.
    fn handle(&mut self, input: Input) -> Vec<Call> {
        let now = now();
        let effects = self.core.handle(now, input);
        if !self.core.is_suspended(now) {
            self.joined.get_or_insert(now);
            self.conflict = None;
        }
        let member_for = self.joined.and_then(|joined| now.since(joined)).unwrap_or_default();
        let mut calls = Vec::new();
        for effect in effects {
            match effect {
                Effect::Store { id, request } => {
                    if matches!(request, Request::Put { .. }) {
                        self.store.set_presence(presence(&self.name, member_for));
                    }
                    calls.push(Call::Perform(id, request));
                }
                Effect::ReportIdentityConflict { holder } => self.conflict = Some(holder),
                // Effects of runs, which this member does not take.
                _ => {}
            }
        }
        calls
    }

    /// Keeps the error of a call, and returns what the core expects instead.
    fn accept(&mut self, result: Result<Response, BrokerError>) -> Response {
        self.lease_problem = result.as_ref().err().map(ToString::to_string);
        result.unwrap_or(Response::Unavailable)
    }

    fn accept_list(&mut self, result: Result<PresentMachines, BrokerError>) {
        self.list_problem = result.as_ref().err().map(ToString::to_string);
        if let Ok(present) = result {
            self.status.set_members(MemberList::new(present));
        }
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
        let problem = self.lease_problem.as_ref().or(self.list_problem.as_ref());
        self.status.set_state(state, problem.cloned());
    }
}

async fn perform(store: NatsStore, call: Call) -> Reply {
    match call {
        Call::Perform(id, request) => Reply::Performed(id, store.try_perform(&request).await),
        Call::List => Reply::Listed(store.present_machines().await),
    }
}

/// Returns the time of this machine's clock, which includes suspension.
fn now() -> BootTime {
    BootTime(millis(os::boot_time()))
}
