//! Plays a recording as an agent: it emits the recorded output and waits for input where something was typed. A session
//! of a real agent thus becomes a fixture that needs no agent.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::time::Duration;

use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_types::{ExitStatus, Origin, TsNs};

use super::input_matcher::{ExpectedInput, TypedKeys};
use super::keys::Decoder;
use super::program::Program;
use super::screen::ScreenSize;

/// Maximum pause. People think longer than a test can wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum bytes of output per call.
const PIECE: usize = 64 << 10;
/// An ESC followed by nothing for this long is the Escape key.
const ESCAPE_ALONE: Duration = Duration::from_millis(40);
/// Exit code for an unreadable recording (`EX_IOERR` of sysexits.h).
const UNREADABLE: i32 = 74;

/// Plays a recording with the interface of [`super::Agent`]: input bytes and the time go in, output bytes and the next
/// deadline come out. Holds one block of the recording.
#[derive(Debug)]
pub struct Replay {
    reader: Reader<BufReader<File>>,
    fast: bool,
    steps: VecDeque<Step>,
    /// Do not wait for the next INPUT record.
    by_terminal: bool,
    /// The next INPUT record does not contain the typed bytes.
    redacted: bool,
    /// The previous step: when it was recorded, and when it was played.
    last: Option<(TsNs, Duration)>,
    awaited: VecDeque<ExpectedInput>,
    recorded_keys: Decoder,
    typed_keys: Decoder,
    escape_by: Option<Duration>,
    typed: TypedKeys,
    out: Vec<u8>,
    code: Option<i32>,
}

#[derive(Debug)]
struct Step {
    at: TsNs,
    event: StepEvent,
}

#[derive(Debug)]
enum StepEvent {
    Output(Vec<u8>),
    Input { bytes: Vec<u8>, redacted: bool },
    Exit(ExitStatus),
}

impl Replay {
    /// Opens a recording. `fast`: without the recorded pauses.
    ///
    /// # Errors
    /// The file cannot be opened or is no regular file.
    pub fn open(recording: &Path, fast: bool) -> io::Result<Replay> {
        let reader = Reader::open(recording).map_err(io::Error::other)?;
        Ok(Replay {
            reader,
            fast,
            steps: VecDeque::new(),
            by_terminal: false,
            redacted: false,
            last: None,
            awaited: VecDeque::new(),
            recorded_keys: Decoder::default(),
            typed_keys: Decoder::default(),
            escape_by: None,
            typed: TypedKeys::default(),
            out: Vec::new(),
            code: None,
        })
    }
}

impl Program for Replay {
    fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Returns when `tick` is due; `None` while waiting for input.
    fn deadline(&self) -> Option<Duration> {
        let play = match self.steps.front() {
            _ if self.code.is_some() || !self.awaited.is_empty() => None,
            Some(step) => Some(self.due(step)),
            None => Some(Duration::ZERO),
        };
        [play, self.escape_by].into_iter().flatten().min()
    }

    /// Returns the recorded exit code once everything is played: 0 if unknown, 128 plus the signal number if the child
    /// was killed.
    fn exit_code(&self) -> Option<i32> {
        self.code
    }

    fn wants_input(&self) -> bool {
        true
    }

    fn input(&mut self, bytes: &[u8], now: Duration) {
        for key in self.typed_keys.feed(bytes) {
            self.typed.add(&key);
        }
        self.escape_by = self.typed_keys.holds_escape().then(|| now + ESCAPE_ALONE);
        self.tick(now);
    }

    fn tick(&mut self, now: Duration) {
        if self.escape_by.is_some_and(|by| by <= now) {
            self.escape_by = None;
            if let Some(key) = self.typed_keys.escape_alone() {
                self.typed.add(&key);
            }
        }
        if let Err(error) = self.play(now) {
            self.out.extend_from_slice(format!("\r\nthe recording cannot be read: {error}\r\n").as_bytes());
            self.code = Some(UNREADABLE);
        }
    }

    /// Ignores the size: recorded output has a fixed width.
    fn resize(&mut self, _size: ScreenSize) {}
}

impl Replay {
    /// Plays the steps that are due, until input is required or the output limit is reached.
    fn play(&mut self, now: Duration) -> io::Result<()> {
        while self.code.is_none() && self.out.len() < PIECE && self.has_been_typed(now) {
            if !self.load()? {
                self.code = Some(0);
                return Ok(());
            }
            if self.steps.front().is_some_and(|step| self.due(step) > now) {
                return Ok(());
            }
            let Some(Step { at, event }) = self.steps.pop_front() else { return Ok(()) };
            self.last = Some((at, now));
            match event {
                StepEvent::Output(bytes) => self.out.extend_from_slice(&bytes),
                StepEvent::Input { bytes, redacted } => self.await_input(bytes, redacted)?,
                StepEvent::Exit(status) => self.code = Some(status.shell_code().unwrap_or(1)),
            }
        }
        Ok(())
    }

    /// Returns true if all expected input was typed. Pauses count from then on.
    fn has_been_typed(&mut self, now: Duration) -> bool {
        while let Some(awaited) = self.awaited.front() {
            if !self.typed.take(*awaited) {
                return false;
            }
            self.awaited.pop_front();
            if let Some((_, played)) = &mut self.last {
                *played = now;
            }
        }
        true
    }

    fn await_input(&mut self, mut bytes: Vec<u8>, redacted: bool) -> io::Result<()> {
        if !redacted {
            let mut keys = self.recorded_keys.feed(&bytes);
            keys.extend(self.recorded_keys.escape_alone());
            self.awaited.extend(keys.iter().map(ExpectedInput::of));
            return Ok(());
        }
        // A password is typed key by key without an echo.
        while self.load()?
            && matches!(self.steps.front(), Some(Step { event: StepEvent::Input { redacted: true, .. }, .. }))
        {
            let Some(Step { event: StepEvent::Input { bytes: more, .. }, .. }) = self.steps.pop_front()
            else {
                break;
            };
            bytes.extend_from_slice(&more);
        }
        // Its Enter may be redacted too.
        self.awaited.push_back(if bytes.len() == 1 { ExpectedInput::Of(1) } else { ExpectedInput::Enter });
        Ok(())
    }

    /// Returns when a step is due. Waiting for input starts at once.
    fn due(&self, step: &Step) -> Duration {
        match (&step.event, self.last) {
            (StepEvent::Input { .. }, _) | (_, None) => Duration::ZERO,
            _ if self.fast => Duration::ZERO,
            (_, Some((at, played))) => played + step.at.since(at).min(LONGEST_PAUSE),
        }
    }

    /// Loads the next step; false at the end of the recording.
    fn load(&mut self) -> io::Result<bool> {
        while self.steps.is_empty() {
            let block = match self.reader.next().map_err(io::Error::other)? {
                Some(Part::Block(block)) => block,
                Some(Part::Lost(_)) => continue,
                None => return Ok(false),
            };
            for record in block.records() {
                let event = match record.body {
                    Body::Data { bytes, .. } => StepEvent::Output(bytes.to_vec()),
                    Body::Mark(Mark::Exit(status)) => StepEvent::Exit(status),
                    Body::Mark(Mark::Input { origin, redacted }) => {
                        self.by_terminal = origin == Origin::Terminal;
                        self.redacted = redacted;
                        continue;
                    }
                    Body::Input { bytes } => {
                        let redacted = std::mem::take(&mut self.redacted);
                        if std::mem::take(&mut self.by_terminal) {
                            continue;
                        }
                        StepEvent::Input { bytes: bytes.to_vec(), redacted }
                    }
                    _ => continue,
                };
                self.steps.push_back(Step { at: record.at, event });
            }
        }
        Ok(true)
    }
}
