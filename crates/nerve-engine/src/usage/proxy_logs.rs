//! The usage in the logs of the nodes' proxies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use nerve_proxy::PriceTable;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;
use serde::Deserialize;

use super::{CollectedUsage, UsageEntry, UsageQuery, UsageSource, utc_day};
use crate::data_dirs::DataDirs;
use crate::node_files::{self, NodeKey};
use crate::transcripts::HistoryLog;

/// The times at which the requests of each node ended, in order.
#[derive(Debug, Default)]
pub(super) struct RequestTimes(BTreeMap<NodeKey, Vec<TsMs>>);

impl RequestTimes {
    /// Returns true if a request of a node ended between two times.
    pub(super) fn has_requests(&self, node: &NodeKey, from: TsMs, to: TsMs) -> bool {
        let Some(times) = self.0.get(node) else { return false };
        times.get(times.partition_point(|at| *at < from)).is_some_and(|at| *at <= to)
    }
}

/// The relevant fields of a line about a reply.
#[derive(Deserialize)]
struct ReplyLine {
    #[serde(rename = "type")]
    kind: String,
    time: Option<TsMs>,
    model: Option<String>,
    tokens: Option<TokenUsage>,
    cost_usd: Option<f64>,
    turn: Option<u64>,
}

/// Reads the logs of the selected nodes into `usage`.
pub(super) fn read(
    dirs: &DataDirs,
    prices: &PriceTable,
    query: &UsageQuery,
    usage: &mut CollectedUsage,
) -> RequestTimes {
    let mut times = RequestTimes::default();
    for (path, node) in node_files::list(&dirs.proxies.join("log")) {
        if !query.selects(&node) {
            continue;
        }
        usage.sources += 1;
        let turns = TurnCounter { prompts: prompt_times(dirs, &node), ..TurnCounter::default() };
        let mut reader = LogReader { prices, query, node: &node, times: Vec::new(), turns };
        // A full log was renamed.
        let older = OsString::from_iter([path.as_os_str(), ".1".as_ref()]);
        for path in [Path::new(&older), &path] {
            match reader.read(path, &mut usage.entries) {
                Ok(0) => {}
                Ok(damaged) => {
                    let name = path.display();
                    usage.problems.push(format!("{name}: {damaged} damaged lines are not counted"));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => usage.problems.push(format!("{}: {error}", path.display())),
            }
        }
        let mut node_times = reader.times;
        // The clock may have been set back.
        node_times.sort_unstable();
        times.0.insert(node, node_times);
    }
    times
}

struct LogReader<'a> {
    prices: &'a PriceTable,
    query: &'a UsageQuery,
    node: &'a NodeKey,
    times: Vec<TsMs>,
    turns: TurnCounter,
}

/// Distinguishes turns with the same number: they are numbered from 1 by each node of a name, and by each server.
#[derive(Debug, Default)]
struct TurnCounter {
    /// Times of the node's prompts, in order.
    prompts: Vec<TsMs>,
    /// Number of times that the numbers began anew.
    restarts: u64,
    last_turn: u64,
    /// Number of prompts before the first turn since the last restart.
    first_prompt: usize,
}

impl TurnCounter {
    /// Returns the identity of the turn of a request that ended at a time.
    fn identify(&mut self, turn: u64, at: Option<TsMs>) -> String {
        let prompt = at.map_or(self.first_prompt, |at| self.prompts.partition_point(|prompt| *prompt <= at));
        // A request may end after the next turn has begun.
        let is_lower = turn.saturating_add(1) < self.last_turn;
        let next_prompt = (self.first_prompt as u64).saturating_add(self.last_turn);
        let is_first_again = turn == 1 && self.last_turn > 0 && prompt as u64 >= next_prompt;
        if self.last_turn == 0 || is_lower || is_first_again {
            self.restarts += u64::from(self.last_turn > 0);
            self.first_prompt = prompt;
            self.last_turn = turn;
        }
        self.last_turn = self.last_turn.max(turn);
        format!("proxy {} {turn}", self.restarts)
    }
}

/// Returns the times of a node's prompts according to its history.
fn prompt_times(dirs: &DataDirs, node: &NodeKey) -> Vec<TsMs> {
    let Some(address) = node.address() else { return Vec::new() };
    // Problems of the history are reported where its turns are read.
    let log = HistoryLog::read(&dirs.history, address).ok().flatten().unwrap_or_default();
    log.turns.iter().map(|turn| turn.started).collect()
}

impl LogReader<'_> {
    /// Reads a file and returns the number of damaged lines. A last line without an end is still being written.
    fn read(&mut self, path: &Path, entries: &mut Vec<UsageEntry>) -> io::Result<usize> {
        let mut file = BufReader::new(File::open(path)?);
        let (mut damaged, mut bytes) = (0, Vec::new());
        while file.read_until(b'\n', &mut bytes)? > 0 {
            if bytes.ends_with(b"\n") {
                match serde_json::from_slice::<ReplyLine>(&bytes) {
                    Ok(line) => entries.extend(self.entry(line)),
                    Err(_) => damaged += 1,
                }
            }
            bytes.clear();
        }
        Ok(damaged)
    }

    fn entry(&mut self, line: ReplyLine) -> Option<UsageEntry> {
        let tokens = line.tokens.filter(|_| line.kind == "reply")?;
        self.times.extend(line.time);
        let turn = line.turn.map(|turn| self.turns.identify(turn, line.time));
        if !self.query.includes(line.time) {
            return None;
        }
        let cost = || self.prices.cost(line.model.as_deref()?, utc_day(line.time), &tokens);
        Some(UsageEntry {
            source: UsageSource::of(self.node, None),
            at: line.time,
            tokens,
            cost_usd: line.cost_usd.or_else(cost),
            turn,
            model: line.model,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_are_numbered_anew_are_distinct() {
        let mut turns = TurnCounter { prompts: [10, 20, 30].map(TsMs).to_vec(), ..TurnCounter::default() };
        let mut identify = |turn, at| turns.identify(turn, Some(TsMs(at)));
        let first = identify(1, 11);
        assert_eq!(identify(1, 19), first, "another request of the turn");
        // A new server numbers from 1.
        let second = identify(1, 21);
        let third = identify(2, 31);
        assert_eq!(identify(1, 29), second, "a request that ended late");
        assert_eq!(identify(1, 32), second, "a request that ended after the next turn's first");
        assert!(first != second && second != third && first != third);
        identify(5, 90);
        assert_ne!(identify(1, 91), second, "another node of this name");
    }
}
