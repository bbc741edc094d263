//! The status line: mode and message on the left, position and state on the right. Parts of low priority are
//! omitted first.

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::view::keys::{Context, Operation};
use crate::view::layout::Layout;
use crate::view::message;
use crate::view::pager::{Pager, line_range};
use crate::view::regions::FrameContext;
use crate::view::search::Direction;
use crate::view::status_info::StatusInfo;
use crate::view::subject::Branches;
use crate::view::timeline::clock;
use crate::view::tools::Tools;
use crate::view::truncate::{MAX_RANK, Part, cut, fit};
use crate::view::viewer::{Mode, PromptKind, PromptView, Source, Viewer};
use crate::view::viewport::Row;

/// Minimum width of the evidence for the agent's state.
const EVIDENCE: usize = 16;

/// Minimum widths of the name, before and after the evidence is dropped.
const NAME: [usize; 2] = [24, 12];

/// Minimum width of a fault.
const FAULT: usize = 32;

/// Maximum width of a filter pattern.
const PATTERN: usize = 24;

/// Maximum number of tools named, and width of a tool's name.
const IDS: usize = 3;
pub(crate) const ID: usize = 12;

/// Draws the status line.
pub(crate) fn draw(
    viewer: &Viewer,
    frame: &FrameContext<'_>,
    info: &StatusInfo,
    layout: &Layout,
    buffer: &mut Buffer,
) {
    let area = layout.status;
    let is_above = !message::rows(viewer, layout).is_empty();
    let style = Style::new().add_modifier(Modifier::REVERSED);
    let room = usize::from(area.width);
    for x in area.left()..area.right() {
        crate::view::cells::put(buffer, x, area.y, " ", style);
    }
    if area.is_empty() {
        return;
    }
    let (left, right) = fit(&left(viewer, info, is_above), &right(viewer, frame, info), room);
    let x = area.x + (area.width - u16::try_from(right.width()).unwrap_or(area.width).min(area.width));
    buffer.set_stringn(x, area.y, &right, room, style);
    buffer.set_stringn(area.x, area.y, &left, room, style);
}

// ---- Content ----

/// Returns the parts of the left side. `is_above`: the message is shown above the status line.
fn left(viewer: &Viewer, info: &StatusInfo, is_above: bool) -> Vec<Part> {
    let mut parts = vec![Part::new(1, mode(viewer))];
    if viewer.is_prefix_pending() {
        let keys = [true, false].map(|all| after_prefix(viewer, all));
        parts.push(Part::new(3, &keys[0]).or(2, &keys[1]).or(0, "…"));
        return parts;
    }
    match viewer.mode() {
        Mode::Prompt(typed) => return vec![Part::new(0, typing(typed))],
        Mode::Confirm => return vec![Part::new(0, "end the program? y: end it, any other key: no")],
        _ => {}
    }
    if let Some(number) = viewer.number() {
        parts.push(Part::new(0, format!(":{number}")));
    }
    match (viewer.message().filter(|_| !is_above), &info.fault) {
        (Some(message), _) => parts.push(Part::new(0, message)),
        (None, Some(fault)) => {
            parts.push(Part::new(4, format!("! {fault}")).or_cut(3, FAULT, "! ", fault, ""));
        }
        (None, None) => {
            let (part, name) = (Part::new(MAX_RANK, &info.name), &info.name);
            parts.push(part.or_cut(8, NAME[0], "", name, "").or_cut(6, NAME[1], "", name, ""));
        }
    }
    parts
}

/// Formats the prompt.
fn typing(PromptView { kind, sign, text, cursor, fault }: &PromptView) -> String {
    let (before, after) = text.split_at_checked(*cursor).unwrap_or((text, ""));
    let hint = match (kind, fault) {
        (_, Some(fault)) => format!("   (literal: {fault})"),
        (PromptKind::Search(Direction::Up), None) if text.is_empty() => "   (Enter: help)".to_string(),
        _ => String::new(),
    };
    format!("{sign}{before}▏{after}{hint}")
}

/// Returns the mode's label.
fn mode(viewer: &Viewer) -> &'static str {
    match (viewer.mode(), viewer.source()) {
        (Mode::Live, _) => "live",
        (Mode::Scrolling, Source::Live) => "scroll",
        (Mode::Scrolling, Source::Recording) => "view",
        (Mode::Prompt(_), _) => "search",
        (Mode::Entry, _) => "task",
        (Mode::Help(_), _) => "help",
        (Mode::Tools, _) => "tools",
        (Mode::Tool, _) => "tool",
        (Mode::ToolScrolling, _) => "tool scroll",
        (Mode::Confirm, _) => "end?",
    }
}

/// Lists the keys after the prefix; a subset without `all`.
fn after_prefix(viewer: &Viewer, all: bool) -> String {
    let is_live = viewer.source() == Source::Live;
    let entries = [
        (Operation::Detach, if is_live { "detach" } else { "leave" }, true),
        (Operation::Scroll, "scroll", is_live),
        (Operation::EntryUp, "task", viewer.branches.forbidden_reason().is_none()),
        (Operation::Snapshot, "snapshot", all && viewer.subject.no_snapshot_reason().is_none()),
        (Operation::Tools, "tools", true),
        (Operation::SwitchToBranch, "branch", viewer.branches == Branches::Created),
        (Operation::EndSession, "end", is_live && !viewer.subject.is_read_only()),
        (Operation::Help, "help", true),
    ];
    let shown = entries.iter().filter(|(.., is_shown)| *is_shown);
    let texts = shown.filter_map(|(operation, words, _)| {
        Some(format!("{} {words}", viewer.shortest_key(Context::Prefix, *operation)?))
    });
    texts.collect::<Vec<_>>().join("  ")
}

/// Returns the hint that leads to the help sheet.
fn hint(viewer: &Viewer) -> Option<String> {
    match viewer.mode() {
        Mode::Help(_) => Some("any other key leaves".to_string()),
        Mode::Prompt(_) | Mode::Confirm => None,
        _ => viewer.keys_to(Operation::Help).map(|keys| format!("{keys} help")),
    }
}

fn right(viewer: &Viewer, frame: &FrameContext<'_>, info: &StatusInfo) -> Vec<Part> {
    let mut parts = Vec::new();
    if matches!(viewer.mode(), Mode::Help(_)) {
        parts.extend(hint(viewer).map(|hint| Part::new(2, hint)));
        return parts;
    }
    if viewer.pattern().is_some() {
        parts.push(match viewer.matches() {
            Some((Some(place), Some(total))) => {
                Part::new(3, format!("match {place} of {total}")).or(1, format!("{place}/{total}"))
            }
            Some((_, Some(1))) => Part::new(3, "1 match"),
            Some((_, Some(total))) => Part::new(3, format!("{total} matches")),
            _ => Part::new(3, "looking …"),
        });
    }
    parts.extend(viewer.filter().map(|text| Part::new(3, format!("lines {}", cut(text, PATTERN)))));
    if let Some((state, evidence)) = &info.state {
        let part = Part::new(MAX_RANK, format!("{state} ({evidence})"));
        parts.push(part.or_cut(8, EVIDENCE, &format!("{state} ("), evidence, ")").or(2, state));
    }
    parts.extend(tools(&viewer.tools.list));
    if let Some(bytes) = info.recorded {
        let sign = if viewer.source() == Source::Live { "● " } else { "" };
        parts.push(Part::new(7, format!("{sign}{}", size(bytes))));
    } else if info.unrecorded {
        parts.push(Part::new(7, "not recorded"));
    }
    let has_bar = frame.timeline.is_some() && !frame.regions.timeline.is_empty();
    parts.extend(time(info, has_bar));
    parts.extend(snapshots(viewer, frame, info));
    // The position is omitted in live mode, and shown by a tool's box.
    if *viewer.mode() != Mode::Live && viewer.modal().is_none() {
        let (line, share) = place(&viewer.pager);
        parts.push(Part::new(4, format!("{line} · {share}")).or(2, share));
    }
    // The hint has priority over informative parts.
    parts.extend(hint(viewer).map(|hint| Part::new(5, hint)));
    parts
}

/// Names the running tools, or counts the finished ones.
fn tools(tools: &Tools) -> Option<Part> {
    match (tools.running(), tools.len()) {
        (0, 0) => None,
        (0, 1) => Some(Part::new(7, "1 tool ended")),
        (0, ended) => Some(Part::new(7, format!("{ended} tools ended"))),
        (running, _) => {
            let more = if running > IDS { ", …" } else { "" };
            let ids = tools.iter().take(running.min(IDS)).map(|tool| cut(&tool.id, ID));
            let ids = ids.collect::<Vec<String>>().join(", ");
            let part = Part::new(4, format!("▸ {running} running: {ids}{more}"));
            Some(part.or(3, format!("▸ {running}")))
        }
    }
}

/// Counts the snapshots, or names the current one if it was taken on the alternate screen.
fn snapshots(viewer: &Viewer, frame: &FrameContext<'_>, info: &StatusInfo) -> Option<Part> {
    let end = frame.end_document();
    let snapshot = viewer.current_snapshot().and_then(|id| end.snapshot(id));
    if let Some(snapshot) = snapshot.filter(|snapshot| snapshot.alternate) {
        let words = match end.place_of_snapshot(snapshot.id) {
            Some(place) => format!("snapshot {place} of {}", end.snapshots()),
            None => format!("snapshot {}", snapshot.id),
        };
        return Some(Part::new(4, format!("{words}{}", info.of_snapshot(snapshot))).or(3, words));
    }
    match frame.document.snapshots() {
        _ if frame.document.is_loading_earlier() => None,
        0 => None,
        1 => Some(Part::new(7, "1 snapshot")),
        snapshots => Some(Part::new(7, format!("{snapshots} snapshots"))),
    }
}

/// Formats playback time and speed. The timeline shows the time if it is visible.
fn time(info: &StatusInfo, has_bar: bool) -> Option<Part> {
    let (at, of) = info.time?;
    let sign = match info.speed {
        Some(1.0) => "▶ ".to_string(),
        Some(speed) => format!("▶ {speed}× "),
        None => String::new(),
    };
    if has_bar {
        return (!sign.is_empty()).then(|| Part::new(4, sign.trim_end()));
    }
    let at = format!("{sign}{}", clock(at));
    Some(Part::new(5, format!("{at} / {}", clock(of))).or(3, at))
}

/// Formats the last visible line and its relative position.
pub(crate) fn place(pager: &Pager) -> (String, String) {
    let lines = pager.viewport().lines();
    let last = pager.viewport().rows().filter_map(|row| match row {
        Row::Line { number, .. } => Some(number + 1),
        Row::Entry(_) | Row::Blank => None,
    });
    let last = last.last().unwrap_or(lines.start);
    let share = match (pager.viewport().is_at_end(), last.saturating_sub(lines.start)) {
        (true, _) => "end".to_string(),
        (false, seen) => format!("{} %", seen * 100 / (lines.end - lines.start).max(1)),
    };
    (format!("line {last} of {}", line_range(&lines)), share)
}

/// Formats bytes in powers of 1000.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut size = bytes;
    let mut unit = "B";
    for next in UNITS {
        if size < 1000 {
            break;
        }
        // Values below ten get one digit after the point.
        if size < 10_000 {
            return format!("{}.{} {next}", size / 1000, size % 1000 / 100);
        }
        (size, unit) = (size / 1000, next);
    }
    format!("{size} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_sizes() {
        let sizes = [0, 999, 1000, 1_234, 12_345, 999_999, 1_500_000, 2_000_000_000];
        assert_eq!(
            sizes.map(size),
            ["0 B", "999 B", "1.0 kB", "1.2 kB", "12 kB", "999 kB", "1.5 MB", "2.0 GB"]
        );
    }
}
