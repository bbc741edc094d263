//! Finds and reads the transcript that an agent keeps of its conversation.
//!
//! | agent | its transcript is |
//! |---|---|
//! | Claude Code | named by its hooks and its status file, `$HOME/.claude/sessions/<pid>.json` |
//! | Codex | the rollout file that the process has open |
//! | Gemini CLI | the chat file of its session id, otherwise the folder's only chat file that contains the prompt |
//! | opencode, Kilo | the folder's only conversation that contains the prompt, in the database that the process has open |
//! | pi, Qwen Code, GitHub Copilot CLI, Kimi Code | as Gemini CLI |
//!
//! Agents in one folder share these files. A conversation is accepted only if no other one contains the prompt. In addition, the
//! agent must be alone in the folder, or the screen must show the same answer.
//!
//! These files belong to another program: if anything is missing or unknown, the screen is used instead.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::opencode_session::parse_session;
use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_agent::parse::{ParsedTurn, Section, SectionKind, parse_session_file};
use nerve_agent::profile::TranscriptKind;
use nerve_types::{TsNs, os};
use tokio::time::Instant;

use crate::followed_session::Location;
use crate::opencode_database as database;
use crate::session_files::{SessionFiles, is_alone_in, open_database_path, open_rollout_path};

/// Maximum number of bytes read from a transcript's end. A turn rarely exceeds a megabyte.
const MAX_TAIL_BYTES: u64 = 8 << 20;
/// Number of bytes read at first.
const SHORT_TAIL_BYTES: u64 = 256 << 10;
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// [`POLL_INTERVAL`] for a database, whose rows are read at each poll.
const DATABASE_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time to wait for the agent to write the end of a turn that it has already drawn (observed: 50 ms on an idle machine).
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// [`END_TIMEOUT`] while the agent has still to write the drawn answer. On a loaded machine, Claude Code 2.1.200 created its transcript
/// up to four seconds after the prompt, when the screen already showed the answer.
const WRITING_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of letters and digits at the end of an answer that are looked for on the screen.
const COMPARED_CHARS: usize = 40;

/// Locates the session files of one agent process.
#[derive(Debug, Clone)]
pub struct TranscriptSource {
    /// The agent's kind of session files.
    pub kind: TranscriptKind,
    /// The transcript, if the agent's hooks named it.
    pub file: Option<PathBuf>,
    /// The files of the agent's user.
    pub session_files: SessionFiles,
    /// The id of the conversation, if it is known.
    pub conversation_id: Option<String>,
    /// The process of the agent.
    pub pid: i32,
    /// The conversation of an earlier turn.
    pub last: Option<Location>,
}

/// A prompt whose turn is looked for.
#[derive(Debug, Clone)]
pub struct SentPrompt {
    /// The text of the prompt.
    pub text: Arc<str>,
    /// Time at which it was sent.
    pub since: TsNs,
}

/// The answer of an ended turn, as the screen shows it.
#[derive(Debug, Clone)]
pub struct DrawnAnswer {
    /// The text.
    pub text: Arc<str>,
    /// The answer ends with a text. Errors and interruptions are not always written.
    pub ends_with_text: bool,
    /// The agent reported the end, so nothing follows a last text.
    pub is_end_certain: bool,
    /// The first turn of the node, in which the agent may create its transcript.
    pub is_first: bool,
}

/// A turn and the conversation that contains it.
struct FoundTurn {
    location: Location,
    turn: TranscriptTurn,
}

/// The result of reading the files once.
struct TranscriptRead {
    bytes: u64,
    found: Option<FoundTurn>,
}

impl TranscriptSource {
    /// Returns the turn that answered the prompt and its conversation, if that contains the turn's end. Waits for the end to be
    /// written: briefly, or longer if the transcript shows that it is still to come.
    ///
    /// If the screen has more text, the turn is truncated: it has at most one section, the error or the interruption that ends it. So
    /// is a turn whose end is not written but whose last section is of these kinds.
    pub async fn turn(self, prompt: SentPrompt, drawn: DrawnAnswer) -> Option<(ParsedTurn, Location)> {
        // Commands and shell commands are not in the file as they were typed.
        if self.kind != TranscriptKind::Claude && prompt.text.starts_with(['/', '!']) {
            return None;
        }
        let begin = Instant::now();
        let is_database = self.kind.database_name().is_some();
        let mut interval =
            tokio::time::interval(if is_database { DATABASE_POLL_INTERVAL } else { POLL_INTERVAL });
        let mut last: Option<TranscriptRead> = None;
        let source = self.clone();
        if !tokio::task::spawn_blocking(move || source.exists()).await.ok()? {
            return None;
        }
        loop {
            // A few polls once a turn are cheaper than a file watch.
            interval.tick().await;
            let (source, wanted, screen) = (self.clone(), prompt.clone(), Arc::clone(&drawn.text));
            let bytes = last.as_ref().map(|reading| reading.bytes);
            let reading =
                tokio::task::spawn_blocking(move || source.read(&wanted, &screen, bytes)).await.ok()?;
            let is_settled = reading.is_none();
            last = reading.or(last);
            let turn = last.as_ref().and_then(|reading| reading.found.as_ref()).map(|found| &found.turn);
            let is_late = begin.elapsed() >= END_TIMEOUT;
            // More may follow the last text until a poll finds the file unchanged.
            let is_over = turn.filter(|turn| !turn.sections.is_empty()).is_some_and(|turn| {
                turn.is_complete || (turn.said_end && (drawn.is_end_certain || is_settled || is_late))
            });
            let is_given_up = is_late
                && (begin.elapsed() >= WRITING_TIMEOUT || !self.is_being_written(turn, &prompt, &drawn));
            if is_over || is_given_up {
                let FoundTurn { turn, location } = last?.found?;
                let is_whole = is_over && !self.lacks_text(&turn);
                let sections = if is_whole { turn.sections } else { ending(turn.sections) };
                let parsed =
                    ParsedTurn { is_complete: true, is_truncated: !is_whole, tokens: turn.tokens, sections };
                return (is_over || !parsed.sections.is_empty()).then_some((parsed, location));
            }
        }
    }

    /// Returns true if the agent has still to write the drawn answer: its transcript has the prompt but no end of the turn, or Claude
    /// Code has still to create the transcript of its first turn.
    fn is_being_written(
        &self,
        turn: Option<&TranscriptTurn>,
        prompt: &SentPrompt,
        drawn: &DrawnAnswer,
    ) -> bool {
        let is_first = || {
            let is_command = prompt.text.starts_with(['/', '!', '#']);
            self.kind == TranscriptKind::Claude && drawn.is_first && !is_command
        };
        drawn.ends_with_text && turn.map_or_else(is_first, |turn| !turn.is_complete)
    }

    /// Returns true if the transcript marks the end of an answer, and the agent's screen shows it late or not at all.
    pub fn marks_ends(&self) -> bool {
        matches!(
            self.kind,
            TranscriptKind::Opencode | TranscriptKind::Kilo | TranscriptKind::Pi | TranscriptKind::Kimi
        )
    }

    /// Returns the prompt's turn if the transcript has its end, and that is a text. Reads files: call it on a blocking thread.
    /// `screen` is the answer on the screen.
    pub fn written_turn(&self, prompt: &SentPrompt, screen: &str) -> Option<TranscriptTurn> {
        let turn = self.read(prompt, screen, None)?.found?.turn;
        let ends_with_text = turn.sections.last().is_some_and(|last| last.kind == SectionKind::Text);
        (turn.is_complete && ends_with_text).then_some(turn)
    }

    /// Returns true if only the prompt identifies this agent's conversation.
    pub(crate) fn needs_prompt(&self) -> bool {
        !matches!(self.kind, TranscriptKind::Claude | TranscriptKind::Codex)
    }

    /// Returns the conversation of a turn that has begun, if it is certain.
    pub(crate) fn locate(&self, prompt: Option<&SentPrompt>) -> Option<Location> {
        match self.kind {
            TranscriptKind::Claude | TranscriptKind::Codex => self.path().map(Location::File),
            _ if let Some(path) = self.chat() => Some(Location::File(path)),
            _ => {
                let prompt = prompt?;
                // Another agent may have written the same prompt earlier than this one.
                self.read(prompt, "", None)?.found.filter(|_| self.is_alone()).map(|found| found.location)
            }
        }
    }

    /// Returns the only conversation in the agent's folder that has changed since a time, if no other agent of its kind runs there.
    /// It contains the prompts that a user typed. `None` for agents whose conversation is known otherwise.
    pub fn only_conversation(&self, since: TsNs) -> Option<Location> {
        let mut candidates: Vec<Location> = match self.kind {
            TranscriptKind::Claude | TranscriptKind::Codex => return None,
            TranscriptKind::Opencode | TranscriptKind::Kilo => {
                let path = self.open_database()?;
                let sessions = database::sessions_since(&path, &self.cwd()?, since).ok()?.into_iter();
                sessions
                    .map(|session| Location::Database { path: path.clone(), session: session.id })
                    .collect()
            }
            _ => self.chats(since).into_iter().map(Location::File).collect(),
        };
        candidates.pop().filter(|_| candidates.is_empty() && self.is_alone())
    }

    /// Returns the folders whose files to watch for the transcript.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        match self.kind {
            TranscriptKind::Claude => Vec::new(),
            TranscriptKind::Codex => self.session_files.rollout_folders(),
            TranscriptKind::Gemini | TranscriptKind::Pi | TranscriptKind::Qwen => {
                self.cwd().map(|cwd| self.session_files.chat_folders(self.kind, &cwd)).unwrap_or_default()
            }
            TranscriptKind::Copilot => self.session_files.copilot_folders(self.conversation_id.as_deref()),
            TranscriptKind::Kimi => {
                let folders =
                    |cwd: PathBuf| self.session_files.kimi_folders(self.conversation_id.as_deref(), &cwd);
                self.cwd().map(folders).unwrap_or_default()
            }
            TranscriptKind::Opencode | TranscriptKind::Kilo => {
                let database = self.open_database();
                database.as_deref().and_then(Path::parent).map(Path::to_path_buf).into_iter().collect()
            }
        }
    }

    /// Returns the path of the transcript, if it is known without the prompt.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| match self.kind {
            TranscriptKind::Claude => self.transcript(),
            TranscriptKind::Codex => open_rollout_path(self.pid),
            _ => None,
        })
    }

    /// Returns the file of the conversation with which the agent was started.
    fn chat(&self) -> Option<PathBuf> {
        self.session_files.chat(self.kind, self.conversation_id.as_ref()?)
    }

    /// Returns the database of opencode or Kilo that the process has open.
    fn open_database(&self) -> Option<PathBuf> {
        open_database_path(self.pid, self.kind.database_name()?)
    }

    fn cwd(&self) -> Option<PathBuf> {
        os::current_dir(self.pid.cast_unsigned())
    }

    /// Returns true if no other agent of this kind runs in the folder.
    pub(crate) fn is_alone(&self) -> bool {
        let program = match self.kind {
            TranscriptKind::Gemini => "gemini",
            TranscriptKind::Pi => "pi",
            TranscriptKind::Qwen => "qwen",
            TranscriptKind::Copilot => "copilot",
            // It changes the name of its process.
            TranscriptKind::Kimi => "kimi-code",
            kind => kind.database_name().unwrap_or_default(),
        };
        self.cwd().is_some_and(|cwd| is_alone_in(&cwd, program, self.pid))
    }

    /// Returns true if the agent keeps session files. A program that only mimics the agent's screen does not.
    fn exists(&self) -> bool {
        match self.kind {
            TranscriptKind::Claude => {
                self.file.as_ref().is_some_and(|file| file.exists())
                    || self.session_files.status_file(self.pid).exists()
            }
            TranscriptKind::Codex => self.path().is_some(),
            TranscriptKind::Opencode | TranscriptKind::Kilo => self.open_database().is_some(),
            _ => self.chat().is_some() || !self.chats(TsNs(0)).is_empty(),
        }
    }

    /// Returns the files of Gemini CLI, pi, Qwen Code, GitHub Copilot CLI or Kimi Code that may contain a turn.
    fn chats(&self, since: TsNs) -> Vec<PathBuf> {
        let recent = self.cwd().map(|cwd| self.session_files.chats_changed_in(self.kind, &cwd, since));
        let mut chats: Vec<PathBuf> = self.chat().into_iter().chain(recent.unwrap_or_default()).collect();
        chats.sort();
        chats.dedup();
        chats
    }

    /// Returns true if the screen has more than the transcript. Codex, Gemini CLI, Qwen Code and GitHub Copilot CLI do
    /// not write all text of an interrupted answer. The latter three do not write the text before an error, either.
    fn lacks_text(&self, turn: &TranscriptTurn) -> bool {
        let last = last_section(&turn.sections).map(|last| last.kind);
        match self.kind {
            TranscriptKind::Codex => last == Some(SectionKind::Interrupted),
            TranscriptKind::Gemini | TranscriptKind::Qwen | TranscriptKind::Copilot => {
                matches!(last, Some(SectionKind::Interrupted | SectionKind::Error))
            }
            TranscriptKind::Claude
            | TranscriptKind::Opencode
            | TranscriptKind::Kilo
            | TranscriptKind::Pi
            | TranscriptKind::Kimi => false,
        }
    }

    /// Reads the transcript. Returns `None` if its size is still `last_size` bytes, or if it cannot be read.
    fn read(&self, prompt: &SentPrompt, screen: &str, last_size: Option<u64>) -> Option<TranscriptRead> {
        let paths = match self.kind {
            TranscriptKind::Opencode | TranscriptKind::Kilo => return self.read_database(prompt, screen),
            TranscriptKind::Gemini
            | TranscriptKind::Pi
            | TranscriptKind::Qwen
            | TranscriptKind::Copilot
            | TranscriptKind::Kimi => self.chats(prompt.since),
            TranscriptKind::Claude | TranscriptKind::Codex => vec![self.path()?],
        };
        let sizes = paths.iter().map(|path| Some(path.metadata().ok()?.len()));
        let bytes = sizes.sum::<Option<u64>>()?;
        if last_size == Some(bytes) {
            return None;
        }
        let turns = paths.into_iter().filter_map(|path| {
            let turn = self.read_file(&path, prompt)?;
            Some(FoundTurn { location: Location::File(path), turn })
        });
        Some(TranscriptRead { bytes, found: self.choose(turns.collect(), screen) })
    }

    fn read_file(&self, path: &Path, prompt: &SentPrompt) -> Option<TranscriptTurn> {
        let (text, since) = (&*prompt.text, Some(prompt.since));
        let mut file = File::open(path).ok()?;
        let bytes = file.metadata().ok()?.len();
        let parse = |file: &mut File, limit| {
            let content = tail(file, bytes, limit)?;
            Some(parse_session_file(self.kind, content.lines(), text, since))
        };
        // Most turns are short, and parsing megabytes takes longer than the agent needs to write the end.
        let turn = parse(&mut file, SHORT_TAIL_BYTES)?;
        if turn.is_found || bytes <= SHORT_TAIL_BYTES { Some(turn) } else { parse(&mut file, MAX_TAIL_BYTES) }
    }

    /// Reads the turn from the database of opencode or Kilo.
    fn read_database(&self, prompt: &SentPrompt, screen: &str) -> Option<TranscriptRead> {
        let path = self.open_database()?;
        let sessions = database::sessions_since(&path, &self.cwd()?, prompt.since).ok()?;
        let turns = sessions.into_iter().map(|session| FoundTurn {
            turn: parse_session(&session.messages, &prompt.text, Some(prompt.since)),
            location: Location::Database { path: path.clone(), session: session.id },
        });
        Some(TranscriptRead { bytes: 0, found: self.choose(turns.collect(), screen) })
    }

    /// Returns the turn of this process. Other processes may have sent the same prompt.
    fn choose(&self, mut turns: Vec<FoundTurn>, screen: &str) -> Option<FoundTurn> {
        turns.retain(|found| found.turn.is_found);
        if !self.needs_prompt() {
            return turns.pop();
        }
        let started = self.chat().map(Location::File);
        let is_known = |found: &FoundTurn| {
            [&self.last, &started].iter().any(|known| known.as_ref() == Some(&found.location))
        };
        if let Some(known) = turns.iter().position(is_known) {
            return Some(turns.swap_remove(known));
        }
        let found = turns.pop().filter(|_| turns.is_empty())?;
        (is_shown(&found.turn, screen) || self.is_alone()).then_some(found)
    }

    fn transcript(&self) -> Option<PathBuf> {
        let status = std::fs::read_to_string(self.session_files.status_file(self.pid)).ok()?;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        let session = status.get("sessionId")?.as_str()?;
        let cwd = status.get("cwd")?.as_str()?;
        // The name comes from another program's file, so accept only characters of a session id.
        if !session.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return None;
        }
        Some(self.session_files.conversations_in(Path::new(cwd)).join(format!("{session}.jsonl")))
    }
}

/// Returns the last section of an answer, thinking aside.
fn last_section(sections: &[Section]) -> Option<&Section> {
    sections.iter().rfind(|section| section.kind != SectionKind::Thinking)
}

/// Returns the error or the interruption that ends an answer, alone.
fn ending(sections: Vec<Section>) -> Vec<Section> {
    let is_failure = |last: &&Section| matches!(last.kind, SectionKind::Error | SectionKind::Interrupted);
    last_section(&sections).filter(is_failure).cloned().into_iter().collect()
}

/// Returns true if the end of the turn's text is on the screen, which wraps rows and leaves marks out.
pub fn is_shown(turn: &TranscriptTurn, screen: &str) -> bool {
    let texts = turn.sections.iter().filter(|section| section.kind == SectionKind::Text);
    let text = texts.map(|section| section.content.as_str()).collect::<String>();
    let text: Vec<char> = letters_and_digits(&text).collect();
    let screen: Vec<char> = letters_and_digits(screen).collect();
    let end = &text[text.len().saturating_sub(COMPARED_CHARS)..];
    !end.is_empty() && screen.windows(end.len()).any(|part| part == end)
}

/// Returns the letters and digits of a text: the screen wraps rows and leaves marks out.
pub fn letters_and_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphanumeric())
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
    use nerve_agent::parse::Tokens;

    use super::*;

    /// Returns a source of this process, whose home is a folder.
    fn source(kind: TranscriptKind, home: &Path, file: Option<PathBuf>) -> TranscriptSource {
        let session_files = SessionFiles::in_home(home.into());
        let pid = std::process::id().cast_signed();
        TranscriptSource { kind, file, session_files, conversation_id: None, pid, last: None }
    }

    fn drawn(text: &str) -> DrawnAnswer {
        let ends_with_text = !text.is_empty();
        DrawnAnswer { text: text.into(), ends_with_text, is_end_certain: false, is_first: false }
    }

    /// Returns the turn of a rollout file with a prompt and these lines.
    async fn codex_turn(lines: &[&str]) -> Option<ParsedTurn> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("rollout.jsonl");
        let prompt = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":"go"}}"#;
        std::fs::write(&file, format!("{prompt}\n{}\n", lines.join("\n"))).unwrap();
        let source = source(TranscriptKind::Codex, home.path(), Some(file));
        let prompt = SentPrompt { text: "go".into(), since: TsNs(0) };
        source.turn(prompt, drawn("")).await.map(|(turn, _)| turn)
    }

    const CLAUDE_PROMPT: &str = r#"{"type":"user","uuid":"u","message":{"role":"user","content":"go"}}"#;
    const CLAUDE_ANSWER: &str = r#"{"type":"assistant","uuid":"a","parentUuid":"u","message":{"id":"m","stop_reason":"end_turn","content":[{"type":"text","text":"**late**"}]}}"#;

    /// Time after which the agent writes its answer, longer than [`END_TIMEOUT`]. The tests' clock is paused, so nothing waits for it.
    const WRITE_TIME: Duration = Duration::from_secs(3);

    /// Reads a turn of Claude Code whose transcript has `before` at first, and prompt and answer after [`WRITE_TIME`]. Returns the answer
    /// and the time that it took.
    async fn late_answer(before: Option<&str>, drawn: DrawnAnswer) -> (Option<String>, Duration) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("s.jsonl");
        let source = source(TranscriptKind::Claude, home.path(), Some(file.clone()));
        let status = source.session_files.status_file(source.pid);
        std::fs::create_dir_all(status.parent().unwrap()).unwrap();
        std::fs::write(status, "{}").unwrap();
        if let Some(before) = before {
            std::fs::write(&file, format!("{before}\n")).unwrap();
        }
        let begin = Instant::now();
        let read = source.turn(SentPrompt { text: "go".into(), since: TsNs(0) }, drawn);
        let write = async {
            tokio::time::sleep(WRITE_TIME).await;
            std::fs::write(file, format!("{CLAUDE_PROMPT}\n{CLAUDE_ANSWER}\n")).unwrap();
        };
        let ((turn, time), ()) = tokio::join!(async { (read.await, begin.elapsed()) }, write);
        (turn.map(|(turn, _)| turn.text()), time)
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_turn_is_awaited() {
        let (text, _) = late_answer(Some(CLAUDE_PROMPT), drawn("late")).await;
        assert_eq!(text.as_deref(), Some("**late**"));
        let first = DrawnAnswer { is_first: true, ..drawn("late") };
        assert_eq!(late_answer(None, first).await.0.as_deref(), Some("**late**"), "a file to be created");
    }

    #[tokio::test(start_paused = true)]
    async fn absent_turn_is_not_awaited() {
        let no_text = DrawnAnswer { ends_with_text: false, ..drawn("late") };
        for (before, drawn) in
            [(None, drawn("late")), (Some("{}"), drawn("late")), (Some(CLAUDE_PROMPT), no_text)]
        {
            let (text, time) = late_answer(before, drawn).await;
            assert!(text.is_none() && time < END_TIMEOUT * 2, "{before:?}: {text:?} after {time:?}");
        }
    }

    const TEXT: &str =
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":"All."}}"#;

    #[tokio::test]
    async fn answer_of_codex_is_read_to_its_end() {
        let turn = codex_turn(&[TEXT, r#"{"type":"event_msg","payload":{"type":"task_complete"}}"#]).await;
        let turn = turn.expect("a turn");
        assert_eq!((turn.text().as_str(), turn.is_complete), ("All.", true));
    }

    #[test]
    fn transcript_is_below_the_agents_own_settings_folder() {
        let settings = tempfile::tempdir().unwrap();
        let pid = std::process::id().cast_signed();
        std::fs::create_dir(settings.path().join("sessions")).unwrap();
        let status = r#"{"sessionId":"a-1","cwd":"/shop/🦀"}"#;
        std::fs::write(settings.path().join(format!("sessions/{pid}.json")), status).unwrap();
        let env = [("CLAUDE_CONFIG_DIR".to_string(), settings.path().display().to_string())].into();
        let session_files = SessionFiles::for_env(&env).expect("a home folder");
        let source =
            TranscriptSource { session_files, ..source(TranscriptKind::Claude, settings.path(), None) };
        // The crab has two UTF-16 units.
        assert_eq!(source.transcript(), Some(settings.path().join("projects/-shop---/a-1.jsonl")));
    }

    #[test]
    fn typed_conversation_is_known_if_it_is_the_only_one() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".gemini/tmp/p");
        std::fs::create_dir_all(project.join("chats")).unwrap();
        std::fs::write(project.join(".project_root"), std::env::current_dir().unwrap().to_str().unwrap())
            .unwrap();
        let source = source(TranscriptKind::Gemini, home.path(), None);
        let id = || source.only_conversation(TsNs(0))?.conversation_id();
        assert_eq!(id(), None);
        let write = |id: &str| {
            let path = project.join(format!("chats/session-1-{id}.jsonl"));
            std::fs::write(path, format!("{{\"sessionId\":\"{id}\"}}\n")).unwrap();
        };
        write("one");
        assert_eq!(id().as_deref(), Some("one"));
        write("two");
        assert_eq!(id(), None, "ambiguous");
    }

    /// Returns the turn of a chat of Gemini CLI with the prompt `go` and these lines.
    async fn gemini_turn(lines: &[&str]) -> Option<ParsedTurn> {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".gemini/tmp/p");
        std::fs::create_dir_all(project.join("chats")).unwrap();
        let cwd = std::env::current_dir().unwrap();
        std::fs::write(project.join(".project_root"), cwd.to_str().unwrap()).unwrap();
        let head = r#"{"sessionId":"one"}"#;
        let prompt =
            r#"{"id":"1","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":[{"text":"go"}]}"#;
        let chat = format!("{head}\n{prompt}\n{}\n", lines.join("\n"));
        std::fs::write(project.join("chats/session-1-one.jsonl"), chat).unwrap();
        let mut source = source(TranscriptKind::Gemini, home.path(), None);
        source.conversation_id = Some("one".to_string());
        let prompt = SentPrompt { text: "go".into(), since: TsNs(0) };
        source.turn(prompt, drawn("half of it")).await.map(|(turn, _)| turn)
    }

    #[tokio::test(start_paused = true)]
    async fn error_in_the_file_is_kept_if_only_the_screen_has_the_text() {
        let error = r#"{"id":"2","timestamp":"2026-01-01T00:00:01.000Z","type":"error","content":"[API Error: lost]"}"#;
        let turn = gemini_turn(&[error]).await.expect("a turn");
        let kinds: Vec<SectionKind> = turn.sections.iter().map(|section| section.kind).collect();
        assert_eq!((kinds.as_slice(), turn.is_truncated), ([SectionKind::Error].as_slice(), true));
    }

    #[tokio::test]
    async fn interrupted_codex_answer_has_screen_text_and_file_tokens() {
        let usage =
            r#"{"type":"token_usage_record","payload":{"usage":{"input_tokens":7,"output_tokens":2}}}"#;
        let aborted = r#"{"type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}"#;
        let turn = codex_turn(&[usage, aborted]).await.expect("a turn");
        let kinds: Vec<SectionKind> = turn.sections.iter().map(|section| section.kind).collect();
        assert_eq!((kinds.as_slice(), turn.is_truncated), ([SectionKind::Interrupted].as_slice(), true));
        assert_eq!(turn.tokens, Some(Tokens { input: Some(7), output: Some(2), total: None }));
    }
}
