//! The token usage and cost of nodes and recordings. All functions block and need no server.
//!
//! Each response of a model counts once. The log of a node's proxy comes first. For a recording without such requests the
//! agent's own session file counts, and for turns that neither has, the node's history.

mod price_cache;
mod proxy_logs;
mod query;
mod recordings;
mod report;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use nerve_api::reply::UsageReport;
use nerve_api::request::GetUsage;
use nerve_node::error::EngineError;
use nerve_proxy::PriceTable;
use nerve_record::history::LoggedUsage;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;

pub(crate) use self::price_cache::PriceCache;
use self::query::UsageQuery;
use self::recordings::RecordingPeriod;
use crate::data_dirs::DataDirs;
use crate::node_files::{self, NodeKey};
use crate::transcripts::HistoryLog;

/// The source of a response: a node, or a recording without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct UsageSource {
    /// Server of the node.
    server: Option<String>,
    /// Session of the node.
    session: Option<String>,
    /// Node.
    node: Option<String>,
    /// Id of a recording without a node.
    recording_id: Option<String>,
}

/// The usage of one response, or of one turn of which only the sum is known.
#[derive(Debug, Clone, PartialEq)]
struct UsageEntry {
    /// The node or recording.
    source: UsageSource,
    /// Time, if it is known.
    at: Option<TsMs>,
    /// Model, if it is known.
    model: Option<String>,
    /// Tokens.
    tokens: TokenUsage,
    /// US dollars; `None` if the model has no price.
    cost_usd: Option<f64>,
    /// Identifies the turn; `None` for a response outside of turns, such as one of a subagent.
    turn: Option<String>,
}

/// The collected usage.
#[derive(Debug, Clone, PartialEq, Default)]
struct CollectedUsage {
    /// The responses, in no order.
    entries: Vec<UsageEntry>,
    /// Number of logs, recordings and histories of the selected nodes, of any time.
    sources: usize,
    /// Files that were not read completely, with the reason.
    problems: Vec<String>,
    /// Number of agents' recordings whose session file is gone or not known.
    missing: usize,
}

/// Reads and sums up the usage of nodes and recordings. `prices` gives the cost of responses for which neither a proxy nor the
/// agent has it. Days begin and end in the time zone of this machine.
///
/// # Errors
/// InvalidRequest; NotFound: nothing is known of the nodes that the request names.
pub fn report(dirs: &DataDirs, prices: &PriceTable, request: &GetUsage) -> Result<UsageReport, EngineError> {
    let usage = collect(dirs, prices, &UsageQuery::from_request(request)?);
    if usage.sources == 0 && !request.nodes.is_empty() {
        let nodes = request.nodes.join(", ");
        return Err(EngineError::not_found(format!("no recording, log or history of {nodes}"))
            .hint("list what is known: nerve usage"));
    }
    Ok(report::summarize(usage, request.by, &TimeZone::system()))
}

fn collect(dirs: &DataDirs, prices: &PriceTable, query: &UsageQuery) -> CollectedUsage {
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
