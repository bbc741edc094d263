//! The library of recordings: lists them without reading them in full, and removes old ones.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nerve_types::{ExitStatus, Size, TsNs};

use crate::ahr::{AhrError, Block, Body, Part, Reader};
use crate::executions;
use crate::index::Index;
use crate::meta::Meta;
use crate::snapshots::{self, FilesRef};
use crate::store::{self, Store};

/// Bytes at the end of a recording that are searched for its last block. Nerve's own blocks are shorter.
const TAIL_BYTES: u64 = 1 << 20;
/// Maximum number of candidates that are tried.
const MAX_CANDIDATES: usize = 64;

/// A recording as read from its sidecars and its first and last blocks. The type of this name in the API is its JSON form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingInfo {
    /// Path of the recording.
    pub path: PathBuf,
    /// Id: the file name without extension.
    pub id: String,
    /// Time of the last write to the file, if the file system has it.
    pub written: Option<TsNs>,
    /// Start time, if known.
    pub started: Option<TsNs>,
    /// Duration, if known.
    pub duration: Option<Duration>,
    /// Bytes on disk, sidecars included.
    pub bytes: u64,
    /// Initial size of the terminal.
    pub size: Option<Size>,
    /// Program and arguments; empty if unknown.
    pub command: Vec<String>,
    /// Working directory of the program.
    pub cwd: Option<PathBuf>,
    /// The node whose terminal it is.
    pub node: Option<String>,
    /// The node's session.
    pub session: Option<String>,
    /// The server that made the node.
    pub server: Option<String>,
    /// The profile of the agent.
    pub profile: Option<String>,
    /// Id of the agent's conversation, as last reported.
    pub conversation_id: Option<String>,
    /// Exit status of the program, if known.
    pub exit: Option<ExitStatus>,
    /// Number of snapshots in the sidecar.
    pub snapshots: u64,
    /// A recorder holds the lock, or that of an execution of the session.
    pub live: bool,
    /// The file is empty: the recording has just begun, or its recorder died at once.
    pub empty: bool,
}

impl RecordingInfo {
    /// Reads the description of one recording.
    ///
    /// # Errors
    /// The recording cannot be opened or read.
    pub fn read(path: &Path) -> Result<RecordingInfo, AhrError> {
        let mut reader = Reader::open(path)?;
        // An unreadable sidecar is ignored.
        let meta = Meta::load(path).ok().flatten().unwrap_or_default();
        let first = first_block(&mut reader)?;
        let nonzero = |time: TsNs| (time.0 > 0).then_some(time);
        let began = first.as_ref().map(Block::start);
        let started = nonzero(meta.started_at).or(began.and_then(nonzero));
        let empty = reader.file_len()? == 0;
        // An empty file must not be locked here: its recorder may be about to lock it.
        let is_recording = !empty && is_live(path);
        // Both times are from the same clock: the recorder's, or the recording's own.
        let (from, to) = match meta.ended_at.filter(|_| !is_recording) {
            Some(ended) => (started, Some(ended)),
            None => (began.or(started), last_time(path, &mut reader)?),
        };
        let size = (meta.cols > 0 && meta.rows > 0).then(|| Size::new(meta.cols, meta.rows));
        let bytes = recording_files(path)
            .iter()
            .filter_map(|file| fs::metadata(file).ok())
            .map(|meta| meta.len())
            .sum();
        Ok(RecordingInfo {
            path: path.into(),
            id: store::id_of(path).map_or_else(|| path.display().to_string(), str::to_string),
            written: fs::metadata(path).and_then(|file| file.modified()).ok().and_then(time_of),
            started,
            duration: from.zip(to).map(|(from, to)| to.since(from)),
            bytes,
            size: size.or_else(|| first.as_ref().and_then(size_in)),
            command: if meta.requested_cmd.is_empty() { meta.cmd } else { meta.requested_cmd },
            cwd: meta.cwd,
            node: meta.node,
            session: meta.session,
            server: meta.server,
            profile: meta.profile,
            conversation_id: meta.conversation_id,
            exit: meta.exit,
            snapshots: snapshots::read(path).map_or(0, |lines| lines.len() as u64),
            live: is_recording || executions_of(path).any(|execution| is_recorded_now(&execution)),
            empty,
        })
    }

    /// Returns the end time; `None` for a live recording, or if unknown.
    fn ended(&self) -> Option<TsNs> {
        if self.live { None } else { self.started.map(|started| started + self.duration.unwrap_or_default()) }
    }
}

/// Lists at most `last` recordings, last written first. Skips unreadable ones, and opens no more than needed.
pub fn list(store: &Store, last: usize) -> Vec<RecordingInfo> {
    store.all().iter().filter_map(|path| RecordingInfo::read(path).ok()).take(last).collect()
}

/// Limits for the recordings to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Recordings that ended before this are removed.
    pub not_before: Option<TsNs>,
    /// Maximum total bytes. The last written recordings that fit are kept; an older one may fit where a newer one does not.
    pub bytes: Option<u64>,
}

/// Reason why a recording is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Too old.
    Age,
    /// Total size exceeded.
    Bytes,
}

/// Selects the recordings of `all` (last written first) to remove, with the reason. Live recordings are kept, and so are
/// empty ones, which may have just begun; their bytes count.
pub fn select_expired(all: &[RecordingInfo], keep: Retention) -> Vec<(&RecordingInfo, Reason)> {
    let mut sum = 0u64;
    let mut expired = Vec::new();
    for info in all {
        let too_old = keep.not_before.zip(info.ended()).is_some_and(|(limit, ended)| ended < limit);
        let too_much = keep.bytes.is_some_and(|max| sum.saturating_add(info.bytes) > max);
        match (info.live || info.empty, too_old, too_much) {
            (false, true, _) => expired.push((info, Reason::Age)),
            (false, false, true) => expired.push((info, Reason::Bytes)),
            _ => sum = sum.saturating_add(info.bytes),
        }
    }
    expired
}

/// Removes a recording and its sidecars, the recording last. Returns false and removes nothing if the recording or that of
/// an execution is live or empty, see [`select_expired`]. The files of its snapshots are not removed: see
/// [`crate::files::remove_from_git`]. If git repositories have some, the list of snapshots stays: see [`removed`].
///
/// # Errors
/// Any I/O error.
pub fn remove(recording: &Path) -> io::Result<bool> {
    // Executions may outlive their agent. The locks are held until everything is removed.
    let mut locks = Vec::new();
    for path in [recording.to_path_buf()].into_iter().chain(executions_of(recording)) {
        match lock_ended(&path)? {
            Some(lock) => locks.push(lock),
            None => return Ok(false),
        }
    }
    // Only the list says which snapshots in git repositories belong to the recording.
    let lines = snapshots::read(recording).unwrap_or_default();
    if lines.iter().filter_map(|line| line.files.as_ref()).any(FilesRef::is_in_git) {
        fs::rename(snapshots::list_path(recording), snapshots::list_path(&stand_in(recording)))?;
    }
    for path in recording_files(recording).iter().rev() {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // The folder may be missing, or contain other files.
    let _ = fs::remove_dir(executions::folder_path(recording));
    Ok(true)
}

/// Returns the path `<stem>.removed.ahr`, which stands for a removed recording. No file has it.
fn stand_in(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "removed.ahr")
}

/// Lists the stand-ins of removed recordings with snapshots in git repositories, sorted by path. Only their lists of snapshots exist:
/// see [`snapshots::list_path`].
pub fn removed(store: &Store) -> Vec<PathBuf> {
    let from_list = |list: PathBuf| {
        let stem = list.file_name()?.to_str()?.strip_suffix(".removed.snapshots.jsonl")?;
        let recording = list.with_file_name(format!("{stem}.{}", store::EXTENSION));
        // A recording can be imported again.
        matches!(recording.try_exists(), Ok(false)).then(|| stand_in(&recording))
    };
    let mut removed: Vec<PathBuf> = store.files().filter_map(from_list).collect();
    removed.sort();
    removed
}

/// Locks a recording that has ended; `None` if it is live or empty.
fn lock_ended(recording: &Path) -> io::Result<Option<File>> {
    let file = File::open(recording)?;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the paths of the recordings of a session's executions.
fn executions_of(recording: &Path) -> impl Iterator<Item = PathBuf> {
    files_in(&executions::folder_path(recording))
        .filter(|path| path.extension().is_some_and(|extension| extension == store::EXTENSION))
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path())
}

/// Returns the recording and the possible paths of its sidecars; the recordings of its executions come last.
fn recording_files(recording: &Path) -> Vec<PathBuf> {
    let mut files = vec![
        recording.into(),
        Meta::sidecar_path(recording),
        snapshots::list_path(recording),
        Index::sidecar_path(recording),
        executions::list_path(recording),
    ];
    files.extend(files_in(&executions::folder_path(recording)));
    files
}

/// Returns true if a recorder holds the lock. Not for empty files: a recorder could be about to lock one.
pub fn is_live(recording: &Path) -> bool {
    let lock = |file: File| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
    File::open(recording).is_ok_and(lock)
}

/// Returns true if a recording is being written.
pub fn is_recorded_now(recording: &Path) -> bool {
    fs::metadata(recording).is_ok_and(|file| file.len() > 0) && is_live(recording)
}

fn first_block(reader: &mut Reader<BufReader<File>>) -> io::Result<Option<Block>> {
    // Damage at the start is reported as one part, so the first block is at most the second part.
    for _ in 0..2 {
        match reader.next().map_err(io::Error::other)? {
            Some(Part::Block(block)) => return Ok(Some(block)),
            Some(Part::Lost(_)) => {}
            None => break,
        }
    }
    Ok(None)
}

/// Returns a file's time; `None` if it is before 1970.
fn time_of(time: SystemTime) -> Option<TsNs> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| TsNs::default() + since)
}

fn size_in(block: &Block) -> Option<Size> {
    block.records().find_map(|record| match record.body {
        Body::Resize { cols, rows } => Some(Size::new(cols, rows)),
        _ => None,
    })
}

/// Returns the latest time in the last intact block near the end of the file.
fn last_time(path: &Path, reader: &mut Reader<BufReader<File>>) -> Result<Option<TsNs>, AhrError> {
    let from = reader.file_len()?.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let places = (0..tail.len()).rev().filter(|at| tail[*at..].starts_with(b"AHRC"));
    for place in places.take(MAX_CANDIDATES).map(|at| from + at as u64) {
        reader.seek_to(place)?;
        if let Some(Part::Block(block)) = reader.next()?
            && block.file_off == place
        {
            let times = block.records().map(|record| record.at).chain([block.start()]);
            // An empty last block may have no time.
            if let Some(last) = times.max().filter(|at| at.0 > 0) {
                return Ok(Some(last));
            }
        }
    }
    Ok(None)
}
