//! Sums of the usage by node, session, day or model.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_api::reply::{UnpricedModel, UsageReport, UsageRow};
use nerve_api::value::UsageGrouping;
use nerve_types::activity::TsMs;

use super::{CollectedUsage, UsageEntry, UsageSource};

/// Sums up the collected usage. Days begin and end in the time zone `zone`.
pub(super) fn summarize(usage: CollectedUsage, by: UsageGrouping, zone: &TimeZone) -> UsageReport {
    let mut rows: BTreeMap<(UsageSource, Option<String>), RowFold<'_>> = BTreeMap::new();
    let mut total = RowFold::default();
    let mut unpriced: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for entry in &usage.entries {
        rows.entry(key_of(entry, by, zone)).or_default().add(entry);
        total.add(entry);
        if entry.cost_usd.is_none() {
            *unpriced.entry(entry.model.clone()).or_default() += entry.tokens.total();
        }
    }
    let named = |((source, value), fold): ((UsageSource, Option<String>), RowFold<'_>)| {
        let UsageSource { server, session, node, recording_id } = source;
        let (day, model) = if by == UsageGrouping::Day { (value, None) } else { (None, value) };
        UsageRow {
            server_name: server,
            session_id: session,
            node_id: node,
            recording_id,
            day,
            model,
            ..fold.row
        }
    };
    UsageReport {
        rows: rows.into_iter().map(named).collect(),
        total: total.row,
        unpriced: unpriced.into_iter().map(|(model, tokens)| UnpricedModel { model, tokens }).collect(),
        problems: usage.problems,
        missing_recordings: usage.missing,
    }
}

/// Returns the source of the row that counts an entry, and its day or model.
fn key_of(entry: &UsageEntry, by: UsageGrouping, zone: &TimeZone) -> (UsageSource, Option<String>) {
    let UsageSource { server, session, .. } = entry.source.clone();
    match by {
        UsageGrouping::Node => (entry.source.clone(), None),
        UsageGrouping::Session => (UsageSource { server, session, ..UsageSource::default() }, None),
        UsageGrouping::Day => (UsageSource::default(), entry.at.and_then(|at| day_of(at, zone))),
        UsageGrouping::Model => (UsageSource::default(), entry.model.clone()),
    }
}

fn day_of(at: TsMs, zone: &TimeZone) -> Option<String> {
    let time = Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
    Some(time.to_zoned(zone.clone()).date().to_string())
}

/// Sums up the responses of one row.
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
