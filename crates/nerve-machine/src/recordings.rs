//! Copies of recordings of other machines, so that they can be viewed, played and exported here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nerve_api::ErrorKind;
use nerve_api::reply::RecordingFile;
use nerve_api::request::GetRecordingFile;
use nerve_client::NerveClient;
use nerve_types::files::{self, Lock};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::connect::CONNECT_TIMEOUT;
use crate::error::MachineError;
use crate::machine::Machine;
use crate::machines::Machines;

/// Maximum size of all copies, in bytes.
const MAX_CACHE: u64 = 2 << 30;
/// Bytes of a range.
const RANGE: u64 = 1 << 20;
/// Bytes of the first range, which identifies the recording: most of it may be here already.
const FIRST_RANGE: u64 = 4 << 10;
/// Bytes at the end of a copy that are compared before it is continued: the recording may be another file of this name.
const OVERLAP: u64 = 64 << 10;
/// Time limit for a range.
const RANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of times that a broken connection is made again.
const RECONNECTS: usize = 3;
/// Time limit for another process that fetches a recording of the same machine.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of the name of a copy, in bytes.
const MAX_NAME: usize = 100;
/// Fields of the metadata with paths of the other machine, under which this one may have other files.
const PATHS: [&str; 2] = ["transcript", "home"];

/// The directory of the copies.
#[derive(Debug, Clone)]
pub struct RecordingCache {
    root: PathBuf,
    /// Maximum size of all copies, in bytes.
    limit: u64,
}

impl RecordingCache {
    /// Creates the cache of the user's directory for caches. It need not exist.
    pub fn new(cache: &Path) -> RecordingCache {
        RecordingCache { root: cache.join("recordings"), limit: MAX_CACHE }
    }

    /// Returns true if a recording is a copy.
    pub fn has(&self, recording: &Path) -> bool {
        recording.starts_with(&self.root)
    }

    /// Returns the directory of a machine's copies.
    fn folder(&self, machine: &Machine) -> PathBuf {
        self.root.join(file_name(machine.label()))
    }

    /// Removes the copies that were used least recently until there is room. Returns false if the room exceeds the cache.
    fn make_room(&self, bytes: u64, used: &Path) -> bool {
        let mut copies: Vec<(SystemTime, u64, PathBuf)> = list(&self.root)
            .iter()
            .flat_map(|folder| list(folder))
            .filter(|path| path.extension().is_some_and(|extension| extension == "ahr") && *path != used)
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, size_of(&path), path)))
            .collect();
        copies.sort();
        let mut sum: u64 = copies.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in copies {
            if sum.saturating_add(bytes) <= self.limit {
                break;
            }
            remove(&path);
            sum -= size;
        }
        bytes <= self.limit
    }
}

/// Returns a name without characters that have a meaning in paths.
fn file_name(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-';
    name.chars().take(MAX_NAME).map(|char| if is_plain(char) { char } else { '_' }).collect()
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the files of a copy: the recording, its metadata, its snapshots and its index.
fn files_of(copy: &Path) -> Vec<PathBuf> {
    let prefix = copy.with_extension("").file_name().map(|name| format!("{}.", name.display()));
    let is_own = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.zip(prefix.as_deref()).is_some_and(|(name, prefix)| name.starts_with(prefix))
    };
    list(copy.parent().unwrap_or(copy)).into_iter().filter(is_own).collect()
}

fn size_of(copy: &Path) -> u64 {
    files_of(copy).iter().filter_map(|file| fs::metadata(file).ok()).map(|meta| meta.len()).sum()
}

fn remove(copy: &Path) {
    for file in files_of(copy) {
        // Another process may have removed it.
        let _ = fs::remove_file(file);
    }
}

impl Machines {
    /// Copies a recording of a machine, or continues its copy, and returns the path of the copy. Ranges have checksums, and what arrived
    /// before a connection broke stays. `on_progress` receives the bytes of the copy and of the recording.
    ///
    /// # Errors
    /// The machine cannot be reached, has no such recording, or is too old; the recording is larger than the cache.
    pub async fn fetch_recording(
        &self,
        machine: &Machine,
        name: &str,
        cache: &RecordingCache,
        mut on_progress: impl FnMut(u64, u64),
    ) -> Result<PathBuf, MachineError> {
        let folder = cache.folder(machine);
        files::private_folder(&folder).map_err(|error| unwritable(&folder, &error))?;
        let lock = Lock::take(&folder.join("lock"), LOCK_TIMEOUT);
        let _lock = lock.map_err(|error| unwritable(&folder, &error))?;
        let mut attempt = 0;
        loop {
            let client = self.connect(machine, CONNECT_TIMEOUT).await?;
            match fetch(&client, name, &folder, cache, &mut on_progress).await {
                Err(error) if is_broken(&error) && attempt < RECONNECTS => attempt += 1,
                fetched => return fetched,
            }
        }
    }
}

/// Returns true if the connection broke, so that the copy can be continued over another one.
fn is_broken(error: &MachineError) -> bool {
    matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout)
}

async fn fetch(
    client: &NerveClient,
    name: &str,
    folder: &Path,
    cache: &RecordingCache,
    on_progress: &mut impl FnMut(u64, u64),
) -> Result<PathBuf, MachineError> {
    let (first, bytes) = request_range(client, name, 0, FIRST_RANGE).await?;
    let path = folder.join(format!("{}.ahr", file_name(&first.recording_id)));
    if !cache.make_room(first.file_bytes, &path) {
        let message = format!("recording '{name}' is larger than the cache: {} bytes", first.file_bytes);
        let hint = "view it on its machine, or copy its files: scp";
        return Err(MachineError::new(ErrorKind::TooLarge, message).hint(hint));
    }
    let mut copy = RecordingCopy::open(&path).map_err(|error| unwritable(&path, &error))?;
    let added = copy.add(0, &bytes).map_err(|error| unwritable(&path, &error))?;
    if !added || copy.len > first.file_bytes {
        copy.restart().map_err(|error| unwritable(&path, &error))?;
    }
    loop {
        let (known, offset) = (copy.len, copy.len.saturating_sub(OVERLAP));
        let (range, bytes) = request_range(client, name, offset, RANGE).await?;
        if !copy.add(offset, &bytes).map_err(|error| unwritable(&path, &error))? {
            copy.restart().map_err(|error| unwritable(&path, &error))?;
            continue;
        }
        on_progress(copy.len, range.file_bytes);
        if copy.len >= range.file_bytes {
            copy.finish(&range).map_err(|error| unwritable(&path, &error))?;
            return Ok(path);
        }
        if copy.len == known {
            return Err(MachineError::new(ErrorKind::Network, format!("recording '{name}' became shorter")));
        }
    }
}

/// Requests a range, and checks it.
async fn request_range(
    client: &NerveClient,
    name: &str,
    offset: u64,
    limit: u64,
) -> Result<(RecordingFile, Vec<u8>), MachineError> {
    let request = GetRecordingFile { recording: name.to_string(), offset, limit: Some(limit) };
    let reply = timeout(RANGE_TIMEOUT, client.recording_file(&request)).await;
    let range =
        reply.map_err(|_| MachineError::new(ErrorKind::Timeout, "the recording is not sent in time"))??;
    let bytes = BASE64_STANDARD.decode(&range.data).unwrap_or_default();
    if range.checksum != crc32c::crc32c(&bytes) || range.offset != offset || bytes.len() as u64 > limit {
        let message = format!("recording '{name}' arrived damaged at byte {offset}");
        return Err(MachineError::new(ErrorKind::Network, message).hint("try again"));
    }
    Ok((range, bytes))
}

fn unwritable(path: &Path, error: &io::Error) -> MachineError {
    MachineError::new(ErrorKind::Process, format!("cannot write {}: {error}", path.display()))
}

/// The copy of a recording, whose content is the beginning of the recording.
struct RecordingCopy {
    path: PathBuf,
    file: File,
    /// Length in bytes.
    len: u64,
}

impl RecordingCopy {
    fn open(path: &Path) -> io::Result<RecordingCopy> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let len = file.metadata()?.len();
        Ok(RecordingCopy { path: path.to_path_buf(), file, len })
    }

    /// Appends the part of a range that is not here yet. Returns false if the rest differs from the copy.
    fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        let known = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        self.file.seek(SeekFrom::Start(offset))?;
        let mut here = vec![0; known];
        self.file.read_exact(&mut here)?;
        if here != bytes[..known] {
            return Ok(false);
        }
        self.file.write_all(&bytes[known..])?;
        self.len = self.len.max(offset + bytes.len() as u64);
        Ok(true)
    }

    /// Removes all content, and the index, which is that of another recording.
    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.len = 0;
        for file in files_of(&self.path).iter().filter(|file| **file != self.path) {
            let _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// Writes the files next to the recording, and marks the copy as used now.
    fn finish(&self, range: &RecordingFile) -> io::Result<()> {
        let sidecar = |extension: &str, text: Option<String>| {
            let path = self.path.with_extension(extension);
            match text {
                Some(text) => files::replace_unsynced(&path, text.as_bytes()),
                // There may be none.
                None => fs::remove_file(path).or(Ok(())),
            }
        };
        sidecar("meta.json", range.metadata.as_deref().and_then(without_paths))?;
        sidecar("snapshots.jsonl", range.snapshots.clone())?;
        self.file.set_modified(SystemTime::now())
    }
}

/// Removes the paths of files outside the recording from metadata. Returns `None` for text that is no JSON object.
fn without_paths(metadata: &str) -> Option<String> {
    let mut fields: Map<String, Value> = serde_json::from_str(metadata).ok()?;
    fields.retain(|name, _| !PATHS.contains(&name.as_str()));
    serde_json::to_string(&fields).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_continues_and_notices_other_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ahr");
        let mut copy = RecordingCopy::open(&path).unwrap();
        assert!(copy.add(0, b"abcdef").unwrap());
        // A process that was killed has written a part.
        let mut copy = RecordingCopy::open(&path).unwrap();
        assert!(copy.add(3, b"defghi").unwrap() && copy.add(0, b"abc").unwrap());
        assert_eq!((copy.len, fs::read(&path).unwrap()), (9, b"abcdefghi".to_vec()));
        assert!(!copy.add(6, b"gXi-").unwrap());
        assert_eq!(copy.len, 9);
        fs::write(folder.path().join("a.index"), "x").unwrap();
        fs::write(folder.path().join("ab.ahr"), "x").unwrap();
        copy.restart().unwrap();
        assert_eq!(files_of(&path), std::slice::from_ref(&path));
        assert!(copy.add(0, b"new").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn oldest_copies_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let cache = RecordingCache { limit: 100, ..RecordingCache::new(folder.path()) };
        let machine = Machine { name: "work".to_string(), ..Machine::default() };
        let copies = cache.folder(&machine);
        fs::create_dir_all(&copies).unwrap();
        let add = |name: &str, age: u64| {
            let path = copies.join(format!("{name}.ahr"));
            fs::write(&path, [0; 40]).unwrap();
            fs::write(path.with_extension("meta.json"), "{}").unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            path
        };
        let (old, new, used) = (add("old", 20), add("new", 10), add("used", 30));
        assert!(cache.has(&old) && !cache.has(folder.path()));
        assert!(cache.make_room(50, &used));
        assert!(!old.exists() && !old.with_extension("meta.json").exists());
        assert!(new.exists() && used.exists());
        assert!(!cache.make_room(101, &used));
    }

    #[test]
    fn names_and_metadata_of_a_machine_name_no_path_here() {
        assert_eq!(file_name("../../etc/passwd"), "______etc_passwd");
        assert_eq!(file_name(&"x".repeat(500)).len(), MAX_NAME);
        let metadata = r#"{"cols":80,"transcript":"/home/me/.ssh/id","home":"/home/me"}"#;
        assert_eq!(without_paths(metadata).as_deref(), Some(r#"{"cols":80}"#));
        assert_eq!(without_paths("[]"), None);
    }
}
