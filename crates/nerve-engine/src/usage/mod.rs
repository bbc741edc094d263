//! The token usage and cost of nodes and recordings. All functions block and need no server.
//!
//! Each response of a model counts once. The log of a node's proxy comes first. For a recording without such requests the
//! agent's own session file counts, and for turns that neither has, the node's history.

mod price_cache;
mod proxy_logs;
mod recordings;
mod report;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use nerve_proxy::PriceTable;
use nerve_record::history::LoggedUsage;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;

pub(crate) use self::price_cache::PriceCache;
use self::recordings::RecordingPeriod;
pub use self::report::{Grouping, UsageReport, UsageRow};
use crate::data_dirs::DataDirs;
use crate::node_files::{self, NodeKey};
use crate::transcripts::HistoryLog;

/// Selects the usage to read. Empty fields do not filter.
#[derive(Debug, Clone, Default)]
pub struct UsageQuery {
    /// Nodes, each with its session if one is given.
    pub nodes: Vec<(String, Option<String>)>,
    /// Only the nodes of this session.
    pub session: Option<String>,
    /// Only responses since this time, in milliseconds since the Unix epoch.
    pub since_ms: Option<u64>,
}

/// The source of a response: a node, or a recording without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UsageSource {
    /// Server of the node.
    pub server: Option<String>,
    /// Session of the node.
    pub session: Option<String>,
    /// Node.
    pub node: Option<String>,
    /// Id of a recording without a node.
    pub recording_id: Option<String>,
}

/// The usage of one response, or of one turn of which only the sum is known.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageEntry {
    /// The node or recording.
    pub source: UsageSource,
    /// Time, if it is known.
    pub at: Option<TsMs>,
    /// Model, if it is known.
    pub model: Option<String>,
    /// Tokens.
    pub tokens: TokenUsage,
    /// US dollars; `None` if the model has no price.
    pub cost_usd: Option<f64>,
    /// Identifies the turn; `None` for a response outside of turns, such as one of a subagent.
    pub turn: Option<String>,
}

/// The collected usage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectedUsage {
    /// The responses, in no order.
    pub entries: Vec<UsageEntry>,
    /// Number of logs, recordings and histories of the selected nodes, of any time.
    pub sources: usize,
    /// Files that were not read completely, with the reason.
    pub problems: Vec<String>,
    /// Number of agents' recordings whose session file is gone or not known.
    pub missing: usize,
}

impl UsageQuery {
    fn selects(&self, node: &NodeKey) -> bool {
        let has_name = |(name, session): &(String, Option<String>)| {
            node.node.as_ref() == Some(name) && (session.is_none() || *session == node.session)
        };
        (self.nodes.is_empty() || self.nodes.iter().any(has_name))
            && (self.session.is_none() || self.session == node.session)
    }

    fn includes(&self, at: Option<TsMs>) -> bool {
        self.since_ms.is_none_or(|since| at.is_some_and(|at| at.0 >= since))
    }
}

/// Reads the usage. `prices` gives the cost of responses for which neither a proxy nor the agent has it.
pub fn collect(dirs: &DataDirs, prices: &PriceTable, query: &UsageQuery) -> CollectedUsage {
    let mut usage = CollectedUsage::default();
    let logs = proxy_logs::read(dirs, prices, query, &mut usage);
    let periods = recordings::list(dirs, query, &mut usage);
    let proxied = |node: &NodeKey, from: TsMs, to: TsMs| logs.has_requests(node, from, to);
    let unproxied = periods.iter().filter(|period| !proxied(&period.node, period.start, period.end));
    recordings::read(dirs, prices, query, &unproxied.collect::<Vec<_>>(), &mut usage);
    for (_, node) in node_files::list(&dirs.history) {
        if query.selects(&node) {
            usage.sources += 1;
            read_history(dirs, query, &node, &periods, &proxied, &mut usage);
        }
    }
    usage
}

/// Reads the turns that no recording and no proxy has, such as those of chat nodes. The history of other nodes names no model.
fn read_history(
    dirs: &DataDirs,
    query: &UsageQuery,
    node: &NodeKey,
    periods: &[RecordingPeriod],
    proxied: &impl Fn(&NodeKey, TsMs, TsMs) -> bool,
    usage: &mut CollectedUsage,
) {
    let Some(address) = node.address() else { return };
    let log = match HistoryLog::read(&dirs.history, address) {
        Ok(log) => log.unwrap_or_default(),
        Err(error) => return usage.problems.push(error.message),
    };
    let is_recorded = |at: TsMs| periods.iter().any(|period| period.node == *node && period.contains(at));
    for (number, turn) in log.turns.into_iter().enumerate() {
        let at = Some(turn.started).filter(|_| query.includes(Some(turn.started)));
        let counts = match turn.usage {
            Some(LoggedUsage { model, input, output }) => Some((Some(model), input, output)),
            None => turn.tokens.and_then(|tokens| Some((None, tokens.input?, tokens.output?))),
        };
        let (Some(at), Some((model, input, output))) = (at, counts) else { continue };
        if !is_recorded(at) && !proxied(node, at, turn.ended) {
            usage.entries.push(UsageEntry {
                source: UsageSource::of(node, None),
                at: Some(at),
                model,
                tokens: TokenUsage { input, output, ..TokenUsage::default() },
                cost_usd: None,
                turn: Some(format!("history {number} {}", at.0)),
            });
        }
    }
}

impl UsageSource {
    /// Returns the source of a node's response. `recording_id` counts only without a node.
    fn of(node: &NodeKey, recording_id: Option<&str>) -> UsageSource {
        let NodeKey { server, session, node } = node.clone();
        let recording_id = recording_id.filter(|_| node.is_none()).map(str::to_string);
        UsageSource { server, session, node, recording_id }
    }
}

/// Returns the day of a time in UTC.
fn utc_day(at: Option<TsMs>) -> Option<Date> {
    let time = Timestamp::from_millisecond(i64::try_from(at?.0).ok()?).ok()?;
    Some(time.to_zoned(TimeZone::UTC).date())
}
