//! Parses the output of `wezterm cli list --format json`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use percent_encoding::percent_decode;
use serde::Deserialize;

use nerve_host::backend::PaneInfo;

/// A pane. Unused fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ListedPane {
    pub(super) pane_id: u64,
    #[serde(default)]
    pub(super) window_id: u64,
    #[serde(default)]
    pub(super) workspace: String,
    pub(super) size: PaneSize,
    #[serde(default)]
    pub(super) title: String,
    /// A percent-encoded `file://` URL, or empty.
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    pub(super) cursor_x: u16,
    #[serde(default)]
    pub(super) cursor_y: u16,
    #[serde(default)]
    pub(super) is_active: bool,
    /// `null` if the program could not be started.
    #[serde(default, rename = "tty_name")]
    pub(super) tty: Option<PathBuf>,
    /// `Hidden` or another value.
    #[serde(default)]
    cursor_visibility: String,
    /// The program has ended and its pane is kept. Only newer versions report this and the exit code.
    #[serde(default)]
    pub(super) is_dead: bool,
    #[serde(default)]
    pub(super) exit_code: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct PaneSize {
    pub(super) rows: u16,
    pub(super) cols: u16,
}

impl ListedPane {
    pub(super) fn id(&self) -> String {
        self.pane_id.to_string()
    }

    pub(super) fn shows_cursor(&self) -> bool {
        self.cursor_visibility != "Hidden"
    }

    /// Returns true if nothing in the listing indicates a changed screen.
    pub(super) fn has_same_screen(&self, other: &ListedPane) -> bool {
        let looks = |of: &ListedPane| {
            (of.size, of.cursor_x, of.cursor_y, of.cursor_visibility.clone(), of.title.clone())
        };
        looks(self) == looks(other)
    }

    /// Returns the location for the node's info.
    pub(super) fn place(&self) -> Vec<(&'static str, String)> {
        vec![
            ("pane_id", self.id()),
            ("window", self.window_id.to_string()),
            ("workspace", self.workspace.clone()),
            ("is_active", self.is_active.to_string()),
        ]
    }

    pub(super) fn into_info(self) -> PaneInfo {
        PaneInfo {
            pane: self.id(),
            session: self.workspace,
            window: self.window_id.to_string(),
            title: self.title,
            command: None,
            cwd: path_of(&self.cwd),
            cols: self.size.cols,
            rows: self.size.rows,
            cursor: (self.cursor_x, self.cursor_y),
            pid: self.tty.as_deref().and_then(nerve_types::os::session_leader),
            tty: self.tty,
            active: self.is_active,
        }
    }
}

/// Parses the list, which has no stable order, and sorts it.
pub(super) fn parse(json: &[u8]) -> Result<Vec<ListedPane>, serde_json::Error> {
    let mut panes: Vec<ListedPane> = serde_json::from_slice(json)?;
    panes.sort_by_key(|pane| pane.pane_id);
    Ok(panes)
}

/// Returns the path of a `file://HOST/PATH` URL.
fn path_of(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("file://")?;
    let path: Vec<u8> = percent_decode(&rest.as_bytes()[rest.find('/')?..]).collect();
    Some(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[
        {"window_id":1,"tab_id":4,"pane_id":12,"workspace":"default","size":{"rows":24,"cols":80,"pixel_width":640,
         "pixel_height":384,"dpi":0},"title":"bash","cwd":"file://box/tmp/a%20b%C3%A9%zz","cursor_x":2,"cursor_y":3,
         "cursor_shape":"Default","cursor_visibility":"Visible","left_col":0,"top_row":0,"tab_title":"","window_title":"",
         "is_active":true,"is_zoomed":false,"tty_name":null},
        {"pane_id":2,"size":{"rows":5,"cols":7},"cwd":""}
    ]"#;

    #[test]
    fn list_is_parsed_and_sorted() {
        let panes = parse(LIST.as_bytes()).unwrap();
        assert_eq!(panes.iter().map(|pane| pane.pane_id).collect::<Vec<_>>(), [2, 12]);
        let info = panes[1].clone().into_info();
        assert_eq!((info.pane.as_str(), info.window.as_str(), info.session.as_str()), ("12", "1", "default"));
        assert_eq!((info.cols, info.rows, info.cursor, info.active), (80, 24, (2, 3), true));
        assert_eq!(info.cwd, Some(PathBuf::from("/tmp/a bé%zz")));
        assert_eq!((info.tty, info.pid), (None, None));
        assert_eq!(panes[0].clone().into_info().cwd, None);
    }

    #[test]
    fn invalid_lists_are_errors() {
        for text in ["", "{}", "[{}]", "[1]", "null", r#"[{"pane_id":-1,"size":{"rows":1,"cols":1}}]"#] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
