//! The recording in the viewer: its end, with all lines as soon as they are read, or any moment of it, standing or playing.

mod playhead;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{AhrError, Lost};
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::meta::Meta;
use nerve_record::playback::Playback;
use nerve_record::shelf::{Shelved, is_live};
use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::TerminalState;
use nerve_view::timeline::Timeline;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::playhead::{Goal, Moment};
use super::super::replay::Pace;
use super::super::size;
use super::loader::{self, Marks, Whole};

/// The longest time in which nothing happens while it plays.
pub(super) const IDLE: Duration = Duration::from_secs(2);
/// How long records are applied before what they have made is shown, however fast it goes.
const FRAME: Duration = Duration::from_millis(30);
/// Slowest and fastest.
const SPEEDS: (f64, f64) = (0.25, 64.0);

/// A recording.
pub(super) struct Film {
    path: PathBuf,
    size: Size,
    start: TsNs,
    end: TsNs,
    /// Its end: at first the last screens only, then with all lines.
    last: Playback,
    whole: Option<oneshot::Receiver<Result<Whole, AhrError>>>,
    /// Moments can be gone to at once.
    is_indexed: bool,
    /// A moment to go to as soon as they can be.
    wanted: Option<Goal>,
    marks: Marks,
    /// A moment before the end, if one is looked at.
    moment: Option<Moment>,
    speed: f64,
    live: bool,
}

impl Film {
    /// Opens it and begins to read all of it on a thread of its own. Must be called before a runtime is entered or within one.
    pub(super) fn open(path: &Path, meta: &Meta) -> Result<Film, AhrError> {
        let size = size(meta);
        let start = Playback::open(path, size)?.next_at()?.unwrap_or_default();
        let is_indexed = Index::is_ready(path);
        let mut last = if is_indexed {
            let mut play = Playback::open(path, size)?;
            play.seek(Position::Time(TsNs(u64::MAX)))?;
            play
        } else {
            // Making the index would take as long as reading all of it: for now, what can be told from the end alone.
            let mut play = Playback::open_near_end(path, size, SPACING)?;
            play.play(|_| true, |_| {})?;
            play
        };
        last.fold_mut().terminal.expire_frame(TsNs(u64::MAX));
        let shown = Shelved::look(path).ok().and_then(|shelved| shelved.duration);
        let end = shown
            .map_or(last.fold().clock(), |duration| start + duration)
            .max(last.fold().clock().max(start));
        Ok(Film {
            path: path.to_path_buf(),
            size,
            start,
            end,
            last,
            whole: Some(loader::begin(path, size, end)),
            is_indexed,
            wanted: None,
            marks: Marks::default(),
            moment: None,
            speed: 1.0,
            live: is_live(path),
        })
    }

    /// Ends when all lines are there; never if they are already. Says by how much the numbers of the lines at the end have grown: what was
    /// before them may not have been known.
    pub(super) async fn is_whole(&mut self) -> Result<i64, AhrError> {
        let Some(whole) = &mut self.whole else { return std::future::pending().await };
        let read = whole.await;
        self.whole = None;
        let is_seen = !std::mem::replace(&mut self.is_indexed, true) && self.moment.is_none();
        let before = self.last.fold().terminal.line_count();
        match read {
            Ok(read) => {
                let Whole { play, marks } = read?;
                (self.last, self.marks) = (play, marks);
            }
            Err(_) => tracing::warn!("the reader of the recording failed: only its end is shown"),
        }
        if let Some(goal) = self.wanted.take() {
            self.go_to(goal)?;
        }
        let after = self.last.fold().terminal.line_count();
        Ok(if is_seen { after.cast_signed() - before.cast_signed() } else { 0 })
    }

    /// All lines are there.
    pub(super) fn is_read(&self) -> bool {
        self.whole.is_none()
    }

    pub(super) fn terminal(&self) -> &TerminalState {
        &self.moment.as_ref().map_or(&self.last, |moment| &moment.play).fold().terminal
    }

    /// Its end, while another moment is shown.
    pub(super) fn end(&self) -> Option<&TerminalState> {
        self.moment.as_ref().map(|_| &self.last.fold().terminal)
    }

    /// Stretches that could not be read.
    pub(super) fn lost(&self) -> &[Lost] {
        self.last.lost()
    }

    /// When it began.
    pub(super) fn begin(&self) -> TsNs {
        self.start
    }

    /// The time that is shown, and how long it is.
    pub(super) fn time(&self) -> Option<(Duration, Duration)> {
        let at = self.moment.as_ref().map_or(self.end, |moment| moment.clock);
        Some((at.since(self.start), self.end.since(self.start)))
    }

    /// The same, with what there is to be found in it as soon as all of it is read.
    pub(super) fn timeline(&self) -> Option<Timeline> {
        let (at, of) = self.time()?;
        let Marks { snapshots, idle, .. } = self.marks.clone();
        Some(Timeline { at, of, snapshots, idle })
    }

    /// How fast it plays.
    pub(super) fn speed(&self) -> Option<f64> {
        self.moment.as_ref().filter(|moment| moment.plays).map(|_| self.speed)
    }

    pub(super) fn fault(&self) -> Option<String> {
        if !self.last.lost().is_empty() {
            return Some("parts of the recording are lost: see 'nerve inspect'".to_string());
        }
        if self.live {
            return Some("still being recorded: this is what there was when it was opened".to_string());
        }
        let reading = match (&self.whole, self.is_indexed, self.wanted) {
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
        self.moment.as_ref().filter(|moment| moment.plays).map(|moment| moment.due)
    }

    /// Shows what is due, for the length of a frame at most. At the end it stops.
    pub(super) fn advance(&mut self) -> Result<(), AhrError> {
        let (pace, begun) = (self.pace(), Instant::now());
        let Some(moment) = &mut self.moment else { return Ok(()) };
        while let Some(next) = moment.play.next_at()? {
            moment.reach(next)?;
            if !moment.plan(moment.due, pace)? || moment.due > begun || begun.elapsed() > FRAME {
                return Ok(());
            }
        }
        self.moment = None;
        Ok(())
    }

    /// From the start if the end is shown.
    pub(super) fn play_or_stop(&mut self) -> Result<(), AhrError> {
        match &mut self.moment {
            Some(moment) => moment.plays = !moment.plays,
            None => {
                self.go_to(Goal { time: self.start, offset: None })?;
                self.moment.iter_mut().for_each(|moment| moment.plays = true);
            }
        }
        self.plan()
    }

    /// So many seconds on; back, if negative.
    pub(super) fn skip(&mut self, seconds: i64) -> Result<(), AhrError> {
        let at = self.wanted.map(|goal| goal.time).or(self.moment.as_ref().map(|moment| moment.clock));
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
        self.go_to(Goal { time: to, offset: None })
    }

    /// To its end.
    pub(super) fn go_to_end(&mut self) {
        (self.moment, self.wanted) = (None, None);
    }

    /// To the moment at which the snapshot with this id was taken, and stands there. Of one that is not known nothing can be shown.
    pub(super) fn visit(&mut self, id: u64) -> Result<(), AhrError> {
        let terminal = &self.last.fold().terminal;
        let Some((_, taken)) = terminal.snapshots_by_line().find(|(_, snapshot)| snapshot.id == id) else {
            return Ok(());
        };
        let marked = self.marks.snapshots.iter().find(|marked| marked.id == id);
        let time = marked.map_or(taken.at, |marked| self.start + marked.at).clamp(self.start, self.end);
        if taken.offset >= terminal.offset() {
            self.go_to_end();
            return Ok(());
        }
        self.go_to(Goal { time, offset: Some(taken.offset) })?;
        self.moment.iter_mut().for_each(|moment| moment.plays = false);
        Ok(())
    }

    pub(super) fn change_speed(&mut self, faster: bool) -> Result<(), AhrError> {
        let (slowest, fastest) = SPEEDS;
        self.speed = (if faster { self.speed * 2.0 } else { self.speed / 2.0 }).clamp(slowest, fastest);
        self.plan()
    }

    fn go_to(&mut self, goal: Goal) -> Result<(), AhrError> {
        let is_start = goal.time <= self.start;
        if !is_start && !self.is_indexed {
            self.wanted = Some(goal);
            return Ok(());
        }
        self.wanted = None;
        let mut moment = match self.moment.take() {
            Some(moment) if !is_start => moment,
            old => Moment {
                play: Playback::open(&self.path, self.size)?,
                clock: goal.time,
                plays: old.is_some_and(|moment| moment.plays),
                due: Instant::now(),
            },
        };
        moment.go_to(goal, is_start)?;
        self.moment = Some(moment);
        self.plan()
    }

    /// What is next is due so long from now.
    fn plan(&mut self) -> Result<(), AhrError> {
        let pace = self.pace();
        match &mut self.moment {
            Some(moment) => moment.plan(Instant::now(), pace).map(drop),
            None => Ok(()),
        }
    }

    fn pace(&self) -> Pace {
        Pace { speed: self.speed, idle: Some(IDLE) }
    }
}

#[cfg(test)]
mod tests;
