//! Connects a viewer to the host of a program.

use anyhow::Result;
use nerve_host::registry::Entry;
use nerve_server::paths::ServerPaths;
use nerve_tui::mirror::{SizeRule, TerminalMirror};
use nerve_types::Size;

/// Opens the terminal of the host with this entry, in a window with room for `size`. Must be called on a runtime.
///
/// # Errors
/// No profile matches the program.
pub(crate) fn open_mirror(
    entry: Entry,
    paths: &ServerPaths,
    rule: SizeRule,
    size: Option<Size>,
) -> Result<TerminalMirror> {
    let (profiles, errors) = nerve_node::profiles::load(Some(&paths.data.profiles));
    let mirror = TerminalMirror::open(entry, &paths.data.hosts, &profiles, rule, size)?;
    Ok(mirror.with_faults(errors.iter().map(ToString::to_string)))
}
