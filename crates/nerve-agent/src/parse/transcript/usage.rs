//! The usage in Claude Code's transcript.

use std::collections::HashMap;

use super::super::entry::time;
use super::super::line_decoder::json_lines;
use super::super::usage::{UsageList, UsageRecord};
use super::{Line, user_text};

/// Reads the usage of all responses, also on other branches and of subagents. All lines of a message have its usage so far: the
/// last one counts.
pub(in crate::parse) fn read_usage(text: &str) -> UsageList {
    let (mut list, mut turn) = (UsageList::default(), 0);
    // Index of the record of each message.
    let mut index: HashMap<String, usize> = HashMap::new();
    for line in json_lines::<Line>(text.lines()) {
        let Some(line) = line else {
            list.damaged += 1;
            continue;
        };
        turn += u64::from(!line.is_sidechain() && user_text(&line).is_some());
        let Some(message) = line.message.filter(|_| line.kind == "assistant") else { continue };
        let usage = message.usage.and_then(|usage| usage.of_response(message.model.as_deref()));
        let Some(usage) = usage.filter(|usage| usage.tokens.total() > 0) else { continue };
        let at = line.timestamp.as_deref().and_then(time);
        let key = message.id.unwrap_or_default();
        if let Some(record) = index.get(&key).and_then(|at| list.records.get_mut(*at)) {
            record.usage = usage;
            continue;
        }
        if !key.is_empty() {
            index.insert(key.clone(), list.records.len());
        }
        list.add(UsageRecord { key, turn, at, usage, cost_usd: None });
    }
    list
}
