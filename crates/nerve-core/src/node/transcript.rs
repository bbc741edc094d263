//! Finds and reads the record Claude Code keeps of its own conversation (facts: the real agents).
//!
//! `$HOME/.claude/sessions/<pid>.json` names the session of a process; `$HOME/.claude/projects/<cwd>/<session>.jsonl` is its
//! transcript. Both belong to another program: whatever is missing or new there means "ask the screen", never an error.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_term::event::TsNs;
use nerve_term::parse::Parsed;
use nerve_term::parse::transcript::{TranscriptTurn, parse_turn};
use tokio::time::Instant;

/// How much of a transcript's end is read: a turn is rarely a megabyte.
const TAIL: u64 = 8 << 20;
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

impl Source {
    /// The turn that answered `prompt`, sent at `since`, if the transcript has its end. Waits shortly for it to be written.
    pub(super) async fn turn(self, prompt: String, since: TsNs) -> Option<Parsed> {
        let deadline = Instant::now() + if self.full_screen { MORE_PATIENCE } else { PATIENCE };
        let mut step = tokio::time::interval(Duration::from_millis(10));
        loop {
            // The file has no event to wait for that is cheaper than looking: a few looks, once a turn.
            step.tick().await;
            let (source, text) = (self.clone(), prompt.clone());
            let read = tokio::task::spawn_blocking(move || source.read(&text, since)).await.ok()?;
            match read {
                Some(turn) if turn.is_complete && !turn.sections.is_empty() => {
                    return Some(Parsed { sections: turn.sections, tokens: turn.tokens, is_complete: true });
                }
                _ if Instant::now() >= deadline => return None,
                _ => {}
            }
        }
    }

    fn read(&self, prompt: &str, since: TsNs) -> Option<TranscriptTurn> {
        let text = tail(&self.file.clone().or_else(|| self.transcript())?)?;
        Some(parse_turn(text.lines(), prompt, Some(since)))
    }

    fn transcript(&self) -> Option<PathBuf> {
        let status =
            std::fs::read_to_string(self.home.join(".claude/sessions").join(format!("{}.json", self.pid)))
                .ok()?;
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

fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
