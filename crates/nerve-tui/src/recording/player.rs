//! Plays a recording in real time. `nerve replay` and the viewer of recordings use the same player.

use std::time::{Duration, Instant};

use nerve_record::ahr::{AhrError, Body, Record};
use nerve_record::index::Position;
use nerve_record::playback::Playback;
use nerve_types::TsNs;
use nerve_vt::terminal::TerminalState;

/// Maximum time for applying records before a frame is drawn.
const MAX_FRAME_TIME: Duration = Duration::from_millis(30);
/// Longest wait for a record.
const MAX_WAIT: Duration = Duration::from_secs(u32::MAX as u64);

/// Maps recorded time to playback time.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Playback speed factor.
    pub speed: f64,
    /// Limit for pauses, in recorded time.
    pub idle: Option<Duration>,
}

impl Pace {
    /// Returns the time to wait between two recorded times.
    fn wait(&self, from: TsNs, to: TsNs) -> Duration {
        let gap = to.since(from);
        let gap = self.idle.map_or(gap, |idle| gap.min(idle));
        Duration::try_from_secs_f64(gap.as_secs_f64() / self.speed).unwrap_or(MAX_WAIT).min(MAX_WAIT)
    }
}

/// A moment to seek to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeekTarget {
    pub(super) time: TsNs,
    /// Output offset in bytes, if known. The time alone is ambiguous where the clock stepped back.
    pub(super) offset: Option<u64>,
}

/// A moment of a recording, playing or paused.
#[derive(Debug)]
pub struct Player {
    playback: Playback,
    pace: Pace,
    /// Recorded time reached so far.
    clock: TsNs,
    is_playing: bool,
    /// Time at which the next record is due, ignoring a pause.
    due: Instant,
}

impl Player {
    /// Starts to play at the position of `playback`, whose recording begins at `start`.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn new(playback: Playback, start: TsNs, pace: Pace) -> Result<Player, AhrError> {
        let clock = playback.replay().clock().max(start);
        let mut player = Player { playback, pace, clock, is_playing: true, due: Instant::now() };
        player.schedule()?;
        Ok(player)
    }

    /// Returns the recording and its terminal at the moment.
    pub fn playback(&self) -> &Playback {
        &self.playback
    }

    /// Returns the terminal at the moment.
    pub fn terminal(&self) -> &TerminalState {
        &self.playback.replay().terminal
    }

    /// Returns the recorded time of the moment.
    pub(super) fn clock(&self) -> TsNs {
        self.clock
    }

    /// Returns true unless playback is paused.
    pub(crate) fn is_playing(&self) -> bool {
        self.is_playing
    }

    /// Returns true if no record is left.
    ///
    /// # Errors
    /// As [`Player::new`].
    pub fn is_at_end(&mut self) -> Result<bool, AhrError> {
        Ok(self.next()?.is_none())
    }

    /// Returns when [`Player::advance`] should be called; `None` while paused.
    pub fn due(&self) -> Option<Instant> {
        self.is_playing.then_some(self.due)
    }

    /// Plays or pauses.
    pub(super) fn set_playing(&mut self, is_playing: bool) -> Result<(), AhrError> {
        self.is_playing = is_playing;
        self.schedule()
    }

    /// Changes the pace.
    pub(super) fn set_pace(&mut self, pace: Pace) -> Result<(), AhrError> {
        self.pace = pace;
        self.schedule()
    }

    /// Applies the records that are due, for one frame at most, and passes them to `on_record`. Returns false at the
    /// end.
    ///
    /// # Errors
    /// As [`Player::new`].
    pub fn advance(&mut self, mut on_record: impl FnMut(&Record<'_>)) -> Result<bool, AhrError> {
        let begun = Instant::now();
        while let Some(next) = self.next()? {
            self.apply_to(next, &mut on_record)?;
            let Some(after) = self.next()? else { break };
            self.due += self.pace.wait(self.clock, after);
            if self.due > begun || begun.elapsed() > MAX_FRAME_TIME {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Pauses, and applies records up to and including the next output.
    pub(super) fn step(&mut self) -> Result<(), AhrError> {
        self.is_playing = false;
        let mut has_output = false;
        let is_wanted = |record: &Record<'_>| {
            let is_first = !has_output;
            has_output |= matches!(record.body, Body::Data { .. });
            is_first
        };
        self.playback.play(is_wanted, |_| {})?;
        self.clock = self.clock.max(self.playback.replay().clock());
        Ok(())
    }

    /// Goes to a moment. This needs the recording's index.
    pub(super) fn seek(&mut self, target: SeekTarget) -> Result<(), AhrError> {
        let SeekTarget { time, offset } = target;
        self.playback.seek(Position::Time(time))?;
        if let Some(offset) = offset.filter(|offset| self.terminal().offset() > *offset) {
            self.playback.seek(Position::Offset(offset))?;
        }
        self.clock = time;
        self.schedule()
    }

    /// Goes forward to a time. Unlike [`Player::seek`] this needs no index.
    pub(super) fn play_to(&mut self, time: TsNs) -> Result<(), AhrError> {
        self.apply_to(time, |_| {})?;
        self.schedule()
    }

    /// Shows the last frame even if the program has not completed it.
    pub(super) fn finish(&mut self) {
        self.playback.replay_mut().terminal.expire_frame(TsNs(u64::MAX));
    }

    /// Returns the recorded time of the next record, or of the timeout of an open synchronized update.
    fn next(&mut self) -> Result<Option<TsNs>, AhrError> {
        let record = self.playback.next_at()?;
        let frame = self.terminal().frame_deadline();
        Ok(record.map(|record| frame.map_or(record, |frame| record.min(frame.max(self.clock)))))
    }

    /// Applies the records up to a time.
    fn apply_to(&mut self, time: TsNs, on_record: impl FnMut(&Record<'_>)) -> Result<(), AhrError> {
        self.playback.play(|record| record.at <= time, on_record)?;
        self.playback.replay_mut().wait_until(time);
        self.clock = self.clock.max(time);
        Ok(())
    }

    /// Schedules the next record relative to now.
    fn schedule(&mut self) -> Result<(), AhrError> {
        let next = self.next()?.unwrap_or(self.clock);
        self.due = Instant::now() + self.pace.wait(self.clock, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_limit_applies_before_speed() {
        let at = |seconds: u64| TsNs(seconds * 1_000_000_000);
        let pace = Pace { speed: 2.0, idle: Some(Duration::from_secs(3)) };
        assert_eq!(pace.wait(at(1), at(3)), Duration::from_secs(1));
        assert_eq!(pace.wait(at(1), at(100)), Duration::from_millis(1500));
        assert_eq!(pace.wait(at(5), at(1)), Duration::ZERO, "the clock stepped back");
        let slow = Pace { speed: 0.5, idle: None };
        assert_eq!(slow.wait(at(0), at(3)), Duration::from_secs(6));
    }
}
