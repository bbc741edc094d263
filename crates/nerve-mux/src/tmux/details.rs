//! Identity and size of a pane. No I/O.

use std::path::PathBuf;

use nerve_types::Size;
use nerve_types::os::start_time;

use super::formats::SEPARATOR;
use super::parser::pane_of;

/// The fields of [`PaneDetails`], in the order in which they are parsed.
pub(super) const DETAILS: &str = concat!(
    "#{pane_id}\u{1f}#{pane_pid}\u{1f}#{pane_tty}\u{1f}#{pid}\u{1f}#{pane_width}\u{1f}#{pane_height}\u{1f}#{session_id}\u{1f}",
    "#{session_name}\u{1f}#{pane_current_path}\u{1f}#{socket_path}"
);

/// Identity of a pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PaneDetails {
    pub(super) pane: String,
    /// The pane's number: 3 of `%3`.
    pub(super) number: u32,
    /// The program in the pane.
    pub(super) pid: Option<i32>,
    pub(super) tty: Option<PathBuf>,
    /// Process id and start time of tmux's server: another server reuses pane ids.
    pub(super) server: Option<(u32, u64)>,
    pub(super) size: Size,
    /// Id of the session, such as `$1`.
    pub(super) session_id: String,
    pub(super) session: String,
    pub(super) cwd: Option<PathBuf>,
    pub(super) socket: Option<String>,
}

impl PaneDetails {
    /// Parses the answer to [`DETAILS`]; `None` if the pane does not exist.
    pub(super) fn parse(text: &str) -> Option<PaneDetails> {
        let fields: Vec<&str> = text.trim_end_matches('\n').splitn(10, SEPARATOR).collect();
        let [pane, pid, tty, server, cols, rows, session_id, session, cwd, socket] = fields.as_slice() else {
            return None;
        };
        let server: Option<u32> = server.parse().ok();
        let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Some(PaneDetails {
            pane: (*pane).to_string(),
            number: pane_of(pane)?,
            pid: pid.parse().ok().filter(|pid| *pid > 0),
            tty: some(tty).map(PathBuf::from),
            server: server.and_then(|pid| Some((pid, start_time(pid)?))),
            size: Size::new(cols.parse().ok()?, rows.parse().ok()?),
            session_id: (*session_id).to_string(),
            session: (*session).to_string(),
            cwd: some(cwd).map(PathBuf::from),
            socket: some(socket),
        })
    }
}
