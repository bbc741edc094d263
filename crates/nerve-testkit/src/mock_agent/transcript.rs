//! The transcript of a conversation that has an id, stored where Claude Code stores its own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nerve_record::activity::TsMs;
use serde_json::{Value, json};

use super::options::MockAgentOptions;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A prompt of the user.
    Prompt(String),
    /// The text of an answer.
    Answer(String),
}

/// The transcript of one conversation.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    id: String,
    path: Option<PathBuf>,
    /// Lines of the forked conversation, written to the new transcript with its first prompt.
    inherited: Vec<Value>,
    /// Id of the last line.
    last: Option<String>,
    lines: usize,
}

impl Transcript {
    /// Opens the transcript that the options select; also returns the earlier prompts.
    ///
    /// # Errors
    /// The id is in use, or there is no conversation to resume.
    pub(super) fn open(
        options: &MockAgentOptions,
        folder: &str,
    ) -> Result<(Transcript, Vec<String>), String> {
        let Some(home) = std::env::var_os("HOME") else { return Ok(Default::default()) };
        let dashes = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let project: String = folder.chars().map(dashes).collect();
        let project = Path::new(&home).join(".claude/projects").join(project);
        let path = |id: &str| project.join(format!("{id}.jsonl"));
        let id = match (&options.session_id, &options.resume) {
            (Some(id), _) if path(id).exists() => return Err(format!("Session ID {id} is already in use.")),
            (Some(id), _) | (None, Some(id)) => id.clone(),
            (None, None) => return Ok(Default::default()),
        };
        let mut memory = Transcript { path: Some(path(&id)), id, ..Transcript::default() };
        let mut past = Vec::new();
        if let Some(resumed) = &options.resume {
            let text = fs::read_to_string(path(resumed))
                .map_err(|_| format!("No conversation found with session ID: {resumed}"))?;
            let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            past.extend(lines.iter().filter(|line| line["type"] == "user").filter_map(prompt_text));
            memory.last = lines.last().and_then(|line| Some(line["uuid"].as_str()?.to_string()));
            memory.lines = lines.len();
            if *resumed != memory.id {
                memory.inherited = lines;
            }
        }
        Ok((memory, past))
    }

    /// Appends messages.
    ///
    /// # Errors
    /// Any I/O error.
    pub(super) fn append(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let Some(path) = self.path.clone().filter(|_| !messages.is_empty()) else { return Ok(()) };
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        for mut line in std::mem::take(&mut self.inherited) {
            line["sessionId"] = json!(self.id);
            write(&mut file, &line)?;
        }
        for message in messages {
            let (role, content) = match message {
                Message::Prompt(text) => ("user", json!(text)),
                Message::Answer(text) => ("assistant", json!([{ "type": "text", "text": text }])),
            };
            self.lines += 1;
            let uuid = format!("{}-{}", self.id, self.lines);
            let parent = self.last.replace(uuid.clone());
            write(
                &mut file,
                &json!({
                    "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": self.id,
                    "timestamp": now(),
                    "message": { "role": role, "content": content, "stop_reason": "end_turn" },
                }),
            )?;
        }
        Ok(())
    }
}

/// Formats the time as Claude Code does.
fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TsMs(u64::try_from(since_epoch.as_millis()).unwrap_or_default()).iso()
}

fn prompt_text(line: &Value) -> Option<String> {
    Some(line["message"]["content"].as_str()?.to_string())
}

fn write(file: &mut File, line: &Value) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}
