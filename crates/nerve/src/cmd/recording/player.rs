//! A moment of a recording, paused or playing.

use nerve_record::ahr::AhrError;
use nerve_record::index::Position;
use nerve_record::playback::Playback;
use nerve_types::TsNs;
use tokio::time::Instant;

use super::super::super::replay::Pace;

/// A moment to seek to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeekTarget {
    pub(super) time: TsNs,
    /// Output offset in bytes, if known. The time alone is ambiguous where the clock stepped back.
    pub(super) offset: Option<u64>,
}

/// The moment that is shown.
pub(super) struct Playhead {
    pub(super) play: Playback,
    pub(super) clock: TsNs,
    pub(super) is_playing: bool,
    /// Time of the next record.
    pub(super) due: Instant,
}

impl Playhead {
    /// Schedules the next record, counted from `from`. Returns false at the end.
    pub(super) fn schedule(&mut self, from: Instant, pace: Pace) -> Result<bool, AhrError> {
        let next = self.play.next_at()?;
        let wait = pace.wait(self.clock, next.unwrap_or(self.clock).max(self.clock));
        self.due = from.checked_add(wait).unwrap_or(from);
        Ok(next.is_some())
    }

    /// Applies all records up to a time.
    pub(super) fn reach(&mut self, time: TsNs) -> Result<(), AhrError> {
        self.play.play(|record| record.at <= time, |_| {})?;
        self.play.replay_mut().wait_until(time);
        self.clock = self.clock.max(time);
        Ok(())
    }

    /// Seeks. With `is_start` no index is needed.
    pub(super) fn go_to(&mut self, target: SeekTarget, is_start: bool) -> Result<(), AhrError> {
        let SeekTarget { time, offset } = target;
        if is_start {
            self.reach(time)?;
        } else {
            self.play.seek(Position::Time(time))?;
        }
        let too_far = |offset: &u64| self.play.replay().terminal.offset() > *offset;
        if let Some(offset) = offset.filter(too_far) {
            self.play.seek(Position::Offset(offset))?;
        }
        self.clock = time;
        Ok(())
    }
}
