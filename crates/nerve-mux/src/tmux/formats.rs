//! The format string for querying panes, and its parser.

use std::path::PathBuf;

use nerve_host::backend::PaneInfo;

/// Separates fields. Names and titles cannot contain it; the path, which could, comes last.
pub(super) const SEPARATOR: char = '\u{1f}';

/// The fields of a [`PaneInfo`], in the order in which they are parsed.
pub(super) const PANES: &str = concat!(
    "#{pane_id}\u{1f}#{pane_width}\u{1f}#{pane_height}\u{1f}#{cursor_x}\u{1f}#{cursor_y}\u{1f}#{pane_pid}\u{1f}",
    "#{?pane_active,#{window_active},0}\u{1f}#{pane_tty}\u{1f}#{session_name}\u{1f}#{window_name}\u{1f}",
    "#{pane_current_command}\u{1f}#{pane_title}\u{1f}#{pane_current_path}"
);

/// Parses lines of [`PANES`] and ignores others.
pub(super) fn panes(text: &str) -> Vec<PaneInfo> {
    text.lines().filter_map(pane).collect()
}

fn pane(line: &str) -> Option<PaneInfo> {
    let fields: Vec<&str> = line.splitn(13, SEPARATOR).collect();
    let [id, cols, rows, x, y, pid, active, tty, session, window, command, title, cwd] = fields.as_slice()
    else {
        return None;
    };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
    Some(PaneInfo {
        pane: (*id).to_string(),
        session: (*session).to_string(),
        window: (*window).to_string(),
        title: (*title).to_string(),
        command: some(command),
        cwd: some(cwd).map(PathBuf::from),
        cols: cols.parse().ok()?,
        rows: rows.parse().ok()?,
        // May equal the number of columns after a write to the last one.
        cursor: (x.parse().ok()?, y.parse().ok()?),
        pid: pid.parse().ok().filter(|pid| *pid > 0),
        tty: some(tty).map(PathBuf::from),
        active: *active == "1",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_empty_or_contain_separators() {
        let line = "%3\u{1f}80\u{1f}24\u{1f}5\u{1f}7\u{1f}123\u{1f}1\u{1f}/dev/pts/1\u{1f}my session\u{1f}vim\u{1f}\u{1f}a\tb: c\u{1f}/x\u{1f}y";
        let panes = panes(&format!("{line}\nno pane\n"));
        let [pane] = panes.as_slice() else { panic!("{panes:?}") };
        assert_eq!((pane.pane.as_str(), pane.cols, pane.rows, pane.cursor), ("%3", 80, 24, (5, 7)));
        assert_eq!((pane.session.as_str(), pane.title.as_str()), ("my session", "a\tb: c"));
        assert_eq!((pane.command.clone(), pane.active, pane.pid), (None, true, Some(123)));
        assert_eq!(pane.cwd, Some(PathBuf::from("/x\u{1f}y")));
    }
}
