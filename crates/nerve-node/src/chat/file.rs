//! Stores a conversation in a JSON file, which is replaced as a whole and private to its owner.

use std::io::{self, Write};
use std::path::Path;

use nerve_llm::message::{Message, check};
use nerve_types::files::read_limited;
use serde::{Deserialize, Serialize};

use crate::error::{EngineError, ErrorKind};

/// The version that is written. A file of a newer version is not read, and so never overwritten.
const VERSION: u32 = 1;
/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The content of a conversation's file.
#[derive(Serialize, Deserialize)]
struct ChatFile {
    nerve_chat: u32,
    messages: Vec<Message>,
}

/// Writes a conversation. The previous file stays in place until the new one is complete.
///
/// # Errors
/// Process: the file cannot be written.
pub(super) fn save(path: &Path, messages: &[Message]) -> Result<(), EngineError> {
    let write = || -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Temporary files are created with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let stored = ChatFile { nerve_chat: VERSION, messages: messages.to_vec() };
        let mut bytes = serde_json::to_vec(&stored)?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE {
            let message = format!("it has {} bytes, more than {MAX_FILE}", bytes.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| {
        EngineError::process(format!("cannot write the conversation to {}: {error}", path.display()))
    })
}

/// Reads a conversation.
///
/// # Errors
/// NotFound; Process: the file cannot be read; InvalidRequest: it holds no conversation, or one of a newer version.
pub(super) fn load(path: &Path) -> Result<Vec<Message>, EngineError> {
    let problem = |kind, what: String| {
        EngineError::new(kind, format!("cannot read a conversation from {}: {what}", path.display()))
    };
    let bytes = read_limited(path, MAX_FILE).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => problem(ErrorKind::NotFound, "no such file".to_string()),
        io::ErrorKind::InvalidData => problem(ErrorKind::InvalidRequest, error.to_string()),
        _ => problem(ErrorKind::Process, error.to_string()),
    })?;
    let hint = "move it away, or name another file";
    #[derive(Deserialize)]
    struct Version {
        nerve_chat: u32,
    }
    // A newer file may have any fields, so read only the version at first.
    let version: Version = serde_json::from_slice(&bytes)
        .map_err(|error| problem(ErrorKind::InvalidRequest, error.to_string()).hint(hint))?;
    if version.nerve_chat > VERSION {
        let what =
            format!("version {} is newer than {VERSION}, which this nerve supports", version.nerve_chat);
        return Err(problem(ErrorKind::InvalidRequest, what).hint(hint));
    }
    let stored: ChatFile = serde_json::from_slice(&bytes)
        .map_err(|error| problem(ErrorKind::InvalidRequest, error.to_string()).hint(hint))?;
    check(&stored.messages).map_err(|what| problem(ErrorKind::InvalidRequest, what).hint(hint))?;
    Ok(stored.messages)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use nerve_llm::message::{ToolCall, ToolResult};

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
    fn saved_conversation_is_loaded_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        save(&path, &[]).unwrap();
        save(&path, &messages()).unwrap();
        assert_eq!(load(&path).unwrap(), messages());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn conversation_that_could_not_be_loaded_is_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        save(&path, &messages()).unwrap();
        let long = [Message::User { text: "x".repeat(65 << 20) }];
        assert_eq!(save(&path, &long).unwrap_err().kind, ErrorKind::Process);
        assert_eq!(load(&path).unwrap(), messages());
    }

    #[test]
    fn invalid_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        assert_eq!(load(&path).unwrap_err().kind, ErrorKind::NotFound);
        for (text, says) in [
            ("", "EOF"),
            ("[]", "invalid"),
            (r#"{"nerve_chat": 2, "messages": 7}"#, "version 2 is newer"),
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
