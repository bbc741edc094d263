//! A recording at its end or at any moment, paused or playing.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_record::ahr::{AhrError, Contradiction, DamagedRange};
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::library::{RecordingInfo, is_live};
use nerve_record::playback::Playback;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;
use tokio::sync::oneshot;

use super::loader::{self, LoadedRecording, MAX_IDLE, TimelineMarks};
use super::player::{Pace, Player, SeekTarget};
use crate::view::timeline::Timeline;

/// Slowest and fastest playback speed.
const SPEEDS: (f64, f64) = (0.25, 64.0);

/// A recording with its playback state.
pub struct RecordingView {
    path: PathBuf,
    size: Size,
    start: TsNs,
    end: TsNs,
    /// The end: at first only the last screens, later all lines.
    end_playback: Playback,
    loader: Option<oneshot::Receiver<Result<LoadedRecording, AhrError>>>,
    /// Seeking is possible.
    is_indexed: bool,
    /// Target of a seek that waits for the index.
    pending_seek: Option<SeekTarget>,
    marks: TimelineMarks,
    /// The moment shown, if it is not the end.
    player: Option<Player>,
    speed: f64,
    live: bool,
}

impl RecordingView {
    /// Opens a recording and starts to read all of it in the background. `size` applies until the first resize
    /// record.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn open(path: &Path, size: Size) -> Result<RecordingView, AhrError> {
        let start = Playback::open(path, size)?.next_at()?.unwrap_or_default();
        let is_indexed = Index::is_ready(path);
        let mut end_playback = if is_indexed {
            let mut play = Playback::open(path, size)?;
            play.seek(Position::Time(TsNs(u64::MAX)))?;
            play
        } else {
            // Without an index only the end is read; building the index takes as long as reading everything.
            let mut play = Playback::open_near_end(path, size, SPACING)?;
            play.play(|_| true, |_| {})?;
            play
        };
        end_playback.replay_mut().terminal.expire_frame(TsNs(u64::MAX));
        let duration = RecordingInfo::read(path).ok().and_then(|info| info.duration);
        let end = duration
            .map_or(end_playback.replay().clock(), |duration| start + duration)
            .max(end_playback.replay().clock().max(start));
        Ok(RecordingView {
            path: path.to_path_buf(),
            size,
            start,
            end,
            end_playback,
            loader: Some(loader::begin(path, size, end)),
            is_indexed,
            pending_seek: None,
            marks: TimelineMarks::default(),
            player: None,
            speed: 1.0,
            live: is_live(path),
        })
    }

    /// Resolves when all lines are loaded; pending if they are already. Returns by how much the line numbers have
    /// grown, since earlier lines may have been unknown.
    pub(super) async fn loaded(&mut self) -> Result<i64, AhrError> {
        let Some(loader) = &mut self.loader else { return std::future::pending().await };
        let result = loader.await;
        self.loader = None;
        let shows_end = !std::mem::replace(&mut self.is_indexed, true) && self.player.is_none();
        let before = self.end_playback.replay().terminal.line_count();
        match result {
            Ok(recording) => {
                let LoadedRecording { play, marks } = recording?;
                (self.end_playback, self.marks) = (play, marks);
            }
            Err(_) => tracing::warn!("the reader of the recording failed: only its end is shown"),
        }
        if let Some(target) = self.pending_seek.take() {
            self.go_to(target)?;
        }
        let after = self.end_playback.replay().terminal.line_count();
        Ok(if shows_end { after.cast_signed() - before.cast_signed() } else { 0 })
    }

    /// Returns true if all lines are loaded.
    pub(super) fn is_loaded(&self) -> bool {
        self.loader.is_none()
    }

    pub(super) fn terminal(&self) -> &TerminalState {
        self.player.as_ref().map_or(&self.end_playback.replay().terminal, Player::terminal)
    }

    /// Returns the end, while another moment is shown.
    pub(super) fn end(&self) -> Option<&TerminalState> {
        self.player.as_ref().map(|_| &self.end_playback.replay().terminal)
    }

    /// Returns the unreadable parts.
    pub fn lost(&self) -> &[DamagedRange] {
        self.end_playback.lost()
    }

    /// Returns the contradictions in the parts that were read.
    pub fn contradictions(&self) -> impl Iterator<Item = &Contradiction> {
        self.end_playback.contradictions()
    }

    /// Returns the start time.
    pub(super) fn begin(&self) -> TsNs {
        self.start
    }

    /// Returns the time shown and the duration.
    pub(super) fn time(&self) -> Option<(Duration, Duration)> {
        let at = self.player.as_ref().map_or(self.end, Player::clock);
        Some((at.since(self.start), self.end.since(self.start)))
    }

    /// Returns the timeline; snapshots and pauses are known once everything was read.
    pub(super) fn timeline(&self) -> Option<Timeline> {
        let (at, duration) = self.time()?;
        let TimelineMarks { snapshots, idle, .. } = self.marks.clone();
        Some(Timeline { at, duration, snapshots, idle })
    }

    /// Returns the playback speed; `None` while paused.
    pub(super) fn speed(&self) -> Option<f64> {
        self.player.as_ref().filter(|player| player.is_playing()).map(|_| self.speed)
    }

    pub(super) fn fault(&self) -> Option<String> {
        if !self.end_playback.lost().is_empty() {
            return Some("parts of the recording are lost: see 'nerve recording inspect'".to_string());
        }
        if self.live {
            return Some("still being recorded: this is what there was when it was opened".to_string());
        }
        let reading = match (&self.loader, self.is_indexed, self.pending_seek) {
            (None, _, _) => return None,
            (Some(_), true, _) => "loading earlier lines …",
            (Some(_), false, None) => "loading earlier output: only the end is shown …",
            (Some(_), false, Some(_)) => "loading earlier output before seeking …",
        };
        Some(reading.to_string())
    }

    // ---- Playback ----

    /// Returns when the next record is due; `None` while paused.
    pub(super) fn due(&self) -> Option<Instant> {
        self.player.as_ref().and_then(Player::due)
    }

    /// Applies the records that are due, for one frame at most. At the end it pauses.
    pub(super) fn advance(&mut self) -> Result<(), AhrError> {
        if let Some(player) = &mut self.player
            && !player.advance(|_| {})?
        {
            self.player = None;
        }
        Ok(())
    }

    /// Starts or pauses playback. At the end it starts from the beginning.
    pub(super) fn toggle_play(&mut self) -> Result<(), AhrError> {
        match &mut self.player {
            Some(player) => player.set_playing(!player.is_playing()),
            None => {
                self.go_to(SeekTarget { time: self.start, offset: None })?;
                self.player.as_mut().map_or(Ok(()), |player| player.set_playing(true))
            }
        }
    }

    /// Seeks by seconds; backwards if negative.
    pub(super) fn skip(&mut self, seconds: i64) -> Result<(), AhrError> {
        let at = self.pending_seek.map(|target| target.time).or(self.player.as_ref().map(Player::clock));
        let at = at.unwrap_or(self.end);
        let nanoseconds = seconds.saturating_mul(1_000_000_000);
        let to = TsNs(at.0.saturating_add_signed(nanoseconds)).max(self.start);
        self.seek(to.since(self.start))
    }

    /// Seeks to a time since the start, and pauses. Waits for the index if there is none yet.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn seek(&mut self, to: Duration) -> Result<(), AhrError> {
        let to = self.start + to;
        if to >= self.end {
            self.go_to_end();
            return Ok(());
        }
        self.go_to(SeekTarget { time: to, offset: None })
    }

    /// Shows the end.
    pub(super) fn go_to_end(&mut self) {
        (self.player, self.pending_seek) = (None, None);
    }

    /// Seeks to a snapshot and pauses. Unknown ids are ignored.
    pub(super) fn seek_snapshot(&mut self, id: u64) -> Result<(), AhrError> {
        let terminal = &self.end_playback.replay().terminal;
        let Some((_, taken)) = terminal.snapshots_by_line().find(|(_, snapshot)| snapshot.id == id) else {
            return Ok(());
        };
        let marked = self.marks.snapshots.iter().find(|marked| marked.id == id);
        let time = marked.map_or(taken.at, |marked| self.start + marked.at).clamp(self.start, self.end);
        if taken.offset >= terminal.offset() {
            self.go_to_end();
            return Ok(());
        }
        self.go_to(SeekTarget { time, offset: Some(taken.offset) })?;
        self.player.as_mut().map_or(Ok(()), |player| player.set_playing(false))
    }

    pub(super) fn change_speed(&mut self, faster: bool) -> Result<(), AhrError> {
        let (slowest, fastest) = SPEEDS;
        self.speed = (if faster { self.speed * 2.0 } else { self.speed / 2.0 }).clamp(slowest, fastest);
        let pace = self.pace();
        self.player.as_mut().map_or(Ok(()), |player| player.set_pace(pace))
    }

    fn go_to(&mut self, target: SeekTarget) -> Result<(), AhrError> {
        let is_start = target.time <= self.start;
        if !is_start && !self.is_indexed {
            self.pending_seek = Some(target);
            return Ok(());
        }
        self.pending_seek = None;
        let mut player = match self.player.take() {
            Some(player) if !is_start => player,
            old => {
                let mut player =
                    Player::new(Playback::open(&self.path, self.size)?, self.start, self.pace())?;
                player.set_playing(old.is_some_and(|player| player.is_playing()))?;
                player
            }
        };
        // The start needs no index.
        match is_start {
            true => player.play_to(target.time)?,
            false => player.seek(target)?,
        }
        self.player = Some(player);
        Ok(())
    }

    fn pace(&self) -> Pace {
        Pace { speed: self.speed, idle: Some(MAX_IDLE) }
    }
}

#[cfg(test)]
mod tests;
