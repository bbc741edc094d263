//! `node history`: prints the audit log of a node.

use anyhow::Result;
use nerve_api::reply::NodeHistory;
use nerve_api::request::GetHistory;
use nerve_client::NerveClient;

use super::args::HistoryArgs;
use super::{Target, entries};
use crate::failure::{Failure, NOT_FOUND};
use crate::out;

/// Prints the selected entries.
pub(super) async fn run(target: &Target, args: &HistoryArgs) -> Result<()> {
    let history = request(&target.client, target.session.as_deref(), args).await?;
    print(&history, args, &history.server_name, target.json)
}

/// Prints the entries, or their counts.
///
/// # Errors
/// Exit code 3 if no entry has the selected number.
pub fn print(history: &NodeHistory, args: &HistoryArgs, server: &str, as_json: bool) -> Result<()> {
    if let Some(seq) = args.seq.filter(|_| history.entries.is_empty()) {
        return Err(Failure::new(NOT_FOUND, format!("node '{}' has no entry {seq}", args.node)).into());
    }
    if args.summary {
        return entries::print_summary(&args.node, server, &history.entries, as_json);
    }
    if as_json {
        return out::json(history);
    }
    if let Some(note) = &history.note {
        out::note(note);
    }
    entries::print(&history.entries)
}

/// Requests the selected entries.
///
/// # Errors
/// The request fails.
pub async fn request(client: &NerveClient, session: Option<&str>, args: &HistoryArgs) -> Result<NodeHistory> {
    let params = GetHistory {
        node_id: args.node.clone(),
        session_id: session.map(str::to_string),
        server_name: None,
        last: args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX)),
        op: args.op,
        seq: args.seq,
        inputs_only: args.inputs_only,
    };
    Ok(client.request(&params).await?)
}
