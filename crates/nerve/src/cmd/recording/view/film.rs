//! The recording in the viewer: its end, with all lines as soon as they are read, or any moment of it, standing or playing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{AhrError, Lost};
use nerve_record::index::Position;
use nerve_record::meta::Meta;
use nerve_record::playback::Playback;
use nerve_record::shelf::{Shelved, is_live};
use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::TerminalState;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::replay::Pace;
use super::super::size;

/// The longest time in which nothing happens while it plays.
const IDLE: Duration = Duration::from_secs(2);
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
    whole: Option<oneshot::Receiver<Result<Playback, AhrError>>>,
    /// A moment before the end, if one is looked at.
    moment: Option<Moment>,
    speed: f64,
    live: bool,
}

/// A moment of it.
struct Moment {
    play: Playback,
    clock: TsNs,
    plays: bool,
    /// When what is next is due, while it plays.
    due: Instant,
}

impl Film {
    /// Opens it and begins to read all of it on a thread of its own. Must be called before a runtime is entered or within one.
    pub(super) fn open(path: &Path, meta: &Meta) -> Result<Film, AhrError> {
        let size = size(meta);
        let mut last = Playback::open(path, size)?;
        let start = last.next_at()?.unwrap_or_default();
        last.seek(Position::Time(TsNs(u64::MAX)))?;
        last.fold_mut().terminal.expire_frame(TsNs(u64::MAX));
        let shown = Shelved::look(path).ok().and_then(|shelved| shelved.duration);
        let end = shown
            .map_or(last.fold().clock(), |duration| start + duration)
            .max(last.fold().clock().max(start));
        let (sender, whole) = oneshot::channel();
        let path = path.to_path_buf();
        let recording = path.clone();
        std::thread::spawn(move || {
            // Nobody waits for it any more once the viewer is left.
            let _ = sender.send(read(&recording, size));
        });
        let live = is_live(&path);
        Ok(Film { path, size, start, end, last, whole: Some(whole), moment: None, speed: 1.0, live })
    }

    /// Ends when all lines are there; never if they are already.
    pub(super) async fn is_whole(&mut self) -> Result<(), AhrError> {
        let Some(whole) = &mut self.whole else { return std::future::pending().await };
        let read = whole.await;
        self.whole = None;
        match read {
            Ok(read) => self.last = read?,
            Err(_) => tracing::warn!("the reader of the recording failed: only its end is shown"),
        }
        Ok(())
    }

    pub(super) fn terminal(&self) -> &TerminalState {
        &self.moment.as_ref().map_or(&self.last, |moment| &moment.play).fold().terminal
    }

    /// Stretches that could not be read.
    pub(super) fn lost(&self) -> &[Lost] {
        self.last.lost()
    }

    /// The time that is shown, and how long it is.
    pub(super) fn time(&self) -> Option<(Duration, Duration)> {
        let at = self.moment.as_ref().map_or(self.end, |moment| moment.clock);
        Some((at.since(self.start), self.end.since(self.start)))
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
        self.whole.as_ref().map(|_| "reading the lines before …".to_string())
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
                self.go_to(self.start)?;
                self.moment.iter_mut().for_each(|moment| moment.plays = true);
            }
        }
        self.plan()
    }

    /// So many seconds on; back, if negative.
    pub(super) fn skip(&mut self, seconds: i64) -> Result<(), AhrError> {
        let at = self.moment.as_ref().map_or(self.end, |moment| moment.clock);
        let nanoseconds = seconds.saturating_mul(1_000_000_000);
        let to = TsNs(at.0.saturating_add_signed(nanoseconds)).max(self.start);
        if to >= self.end {
            self.moment = None;
            return Ok(());
        }
        self.go_to(to)
    }

    pub(super) fn change_speed(&mut self, faster: bool) -> Result<(), AhrError> {
        let (slowest, fastest) = SPEEDS;
        self.speed = (if faster { self.speed * 2.0 } else { self.speed / 2.0 }).clamp(slowest, fastest);
        self.plan()
    }

    fn go_to(&mut self, time: TsNs) -> Result<(), AhrError> {
        let mut moment = match self.moment.take() {
            Some(moment) => moment,
            None => Moment {
                play: Playback::open(&self.path, self.size)?,
                clock: time,
                plays: false,
                due: Instant::now(),
            },
        };
        moment.play.seek(Position::Time(time))?;
        moment.clock = time;
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

impl Moment {
    /// Sets when what is next is due, counted from `from`; false at the end.
    fn plan(&mut self, from: Instant, pace: Pace) -> Result<bool, AhrError> {
        let next = self.play.next_at()?;
        let wait = pace.wait(self.clock, next.unwrap_or(self.clock).max(self.clock));
        self.due = from.checked_add(wait).unwrap_or(from);
        Ok(next.is_some())
    }

    /// Applies everything up to this recorded time.
    fn reach(&mut self, time: TsNs) -> Result<(), AhrError> {
        self.play.play(|record| record.at <= time, |_| {})?;
        self.play.fold_mut().wait_until(time);
        self.clock = self.clock.max(time);
        Ok(())
    }
}

/// All of it, from the start.
fn read(path: &Path, size: Size) -> Result<Playback, AhrError> {
    let mut play = Playback::open(path, size)?;
    play.play(|_| true, |_| {})?;
    play.fold_mut().terminal.expire_frame(TsNs(u64::MAX));
    Ok(play)
}
