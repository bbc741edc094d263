//! The files of conversations: `<base>/<workspace>/<chat>.json`, each a JSON array of messages.
//!
//! A writer reads, adds and replaces under a lock of the workspace, which counts between processes: two writers of one chat lose nothing
//! of each other. All of this blocks.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::ConversationId;
use super::message::{Message, parse_messages};
use super::seen_messages::Listener;
use crate::files::{Lock, private_folder, replace};

/// Messages kept of a conversation (seed: MAX_HISTORY).
pub const MAX_HISTORY: usize = 100;
/// Bytes a file may have; a longer one is set aside.
pub const MAX_FILE: u64 = 16 << 20;
/// Bytes kept of one message; of a longer one, its beginning and its end.
const MAX_MESSAGE: usize = 256 << 10;
/// A writer has the lock for milliseconds. One that has it for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(5);
/// Characters of a name that its file is called by.
const NAME: usize = 80;

/// The conversations of one user. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ConversationStore {
    base: PathBuf,
    /// How long a lock is waited for.
    patience: Duration,
}

/// What is kept of a conversation.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Oldest first.
    pub messages: Vec<Message>,
    /// Why it is not all there, in a whole sentence.
    pub problem: Option<String>,
}

/// What is at a path.
enum Found {
    Messages(Vec<Message>),
    Missing,
    /// Why it is no conversation.
    Broken(String),
}

impl ConversationStore {
    /// Conversations below `base`, which is made when something is kept.
    pub fn new(base: impl Into<PathBuf>) -> ConversationStore {
        ConversationStore { base: base.into(), patience: PATIENCE }
    }

    /// The file of a conversation. Two conversations never share one, and it is never outside of the base.
    pub fn path(&self, id: &ConversationId) -> PathBuf {
        self.base.join(safe(&id.workspace)).join(safe(&id.chat) + ".json")
    }

    /// What was said so far; nothing, and why, if it cannot be read. A file that is no conversation is set aside.
    pub fn load(&self, id: &ConversationId) -> Loaded {
        let path = self.path(id);
        match read(&path) {
            Ok(Found::Messages(messages)) => Loaded { messages, problem: None },
            Ok(Found::Missing) => Loaded::default(),
            Ok(Found::Broken(_)) => {
                let locked = self.lock(&path).and_then(|lock| read_or_set_aside(&path, &lock));
                locked.unwrap_or_else(|error| Loaded::without(&path, &error))
            }
            Err(error) => Loaded::without(&path, &error),
        }
    }

    /// Adds to a conversation, and notes that `listener` knows this, and those of `given` too. Tells what was wrong with the file
    /// before, if something was.
    ///
    /// # Errors
    /// Why nothing was kept, in a whole sentence.
    pub(crate) fn append(
        &self,
        id: &ConversationId,
        new: &[Message],
        listener: &Listener,
        given: &[Message],
    ) -> Result<Option<String>, String> {
        let path = self.path(id);
        self.append_at(&path, new, listener, given)
            .map_err(|error| format!("the turn was not added to {}: {error}", path.display()))
    }

    fn append_at(
        &self,
        path: &Path,
        new: &[Message],
        listener: &Listener,
        given: &[Message],
    ) -> io::Result<Option<String>> {
        private_folder(&self.base)?;
        private_folder(path.parent().unwrap_or(&self.base))?;
        let lock = self.lock(path)?;
        let Loaded { mut messages, problem } = read_or_set_aside(path, &lock)?;
        for message in &mut messages {
            if listener.knows(message) || given.iter().any(|known| known.is_same(message)) {
                listener.mark(message);
            }
        }
        for message in new {
            let mut message = message.clone();
            message.content = shortened(message.content);
            listener.mark(&mut message);
            messages.push(message);
        }
        messages.drain(..messages.len().saturating_sub(MAX_HISTORY));
        let mut bytes = serde_json::to_vec_pretty(&messages)?;
        if bytes.len() as u64 > MAX_FILE {
            messages.drain(..too_much(&messages)?);
            bytes = serde_json::to_vec_pretty(&messages)?;
        }
        replace(path, &bytes)?;
        Ok(problem)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        Lock::take(&path.with_file_name(".lock"), self.patience)
    }
}

impl Loaded {
    fn without(path: &Path, error: &io::Error) -> Loaded {
        let problem = format!("the conversation in {} cannot be read: {error}", path.display());
        Loaded { messages: Vec::new(), problem: Some(problem) }
    }
}

/// How many of the oldest messages have to go for the rest to have room in a file.
fn too_much(messages: &[Message]) -> io::Result<usize> {
    // What each line is indented by has room too.
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

/// The file is only ever replaced whole: this needs no lock.
fn read(path: &Path) -> io::Result<Found> {
    match fs::metadata(path) {
        // Something else may be opened for ever.
        Ok(meta) if !meta.is_file() => return Ok(Found::Broken("it is not a file".to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Ok(Found::Broken(format!("it is longer than {} MiB", MAX_FILE >> 20)));
    }
    // The short way; the other one says which message is wrong.
    if let Ok(messages) = serde_json::from_slice(&bytes) {
        return Ok(Found::Messages(messages));
    }
    let value = serde_json::from_slice::<Value>(&bytes).map_err(|error| format!("it is no JSON: {error}"));
    Ok(value.and_then(parse_messages).map_or_else(Found::Broken, Found::Messages))
}

fn read_or_set_aside(path: &Path, _lock: &Lock) -> io::Result<Loaded> {
    let why = match read(path)? {
        Found::Messages(messages) => return Ok(Loaded { messages, problem: None }),
        Found::Missing => return Ok(Loaded::default()),
        Found::Broken(why) => why,
    };
    let aside = aside(path)?;
    fs::rename(path, &aside)?;
    let problem = format!(
        "the conversation in {} could not be used ({why}) and is now in {}",
        path.display(),
        aside.display()
    );
    Ok(Loaded { messages: Vec::new(), problem: Some(problem) })
}

/// A name beside `path` that is free: it says when the file was set aside.
fn aside(path: &Path) -> io::Result<PathBuf> {
    let seconds = crate::clock::Clock::start().now().0 / 1_000_000_000;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (0..1000_u32)
        .map(|more| if more == 0 { String::new() } else { format!("-{more}") })
        .map(|more| path.with_file_name(format!("{name}.broken-{seconds}{more}")))
        .find(|aside| fs::symlink_metadata(aside).is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
        .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// A name as the name of a file (the seed's rule). One that had to be changed is told from others by its digest, behind a dot that no
/// unchanged name has.
fn safe(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut safe: String = name.chars().take(NAME).map(|c| if plain(c) { c } else { '_' }).collect();
    if safe != name {
        let digest = digest(&SHA256, name.as_bytes());
        safe.push('.');
        safe.extend(digest.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")));
    }
    safe
}

fn shortened(content: String) -> String {
    if content.len() <= MAX_MESSAGE {
        return content;
    }
    let (mut head, mut tail) = (MAX_MESSAGE / 2, content.len() - MAX_MESSAGE / 2);
    while !content.is_char_boundary(head) {
        head -= 1;
    }
    while !content.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n… ({} bytes are left out) …\n{}", &content[..head], tail - head, &content[tail..])
}

#[cfg(test)]
mod tests;
