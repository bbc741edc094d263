//! Sums of the usage by node, session, day or model.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;

use super::{UsageEntry, UsageSource};

/// The grouping of a report's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Nodes, and recordings without a node.
    Node,
    /// Sessions.
    Session,
    /// Days.
    Day,
    /// Models.
    Model,
}

/// The usage of one group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageRow {
    /// The node, recording or session; empty for a day or a model.
    pub source: UsageSource,
    /// The day, as `2026-01-31`, or the model; `None` if it is not known, and for other groups.
    pub value: Option<String>,
    /// Tokens.
    pub tokens: TokenUsage,
    /// Number of turns.
    pub turns: u64,
    /// Number of responses.
    pub responses: u64,
    /// Sum of the known costs in US dollars; `None` if no cost is known.
    pub cost_usd: Option<f64>,
    /// Some tokens have no price.
    pub has_unpriced: bool,
}

/// A report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageReport {
    /// The groups in the order of their names or days.
    pub rows: Vec<UsageRow>,
    /// The sum of all groups.
    pub total: UsageRow,
    /// Tokens without a price by model; `None` is an unknown model.
    pub unpriced: BTreeMap<Option<String>, u64>,
}

impl UsageReport {
    /// Sums up responses. Days begin and end in the time zone `zone`.
    pub fn new(entries: &[UsageEntry], by: Grouping, zone: &TimeZone) -> UsageReport {
        let mut rows: BTreeMap<(UsageSource, Option<String>), RowFold<'_>> = BTreeMap::new();
        let mut total = RowFold::default();
        let mut unpriced = BTreeMap::new();
        for entry in entries {
            rows.entry(key_of(entry, by, zone)).or_default().add(entry);
            total.add(entry);
            if entry.cost_usd.is_none() {
                *unpriced.entry(entry.model.clone()).or_default() += entry.tokens.total();
            }
        }
        let rows = rows.into_iter().map(|((source, value), fold)| UsageRow { source, value, ..fold.row });
        UsageReport { rows: rows.collect(), total: total.row, unpriced }
    }
}

fn key_of(entry: &UsageEntry, by: Grouping, zone: &TimeZone) -> (UsageSource, Option<String>) {
    let UsageSource { server, session, .. } = entry.source.clone();
    match by {
        Grouping::Node => (entry.source.clone(), None),
        Grouping::Session => (UsageSource { server, session, ..UsageSource::default() }, None),
        Grouping::Day => (UsageSource::default(), entry.at.and_then(|at| day_of(at, zone))),
        Grouping::Model => (UsageSource::default(), entry.model.clone()),
    }
}

fn day_of(at: TsMs, zone: &TimeZone) -> Option<String> {
    let time = Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
    Some(time.to_zoned(zone.clone()).date().to_string())
}

/// Sums up the responses of one group.
#[derive(Default)]
struct RowFold<'a> {
    row: UsageRow,
    turns: HashSet<(&'a UsageSource, &'a str)>,
}

impl<'a> RowFold<'a> {
    fn add(&mut self, entry: &'a UsageEntry) {
        let row = &mut self.row;
        row.tokens += entry.tokens;
        row.responses += 1;
        let turn = entry.turn.as_deref();
        row.turns += u64::from(turn.is_some_and(|turn| self.turns.insert((&entry.source, turn))));
        match entry.cost_usd {
            Some(cost) => *row.cost_usd.get_or_insert(0.0) += cost,
            None => row.has_unpriced = true,
        }
    }
}
