//! The usage in the logs of the nodes' proxies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use nerve_proxy::{PriceTable, Usage};
use nerve_types::activity::TsMs;
use serde::Deserialize;

use super::{CollectedUsage, UsageEntry, UsageQuery, UsageSource, utc_day};
use crate::data_dirs::DataDirs;
use crate::node_files::{self, NodeKey};

/// The times at which the requests of each node ended, in order.
#[derive(Debug, Default)]
pub(super) struct RequestTimes(BTreeMap<NodeKey, Vec<TsMs>>);

impl RequestTimes {
    /// Returns true if a request of a node ended between two times.
    pub(super) fn has_requests(&self, node: &NodeKey, from: TsMs, to: TsMs) -> bool {
        let Some(times) = self.0.get(node) else { return false };
        times.get(times.partition_point(|at| *at < from)).is_some_and(|at| *at <= to)
    }

    /// Returns the number of nodes with a log.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// The relevant fields of a line about a reply.
#[derive(Deserialize)]
struct ReplyLine {
    #[serde(rename = "type")]
    kind: String,
    time: Option<TsMs>,
    model: Option<String>,
    tokens: Option<Usage>,
    cost_usd: Option<f64>,
    turn: Option<u64>,
}

/// Reads the logs of the selected nodes into `found`.
pub(super) fn read(
    dirs: &DataDirs,
    prices: &PriceTable,
    query: &UsageQuery,
    found: &mut CollectedUsage,
) -> RequestTimes {
    let mut times = RequestTimes::default();
    for (path, node) in node_files::list(&dirs.proxies.join("log")) {
        if !query.selects(&node) {
            continue;
        }
        let mut reader = LogReader { prices, query, node: &node, times: Vec::new(), last_turn: 0, lives: 0 };
        // A full log was renamed.
        let older = OsString::from_iter([path.as_os_str(), ".1".as_ref()]);
        for path in [Path::new(&older), &path] {
            match reader.read(path, &mut found.entries) {
                Ok(0) => {}
                Ok(damaged) => {
                    let name = path.display();
                    found.problems.push(format!("{name}: {damaged} damaged lines are not counted"));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => found.problems.push(format!("{}: {error}", path.display())),
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
    last_turn: u64,
    /// Number of earlier nodes of this name, whose turns were numbered from 1 too.
    lives: u64,
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
        if let Some(turn) = line.turn {
            // A request may end after the next turn has begun.
            self.lives += u64::from(turn + 1 < self.last_turn);
            self.last_turn = turn;
        }
        if !self.query.includes(line.time) {
            return None;
        }
        let price = || self.prices.prices(line.model.as_deref()?, utc_day(line.time));
        Some(UsageEntry {
            source: UsageSource::of(self.node, None),
            at: line.time,
            tokens,
            cost_usd: line.cost_usd.or_else(|| price().map(|prices| prices.cost(tokens))),
            turn: line.turn.map(|turn| format!("proxy {} {turn}", self.lives)),
            model: line.model,
        })
    }
}
