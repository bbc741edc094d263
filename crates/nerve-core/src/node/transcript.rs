//! Finds and reads the record Claude Code keeps of its own conversation (facts: the real agents).
//!
//! `$HOME/.claude/sessions/<pid>.json` names the session of a process; `$HOME/.claude/projects/<cwd>/<session>.jsonl` is its
//! transcript. Both belong to another program: whatever is missing or new there means "ask the screen", never an error.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use nerve_term::event::TsNs;
use nerve_term::parse::Parsed;
use nerve_term::parse::transcript::{TranscriptTurn, parse_turn};
use tokio::time::Instant;

use crate::activity::Tail;

/// How much of a transcript's end is read: a turn is rarely a megabyte.
const TAIL: u64 = 8 << 20;
/// How much is read first.
const SHORT_TAIL: u64 = 256 << 10;
/// How often it is looked at.
const STEP: Duration = Duration::from_millis(5);
/// How long the agent may take to write the end of a turn it has drawn already (seen: 50 ms on a quiet machine).
const PATIENCE: Duration = Duration::from_millis(250);
/// The same where the screen is a poor stand-in: a full-screen renderer has no scrollback.
const MORE_PATIENCE: Duration = Duration::from_secs(1);

/// Where one agent process keeps its records.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The transcript, if the agent's hooks named it.
    pub(super) file: Option<PathBuf>,
    pub(super) home: PathBuf,
    pub(super) pid: i32,
    /// The conversation is on the alternate screen.
    pub(super) full_screen: bool,
}

/// What the file said at one look.
struct Look {
    bytes: u64,
    turn: TranscriptTurn,
}

impl Source {
    /// The turn that answered `prompt`, sent at `since`, if the transcript has its end. Waits shortly for it to be written, where
    /// there is a record at all. The screen has said already that the turn is over.
    pub(super) async fn turn(self, prompt: String, since: TsNs) -> Option<Parsed> {
        let deadline = Instant::now() + if self.full_screen { MORE_PATIENCE } else { PATIENCE };
        let mut step = tokio::time::interval(STEP);
        let mut seen: Option<Look> = None;
        let is_there = self.clone();
        if !tokio::task::spawn_blocking(move || is_there.exists()).await.ok()? {
            return None;
        }
        loop {
            // The file has no event to wait for that is cheaper than looking: a few looks, once a turn.
            step.tick().await;
            let (source, text, bytes) = (self.clone(), prompt.clone(), seen.as_ref().map(|look| look.bytes));
            let look = tokio::task::spawn_blocking(move || source.look(&text, since, bytes)).await.ok()?;
            let is_settled = look.is_none();
            seen = look.or(seen);
            let turn = seen.as_ref().map(|look| &look.turn).filter(|turn| !turn.sections.is_empty());
            // Its last words may be followed by more until a look finds the file as it was.
            let is_over = turn
                .is_some_and(|turn| turn.is_complete || (turn.said_end && (is_settled || is_late(deadline))));
            if is_over || is_late(deadline) {
                let turn = seen.filter(|_| is_over)?.turn;
                return Some(Parsed { sections: turn.sections, tokens: turn.tokens, is_complete: true });
            }
        }
    }

    /// Tells what the transcript says that was not told.
    pub(super) fn tell(&self, tail: &Tail) {
        if let Some(path) = self.path() {
            tail.at(path);
            tail.catch_up();
        }
    }

    /// Where it is, as far as that is known.
    fn path(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| self.transcript())
    }

    /// Does the agent keep a record? A program that only draws itself like it does not.
    fn exists(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.exists()) || self.session().exists()
    }

    /// Reads the transcript; `None` if it has not grown since it had `seen` bytes, or cannot be read.
    fn look(&self, prompt: &str, since: TsNs, seen: Option<u64>) -> Option<Look> {
        let mut file = File::open(self.path()?).ok()?;
        let bytes = file.metadata().ok()?.len();
        if seen == Some(bytes) {
            return None;
        }
        let read =
            |file: &mut File, limit| Some(parse_turn(tail(file, bytes, limit)?.lines(), prompt, Some(since)));
        // Most turns are short, and parsing megabytes takes longer than the agent takes to write the end.
        let mut turn = read(&mut file, SHORT_TAIL)?;
        if !turn.is_found && bytes > SHORT_TAIL {
            turn = read(&mut file, TAIL)?;
        }
        Some(Look { bytes, turn })
    }

    /// What the agent says about this process.
    fn session(&self) -> PathBuf {
        self.home.join(".claude/sessions").join(format!("{}.json", self.pid))
    }

    fn transcript(&self) -> Option<PathBuf> {
        let status = std::fs::read_to_string(self.session()).ok()?;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        let session = status.get("sessionId")?.as_str()?;
        let cwd = status.get("cwd")?.as_str()?;
        // A file name taken from another program's file: only what a session id can be.
        if !session.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return None;
        }
        let folder: String = cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Some(self.home.join(".claude/projects").join(folder).join(format!("{session}.jsonl")))
    }
}

fn is_late(deadline: Instant) -> bool {
    Instant::now() >= deadline
}

/// The last bytes of a file of `size` bytes, at most `limit`.
fn tail(file: &mut File, size: u64, limit: u64) -> Option<String> {
    file.seek(SeekFrom::Start(size.saturating_sub(limit))).ok()?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
