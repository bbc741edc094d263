//! What the scripted model answers, in no particular protocol.

use std::time::Duration;

use serde_json::{Value, json};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The model speaks.
    Reply(Reply),
    /// The API refuses.
    Error {
        /// HTTP status, 400–599.
        status: u16,
        /// What the body says.
        message: String,
    },
    /// Bytes as they are: what no good API would send.
    Raw(Raw),
}

/// A response that follows no protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, or its begin.
    pub body: String,
    /// What comes after that.
    pub ending: Ending,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Whole,
    /// The connection breaks.
    Broken,
    /// Never.
    Endless,
}

/// What the model says, and how fast.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// Time before the first byte of the response.
    pub after: Duration,
    /// Time between two pieces of text of a stream.
    pub every: Duration,
    /// What it says, in order.
    pub parts: Vec<Part>,
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Thinking; protocols without it leave it out.
    Thinking(String),
    /// Text, in the pieces a stream sends it in.
    Text(Vec<String>),
    /// A tool is to be used.
    Tool(ToolCall),
}

/// A tool use, by what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCall {
    /// Run a shell command.
    Shell {
        /// The command.
        command: String,
        /// Ask to run it outside the sandbox, where the agent has one (Codex asks its user only then).
        outside_sandbox: bool,
    },
    /// Read a file.
    Read {
        /// Its path.
        path: String,
    },
    /// Write a file.
    Write {
        /// Its path.
        path: String,
        /// What goes in.
        content: String,
    },
    /// A tool by its name.
    Own {
        /// As the API has it.
        name: String,
        /// Its arguments.
        input: Value,
    },
}

/// Bytes of text in one piece of a stream where nothing else is said.
const PIECE: usize = 200;

impl Answer {
    /// A text at once.
    pub fn text(text: impl Into<String>) -> Answer {
        let text = text.into();
        Answer::Reply(Reply { parts: vec![Part::Text(pieces(&text))], ..Reply::default() })
    }

    /// A text, so long after the request.
    pub fn late(after: Duration, text: impl Into<String>) -> Answer {
        match Answer::text(text) {
            Answer::Reply(reply) => Answer::Reply(Reply { after, ..reply }),
            other => other,
        }
    }

    /// A text in pieces, with a pause between two.
    pub fn slow(every: Duration, pieces: Vec<String>) -> Answer {
        Answer::Reply(Reply { every, parts: vec![Part::Text(pieces)], ..Reply::default() })
    }

    /// Some words and a tool use.
    pub fn tool(words: &str, call: ToolCall) -> Answer {
        Answer::Reply(Reply { parts: vec![Part::Text(pieces(words)), Part::Tool(call)], ..Reply::default() })
    }

    /// Several tool uses at once.
    pub fn tools(calls: impl IntoIterator<Item = ToolCall>) -> Answer {
        let parts = calls.into_iter().map(Part::Tool).collect();
        Answer::Reply(Reply { parts, ..Reply::default() })
    }

    /// A stream of events that is only these bytes.
    pub fn stream(body: impl Into<String>, ending: Ending) -> Answer {
        let headers = vec![("content-type".to_string(), "text/event-stream".to_string())];
        Answer::Raw(Raw { status: 200, headers, body: body.into(), ending })
    }

    /// A status with one header and an empty body.
    pub fn status(status: u16, header: &str, value: &str) -> Answer {
        let headers = vec![(header.to_string(), value.to_string())];
        Answer::Raw(Raw { status, headers, body: String::new(), ending: Ending::Whole })
    }

    /// An API error.
    pub fn error(status: u16, message: impl Into<String>) -> Answer {
        Answer::Error { status, message: message.into() }
    }
}

impl Reply {
    /// All text of the reply.
    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(pieces) => Some(pieces.concat()),
            _ => None,
        });
        texts.collect()
    }

    /// What the reply is said to cost, in tokens: four bytes each, at least one.
    pub(super) fn tokens(&self) -> u64 {
        estimate(&self.text())
    }
}

/// A token count that is good enough to be shown: four bytes each, at least one.
pub(super) fn estimate(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4).max(1)
}

/// Cuts a text into pieces of a stream.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in text.chars() {
        match pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(c),
            _ => pieces.push(c.into()),
        }
    }
    pieces
}

/// Each way an agent's tools take a shell command, a file to read or to write: tool name and argument names.
const SHELLS: [&str; 6] = ["Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell"];
const READERS: [(&str, &str); 3] = [("Read", "file_path"), ("read", "filePath"), ("read_file", "file_path")];
const WRITERS: [(&str, &str); 3] =
    [("Write", "file_path"), ("write", "filePath"), ("write_file", "file_path")];

impl ToolCall {
    /// The name and the input of this call, with the tools the agent offers.
    pub(super) fn with(&self, offered: &[String]) -> (&str, Value) {
        let has = |name: &str| offered.iter().any(|offer| offer == name);
        let pick = |tools: &[(&'static str, &'static str)]| {
            tools.iter().find(|(name, _)| has(name)).or(tools.first()).copied().unwrap_or_default()
        };
        match self {
            ToolCall::Shell { command, outside_sandbox } => {
                let name = SHELLS.into_iter().find(|name| has(name)).unwrap_or(SHELLS[0]);
                let input = match name {
                    "exec_command" if *outside_sandbox => json!({
                        "cmd": command,
                        "sandbox_permissions": "require_escalated",
                        "justification": "Do you want to allow the scripted command?",
                    }),
                    "exec_command" => json!({ "cmd": command }),
                    "shell" => json!({ "command": ["bash", "-lc", command] }),
                    "shell_command" => json!({ "command": command }),
                    _ => json!({ "command": command, "description": "Run the scripted command" }),
                };
                (name, input)
            }
            ToolCall::Read { path } => {
                let (name, argument) = pick(&READERS);
                (name, json!({ argument: path }))
            }
            ToolCall::Write { path, content } => {
                let (name, argument) = pick(&WRITERS);
                (name, json!({ argument: path, "content": content }))
            }
            ToolCall::Own { name, input } => (name, input.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text() {
        let text = "日本語 and more ".repeat(100);
        assert_eq!(pieces(&text).concat(), text);
        assert!(pieces(&text).len() > 5);
        assert_eq!(pieces(""), [""]);
    }

    #[test]
    fn a_tool_call_uses_the_name_that_is_offered() {
        let call = ToolCall::Shell { command: "ls".into(), outside_sandbox: false };
        assert_eq!(call.with(&["exec_command".into()]), ("exec_command", json!({"cmd": "ls"})));
        assert_eq!(call.with(&[]).0, "Bash");
        let read = ToolCall::Read { path: "/x".into() };
        assert_eq!(read.with(&["read".into()]), ("read", json!({"filePath": "/x"})));
    }
}
