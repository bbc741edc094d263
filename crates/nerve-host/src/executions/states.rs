//! The states of a session's executions, from the list and from whether their hosts are alive. Pure: reads nothing and waits for
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use nerve_record::executions::{ExecutionLine, Executions, NULL_INPUT};

use super::follow::Diff;

/// Maximum number of executions reported at once.
pub(super) const BATCH: usize = 256;

/// The state of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Running.
    Running,
    /// Ended, with its exit code if known.
    Ended(Option<i32>),
}

/// Reader of the input that is typed into an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The command.
    Itself,
    /// The command, if it reads from its terminal (`/dev/tty`). Its standard input is `/dev/null`.
    NullInput,
    /// The command, if it reads from its terminal. Its standard input is a file, a pipe or another terminal.
    RedirectedInput,
    /// The agent: the execution has no terminal of its own.
    Agent,
}

/// The current state of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionUpdate {
    /// The position in the list, counted from 0.
    pub number: u64,
    /// The id.
    pub id: String,
    /// The command line, cut at 1 KiB.
    pub command: String,
    /// The state.
    pub state: State,
    /// Reader of the input that is typed into it.
    pub reader: Reader,
}

/// The updates since the last batch: at most `BATCH` of them, one per execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateBatch {
    /// The list was replaced: earlier updates are invalid.
    pub was_reset: bool,
    /// Executions with a smaller number were dropped from memory.
    pub first: u64,
    /// The updates, oldest first.
    pub updates: Vec<ExecutionUpdate>,
    /// The list has become so long that nothing is added any more. Reported once.
    pub full: bool,
}

/// The states, and which changes were not reported yet.
#[derive(Debug, Default)]
pub(super) struct States {
    /// The agent is alive: executions without a terminal of their own may be running.
    pub(super) agent_alive: bool,
    /// Executions whose hosts are alive, with the hosts' ids.
    running: BTreeMap<u64, String>,
    unreported: BTreeSet<u64>,
    was_reset: bool,
    full: bool,
    reported_full: bool,
}

impl States {
    /// Applies changes that `known` contains already. `is_alive` returns whether a host is alive; it is called only for
    /// executions that may be running.
    pub(super) fn apply(&mut self, diff: Diff, known: &Executions, mut is_alive: impl FnMut(&str) -> bool) {
        if diff.was_reset {
            *self = States { agent_alive: self.agent_alive, was_reset: true, ..States::default() };
        }
        for number in diff.numbers {
            let Some(line) = known.numbered(number) else { continue };
            let host = line.host.as_ref().filter(|_| !line.has_ended());
            match host {
                Some(host) if self.running.get(&number) == Some(host) => {}
                Some(host) if is_alive(host) => drop(self.running.insert(number, host.clone())),
                _ => drop(self.running.remove(&number)),
            }
            self.unreported.insert(number);
        }
        self.drop_old(known);
    }

    /// Records that the list has reached the size at which nothing is added any more.
    pub(super) fn on_list_full(&mut self) {
        self.full |= !self.reported_full;
    }

    /// Records that a host has ended.
    pub(super) fn on_host_ended(&mut self, host: &str) {
        let ended: Vec<u64> =
            self.running.iter().filter(|(_, running)| *running == host).map(|(number, _)| *number).collect();
        self.running.retain(|number, _| !ended.contains(number));
        self.unreported.extend(ended);
    }

    /// Records that the agent has ended, and so everything that it ran itself.
    pub(super) fn on_agent_ended(&mut self, known: &Executions) {
        self.agent_alive = false;
        let ran =
            known.numbers().zip(known.iter()).filter(|(_, line)| !line.has_ended() && !line.has_terminal());
        self.unreported.extend(ran.map(|(number, _)| number));
    }

    /// Returns true if there are changes to report.
    pub(super) fn has_updates(&self) -> bool {
        self.was_reset || self.full || !self.unreported.is_empty()
    }

    /// Returns the next batch of updates.
    pub(super) fn next_batch(&mut self, known: &Executions) -> UpdateBatch {
        self.drop_old(known);
        let rest = self.unreported.iter().nth(BATCH).copied();
        let rest = rest.map(|from| self.unreported.split_off(&from)).unwrap_or_default();
        let now = std::mem::replace(&mut self.unreported, rest);
        let updates = now.into_iter().filter_map(|number| Some(self.update(number, known.numbered(number)?)));
        let updates = updates.collect();
        self.reported_full |= self.full;
        UpdateBatch {
            was_reset: std::mem::take(&mut self.was_reset),
            first: known.numbers().start,
            updates,
            full: std::mem::take(&mut self.full),
        }
    }

    fn update(&self, number: u64, line: &ExecutionLine) -> ExecutionUpdate {
        let runs = match line.has_terminal() {
            true => self.running.contains_key(&number),
            false => self.agent_alive && !line.has_ended(),
        };
        let completed = line.status.as_deref() == Some("completed");
        let reader = match (line.has_terminal(), line.input.as_deref()) {
            (false, _) => Reader::Agent,
            (true, None) => Reader::Itself,
            (true, Some(NULL_INPUT)) => Reader::NullInput,
            (true, Some(_)) => Reader::RedirectedInput,
        };
        ExecutionUpdate {
            number,
            id: line.id.clone(),
            command: line.command.clone().unwrap_or_default(),
            state: match runs {
                true => State::Running,
                false => State::Ended(line.exit_code.or(completed.then_some(0))),
            },
            reader,
        }
    }

    fn drop_old(&mut self, known: &Executions) {
        let first = known.numbers().start;
        self.running = self.running.split_off(&first);
        self.unreported = self.unreported.split_off(&first);
    }
}

#[cfg(test)]
mod tests {
    use nerve_record::executions::MAX_EXECUTIONS;

    use super::*;

    #[derive(Default)]
    struct Fixture {
        known: Executions,
        states: States,
        queried: Vec<String>,
    }

    impl Fixture {
        /// Reads lines. Hosts with an `a` in their id are alive.
        fn read(&mut self, lines: &[&str]) {
            let numbers = lines.iter().filter_map(|line| self.known.line(line.as_bytes())).collect();
            let queried = &mut self.queried;
            let is_alive = |host: &str| {
                queried.push(host.to_string());
                host.contains('a')
            };
            self.states.apply(Diff { was_reset: false, numbers }, &self.known, is_alive);
        }

        fn updates(&mut self) -> Vec<(String, State)> {
            let changes = self.states.next_batch(&self.known);
            changes.updates.into_iter().map(|updates| (updates.id, updates.state)).collect()
        }
    }

    fn of(id: &str, state: State) -> (String, State) {
        (id.to_string(), state)
    }

    #[test]
    fn changes_are_reported_once_and_hosts_queried_only_if_needed() {
        let mut fixture = Fixture::default();
        fixture.read(&[
            r#"{"id":"1","host":"a1"}"#,
            r#"{"id":"2","host":"x"}"#,
            r#"{"id":"3","host":"a3","ended_ns":1,"exit_code":4}"#,
            r#"{"id":"4","status":"completed","ended_ns":1}"#,
            r#"{"id":"5"}"#,
        ]);
        let ended = State::Ended;
        let first = [
            of("1", State::Running),
            of("2", ended(None)),
            of("3", ended(Some(4))),
            of("4", ended(Some(0))),
            of("5", ended(None)),
        ];
        assert_eq!(fixture.updates(), first);
        assert!(!fixture.states.has_updates() && fixture.updates().is_empty());
        // The host of 2 is alive now; that of 1 is known to be.
        fixture.read(&[r#"{"id":"2","host":"a2"}"#, r#"{"id":"1","host":"a1"}"#]);
        assert_eq!(fixture.updates(), [of("1", State::Running), of("2", State::Running)]);
        assert_eq!(fixture.queried, ["a1", "x", "a2"]);
        fixture.states.on_host_ended("a2");
        fixture.states.on_host_ended("unknown");
        assert_eq!(fixture.updates(), [of("2", ended(None))]);
        fixture.read(&[r#"{"id":"1","ended_ns":5,"exit_code":0}"#]);
        fixture.read(&[r#"{"id":"1","host":"a1"}"#]);
        assert_eq!(fixture.updates(), [of("1", ended(Some(0)))]);
    }

    #[test]
    fn executions_without_terminal_end_with_their_agent() {
        let mut fixture = Fixture::default();
        fixture.states.agent_alive = true;
        fixture.read(&[r#"{"id":"1"}"#, r#"{"id":"2","ended_ns":1}"#, r#"{"id":"3","host":"a"}"#]);
        let ended = of("2", State::Ended(None));
        assert_eq!(fixture.updates(), [of("1", State::Running), ended, of("3", State::Running)]);
        fixture.states.on_agent_ended(&fixture.known);
        assert_eq!(fixture.updates(), [of("1", State::Ended(None))]);
    }

    #[test]
    fn batches_are_bounded_and_skip_dropped_executions() {
        let mut fixture = Fixture::default();
        let lines: Vec<String> = (0..MAX_EXECUTIONS + 9).map(|at| format!("{{\"id\":\"{at}\"}}")).collect();
        fixture.read(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let mut count = 0;
        while fixture.states.has_updates() {
            let changes = fixture.states.next_batch(&fixture.known);
            assert_eq!((changes.first, changes.was_reset, changes.full), (9, false, false));
            assert!((1..=BATCH).contains(&changes.updates.len()));
            assert_eq!(changes.updates[0].number, 9 + count);
            count += changes.updates.len() as u64;
        }
        assert_eq!(count, MAX_EXECUTIONS as u64);
        fixture.states.on_list_full();
        assert!(fixture.states.next_batch(&fixture.known).full);
        fixture.states.on_list_full();
        assert!(!fixture.states.has_updates(), "reported once");
        let was_reset = Diff { was_reset: true, ..Diff::default() };
        fixture.states.apply(was_reset, &fixture.known, |_| false);
        assert!(fixture.states.next_batch(&fixture.known).was_reset);
    }

    #[test]
    fn reader_of_input_is_reported() {
        let mut fixture = Fixture::default();
        fixture.read(&[
            r#"{"id":"1","host":"a"}"#,
            r#"{"id":"2","host":"a","input":"null"}"#,
            r#"{"id":"3","host":"a","input":"other"}"#,
            r#"{"id":"4"}"#,
        ]);
        let readers: Vec<Reader> =
            fixture.states.next_batch(&fixture.known).updates.iter().map(|updates| updates.reader).collect();
        assert_eq!(readers, [Reader::Itself, Reader::NullInput, Reader::RedirectedInput, Reader::Agent]);
    }
}
