//! `nerve search`: full-text search over everything that nerve keeps.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Zoned;
use nerve_api::reply::SearchResult;
use nerve_api::request::Search;
use nerve_cli::search::SearchArgs;
use nerve_commands::clock::local_time;
use nerve_commands::run_display::group_digits;
use nerve_commands::search_report::{SearchReport, search_machine, search_machines};
use nerve_engine::search::{Pattern, Query, SearchProgress, has_index};
use nerve_machine::MachineError;
use nerve_machine::machine::LOCAL;
use nerve_server::paths::ServerPaths;
use nerve_types::activity::TsMs;
use tokio_util::sync::CancellationToken;

use super::machine::resolve_node;
use super::server::{connect, machines};
use super::{interruptible, run_single_threaded, since};
use crate::exit::{DONE, FAILED, Failure, USAGE};

/// Time after which a search shows its progress.
const PROGRESS_DELAY: Duration = Duration::from_millis(500);

/// Runs the command. Returns 1 if nothing was found, as grep does.
pub(super) fn run(args: &SearchArgs) -> Result<u8> {
    let (mut node, mut session) = (args.node.clone(), args.session.clone());
    // No server: the files on this machine.
    let mut server = String::new();
    if let Some(node) = &mut node {
        resolve_node(node, &mut session, &mut server)?;
    }
    let since_ms = args.since.as_deref().map(|text| since::parse(text, &Zoned::now())).transpose()?;
    let request = Search {
        pattern: args.pattern.clone(),
        node_id: node.clone(),
        session_id: session.clone(),
        since: since_ms.map(|at| TsMs(at).iso()),
        kinds: args.parts.iter().map(|part| part.kind()).collect(),
        limit: Some(args.lines as usize),
    };
    let pattern = Pattern::parse(&args.pattern)?;
    let limit = args.lines as usize;
    let query = Query { pattern, node, session, since_ms, kinds: request.kinds.clone(), limit };
    let (mut report, mut listed) = (SearchReport::default(), Ok(()));
    match (server.as_str(), args.all_machines) {
        ("", false) => report.add(None, search(&query)?),
        ("", true) => listed = run_single_threaded(interruptible(search_all(&mut report, query, &request)))?,
        (_, true) => {
            let failure = Failure::new(USAGE, "--node names one machine, and --all-machines names all");
            return Err(failure.hint("omit one of them").into());
        }
        (server, false) => report.add(
            server.strip_prefix("machine://"),
            run_single_threaded(interruptible(async {
                search_machine(&connect(server).await?, &request).await
            }))?,
        ),
    }
    let code = if report.print(limit, args.json)? { DONE } else { FAILED };
    // The hits on this machine do not depend on the list of machines.
    listed.map(|()| code).map_err(Into::into)
}

/// Searches on this machine and on all others, in parallel. Returns whether the list of machines could be read.
async fn search_all(
    report: &mut SearchReport,
    query: Query,
    request: &Search,
) -> Result<Result<(), MachineError>> {
    let here = tokio::task::spawn_blocking(move || search(&query));
    let machines = machines();
    let (here, others) = tokio::join!(here, search_machines(&machines, request));
    report.add(Some(LOCAL), here??);
    Ok(others.map(|replies| report.add_replies(replies)))
}

/// Searches on this machine. On a terminal, shows the progress of a search that takes long.
fn search(query: &Query) -> Result<SearchResult> {
    let dirs = ServerPaths::from_env().data;
    let mut line = ProgressLine::new(!has_index(&dirs));
    let never = CancellationToken::new();
    let result = nerve_engine::search::search(&dirs, query, &never, &mut |progress| line.show(progress));
    drop(line);
    Ok(result?)
}

/// A line on stderr, if that is a terminal, which disappears at the end.
struct ProgressLine {
    started: Instant,
    /// Columns of the terminal; zero if it is none.
    columns: usize,
    /// True once the line is shown, and from the beginning if the index is built, which always takes a while.
    is_shown: bool,
}

impl ProgressLine {
    fn new(is_shown: bool) -> ProgressLine {
        let size = rustix::termios::tcgetwinsize(std::io::stderr());
        let columns = size.map_or(0, |size| usize::from(size.ws_col).max(1));
        ProgressLine { started: Instant::now(), columns, is_shown: is_shown && columns > 0 }
    }

    fn show(&mut self, progress: SearchProgress) {
        if self.columns == 0 || !(self.is_shown || self.started.elapsed() >= PROGRESS_DELAY) {
            return;
        }
        self.is_shown = true;
        let text = match progress {
            SearchProgress::Indexing { done, count } => {
                let percent = (done * 100).checked_div(count).unwrap_or(100);
                format!("indexing: {done} of {count} files ({percent} %)")
            }
            SearchProgress::Reading { texts, back_to } => {
                let texts = group_digits(texts as u64);
                format!("reading all texts: {texts}, back to {}", local_time(back_to.seconds()))
            }
        };
        // All characters have one column; a full row would wrap.
        let text: String = text.chars().take(self.columns - 1).collect();
        let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
