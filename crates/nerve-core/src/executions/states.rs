//! How the executions of a session are: what is listed of them, and whether what runs them is still there. It reads nothing and waits
//! for nothing.

use std::collections::{BTreeMap, BTreeSet};

use nerve_record::executions::{ExecutionLine, Executions, NULL_INPUT};

use super::follow::News;

/// Executions that are told of at once.
pub(super) const BATCH: usize = 256;

/// How an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It has ended, with this exit code where that is known.
    Ended(Option<i32>),
}

/// Who reads what is typed into an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// What was run.
    Itself,
    /// What was run, if it asks on its terminal (`/dev/tty`): its standard input is `/dev/null`.
    AsksOnly,
    /// The same: its standard input is a file, a pipe or another terminal.
    HasInput,
    /// Its agent: it has no terminal of its own.
    Agent,
}

/// What is told of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// It counts from 0 in the order in which they were listed first.
    pub number: u64,
    /// Its id.
    pub id: String,
    /// What was run, cut at 1 KiB.
    pub command: String,
    /// How it is.
    pub state: State,
    /// Who reads what is typed into it.
    pub reader: Reader,
}

/// What is new of a session's executions: at most `BATCH` of them, each once however often it has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// What was told before does not hold: the list is another one.
    pub anew: bool,
    /// Executions with a smaller number are not remembered any more.
    pub first: u64,
    /// What is new, oldest first.
    pub told: Vec<Told>,
    /// The list has become so long that no more is added to it. Told once.
    pub full: bool,
}

/// What is known, and of which of it nobody was told.
#[derive(Debug, Default)]
pub(super) struct States {
    /// The agent goes on: what has no terminal of its own may run.
    pub(super) goes_on: bool,
    /// Executions whose terminals are known to run, and the ids of their hosts.
    running: BTreeMap<u64, String>,
    untold: BTreeSet<u64>,
    anew: bool,
    full: bool,
    told_full: bool,
}

impl States {
    /// Takes what was read; `known` has it already. `is_alive` says of a host's id whether it is at work, and is asked only of what
    /// could run.
    pub(super) fn read(&mut self, news: News, known: &Executions, mut is_alive: impl FnMut(&str) -> bool) {
        if news.anew {
            *self = States { goes_on: self.goes_on, anew: true, ..States::default() };
        }
        for number in news.numbers {
            let Some(line) = known.numbered(number) else { continue };
            let host = line.host.as_ref().filter(|_| !line.has_ended());
            match host {
                Some(host) if self.running.get(&number) == Some(host) => {}
                Some(host) if is_alive(host) => drop(self.running.insert(number, host.clone())),
                _ => drop(self.running.remove(&number)),
            }
            self.untold.insert(number);
        }
        self.forget(known);
    }

    /// The list has the size at which no more is added to it.
    pub(super) fn filled(&mut self) {
        self.full |= !self.told_full;
    }

    /// This host is no more.
    pub(super) fn lost(&mut self, host: &str) {
        let gone: Vec<u64> =
            self.running.iter().filter(|(_, running)| *running == host).map(|(number, _)| *number).collect();
        self.running.retain(|number, _| !gone.contains(number));
        self.untold.extend(gone);
    }

    /// The agent is no more: what it ran itself has ended with it.
    pub(super) fn left_alone(&mut self, known: &Executions) {
        self.goes_on = false;
        let ran =
            known.numbers().zip(known.iter()).filter(|(_, line)| !line.has_ended() && !line.has_terminal());
        self.untold.extend(ran.map(|(number, _)| number));
    }

    /// There is something to tell.
    pub(super) fn has_news(&self) -> bool {
        self.anew || self.full || !self.untold.is_empty()
    }

    /// Tells what is new, a bounded piece of it.
    pub(super) fn changes(&mut self, known: &Executions) -> Changes {
        self.forget(known);
        let rest = self.untold.iter().nth(BATCH).copied();
        let rest = rest.map(|from| self.untold.split_off(&from)).unwrap_or_default();
        let now = std::mem::replace(&mut self.untold, rest);
        let told = now.into_iter().filter_map(|number| Some(self.told(number, known.numbered(number)?)));
        let told = told.collect();
        self.told_full |= self.full;
        Changes {
            anew: std::mem::take(&mut self.anew),
            first: known.numbers().start,
            told,
            full: std::mem::take(&mut self.full),
        }
    }

    fn told(&self, number: u64, line: &ExecutionLine) -> Told {
        let runs = match line.has_terminal() {
            true => self.running.contains_key(&number),
            false => self.goes_on && !line.has_ended(),
        };
        let completed = line.status.as_deref() == Some("completed");
        let reader = match (line.has_terminal(), line.input.as_deref()) {
            (false, _) => Reader::Agent,
            (true, None) => Reader::Itself,
            (true, Some(NULL_INPUT)) => Reader::AsksOnly,
            (true, Some(_)) => Reader::HasInput,
        };
        Told {
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

    fn forget(&mut self, known: &Executions) {
        let first = known.numbers().start;
        self.running = self.running.split_off(&first);
        self.untold = self.untold.split_off(&first);
    }
}

#[cfg(test)]
mod tests {
    use nerve_record::executions::MAX_EXECUTIONS;

    use super::*;

    #[derive(Default)]
    struct Stage {
        known: Executions,
        states: States,
        asked: Vec<String>,
    }

    impl Stage {
        /// Reads lines; hosts whose id has an `a` in it are at work.
        fn read(&mut self, lines: &[&str]) {
            let numbers = lines.iter().filter_map(|line| self.known.line(line.as_bytes())).collect();
            let asked = &mut self.asked;
            let is_alive = |host: &str| {
                asked.push(host.to_string());
                host.contains('a')
            };
            self.states.read(News { anew: false, numbers }, &self.known, is_alive);
        }

        fn told(&mut self) -> Vec<(String, State)> {
            let changes = self.states.changes(&self.known);
            changes.told.into_iter().map(|told| (told.id, told.state)).collect()
        }
    }

    fn of(id: &str, state: State) -> (String, State) {
        (id.to_string(), state)
    }

    #[test]
    fn what_has_changed_is_told_once_and_hosts_are_asked_only_of_what_could_run() {
        let mut stage = Stage::default();
        stage.read(&[
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
        assert_eq!(stage.told(), first);
        assert!(!stage.states.has_news() && stage.told().is_empty());
        // It is there now; of the other it is known.
        stage.read(&[r#"{"id":"2","host":"a2"}"#, r#"{"id":"1","host":"a1"}"#]);
        assert_eq!(stage.told(), [of("1", State::Running), of("2", State::Running)]);
        assert_eq!(stage.asked, ["a1", "x", "a2"]);
        stage.states.lost("a2");
        stage.states.lost("nobody");
        assert_eq!(stage.told(), [of("2", ended(None))]);
        stage.read(&[r#"{"id":"1","ended_ns":5,"exit_code":0}"#]);
        stage.read(&[r#"{"id":"1","host":"a1"}"#]);
        assert_eq!(stage.told(), [of("1", ended(Some(0)))]);
    }

    #[test]
    fn what_has_no_terminal_runs_as_long_as_its_agent() {
        let mut stage = Stage::default();
        stage.states.goes_on = true;
        stage.read(&[r#"{"id":"1"}"#, r#"{"id":"2","ended_ns":1}"#, r#"{"id":"3","host":"a"}"#]);
        let ended = of("2", State::Ended(None));
        assert_eq!(stage.told(), [of("1", State::Running), ended, of("3", State::Running)]);
        stage.states.left_alone(&stage.known);
        assert_eq!(stage.told(), [of("1", State::Ended(None))]);
    }

    #[test]
    fn batches_are_bounded_and_what_is_forgotten_is_not_told() {
        let mut stage = Stage::default();
        let lines: Vec<String> = (0..MAX_EXECUTIONS + 9).map(|at| format!("{{\"id\":\"{at}\"}}")).collect();
        stage.read(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let mut count = 0;
        while stage.states.has_news() {
            let changes = stage.states.changes(&stage.known);
            assert_eq!((changes.first, changes.anew, changes.full), (9, false, false));
            assert!((1..=BATCH).contains(&changes.told.len()));
            assert_eq!(changes.told[0].number, 9 + count);
            count += changes.told.len() as u64;
        }
        assert_eq!(count, MAX_EXECUTIONS as u64);
        stage.states.filled();
        assert!(stage.states.changes(&stage.known).full);
        stage.states.filled();
        assert!(!stage.states.has_news(), "it is told once");
        let anew = News { anew: true, ..News::default() };
        stage.states.read(anew, &stage.known, |_| false);
        assert!(stage.states.changes(&stage.known).anew);
    }

    #[test]
    fn who_reads_what_is_typed_is_told() {
        let mut stage = Stage::default();
        stage.read(&[
            r#"{"id":"1","host":"a"}"#,
            r#"{"id":"2","host":"a","input":"null"}"#,
            r#"{"id":"3","host":"a","input":"other"}"#,
            r#"{"id":"4"}"#,
        ]);
        let readers: Vec<Reader> =
            stage.states.changes(&stage.known).told.iter().map(|told| told.reader).collect();
        assert_eq!(readers, [Reader::Itself, Reader::AsksOnly, Reader::HasInput, Reader::Agent]);
    }
}
