//! The tool that searches conversations and screens.

use nerve_api::reply::SearchHit;
use nerve_api::request::Search;

use super::args;
use crate::call::Call;
use crate::tool_result::{Failure, Success};

/// Default number of hits.
const DEFAULT_HITS: usize = 20;
/// Maximum number of hits.
const MAX_HITS: usize = 100;

pub(super) async fn search(call: Call, args: args::Search) -> Result<Success, Failure> {
    let client = call.link.client().await?;
    let request = Search {
        pattern: args.pattern,
        node_id: args.node_id,
        session_id: args.session,
        since: args.since,
        kinds: args.kinds,
        limit: Some(args.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS)),
    };
    let result = client.search(&request).await?;
    let text = match result.hits.len() {
        0 => "Nothing was found.".to_string(),
        _ => result.hits.iter().map(describe).collect(),
    };
    let count = result.unsearched_count;
    let warning = (count > 0).then(|| format!("{count} files are not searched completely"));
    Ok(Success::new(&text, &result).warn(warning))
}

/// Returns the place of a hit in one line, and its text.
fn describe(hit: &SearchHit) -> String {
    let node = hit.node_id.iter().map(|node| format!("node '{node}'"));
    let session = hit.session_id.iter().map(|session| format!("session '{session}'"));
    let turn = hit.turn.iter().map(|turn| format!("turn {turn}"));
    let recording = hit.recording_id.iter().map(|id| format!("recording {id}"));
    let place: Vec<String> = node.chain(session).chain(turn).chain(recording).collect();
    format!("[{} {}: {}]\n{}\n\n", hit.happened_at.iso(), hit.kind, place.join(", "), hit.text.trim())
}
