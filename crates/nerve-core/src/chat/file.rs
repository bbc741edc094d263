//! A conversation in a file: JSON, replaced as a whole, for its owner alone.

use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::message::{Message, check};
use crate::error::{EngineError, ErrorKind};

/// The version that is written. A file of a newer one is not read, and so never written over.
const VERSION: u32 = 1;
/// Bytes of a file; more is no conversation of ours.
const MAX_FILE: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Shape {
    nerve_chat: u32,
    messages: Vec<Message>,
}

/// Writes a conversation; what was there before is there until all of it is written.
///
/// # Errors
/// Process: the file cannot be written.
pub(super) fn save(path: &Path, messages: &[Message]) -> Result<(), EngineError> {
    let write = || -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Files of this kind are 0600 from the start.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let shape = Shape { nerve_chat: VERSION, messages: messages.to_vec() };
        serde_json::to_writer(&mut io::BufWriter::new(&mut file), &shape)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| {
        let message = format!("the conversation cannot be written to {}: {error}", path.display());
        EngineError::new(ErrorKind::Process, message)
    })
}

/// Reads a conversation.
///
/// # Errors
/// NotFound; Process: it cannot be read; InvalidRequest: what is in it is none, or of a newer version.
pub(super) fn load(path: &Path) -> Result<Vec<Message>, EngineError> {
    let problem = |kind, what: String| {
        EngineError::new(kind, format!("{} is not read as a conversation: {what}", path.display()))
    };
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => problem(ErrorKind::NotFound, "there is no such file".to_string()),
        _ => problem(ErrorKind::Process, error.to_string()),
    })?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(problem(ErrorKind::InvalidRequest, format!("it is larger than {MAX_FILE} bytes")));
    }
    let hint = "move it away, or name another file";
    #[derive(Deserialize)]
    struct Version {
        nerve_chat: u32,
    }
    // A newer file may have anything in it.
    let version: Version = serde_json::from_slice(&bytes)
        .map_err(|error| problem(ErrorKind::InvalidRequest, error.to_string()).hint(hint))?;
    if version.nerve_chat > VERSION {
        let what = format!("it is of version {}, and {VERSION} is what this nerve knows", version.nerve_chat);
        return Err(problem(ErrorKind::InvalidRequest, what).hint(hint));
    }
    let shape: Shape = serde_json::from_slice(&bytes)
        .map_err(|error| problem(ErrorKind::InvalidRequest, error.to_string()).hint(hint))?;
    check(&shape.messages).map_err(|what| problem(ErrorKind::InvalidRequest, what).hint(hint))?;
    Ok(shape.messages)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::message::{ToolCall, ToolResult};
    use super::*;

    fn messages() -> Vec<Message> {
        let call = ToolCall { id: "1".into(), name: "b_run".into(), arguments: "{}".into() };
        let result = ToolResult { id: "1".into(), content: "ä\n".into(), is_error: true };
        vec![
            Message::User { text: "q".into() },
            Message::Assistant { text: String::new(), tool_calls: vec![call] },
            Message::Tools { results: vec![result] },
            Message::Assistant { text: "a".into(), tool_calls: Vec::new() },
        ]
    }

    #[test]
    fn what_is_written_is_read_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        save(&path, &[]).unwrap();
        save(&path, &messages()).unwrap();
        assert_eq!(load(&path).unwrap(), messages());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
    }

    #[test]
    fn what_is_no_conversation_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        assert_eq!(load(&path).unwrap_err().kind, ErrorKind::NotFound);
        for (text, says) in [
            ("", "EOF"),
            ("[]", "invalid"),
            (r#"{"nerve_chat": 2, "messages": 7}"#, "of version 2"),
            (r#"{"nerve_chat": 1, "messages": "x"}"#, "invalid type"),
            (r#"{"nerve_chat": 1, "messages": [{"role": "user", "text": 1}]}"#, "invalid type"),
            (r#"{"nerve_chat": 1, "messages": [{"role": "robot"}]}"#, "unknown variant"),
            (
                r#"{"nerve_chat": 1, "messages": [{"role": "user", "text": "q"}]}"#,
                "does not end with an answer",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = load(&path).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            assert!(error.message.contains(says), "{text}: {}", error.message);
        }
        let nowhere = folder.path().join("no/folder/talk.json");
        assert_eq!(save(&nowhere, &[]).unwrap_err().kind, ErrorKind::Process);
    }
}
