//! The commands of a user on runs: start, list, follow, decide, cancel, resume.

use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use nerve_cluster::journal::{Decision, Epoch, RunOutcome, StepSpec};
use nerve_cluster::{Record, RecordKind, Request, Response, RunId, RunState, Sequence, StepId};
use nerve_nats::{BrokerError, Connection, JournalChanges, NatsStore, Streams};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::config::ClusterConfig;
use crate::error::MemberError;
use crate::member_list::MemberList;
use crate::paths::MemberPaths;
use crate::run_plan::RunPlan;

/// Interval at which a journal is read in addition to the hints at its changes.
const READ_INTERVAL: Duration = Duration::from_secs(2);
/// Time limit for a broker that has started to load the streams of a run that is followed.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of journals that are read at the same time.
const PARALLEL_READS: usize = 16;
/// Attempts to append a record while others append too.
const APPEND_ATTEMPTS: usize = 10;

/// Runs the commands of a user on the runs of this machine's cluster. Needs no server.
#[derive(Debug, Clone)]
pub struct ClusterRuns {
    store: NatsStore,
}

impl ClusterRuns {
    /// Connects to the broker of the configured cluster.
    ///
    /// # Errors
    /// There is no configuration, or see [`MemberError`].
    pub async fn open(paths: &MemberPaths) -> Result<ClusterRuns, MemberError> {
        let config = ClusterConfig::load(paths)?;
        let connection = Connection::open(&config.broker_options()?).await?;
        Ok(ClusterRuns { store: NatsStore::new(connection, Streams::new(config.cluster)) })
    }

    /// Creates a run. The members then execute it.
    ///
    /// # Errors
    /// [`MemberError::RunExists`], [`MemberError::StartUnknown`], or the broker refuses the plan.
    pub async fn start(&self, run: &RunId, plan: RunPlan) -> Result<(), MemberError> {
        let RunPlan { steps, work } = plan;
        let mut planned = RunState::default();
        let record = Record {
            epoch: Epoch::default(),
            kind: RecordKind::Planned { steps: steps.clone(), work: work.clone() },
        };
        if !planned.apply(Sequence(1), &record) {
            return Err(MemberError::Graph("its steps depend on each other in a circle".to_string()));
        }
        let request = Request::Append { run: run.clone(), record, expected: Sequence(0) };
        match self.store.try_perform(&request).await {
            Ok(Response::Accepted(_)) => Ok(()),
            Ok(_) => Err(MemberError::RunExists(run.clone())),
            // The write may have taken effect.
            Err(error @ BrokerError::Unavailable(_)) => match self.get(run).await {
                Ok(state) if has_plan(&state, &steps, &work) => Ok(()),
                Ok(_) => Err(MemberError::RunExists(run.clone())),
                Err(_) => Err(MemberError::StartUnknown { run: run.clone(), error }),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Returns all runs, by id, without those of later versions.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn list(&self) -> Result<Vec<(RunId, RunState)>, MemberError> {
        let ids = self.store.runs().await?.into_keys();
        let read = |run: RunId| async move {
            match self.get(&run).await {
                Ok(state) => Ok(Some((run, state))),
                Err(MemberError::LaterVersion(_) | MemberError::NoRun(_)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let found: Vec<_> = stream::iter(ids).map(read).buffered(PARALLEL_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the state of a run.
    ///
    /// # Errors
    /// [`MemberError::NoRun`], [`MemberError::LaterVersion`], or see [`BrokerError`].
    pub async fn get(&self, run: &RunId) -> Result<RunState, MemberError> {
        let mut state = RunState::default();
        self.read(run, &mut state).await?;
        Ok(state)
    }

    /// Follows a run to its end. Calls `report` with each state that it reads. A broker that is away for a while is waited for.
    ///
    /// # Errors
    /// As [`ClusterRuns::get`], except that the broker may be unavailable.
    pub async fn follow(
        &self,
        run: &RunId,
        mut report: impl FnMut(&RunState),
    ) -> Result<RunState, MemberError> {
        let mut changes = self.store.journal_changes().await?;
        let mut state = RunState::default();
        let mut starting_since = None;
        loop {
            match self.read(run, &mut state).await {
                Ok(()) => {
                    starting_since = None;
                    report(&state);
                }
                Err(MemberError::Broker(error)) if error.is_temporary() => starting_since = None,
                Err(MemberError::Broker(error)) if error.is_startup() && !state.steps.is_empty() => {
                    if starting_since.get_or_insert_with(Instant::now).elapsed() >= STARTUP_TIMEOUT {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error),
            }
            if state.outcome.is_some() {
                return Ok(state);
            }
            wait_for_change(&mut changes, run).await;
        }
    }

    /// Decides on the step that waits after the loss of its machine.
    ///
    /// # Errors
    /// [`MemberError::NotInDoubt`], [`MemberError::RunFailed`], or as [`ClusterRuns::get`].
    pub async fn decide(&self, run: &RunId, step: &str, decision: Decision) -> Result<(), MemberError> {
        let not_in_doubt = || MemberError::NotInDoubt { run: run.clone(), step: step.to_string() };
        let id = StepId::new(step).map_err(|_| not_in_doubt())?;
        self.append(run, |state| {
            let (attempt, doubt) = state
                .steps
                .get(&id)
                .and_then(|step| step.current())
                .and_then(|(number, attempt)| Some((number, attempt.undecided_doubt()?)))
                .ok_or_else(not_in_doubt)?;
            if decision == Decision::Retry && state.is_stopping() {
                return Err(MemberError::RunFailed { run: run.clone(), step: step.to_string() });
            }
            Ok(Some(RecordKind::Decided { step: id.clone(), attempt, doubt, decision }))
        })
        .await
    }

    /// Cancels a run: nothing more begins, and what runs is cancelled. Does nothing if the run was cancelled already.
    ///
    /// # Errors
    /// [`MemberError::RunEnded`], or as [`ClusterRuns::get`].
    pub async fn cancel(&self, run: &RunId) -> Result<(), MemberError> {
        self.append(run, |state| match state.outcome {
            None if state.is_cancelled => Ok(None),
            Some(outcome) if outcome != RunOutcome::Cancelled => Err(MemberError::RunEnded(run.clone())),
            Some(_) => Ok(None),
            None => Ok(Some(RecordKind::Cancelled)),
        })
        .await
    }

    /// Continues a run that has failed or was cancelled. Steps with a successful result are not repeated.
    ///
    /// # Errors
    /// [`MemberError::RunActive`], [`MemberError::RunEnded`] if it completed, or as [`ClusterRuns::get`].
    pub async fn resume(&self, run: &RunId) -> Result<(), MemberError> {
        self.append(run, |state| match state.outcome {
            None => Err(MemberError::RunActive(run.clone())),
            Some(RunOutcome::Completed) => Err(MemberError::RunEnded(run.clone())),
            Some(RunOutcome::Failed | RunOutcome::Cancelled) => Ok(Some(RecordKind::Continued)),
        })
        .await
    }

    /// Appends the record that `decide` returns for the state, if any.
    async fn append(
        &self,
        run: &RunId,
        decide: impl Fn(&RunState) -> Result<Option<RecordKind>, MemberError>,
    ) -> Result<(), MemberError> {
        for _ in 0..APPEND_ATTEMPTS {
            let state = self.get(run).await?;
            let Some(kind) = decide(&state)? else { return Ok(()) };
            let record = Record { epoch: state.epoch, kind };
            let request = Request::Append { run: run.clone(), record, expected: state.last };
            if let Response::Accepted(_) = self.store.try_perform(&request).await? {
                return Ok(());
            }
        }
        Err(BrokerError::WrongSequence.into())
    }

    /// Returns the members, which the states of runs name by their ids.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn members(&self) -> Result<MemberList, MemberError> {
        Ok(MemberList::new(self.store.present_machines().await?))
    }

    /// Applies the records after the last known one.
    async fn read(&self, run: &RunId, state: &mut RunState) -> Result<(), MemberError> {
        let request = Request::Read { run: run.clone(), after: state.last };
        if let Response::Records(records) = self.store.try_perform(&request).await?
            && state.apply_all(&records)
        {
            return Err(MemberError::LaterVersion(run.clone()));
        }
        if state.steps.is_empty() { Err(MemberError::NoRun(run.clone())) } else { Ok(()) }
    }
}

/// Returns true if a run has these steps and this work, however far it is.
fn has_plan(state: &RunState, steps: &[StepSpec], work: &Value) -> bool {
    let is_planned = |spec: &StepSpec| state.steps.get(&spec.id).is_some_and(|step| step.spec == *spec);
    state.work == *work && state.steps.len() == steps.len() && steps.iter().all(is_planned)
}

/// Waits for a hint at a change of the run, for at most [`READ_INTERVAL`].
async fn wait_for_change(changes: &mut JournalChanges, run: &RunId) {
    let change = async {
        loop {
            match changes.next().await {
                Some(changed) if changed == *run => return,
                Some(_) => {}
                None => sleep(READ_INTERVAL).await,
            }
        }
    };
    // Without a hint, the journal is read anyway.
    let _ = timeout(READ_INTERVAL, change).await;
}

#[cfg(test)]
mod tests {
    use nerve_cluster::MachineId;
    use nerve_cluster::placement::Reason;

    use super::*;

    #[test]
    fn run_has_its_plan_after_its_first_offers() {
        let spec =
            |id: &str| -> StepSpec { serde_json::from_value(serde_json::json!({ "id": id })).unwrap() };
        let (steps, work) = (vec![spec("a"), spec("b")], Value::from("work"));
        let offered = RecordKind::Offered {
            step: steps[0].id.clone(),
            attempt: 1,
            machine: MachineId(1),
            reason: Reason::OnlyCandidate,
        };
        let mut state = RunState::default();
        let kinds = [RecordKind::Planned { steps: steps.clone(), work: work.clone() }, offered];
        for (sequence, kind) in (1..).zip(kinds) {
            assert!(state.apply(Sequence(sequence), &Record { epoch: Epoch::default(), kind }));
        }
        assert!(has_plan(&state, &steps, &work));
        assert!(!has_plan(&state, &steps[..1], &work));
        assert!(!has_plan(&state, &[spec("a"), spec("c")], &work));
        assert!(!has_plan(&state, &steps, &Value::Null));
    }
}
