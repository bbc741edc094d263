//! A process's copy of a journal: reads the tail, and appends by compare-and-set.

use std::time::Duration;

use super::record::{Epoch, Record, RecordKind};
use super::state::RunState;
use crate::id::RunId;
use crate::store::{Request, Response};
use crate::time::{BootTime, LeaseTimes};

/// The replica of one journal. At most one request is outstanding.
#[derive(Debug)]
pub(crate) struct Replica {
    run: RunId,
    times: LeaseTimes,
    state: RunState,
    pending: Option<Pending>,
    /// True if the store may have records that the state lacks.
    is_behind: bool,
    /// True once the journal was read.
    has_read: bool,
    /// True if a later version wrote records, so that the state may be wrong.
    has_unsupported_records: bool,
    /// When the last read was sent.
    read_at: Option<BootTime>,
    /// No request before this time.
    quiet_until: Option<BootTime>,
}

#[derive(Debug)]
enum Pending {
    /// `notified`: a notification arrived after the request.
    Read {
        notified: bool,
    },
    Append(Record),
}

impl Replica {
    /// Creates an empty replica, which must read first.
    pub(crate) fn new(run: RunId, times: LeaseTimes) -> Replica {
        let state = RunState::default();
        Replica {
            run,
            times,
            state,
            pending: None,
            is_behind: true,
            has_read: false,
            has_unsupported_records: false,
            read_at: None,
            quiet_until: None,
        }
    }

    /// Returns the state of the run, as far as read.
    pub(crate) fn state(&self) -> &RunState {
        &self.state
    }

    /// Returns true once the journal was read, whether it has records or not.
    pub(crate) fn has_read(&self) -> bool {
        self.has_read
    }

    /// Returns true if a decision from the state can be appended now.
    pub(crate) fn is_current(&self) -> bool {
        self.pending.is_none() && !self.is_behind && !self.has_unsupported_records
    }

    /// Returns true if a later version wrote records. Then this process does not write any more.
    pub(crate) fn has_unsupported_records(&self) -> bool {
        self.has_unsupported_records
    }

    /// Requests that the tail is read before the next decision.
    pub(crate) fn mark_behind(&mut self) {
        self.is_behind = true;
        if let Some(Pending::Read { notified }) = &mut self.pending {
            *notified = true;
        }
    }

    /// Returns the request for the tail if it is due: after a notification, and when the last reading is older than `interval`.
    pub(crate) fn poll(&mut self, now: BootTime, interval: Option<Duration>) -> Option<Request> {
        let is_recent = |interval| self.read_at.is_some_and(|time| now.is_within(interval, time));
        self.is_behind |= interval.is_some_and(|interval| !is_recent(interval));
        let is_quiet = self.quiet_until.is_some_and(|time| now < time);
        if !self.is_behind || self.pending.is_some() || is_quiet {
            return None;
        }
        self.pending = Some(Pending::Read { notified: false });
        self.read_at = Some(now);
        Some(Request::Read { run: self.run.clone(), after: self.state.last })
    }

    /// Returns the request that appends a record that was decided from the state. The replica must be current.
    pub(crate) fn append(&mut self, epoch: Epoch, kind: RecordKind) -> Request {
        debug_assert!(self.is_current(), "appends to a replica that is behind");
        let record = Record { epoch, kind };
        self.pending = Some(Pending::Append(record.clone()));
        Request::Append { run: self.run.clone(), record, expected: self.state.last }
    }

    /// Handles the response to the outstanding request.
    pub(crate) fn handle_response(&mut self, now: BootTime, response: Response) {
        self.quiet_until = None;
        match (self.pending.take(), response) {
            // No other record is between the state and this one: the store compared the sequences.
            (Some(Pending::Append(record)), Response::Accepted(sequence)) => {
                self.state.apply(sequence, &record);
            }
            (Some(Pending::Read { notified }), Response::Records(records)) => {
                self.has_unsupported_records |= self.state.apply_all(&records);
                (self.is_behind, self.has_read) = (notified, true);
            }
            // Another process has appended a record.
            (_, Response::WrongSequence { last }) if last >= self.state.last => self.is_behind = true,
            // The response is missing, or the store has lost records, which no reading returns.
            (_, _) => {
                self.is_behind = true;
                self.quiet_until = Some(now.after(self.times.retry()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::id::{Sequence, StepId};

    /// Returns the replica of a journal with one record, at this sequence, after an append.
    fn appended(last: u64) -> Replica {
        let mut replica = Replica::new(RunId::new("r").unwrap(), LeaseTimes::new(Duration::from_secs(15)));
        assert!(replica.poll(BootTime(0), None).is_some());
        let steps = vec![serde_json::from_str(r#"{"id":"s"}"#).unwrap()];
        let record =
            Record { epoch: Epoch::default(), kind: RecordKind::Planned { steps, work: Value::Null } };
        replica.handle_response(BootTime(0), Response::Records(vec![(Sequence(last), Ok(record))]));
        replica.append(Epoch::default(), RecordKind::InDoubt { step: StepId::new("s").unwrap(), attempt: 1 });
        replica
    }

    #[test]
    fn record_of_another_process_is_read_at_once() {
        let mut replica = appended(7);
        replica.handle_response(BootTime(1), Response::WrongSequence { last: Sequence(8) });
        assert!(replica.poll(BootTime(1), None).is_some());
    }

    #[test]
    fn journal_that_lost_records_is_read_after_a_pause() {
        let mut replica = appended(7);
        replica.handle_response(BootTime(1), Response::WrongSequence { last: Sequence(3) });
        assert_eq!(replica.poll(BootTime(1), None), None);
        let later = BootTime(1).after(replica.times.retry());
        assert!(replica.poll(later, None).is_some());
    }
}
