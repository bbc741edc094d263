//! The usage in the session files of recorded agents.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use nerve_agent::parse::usage::{UsageList, UsageRecord};
use nerve_agent::profile::TranscriptKind;
use nerve_proxy::PriceTable;
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_transcript::Location;
use nerve_transcript::recorded::turns::{TurnsError, read_usage};
use nerve_types::activity::TsMs;

use super::{CollectedUsage, UsageEntry, UsageQuery, UsageSource, utc_day};
use crate::data_dirs::DataDirs;
use crate::node_files::NodeKey;
use crate::transcripts::{end_of, load_profiles, profile_of, recorded_session, session_of};

/// The time in which a node or a program was recorded.
#[derive(Debug)]
pub(super) struct RecordingPeriod {
    pub(super) node: NodeKey,
    pub(super) recording_id: Option<String>,
    pub(super) start: TsMs,
    /// [`u64::MAX`] while it is recorded.
    pub(super) end: TsMs,
    path: PathBuf,
    meta: Meta,
}

impl RecordingPeriod {
    pub(super) fn contains(&self, at: TsMs) -> bool {
        self.start <= at && at <= self.end
    }
}

/// Lists the selected recordings.
pub(super) fn list(dirs: &DataDirs, query: &UsageQuery, usage: &mut CollectedUsage) -> Vec<RecordingPeriod> {
    let mut periods = Vec::new();
    for path in Store::new(&dirs.recordings).all() {
        let Some(meta) = Meta::load(&path).ok().flatten() else { continue };
        let node =
            NodeKey { server: meta.server.clone(), session: session_of(&meta), node: meta.node.clone() };
        if !query.selects(&node) {
            continue;
        }
        usage.sources += 1;
        let end = end_of(&path, &meta).unwrap_or(TsMs(u64::MAX));
        if query.includes(Some(end)) {
            let recording_id = id_of(&path).map(str::to_string);
            periods.push(RecordingPeriod {
                node,
                recording_id,
                start: meta.started_at.into(),
                end,
                path,
                meta,
            });
        }
    }
    periods
}

/// Reads the session files of recordings into `usage`. A file is read once for all recordings of its conversation.
pub(super) fn read(
    dirs: &DataDirs,
    prices: &PriceTable,
    query: &UsageQuery,
    periods: &[&RecordingPeriod],
    usage: &mut CollectedUsage,
) {
    let profiles = load_profiles(dirs);
    let mut conversations: BTreeMap<Location, (TranscriptKind, Vec<&RecordingPeriod>)> = BTreeMap::new();
    for &period in periods {
        let Some(profile) = profile_of(&period.meta, &profiles) else { continue };
        let Some(kind) = profile.transcript else { continue };
        match recorded_session(&period.meta, &profile).locate() {
            Ok(Some(location)) => {
                conversations.entry(location).or_insert_with(|| (kind, Vec::new())).1.push(period);
            }
            Ok(None) => {}
            Err(TurnsError::Missing(_)) => usage.missing += 1,
            Err(TurnsError::Unreadable(reason)) => {
                usage.problems.push(format!("{}: {reason}", period.path.display()));
            }
        }
    }
    // Copies of a conversation repeat its responses.
    let mut seen = HashSet::new();
    for (location, (kind, periods)) in conversations {
        let (Location::File(path) | Location::Database { path, .. }) = &location;
        let UsageList { records, damaged } = match read_usage(&location, kind) {
            Ok(list) => list,
            Err(error) => {
                usage.problems.push(error.to_string());
                continue;
            }
        };
        if damaged > 0 {
            usage.problems.push(format!("{}: {damaged} damaged lines are not counted", path.display()));
        }
        for (record, period) in assign(records, &periods) {
            if query.includes(record.at) && (record.key.is_empty() || seen.insert(record.key.clone())) {
                usage.entries.push(entry_of(record, period, prices, &path.display().to_string()));
            }
        }
    }
}

/// Finds the recording of each response, and leaves out those that were not recorded.
///
/// A response that is earlier than the one before it in the file belongs to the same recording: the clock was set back.
fn assign<'a>(
    records: Vec<UsageRecord>,
    periods: &[&'a RecordingPeriod],
) -> Vec<(UsageRecord, &'a RecordingPeriod)> {
    let mut previous: Option<(TsMs, Option<&RecordingPeriod>)> = None;
    let mut assigned = Vec::new();
    for record in records {
        let at = record.at;
        let direct = periods.iter().copied().find(|period| at.is_some_and(|at| period.contains(at)));
        // The file of a subagent begins anew.
        let before = previous.filter(|_| record.turn > 0);
        let before = before.filter(|(last, _)| at.is_none_or(|at| at < *last)).and_then(|(_, period)| period);
        let period = direct.or(before);
        if let Some(at) = at.filter(|_| record.turn > 0) {
            previous = Some((at, period));
        }
        assigned.extend(period.map(|period| (record, period)));
    }
    assigned
}

fn entry_of(record: UsageRecord, period: &RecordingPeriod, prices: &PriceTable, file: &str) -> UsageEntry {
    let UsageRecord { turn, at, usage, cost_usd, .. } = record;
    let entry = usage.model.as_deref().and_then(|model| prices.find(model, utc_day(at)));
    // The user's own prices come before the agent's, and those before the built-in ones.
    let own = entry.filter(|entry| entry.is_own || cost_usd.is_none());
    UsageEntry {
        source: UsageSource::of(&period.node, period.recording_id.as_deref()),
        at,
        model: usage.model,
        tokens: usage.tokens,
        cost_usd: own.map(|entry| entry.prices.cost(&usage.tokens)).or(cost_usd),
        turn: (turn > 0).then(|| format!("{file} {turn}")),
    }
}
