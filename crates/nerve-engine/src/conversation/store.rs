//! The files of conversations: `<base>/<workspace>/<chat>.json`, each a JSON array of messages.
//!
//! A writer reads, appends and replaces under a lock of the workspace, which works across processes, so concurrent writers of one
//! chat lose nothing. All functions block.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_types::files::{Lock, private_folder, read_limited, replace};
use nerve_types::text::hex;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::ConversationId;
use super::message::{Message, parse_messages};
use super::seen_messages::ProgramSession;

/// Maximum number of messages kept in a conversation.
pub(crate) const MAX_HISTORY: usize = 100;
/// Maximum size of a file in bytes; a larger one is set aside.
pub(crate) const MAX_FILE: u64 = 16 << 20;
/// Maximum size of a message in bytes; a longer one is cut in its middle.
const MAX_MESSAGE: usize = 256 << 10;
/// Maximum wait for the lock. Writers hold it for milliseconds, so one that takes longer is stuck.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of characters of a name in its file name.
const MAX_NAME_CHARS: usize = 80;

/// The conversations of one user. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ConversationStore {
    base: PathBuf,
    /// Maximum wait for a lock.
    lock_timeout: Duration,
}

/// The messages of a conversation.
#[derive(Debug, Default)]
pub(crate) struct StoredConversation {
    /// The messages, oldest first.
    pub(crate) messages: Vec<Message>,
    /// Reason for missing messages, as a sentence.
    pub(crate) problem: Option<String>,
}

/// The contents of a path.
enum FileContents {
    Messages(Vec<Message>),
    Missing,
    /// The file holds no conversation; the reason.
    Broken(String),
}

impl ConversationStore {
    /// Stores conversations below `base`, which is created on the first write.
    pub(crate) fn new(base: impl Into<PathBuf>) -> ConversationStore {
        ConversationStore { base: base.into(), lock_timeout: LOCK_TIMEOUT }
    }

    /// Returns the file of a conversation. Different conversations have different files, all of them below the base.
    pub(crate) fn path(&self, id: &ConversationId) -> PathBuf {
        self.base.join(file_name(&id.workspace)).join(file_name(&id.chat) + ".json")
    }

    /// Returns the messages, or none and the reason if the file cannot be read. An invalid file is set aside.
    pub(crate) fn load(&self, id: &ConversationId) -> StoredConversation {
        let path = self.path(id);
        match read(&path) {
            Ok(FileContents::Messages(messages)) => StoredConversation { messages, problem: None },
            Ok(FileContents::Missing) => StoredConversation::default(),
            Ok(FileContents::Broken(_)) => {
                let locked = self.lock(&path).and_then(|lock| read_or_set_aside(&path, &lock));
                locked.unwrap_or_else(|error| StoredConversation::unreadable(&path, &error))
            }
            Err(error) => StoredConversation::unreadable(&path, &error),
        }
    }

    /// Appends the `new` messages. Marks them and the `sent` messages as seen by `reader`. Returns the problem of the previous
    /// file, if any.
    ///
    /// # Errors
    /// Returns why nothing was stored, as a sentence.
    pub(crate) fn append(
        &self,
        id: &ConversationId,
        new: &[Message],
        reader: &ProgramSession,
        sent: &[Message],
    ) -> Result<Option<String>, String> {
        let path = self.path(id);
        self.append_at(&path, new, reader, sent)
            .map_err(|error| format!("the turn was not added to {}: {error}", path.display()))
    }

    fn append_at(
        &self,
        path: &Path,
        new: &[Message],
        reader: &ProgramSession,
        sent: &[Message],
    ) -> io::Result<Option<String>> {
        private_folder(&self.base)?;
        private_folder(path.parent().unwrap_or(&self.base))?;
        let lock = self.lock(path)?;
        let StoredConversation { mut messages, problem } = read_or_set_aside(path, &lock)?;
        for message in &mut messages {
            if reader.has_seen(message) || sent.iter().any(|known| known.is_same(message)) {
                reader.mark_seen(message);
            }
        }
        for message in new {
            let mut message = message.clone();
            message.content = shorten(message.content);
            reader.mark_seen(&mut message);
            messages.push(message);
        }
        messages.drain(..messages.len().saturating_sub(MAX_HISTORY));
        let mut bytes = serde_json::to_vec_pretty(&messages)?;
        if bytes.len() as u64 > MAX_FILE {
            messages.drain(..overflow_count(&messages)?);
            bytes = serde_json::to_vec_pretty(&messages)?;
        }
        replace(path, &bytes)?;
        Ok(problem)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        Lock::take(&path.with_file_name(".lock"), self.lock_timeout)
    }
}

impl StoredConversation {
    fn unreadable(path: &Path, error: &io::Error) -> StoredConversation {
        let problem = format!("cannot read the conversation in {}: {error}", path.display());
        StoredConversation { messages: Vec::new(), problem: Some(problem) }
    }
}

/// Returns how many of the oldest messages must be dropped to fit the rest into a file.
fn overflow_count(messages: &[Message]) -> io::Result<usize> {
    // Leave room for the indentation.
    let mut room = MAX_FILE - MAX_FILE / 8;
    for (at, message) in messages.iter().enumerate().rev() {
        let size = serde_json::to_vec(message)?.len() as u64;
        match room.checked_sub(size) {
            Some(rest) => room = rest,
            None => return Ok(at + 1),
        }
    }
    Ok(0)
}

/// Reads a file. Needs no lock, because files are only replaced as a whole.
fn read(path: &Path) -> io::Result<FileContents> {
    let bytes = match read_limited(path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Ok(FileContents::Broken(error.to_string()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileContents::Missing),
        Err(error) => return Err(error),
    };
    // The fast path. The slow path finds out which message is invalid.
    if let Ok(messages) = serde_json::from_slice(&bytes) {
        return Ok(FileContents::Messages(messages));
    }
    let value = serde_json::from_slice::<Value>(&bytes).map_err(|error| format!("not JSON: {error}"));
    Ok(value.and_then(parse_messages).map_or_else(FileContents::Broken, FileContents::Messages))
}

fn read_or_set_aside(path: &Path, _lock: &Lock) -> io::Result<StoredConversation> {
    let why = match read(path)? {
        FileContents::Messages(messages) => return Ok(StoredConversation { messages, problem: None }),
        FileContents::Missing => return Ok(StoredConversation::default()),
        FileContents::Broken(why) => why,
    };
    let aside = unused_path(path)?;
    fs::rename(path, &aside)?;
    let problem = format!(
        "the conversation in {} could not be used ({why}) and is now in {}",
        path.display(),
        aside.display()
    );
    Ok(StoredConversation { messages: Vec::new(), problem: Some(problem) })
}

/// Returns an unused path next to `path` that contains the current time.
fn unused_path(path: &Path) -> io::Result<PathBuf> {
    let seconds = nerve_host::clock::Clock::start().now().0 / 1_000_000_000;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (0..1000_u32)
        .map(|more| if more == 0 { String::new() } else { format!("-{more}") })
        .map(|more| path.with_file_name(format!("{name}.broken-{seconds}{more}")))
        .find(|aside| fs::symlink_metadata(aside).is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
        .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// Converts a name to a file name. If characters had to be replaced, a dot and a digest are added. Unchanged names contain no
/// dot, so the result is unique.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut safe: String =
        name.chars().take(MAX_NAME_CHARS).map(|c| if plain(c) { c } else { '_' }).collect();
    if safe != name {
        safe.push('.');
        safe.push_str(&hex(&digest(&SHA256, name.as_bytes()).as_ref()[..6]));
    }
    safe
}

fn shorten(content: String) -> String {
    if content.len() <= MAX_MESSAGE {
        return content;
    }
    let head = content.floor_char_boundary(MAX_MESSAGE / 2);
    let tail = content.ceil_char_boundary(content.len() - MAX_MESSAGE / 2);
    format!("{}\n… ({} bytes are left out) …\n{}", &content[..head], tail - head, &content[tail..])
}

#[cfg(test)]
mod tests;
