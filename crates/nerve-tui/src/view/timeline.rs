//! The timeline of a recording: current time, snapshots and pauses, drawn as a bar.

use std::ops::Range;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Minimum width of a bar with times at its sides.
const BAR: u16 = 8;

/// A snapshot's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotMark {
    /// Time since the recording's start.
    pub at: Duration,
    /// Snapshot id.
    pub id: u64,
}

/// The timeline. All times are relative to the recording's start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// The time shown.
    pub at: Duration,
    /// Duration of the recording.
    pub duration: Duration,
    /// Snapshots in the order taken.
    pub snapshots: Vec<SnapshotMark>,
    /// Ascending intervals without output.
    pub idle: Vec<Range<Duration>>,
}

impl Timeline {
    /// Returns the time under a column, 0-based, in a row of `width` columns. A column with a snapshot mark has the
    /// snapshot's time. The labels at the sides are start and end.
    pub fn time_at(&self, col: u16, width: u16) -> Duration {
        let bar = self.bar(width);
        if col < bar.start {
            return Duration::ZERO;
        }
        if col >= bar.end {
            return self.duration;
        }
        let (col, cols) = (col - bar.start, bar.end - bar.start);
        if let Some(snapshot) = self.snapshot_in(col, cols) {
            return snapshot.at;
        }
        let last = u32::from(cols - 1).max(1);
        (self.duration / last).saturating_mul(col.into()).min(self.duration)
    }

    /// Returns the id of the snapshot marked at a column.
    pub fn snapshot_at(&self, col: u16, width: u16) -> Option<u64> {
        let bar = self.bar(width);
        let col = bar.contains(&col).then(|| col - bar.start)?;
        self.snapshot_in(col, bar.end - bar.start).map(|snapshot| snapshot.id)
    }

    /// Draws the timeline into one row.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let bar = self.bar(area.width);
        let (dim, plain) = (Style::new().add_modifier(Modifier::DIM), Style::new());
        if bar.start > 0 {
            let end = clock(self.duration);
            buffer.set_stringn(area.x, area.y, clock(self.at), bar.start.into(), plain);
            let x = area.right() - columns(&end);
            buffer.set_stringn(x, area.y, &end, end.len(), dim);
        }
        let cols = bar.end - bar.start;
        let current = self.col_of(self.at, cols);
        for col in 0..cols {
            let snapshot = self.snapshot_in(col, cols).is_some();
            let (sign, style) = match (col.cmp(&current), snapshot) {
                (std::cmp::Ordering::Equal, true) => ("◆", Style::new().fg(Color::Cyan)),
                (std::cmp::Ordering::Equal, false) => ("●", plain),
                (_, true) => ("▶", Style::new().fg(Color::Cyan)),
                (side, false) => match (self.is_idle(col, cols), side) {
                    (true, std::cmp::Ordering::Less) => ("┅", plain),
                    (true, _) => ("┈", dim),
                    (false, std::cmp::Ordering::Less) => ("━", plain),
                    (false, _) => ("─", dim),
                },
            };
            if let Some(cell) = buffer.cell_mut((area.x + bar.start + col, area.y)) {
                cell.set_symbol(sign).set_style(style);
            }
        }
    }

    /// Returns the columns of the bar between the labels, or all columns in a narrow row.
    fn bar(&self, width: u16) -> Range<u16> {
        // The labels are as wide as the longest time, so that the bar does not move during playback.
        let side = columns(&clock(self.duration)) + 1;
        if width >= 2 * side + BAR { side..width - side } else { 0..width }
    }

    /// Returns the column of a time in a bar of `cols` columns.
    fn col_of(&self, time: Duration, cols: u16) -> u16 {
        let last = u128::from(cols.max(1) - 1);
        let total = self.duration.as_nanos().max(1);
        let col = (time.min(self.duration).as_nanos() * last + total / 2) / total;
        u16::try_from(col).unwrap_or(0)
    }

    /// Returns the first snapshot in a column.
    fn snapshot_in(&self, col: u16, cols: u16) -> Option<SnapshotMark> {
        let first = self.snapshots.partition_point(|mark| self.col_of(mark.at, cols) < col);
        self.snapshots.get(first).copied().filter(|mark| self.col_of(mark.at, cols) == col)
    }

    /// Returns true if nothing was written at the time in the column's middle.
    fn is_idle(&self, col: u16, cols: u16) -> bool {
        let time = self.duration.mul_f64(f64::from(col) / f64::from(cols.max(2) - 1));
        let first = self.idle.partition_point(|idle| idle.end <= time);
        self.idle.get(first).is_some_and(|idle| idle.contains(&time))
    }
}

/// Formats a duration: `4:05`, `1:00:00`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Returns the width of a formatted time, which is ASCII.
fn columns(text: &str) -> u16 {
    u16::try_from(text.len()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn timeline() -> Timeline {
        Timeline {
            at: seconds(30),
            duration: seconds(100),
            snapshots: [(10, 4), (60, 7)].map(|(at, id)| SnapshotMark { at: seconds(at), id }).to_vec(),
            idle: vec![seconds(15)..seconds(25), seconds(70)..seconds(95)],
        }
    }

    fn drawn(timeline: &Timeline, width: u16) -> String {
        let area = Rect::new(0, 0, width, 1);
        let mut buffer = Buffer::empty(area);
        timeline.draw(area, &mut buffer);
        buffer.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn draws_position_snapshots_pauses_and_times() {
        assert_eq!(drawn(&timeline(), 31), "0:30 ━━▶┅┅━●─────▶─┈┈┈┈┈── 1:40");
        assert_eq!(drawn(&timeline(), 11), "━▶┅●──▶┈┈┈─");
        assert_eq!(drawn(&Timeline { at: seconds(60), ..timeline() }, 11), "━▶┅━━━◆┈┈┈─");
    }

    #[test]
    fn columns_and_times_agree() {
        for width in 1..200 {
            let mut timeline = Timeline { snapshots: Vec::new(), ..timeline() };
            let mut before = Duration::ZERO;
            for col in 0..width {
                let time = timeline.time_at(col, width);
                assert!(before <= time && time <= timeline.duration, "{col} of {width}: {time:?}");
                before = time;
                timeline.at = time;
                let bar = timeline.bar(width);
                let text = drawn(&timeline, width);
                let at = text.chars().position(|sign| sign == '●').unwrap();
                assert_eq!(at, usize::from(col.clamp(bar.start, bar.end - 1)), "{width}: {text}");
            }
            let bar = timeline.bar(width);
            assert!(bar.len() == 1 || timeline.time_at(bar.end - 1, width) + seconds(1) > timeline.duration);
        }
    }

    #[test]
    fn mark_column_has_the_snapshots_time() {
        let text = drawn(&timeline(), 31);
        let marks = text.chars().zip(0..).filter(|(sign, _)| *sign == '▶').map(|(_, col)| col);
        let marked: Vec<_> =
            marks.map(|col| (timeline().time_at(col, 31), timeline().snapshot_at(col, 31))).collect();
        assert_eq!(marked, [(seconds(10), Some(4)), (seconds(60), Some(7))]);
        assert_eq!([0, 5, 9, 30].map(|col| timeline().snapshot_at(col, 31)), [None; 4]);
        assert_eq!((timeline().time_at(0, 31), timeline().time_at(30, 31)), (seconds(0), seconds(100)));
    }

    #[test]
    fn empty_recording_has_a_bar() {
        let none = Timeline::default();
        assert_eq!(drawn(&none, 20), "0:00 ●───────── 0:00");
        assert_eq!(none.time_at(9, 20), Duration::ZERO);
    }

    #[test]
    fn formats_times() {
        assert_eq!([5, 65, 3_605].map(|time| clock(seconds(time))), ["0:05", "1:05", "1:00:05"]);
    }
}
