//! The recording in the viewer: its end, with all lines as soon as they are read, or any moment of it, standing or playing.

mod playhead;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{AhrError, Lost};
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::library::{RecordingInfo, is_live};
use nerve_record::meta::Meta;
use nerve_record::playback::Playback;
use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::TerminalState;
use nerve_view::timeline::Timeline;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::playhead::{Playhead, SeekTarget};
use super::super::replay::Pace;
use super::super::size;
use super::loader::{self, LoadedRecording, TimelineMarks};

/// The longest time in which nothing happens while it plays.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(2);
/// How long records are applied before what they have made is shown, however fast it goes.
const MAX_FRAME_TIME: Duration = Duration::from_millis(30);
/// Slowest and fastest.
const SPEEDS: (f64, f64) = (0.25, 64.0);

/// A recording.
pub(super) struct RecordingView {
    path: PathBuf,
    size: Size,
    start: TsNs,
    end: TsNs,
    /// Its end: at first the last screens only, then with all lines.
    end_playback: Playback,
    loader: Option<oneshot::Receiver<Result<LoadedRecording, AhrError>>>,
    /// Moments can be gone to at once.
    is_indexed: bool,
    /// A moment to go to as soon as they can be.
    pending_seek: Option<SeekTarget>,
    marks: TimelineMarks,
    /// A moment before the end, if one is looked at.
    playhead: Option<Playhead>,
    speed: f64,
    live: bool,
}

impl RecordingView {
    /// Opens it and begins to read all of it on a thread of its own. Must be called before a runtime is entered or within one.
    pub(super) fn open(path: &Path, meta: &Meta) -> Result<RecordingView, AhrError> {
        let size = size(meta);
        let start = Playback::open(path, size)?.next_at()?.unwrap_or_default();
        let is_indexed = Index::is_ready(path);
        let mut end_playback = if is_indexed {
            let mut play = Playback::open(path, size)?;
            play.seek(Position::Time(TsNs(u64::MAX)))?;
            play
        } else {
            // Making the index would take as long as reading all of it: for now, what can be told from the end alone.
            let mut play = Playback::open_near_end(path, size, SPACING)?;
            play.play(|_| true, |_| {})?;
            play
        };
        end_playback.replay_mut().terminal.expire_frame(TsNs(u64::MAX));
        let shown = RecordingInfo::read(path).ok().and_then(|info| info.duration);
        let end = shown
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
            playhead: None,
            speed: 1.0,
            live: is_live(path),
        })
    }

    /// Ends when all lines are there; never if they are already. Says by how much the numbers of the lines at the end have grown: what was
    /// before them may not have been known.
    pub(super) async fn loaded(&mut self) -> Result<i64, AhrError> {
        let Some(whole) = &mut self.loader else { return std::future::pending().await };
        let read = whole.await;
        self.loader = None;
        let is_seen = !std::mem::replace(&mut self.is_indexed, true) && self.playhead.is_none();
        let before = self.end_playback.replay().terminal.line_count();
        match read {
            Ok(read) => {
                let LoadedRecording { play, marks } = read?;
                (self.end_playback, self.marks) = (play, marks);
            }
            Err(_) => tracing::warn!("the reader of the recording failed: only its end is shown"),
        }
        if let Some(target) = self.pending_seek.take() {
            self.go_to(target)?;
        }
        let after = self.end_playback.replay().terminal.line_count();
        Ok(if is_seen { after.cast_signed() - before.cast_signed() } else { 0 })
    }

    /// All lines are there.
    pub(super) fn is_loaded(&self) -> bool {
        self.loader.is_none()
    }

    pub(super) fn terminal(&self) -> &TerminalState {
        &self.playhead.as_ref().map_or(&self.end_playback, |playhead| &playhead.play).replay().terminal
    }

    /// Its end, while another moment is shown.
    pub(super) fn end(&self) -> Option<&TerminalState> {
        self.playhead.as_ref().map(|_| &self.end_playback.replay().terminal)
    }

    /// Stretches that could not be read.
    pub(super) fn lost(&self) -> &[Lost] {
        self.end_playback.lost()
    }

    /// When it began.
    pub(super) fn begin(&self) -> TsNs {
        self.start
    }

    /// The time that is shown, and how long it is.
    pub(super) fn time(&self) -> Option<(Duration, Duration)> {
        let at = self.playhead.as_ref().map_or(self.end, |playhead| playhead.clock);
        Some((at.since(self.start), self.end.since(self.start)))
    }

    /// The same, with what there is to be found in it as soon as all of it is read.
    pub(super) fn timeline(&self) -> Option<Timeline> {
        let (at, of) = self.time()?;
        let TimelineMarks { snapshots, idle, .. } = self.marks.clone();
        Some(Timeline { at, of, snapshots, idle })
    }

    /// How fast it plays.
    pub(super) fn speed(&self) -> Option<f64> {
        self.playhead.as_ref().filter(|playhead| playhead.is_playing).map(|_| self.speed)
    }

    pub(super) fn fault(&self) -> Option<String> {
        if !self.end_playback.lost().is_empty() {
            return Some("parts of the recording are lost: see 'nerve inspect'".to_string());
        }
        if self.live {
            return Some("still being recorded: this is what there was when it was opened".to_string());
        }
        let reading = match (&self.loader, self.is_indexed, self.pending_seek) {
            (None, _, _) => return None,
            (Some(_), true, _) => "reading the lines before …",
            (Some(_), false, None) => "reading all of it: this is what its end alone tells …",
            (Some(_), false, Some(_)) => "reading all of it: that moment is shown then …",
        };
        Some(reading.to_string())
    }

    // ---- Time ----

    /// When something is due; `None` if nothing is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.playhead.as_ref().filter(|playhead| playhead.is_playing).map(|playhead| playhead.due)
    }

    /// Shows what is due, for the length of a frame at most. At the end it stops.
    pub(super) fn advance(&mut self) -> Result<(), AhrError> {
        let (pace, begun) = (self.pace(), Instant::now());
        let Some(playhead) = &mut self.playhead else { return Ok(()) };
        while let Some(next) = playhead.play.next_at()? {
            playhead.reach(next)?;
            if !playhead.schedule(playhead.due, pace)?
                || playhead.due > begun
                || begun.elapsed() > MAX_FRAME_TIME
            {
                return Ok(());
            }
        }
        self.playhead = None;
        Ok(())
    }

    /// From the start if the end is shown.
    pub(super) fn toggle_play(&mut self) -> Result<(), AhrError> {
        match &mut self.playhead {
            Some(playhead) => playhead.is_playing = !playhead.is_playing,
            None => {
                self.go_to(SeekTarget { time: self.start, offset: None })?;
                self.playhead.iter_mut().for_each(|playhead| playhead.is_playing = true);
            }
        }
        self.schedule()
    }

    /// So many seconds on; back, if negative.
    pub(super) fn skip(&mut self, seconds: i64) -> Result<(), AhrError> {
        let at = self
            .pending_seek
            .map(|target| target.time)
            .or(self.playhead.as_ref().map(|playhead| playhead.clock));
        let at = at.unwrap_or(self.end);
        let nanoseconds = seconds.saturating_mul(1_000_000_000);
        let to = TsNs(at.0.saturating_add_signed(nanoseconds)).max(self.start);
        self.seek(to.since(self.start))
    }

    /// To a moment, counted from the begin.
    pub(super) fn seek(&mut self, to: Duration) -> Result<(), AhrError> {
        let to = self.start + to;
        if to >= self.end {
            self.go_to_end();
            return Ok(());
        }
        self.go_to(SeekTarget { time: to, offset: None })
    }

    /// To its end.
    pub(super) fn go_to_end(&mut self) {
        (self.playhead, self.pending_seek) = (None, None);
    }

    /// To the moment at which the snapshot with this id was taken, and stands there. Of one that is not known nothing can be shown.
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
        self.playhead.iter_mut().for_each(|playhead| playhead.is_playing = false);
        Ok(())
    }

    pub(super) fn change_speed(&mut self, faster: bool) -> Result<(), AhrError> {
        let (slowest, fastest) = SPEEDS;
        self.speed = (if faster { self.speed * 2.0 } else { self.speed / 2.0 }).clamp(slowest, fastest);
        self.schedule()
    }

    fn go_to(&mut self, target: SeekTarget) -> Result<(), AhrError> {
        let is_start = target.time <= self.start;
        if !is_start && !self.is_indexed {
            self.pending_seek = Some(target);
            return Ok(());
        }
        self.pending_seek = None;
        let mut playhead = match self.playhead.take() {
            Some(playhead) if !is_start => playhead,
            old => Playhead {
                play: Playback::open(&self.path, self.size)?,
                clock: target.time,
                is_playing: old.is_some_and(|playhead| playhead.is_playing),
                due: Instant::now(),
            },
        };
        playhead.go_to(target, is_start)?;
        self.playhead = Some(playhead);
        self.schedule()
    }

    /// What is next is due so long from now.
    fn schedule(&mut self) -> Result<(), AhrError> {
        let pace = self.pace();
        match &mut self.playhead {
            Some(playhead) => playhead.schedule(Instant::now(), pace).map(drop),
            None => Ok(()),
        }
    }

    fn pace(&self) -> Pace {
        Pace { speed: self.speed, idle: Some(MAX_IDLE) }
    }
}

#[cfg(test)]
mod tests;
