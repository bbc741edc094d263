//! A recording's time: where one is in it, what there is to be found, and all of that as a bar in a row of the window.

use std::ops::Range;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// A shorter bar has no times beside it.
const BAR: u16 = 8;

/// A snapshot in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotMark {
    /// When it was taken.
    pub at: Duration,
    /// Its id.
    pub id: u64,
}

/// All times are counted from the recording's begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// The moment that is shown.
    pub at: Duration,
    /// How long the recording is.
    pub of: Duration,
    /// Snapshots, in the order they were taken.
    pub snapshots: Vec<SnapshotMark>,
    /// Stretches in which nothing was written, ascending.
    pub idle: Vec<Range<Duration>>,
}

impl Timeline {
    /// The moment under a column of its row, 0-based, in a row of `width` columns. A column with a snapshot is the snapshot's moment, so that
    /// a click on its mark leads there; the times at the sides are begin and end.
    pub fn time_at(&self, col: u16, width: u16) -> Duration {
        let bar = self.bar(width);
        if col < bar.start {
            return Duration::ZERO;
        }
        if col >= bar.end {
            return self.of;
        }
        let (col, cols) = (col - bar.start, bar.end - bar.start);
        if let Some(snapshot) = self.snapshot_in(col, cols) {
            return snapshot.at;
        }
        let last = u32::from(cols - 1).max(1);
        (self.of / last).saturating_mul(col.into()).min(self.of)
    }

    /// The id of the snapshot that is marked at a column of its row.
    pub fn snapshot_at(&self, col: u16, width: u16) -> Option<u64> {
        let bar = self.bar(width);
        let col = bar.contains(&col).then(|| col - bar.start)?;
        self.snapshot_in(col, bar.end - bar.start).map(|snapshot| snapshot.id)
    }

    /// Draws it into one row.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let bar = self.bar(area.width);
        let (dim, plain) = (Style::new().add_modifier(Modifier::DIM), Style::new());
        if bar.start > 0 {
            let end = clock(self.of);
            buffer.set_stringn(area.x, area.y, clock(self.at), bar.start.into(), plain);
            let x = area.right() - columns(&end);
            buffer.set_stringn(x, area.y, &end, end.len(), dim);
        }
        let cols = bar.end - bar.start;
        let here = self.col_of(self.at, cols);
        for col in 0..cols {
            let snapshot = self.snapshot_in(col, cols).is_some();
            let (sign, style) = match (col.cmp(&here), snapshot) {
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

    /// The columns of the bar in a row of `width`: what the two times leave, all where that is little.
    fn bar(&self, width: u16) -> Range<u16> {
        // As wide as the longest, so that the bar stays while it plays.
        let side = columns(&clock(self.of)) + 1;
        if width >= 2 * side + BAR { side..width - side } else { 0..width }
    }

    /// The column of the bar, of `cols`, at which a moment is.
    fn col_of(&self, time: Duration, cols: u16) -> u16 {
        let last = u128::from(cols.max(1) - 1);
        let of = self.of.as_nanos().max(1);
        let col = (time.min(self.of).as_nanos() * last + of / 2) / of;
        u16::try_from(col).unwrap_or(0)
    }

    /// The first snapshot whose mark is in this column.
    fn snapshot_in(&self, col: u16, cols: u16) -> Option<SnapshotMark> {
        let first = self.snapshots.partition_point(|taken| self.col_of(taken.at, cols) < col);
        self.snapshots.get(first).copied().filter(|taken| self.col_of(taken.at, cols) == col)
    }

    /// Nothing was written at the moment in this column's middle.
    fn is_idle(&self, col: u16, cols: u16) -> bool {
        let time = self.of.mul_f64(f64::from(col) / f64::from(cols.max(2) - 1));
        let first = self.idle.partition_point(|idle| idle.end <= time);
        self.idle.get(first).is_some_and(|idle| idle.contains(&time))
    }
}

/// A time as people read it: `4:05`, `1:00:00`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Of a time's text: all of it is ASCII.
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
            of: seconds(100),
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
    fn place_snapshots_idle_stretches_and_times() {
        assert_eq!(drawn(&timeline(), 31), "0:30 ━━▶┅┅━●─────▶─┈┈┈┈┈── 1:40");
        assert_eq!(drawn(&timeline(), 11), "━▶┅●──▶┈┈┈─");
        assert_eq!(drawn(&Timeline { at: seconds(60), ..timeline() }, 11), "━▶┅━━━◆┈┈┈─");
    }

    #[test]
    fn a_column_is_the_moment_that_is_drawn_in_it() {
        for width in 1..200 {
            let mut timeline = Timeline { snapshots: Vec::new(), ..timeline() };
            let mut before = Duration::ZERO;
            for col in 0..width {
                let time = timeline.time_at(col, width);
                assert!(before <= time && time <= timeline.of, "{col} of {width}: {time:?}");
                before = time;
                timeline.at = time;
                let bar = timeline.bar(width);
                let text = drawn(&timeline, width);
                let at = text.chars().position(|sign| sign == '●').unwrap();
                assert_eq!(at, usize::from(col.clamp(bar.start, bar.end - 1)), "{width}: {text}");
            }
            let bar = timeline.bar(width);
            assert!(bar.len() == 1 || timeline.time_at(bar.end - 1, width) + seconds(1) > timeline.of);
        }
    }

    #[test]
    fn a_click_on_a_mark_leads_to_its_snapshot() {
        let text = drawn(&timeline(), 31);
        let marks = text.chars().zip(0..).filter(|(sign, _)| *sign == '▶').map(|(_, col)| col);
        let marked: Vec<_> =
            marks.map(|col| (timeline().time_at(col, 31), timeline().snapshot_at(col, 31))).collect();
        assert_eq!(marked, [(seconds(10), Some(4)), (seconds(60), Some(7))]);
        assert_eq!([0, 5, 9, 30].map(|col| timeline().snapshot_at(col, 31)), [None; 4]);
        assert_eq!((timeline().time_at(0, 31), timeline().time_at(30, 31)), (seconds(0), seconds(100)));
    }

    #[test]
    fn a_recording_without_length_is_a_bar_too() {
        let none = Timeline::default();
        assert_eq!(drawn(&none, 20), "0:00 ●───────── 0:00");
        assert_eq!(none.time_at(9, 20), Duration::ZERO);
    }

    #[test]
    fn times_as_people_read_them() {
        assert_eq!([5, 65, 3_605].map(|time| clock(seconds(time))), ["0:05", "1:05", "1:00:05"]);
    }
}
