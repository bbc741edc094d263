//! Finds and reads the transcript that an agent keeps of its conversation.
//!
//! `$HOME/.claude/sessions/<pid>.json` names the session of a Claude Code process; `$HOME/.claude/projects/<cwd>/<session>.jsonl` is its
//! transcript. Running processes of Codex and opencode have their rollout file and their database open. Gemini CLI's file is found by
//! the id with which it was started. All belong to another program: anything missing or unknown means "use the screen", never an error.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::gemini_chat::parse_chat;
use nerve_agent::parse::opencode_session::parse_session;
use nerve_agent::parse::rollout::parse_rollout;
use nerve_agent::parse::transcript::{TranscriptTurn, parse_turn};
use nerve_agent::parse::{ParsedTurn, Section, SectionKind};
use nerve_agent::profile::TranscriptKind;
use nerve_types::TsNs;
use tokio::time::Instant;

use crate::activity::TranscriptTail;
use crate::fork::opencode::database;
use crate::fork::session_files::{SessionFiles, open_database_path, open_rollout_path};

/// Maximum number of bytes read from a transcript's end. A turn rarely exceeds a megabyte.
const MAX_TAIL_BYTES: u64 = 8 << 20;
/// Number of bytes read at first.
const SHORT_TAIL_BYTES: u64 = 256 << 10;
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time to wait for the agent to write the end of a turn that it has already drawn (observed: 50 ms on an idle machine).
const END_TIMEOUT: Duration = Duration::from_millis(250);
/// [`END_TIMEOUT`] for agents on the alternate screen, which has no scrollback and so is a poor substitute.
const FULL_SCREEN_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Locates the session files of one agent process.
#[derive(Debug, Clone)]
pub(super) struct TranscriptSource {
    pub(super) kind: TranscriptKind,
    /// The transcript, if the agent's hooks named it.
    pub(super) file: Option<PathBuf>,
    pub(super) home: PathBuf,
    /// The id of the conversation, if it is known.
    pub(super) session: Option<String>,
    pub(super) pid: i32,
    /// The agent uses the alternate screen.
    pub(super) full_screen: bool,
}

/// The result of reading the file once.
struct TranscriptRead {
    bytes: u64,
    turn: TranscriptTurn,
}

impl TranscriptSource {
    /// Returns the turn that answered `prompt`, sent at `since`, if the transcript contains its end. Waits shortly for it to be
    /// written if the session files exist. Call it after the screen has shown the end of the turn.
    pub(super) async fn turn(self, prompt: Arc<str>, since: TsNs) -> Option<ParsedTurn> {
        // Commands and shell commands are not in the file as they were typed.
        if self.kind != TranscriptKind::Claude && prompt.starts_with(['/', '!']) {
            return None;
        }
        let deadline = Instant::now() + if self.full_screen { FULL_SCREEN_END_TIMEOUT } else { END_TIMEOUT };
        let mut interval = tokio::time::interval(POLL_INTERVAL);
        let mut seen: Option<TranscriptRead> = None;
        let is_there = self.clone();
        if !tokio::task::spawn_blocking(move || is_there.exists()).await.ok()? {
            return None;
        }
        loop {
            // A few polls once a turn are cheaper than a file watch.
            interval.tick().await;
            let (source, text, bytes) =
                (self.clone(), Arc::clone(&prompt), seen.as_ref().map(|reading| reading.bytes));
            let reading = tokio::task::spawn_blocking(move || source.read(&text, since, bytes)).await.ok()?;
            let is_settled = reading.is_none();
            seen = reading.or(seen);
            let turn = seen.as_ref().map(|reading| &reading.turn).filter(|turn| !turn.sections.is_empty());
            // More may follow the last text until a poll finds the file unchanged.
            let is_over = turn.is_some_and(|turn| {
                turn.is_complete || (turn.said_end && (is_settled || has_passed(deadline)))
            });
            if is_over || has_passed(deadline) {
                let turn = seen.filter(|_| is_over)?.turn;
                if self.lacks_text(&turn) {
                    return None;
                }
                return Some(ParsedTurn {
                    sections: turn.sections,
                    tokens: turn.tokens,
                    is_complete: true,
                    is_truncated: false,
                });
            }
        }
    }

    /// Reports new activities in the transcript.
    pub(super) fn report(&self, tail: &TranscriptTail) {
        if let Some(path) = self.path() {
            tail.follow(path);
            tail.catch_up();
        }
    }

    /// Returns the path of the transcript, if it is known.
    fn path(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| match self.kind {
            TranscriptKind::Claude => self.transcript(),
            TranscriptKind::Codex => open_rollout_path(self.pid),
            TranscriptKind::Gemini => SessionFiles::in_home(self.home.clone()).chat(self.session.as_ref()?),
            TranscriptKind::Opencode => open_database_path(self.pid),
        })
    }

    /// Returns true if the agent keeps session files. A program that only mimics the agent's screen does not.
    fn exists(&self) -> bool {
        match self.kind {
            TranscriptKind::Claude => {
                self.file.as_ref().is_some_and(|file| file.exists()) || self.status_file().exists()
            }
            _ => self.path().is_some(),
        }
    }

    /// Returns true if the screen has more than the transcript: Codex and Gemini CLI do not write the text of an interrupted answer,
    /// and Gemini CLI not that before an error.
    fn lacks_text(&self, turn: &TranscriptTurn) -> bool {
        let ends_with = |kind| turn.sections.last().is_some_and(|last: &Section| last.kind == kind);
        match self.kind {
            TranscriptKind::Codex => ends_with(SectionKind::Interrupted),
            TranscriptKind::Gemini => ends_with(SectionKind::Interrupted) || ends_with(SectionKind::Error),
            TranscriptKind::Claude | TranscriptKind::Opencode => false,
        }
    }

    /// Reads the transcript. Returns `None` if its size is still `seen` bytes, or if it cannot be read.
    fn read(&self, prompt: &str, since: TsNs, seen: Option<u64>) -> Option<TranscriptRead> {
        let path = self.path()?;
        if self.kind == TranscriptKind::Opencode {
            return self.read_database(&path, prompt, since);
        }
        let mut file = File::open(path).ok()?;
        let bytes = file.metadata().ok()?.len();
        if seen == Some(bytes) {
            return None;
        }
        let parse = |file: &mut File, limit| {
            let text = tail(file, bytes, limit)?;
            Some(match self.kind {
                TranscriptKind::Claude => parse_turn(text.lines(), prompt, Some(since)),
                TranscriptKind::Gemini => parse_chat(text.lines(), prompt, Some(since)),
                TranscriptKind::Codex | TranscriptKind::Opencode => {
                    parse_rollout(text.lines(), prompt, Some(since))
                }
            })
        };
        // Most turns are short, and parsing megabytes takes longer than the agent needs to write the end.
        let mut turn = parse(&mut file, SHORT_TAIL_BYTES)?;
        if !turn.is_found && bytes > SHORT_TAIL_BYTES {
            turn = parse(&mut file, MAX_TAIL_BYTES)?;
        }
        Some(TranscriptRead { bytes, turn })
    }

    /// Reads the turn from the only session of opencode's database that contains it. Processes share the database.
    fn read_database(&self, path: &Path, prompt: &str, since: TsNs) -> Option<TranscriptRead> {
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()?;
        let sessions = database::sessions_since(path, &cwd, since).ok()?;
        let turns = sessions.iter().map(|session| parse_session(session, prompt, Some(since)));
        let mut found = turns.filter(|turn| turn.is_found);
        let turn = found.next()?;
        found.next().is_none().then_some(TranscriptRead { bytes: 0, turn })
    }

    /// Returns the path of the process's status file.
    fn status_file(&self) -> PathBuf {
        self.home.join(".claude/sessions").join(format!("{}.json", self.pid))
    }

    fn transcript(&self) -> Option<PathBuf> {
        let status = std::fs::read_to_string(self.status_file()).ok()?;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        let session = status.get("sessionId")?.as_str()?;
        let cwd = status.get("cwd")?.as_str()?;
        // The name comes from another program's file, so accept only characters of a session id.
        if !session.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return None;
        }
        let folder: String = cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Some(self.home.join(".claude/projects").join(folder).join(format!("{session}.jsonl")))
    }
}

fn has_passed(deadline: Instant) -> bool {
    Instant::now() >= deadline
}

/// Reads at most the last `limit` bytes of a file of `size` bytes.
fn tail(file: &mut File, size: u64, limit: u64) -> Option<String> {
    file.seek(SeekFrom::Start(size.saturating_sub(limit))).ok()?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the turn of a rollout file with a prompt and these lines.
    async fn codex_turn(lines: &[&str]) -> Option<ParsedTurn> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("rollout.jsonl");
        let prompt = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":"go"}}"#;
        std::fs::write(&file, format!("{prompt}\n{}\n", lines.join("\n"))).unwrap();
        let source = TranscriptSource {
            kind: TranscriptKind::Codex,
            file: Some(file),
            home: home.path().to_path_buf(),
            session: None,
            pid: 0,
            full_screen: false,
        };
        source.turn("go".into(), TsNs(0)).await
    }

    const TEXT: &str =
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":"All."}}"#;

    #[tokio::test]
    async fn answer_of_codex_is_read_to_its_end() {
        let turn = codex_turn(&[TEXT, r#"{"type":"event_msg","payload":{"type":"task_complete"}}"#]).await;
        let turn = turn.expect("a turn");
        assert_eq!((turn.text().as_str(), turn.is_complete), ("All.", true));
    }

    #[tokio::test]
    async fn interrupted_answer_of_codex_is_on_the_screen() {
        let aborted = r#"{"type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}"#;
        assert_eq!(codex_turn(&[aborted]).await, None);
    }
}
