//! `nerve search`: full-text search over everything that nerve keeps.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Zoned;
use nerve_api::reply::{SearchHit, SearchResult};
use nerve_cli::search::SearchArgs;
use nerve_engine::search::{Pattern, Query};
use nerve_graph::session::DEFAULT;
use nerve_repl::node_command::split_node_path;
use nerve_server::paths::ServerPaths;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::since;
use crate::exit::{DONE, FAILED};
use crate::out;
use nerve_repl::clock::local_time;

/// Time after which a running update shows its progress.
const PROGRESS_DELAY: Duration = Duration::from_millis(500);
/// Name of the default server.
const DEFAULT_SERVER: &str = "default";
/// Maximum number of unreadable files that are named.
const MAX_NAMED: usize = 3;

/// Runs the command. Returns 1 if nothing was found, as grep does.
pub(super) fn run(args: &SearchArgs) -> Result<u8> {
    let (mut node, mut session) = (args.node.clone(), args.session.clone());
    if let Some(node) = &mut node {
        split_node_path(node, &mut session)?;
    }
    let query = Query {
        pattern: Pattern::parse(&args.pattern)?,
        node,
        session,
        since_ms: args.since.as_deref().map(|text| since::parse(text, &Zoned::now())).transpose()?,
        kinds: args.parts.iter().map(|part| part.kind()).collect(),
        limit: args.lines as usize,
    };
    let result = search(&query)?;
    if result.was_rebuilt {
        out::note("the search index was damaged or old and was built again");
    }
    for file in result.unsearched.iter().take(MAX_NAMED) {
        let text = format!("{} is not searched completely: {}", file.path, file.reason);
        out::warning(out::sanitize(&text));
    }
    let more = result.unsearched_count.saturating_sub(MAX_NAMED);
    if more > 0 {
        out::warning(format_args!("{more} more files are not searched completely"));
    }
    if args.json {
        out::json(&as_json(&result)?)?;
    } else {
        result.hits.iter().try_for_each(print)?;
    }
    Ok(if result.hits.is_empty() { FAILED } else { DONE })
}

/// Searches, and shows the progress of the index on a terminal if it takes long.
fn search(query: &Query) -> Result<SearchResult> {
    let dirs = ServerPaths::from_env().data_dirs();
    let started = Instant::now();
    let mut stderr = std::io::stderr();
    let is_terminal = stderr.is_terminal();
    let mut is_shown = false;
    let mut show_progress = |done: usize, count: usize| {
        if is_terminal && (is_shown || started.elapsed() >= PROGRESS_DELAY) {
            is_shown = true;
            let percent = (done * 100).checked_div(count).unwrap_or(100);
            let _ = write!(stderr, "\rindexing: {done} of {count} files ({percent} %)");
        }
    };
    let never = CancellationToken::new();
    let result = nerve_engine::search::search(&dirs, query, &never, &mut show_progress);
    if is_shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    Ok(result?)
}

/// Returns the result with the command that shows each hit.
fn as_json(result: &SearchResult) -> Result<Value> {
    let mut value = serde_json::to_value(result)?;
    for (index, hit) in result.hits.iter().enumerate() {
        value["hits"][index]["open"] = open_command(hit).into();
    }
    Ok(value)
}

fn print(hit: &SearchHit) -> Result<()> {
    let name = out::sanitize(&node_path(hit).or(hit.recording_id.clone()).unwrap_or_default());
    let turn = hit.turn.map(|turn| format!(" · turn {turn}")).unwrap_or_default();
    let kind: &str = hit.kind.into();
    let time = local_time(hit.happened_at.seconds());
    out::line(format_args!("{name}{turn} · {time} · {kind}"))?;
    out::line(format_args!("    {}", highlight(hit)))?;
    out::line(format_args!("    {}\n", out::sanitize(&open_command(hit))))
}

/// Returns the node of a hit, with its session unless that is the default one.
fn node_path(hit: &SearchHit) -> Option<String> {
    let node = hit.node_id.as_ref()?;
    Some(match hit.session_id.as_deref().filter(|session| *session != DEFAULT) {
        Some(session) => format!("{session}/{node}"),
        None => node.clone(),
    })
}

/// Returns the text of a hit in one line with its matches in bold.
fn highlight(hit: &SearchHit) -> String {
    let (bold, plain) = (anstyle::Style::new().bold(), anstyle::Reset);
    let (mut text, mut last) = (String::new(), 0);
    let one_line = |text: &str| out::sanitize(&text.replace(['\n', '\t'], " "));
    for &[start, end] in &hit.matches {
        text.push_str(&one_line(&hit.text[last..start]));
        text.push_str(&format!("{bold}{}{plain}", one_line(&hit.text[start..end])));
        last = end;
    }
    text.push_str(&one_line(&hit.text[last..]));
    text.trim().to_string()
}

/// Returns the command that shows a hit.
fn open_command(hit: &SearchHit) -> String {
    let server = hit.server_name.as_deref().filter(|server| *server != DEFAULT_SERVER);
    let server = server.map(|server| format!(" --server {}", shell_words::quote(server))).unwrap_or_default();
    match (&hit.recording_id, hit.turn) {
        (Some(id), Some(turn)) => format!("nerve transcript {} --turn {turn}", shell_words::quote(id)),
        (Some(id), None) => {
            format!("nerve view {} --at {:.1}", shell_words::quote(id), hit.offset_ms as f64 / 1e3)
        }
        (None, Some(turn)) => {
            let node = node_path(hit).unwrap_or_default();
            format!("nerve transcript {} --turn {turn}{server}", shell_words::quote(&node))
        }
        (None, None) => {
            let session = hit.session_id.as_deref().filter(|session| *session != DEFAULT);
            let session = session.map(|session| format!(" --session {session}")).unwrap_or_default();
            format!("nerve logs {}{session}{server}", hit.node_id.as_deref().unwrap_or_default())
        }
    }
}
