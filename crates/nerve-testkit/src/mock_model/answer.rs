//! Answers of the scripted model, independent of any protocol.

use std::time::Duration;

use serde_json::{Value, json};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A reply of the model.
    Reply(Reply),
    /// An error of the API.
    Error {
        /// HTTP status, 400–599.
        status: u16,
        /// Message in the body.
        message: String,
    },
    /// Verbatim bytes that no proper API would send.
    Raw(Raw),
}

/// A response that follows no protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, or its beginning.
    pub body: String,
    /// End of the body.
    pub end: BodyEnd,
}

/// End of a response's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// Properly.
    Whole,
    /// The connection is reset.
    Broken,
    /// Never ends.
    Endless,
}

/// The content of a reply and its timing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// Delay before the first byte of the response.
    pub after: Duration,
    /// Delay between two pieces of text in a stream.
    pub every: Duration,
    /// The parts in order.
    pub parts: Vec<Part>,
    /// The connection is reset after the last piece of text, or before the body if it is not a stream.
    pub is_cut: bool,
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Thinking; omitted in protocols without it.
    Thinking(String),
    /// Text, in the pieces of a stream.
    Text(Vec<String>),
    /// A tool use.
    Tool(ToolCall),
}

/// A tool use, by purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCall {
    /// Run a shell command.
    Shell {
        /// The command.
        command: String,
        /// Request to run outside of the sandbox; Codex asks its user only then.
        outside_sandbox: bool,
    },
    /// Read a file.
    Read {
        /// Path of the file.
        path: String,
    },
    /// Write a file.
    Write {
        /// Path of the file.
        path: String,
        /// Content of the file.
        content: String,
    },
    /// A tool by name.
    Own {
        /// Name in the API.
        name: String,
        /// Arguments.
        input: Value,
    },
}

/// Default bytes of text in one piece of a stream.
const PIECE: usize = 200;

impl Answer {
    /// Creates a text answer.
    pub fn text(text: impl Into<String>) -> Answer {
        let text = text.into();
        Answer::Reply(Reply { parts: vec![Part::Text(pieces(&text))], ..Reply::default() })
    }

    /// Creates a delayed text answer.
    pub fn late(after: Duration, text: impl Into<String>) -> Answer {
        match Answer::text(text) {
            Answer::Reply(reply) => Answer::Reply(Reply { after, ..reply }),
            other => other,
        }
    }

    /// Creates a text answer in pieces with a pause between them.
    pub fn slow(every: Duration, pieces: Vec<String>) -> Answer {
        Answer::Reply(Reply { every, parts: vec![Part::Text(pieces)], ..Reply::default() })
    }

    /// Creates a text answer whose connection is reset after this text.
    pub fn cut(text: impl Into<String>) -> Answer {
        let parts = vec![Part::Text(vec![text.into()])];
        Answer::Reply(Reply { parts, is_cut: true, ..Reply::default() })
    }

    /// Creates an answer of some words and a tool use.
    pub fn tool(words: &str, call: ToolCall) -> Answer {
        Answer::Reply(Reply { parts: vec![Part::Text(pieces(words)), Part::Tool(call)], ..Reply::default() })
    }

    /// Creates an answer of several tool uses.
    pub fn tools(calls: impl IntoIterator<Item = ToolCall>) -> Answer {
        let parts = calls.into_iter().map(Part::Tool).collect();
        Answer::Reply(Reply { parts, ..Reply::default() })
    }

    /// Creates an event stream of exactly these bytes.
    pub fn stream(body: impl Into<String>, end: BodyEnd) -> Answer {
        let headers = vec![("content-type".to_string(), "text/event-stream".to_string())];
        Answer::Raw(Raw { status: 200, headers, body: body.into(), end })
    }

    /// Creates a status with one header and an empty body.
    pub fn status(status: u16, header: &str, value: &str) -> Answer {
        let headers = vec![(header.to_string(), value.to_string())];
        Answer::Raw(Raw { status, headers, body: String::new(), end: BodyEnd::Whole })
    }

    /// Creates an API error.
    pub fn error(status: u16, message: impl Into<String>) -> Answer {
        Answer::Error { status, message: message.into() }
    }
}

impl Reply {
    /// Returns the text of the reply.
    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(pieces) => Some(pieces.concat()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns the reply's token count: four bytes each, at least one.
    pub(super) fn tokens(&self) -> u64 {
        estimate(&self.text())
    }
}

/// Estimates a token count: four bytes each, at least one.
pub(super) fn estimate(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4).max(1)
}

/// Splits a text into the pieces of a stream.
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

/// Names of the agents' tools for a shell command, for reading and for writing a file, with argument names.
const SHELLS: [&str; 6] = ["Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell"];
const READERS: [(&str, &str); 4] =
    [("Read", "file_path"), ("read", "filePath"), ("read_file", "file_path"), ("view", "path")];
const WRITERS: [(&str, &str); 4] =
    [("Write", "file_path"), ("write", "filePath"), ("write_file", "file_path"), ("create", "path")];

impl ToolCall {
    /// Returns name and input of this call for the tools that the agent offers.
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
                let text = if name == "create" { "file_text" } else { "content" };
                (name, json!({ argument: path, text: content }))
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
        let write = ToolCall::Write { path: "/x".into(), content: "text".into() };
        assert_eq!(write.with(&["create".into()]), ("create", json!({"path": "/x", "file_text": "text"})));
    }
}
