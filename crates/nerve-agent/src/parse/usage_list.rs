//! The list of the responses in a session file with their usage.

use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;

use super::entry::{Entry, Item, ResponseUsage};

/// The usage of one response of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRecord {
    /// Identifies the response in all copies of its conversation; empty if that is not possible.
    pub key: String,
    /// Number of prompts before it in the file; 0 for a subagent with its own file.
    pub turn: u64,
    /// Time of the response.
    pub at: Option<TsMs>,
    /// The tokens and the model.
    pub usage: ResponseUsage,
    /// US dollars as counted by the agent, if it does.
    pub cost_usd: Option<f64>,
}

/// The usage in a session file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageList {
    /// The responses in the order of the file, each once.
    pub records: Vec<UsageRecord>,
    /// Number of damaged lines.
    pub damaged: usize,
}

impl UsageList {
    /// Adds a response, unless it has no tokens, as after an error.
    pub(super) fn add(&mut self, record: UsageRecord) {
        if record.usage.tokens.total() > 0 {
            self.records.push(record);
        }
    }

    /// Adds the usage of an entry, and counts its prompt.
    pub(super) fn add_entry(&mut self, entry: Entry, turn: &mut u64) {
        match entry.item {
            Item::Prompt(_) => *turn += 1,
            Item::Usage(usage) => self.add(UsageRecord {
                key: key_of(entry.at, &usage),
                turn: *turn,
                at: entry.at,
                usage,
                cost_usd: None,
            }),
            _ => {}
        }
    }
}

/// Identifies a response by its time and its counts. Copies of a conversation keep both.
fn key_of(at: Option<TsMs>, usage: &ResponseUsage) -> String {
    let TokenUsage { input, output, cache_read, cache_write } = usage.tokens;
    let model = usage.model.as_deref().unwrap_or_default();
    at.map_or_else(String::new, |at| format!("{} {input} {output} {cache_read} {cache_write} {model}", at.0))
}
