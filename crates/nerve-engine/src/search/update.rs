//! Brings the index up to date with the files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use nerve_api::DEFAULT_SESSION;
use nerve_record::library::{RecordingInfo, is_live};
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_search::{ScreenText, read_screen_text};

use super::documents::{Document, Source, documents_of_screen, documents_of_transcript};
use super::index::{IndexError, IndexState, SearchIndex};
use super::progress::{Progress, SearchProgress};
use crate::data_dirs::DataDirs;
use crate::node_files::{self, NodeKey};
use crate::recordings::unreadable_error;
use crate::transcripts::{TurnReader, end_of, read_history, session_of};

/// The result of an update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UpdateSummary {
    /// Number of files indexed.
    pub(super) indexed: usize,
    /// Files that cannot be read completely, with the reason.
    pub(super) failed: Vec<(PathBuf, String)>,
}

/// What an update indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateScope {
    /// Everything that has changed.
    Everything,
    /// Everything but the screens of recordings that are being written, which cost a replay from their beginning.
    Settled,
}

/// What an update reads in addition to a file.
struct UpdateContext<'a> {
    dirs: &'a DataDirs,
    turns: TurnReader<'a>,
    scope: UpdateScope,
}

/// The result of indexing one file.
enum Outcome {
    Unchanged,
    Indexed,
    /// Indexed as far as it can be read, with the reason.
    Partial(String),
}

/// The properties that show whether a recording has changed. They are read before the contents, so that the next update finds what is
/// written meanwhile.
struct RecordingVersion {
    is_live: bool,
    meta: Meta,
    source: Source,
    /// Fingerprint of the node's history.
    history: String,
    screen_fingerprint: String,
    turns_fingerprint: String,
}

impl RecordingVersion {
    /// Reads the version of a recording; `None` if it is empty.
    fn read(path: &Path, old: &IndexState, context: &UpdateContext<'_>) -> Option<RecordingVersion> {
        let is_live = is_live(path);
        let is_postponed = is_live && context.scope == UpdateScope::Settled;
        let screen_fingerprint =
            if is_postponed { old.screen_fingerprint.clone() } else { fingerprint_of(path) };
        if fs::metadata(path).is_ok_and(|file| file.len() == 0) {
            // Its recorder may not hold the lock yet.
            return None;
        }
        let meta_fingerprint = fingerprint_of(&Meta::sidecar_path(path));
        let meta = Meta::load(path).ok().flatten().unwrap_or_default();
        let source = source_of(path, &meta);
        let history = history_of(&source.node, &context.dirs.history).map(|path| fingerprint_of(&path));
        let history = history.unwrap_or_default();
        let turns_fingerprint =
            format!("{meta_fingerprint} {history} {}", fingerprint_of(Path::new(&old.session_file)));
        Some(RecordingVersion { is_live, meta, source, history, screen_fingerprint, turns_fingerprint })
    }

    fn is_indexed_in(&self, state: &IndexState) -> bool {
        state.screen_fingerprint == self.screen_fingerprint
            && state.turns_fingerprint == self.turns_fingerprint
    }
}

impl UpdateSummary {
    /// Adds the outcome of one file. Returns the error if the index is damaged or cannot be written.
    fn record_outcome(
        &mut self,
        path: &Path,
        outcome: Result<Outcome, IndexError>,
    ) -> Result<(), IndexError> {
        match outcome {
            Ok(Outcome::Unchanged) => {}
            Ok(Outcome::Indexed) => self.indexed += 1,
            Ok(Outcome::Partial(reason)) => {
                self.indexed += 1;
                self.failed.push((path.to_path_buf(), reason));
            }
            Err(error @ (IndexError::Damaged(_) | IndexError::Unwritable(_))) => return Err(error),
            // It was removed during the update.
            Err(_) if is_removed(path) => {}
            Err(error) => self.failed.push((path.to_path_buf(), error.to_string())),
        }
        Ok(())
    }
}

impl SearchIndex {
    /// Indexes what is new in the recordings and histories, and forgets what was removed. Skips recordings that had ended and
    /// were unchanged at an earlier update. Stops if the index cannot be written, for example because the disk is full.
    ///
    /// # Errors
    /// The index cannot be read. Cancelled.
    pub(super) fn update(
        &mut self,
        dirs: &DataDirs,
        scope: UpdateScope,
        progress: Progress<'_>,
    ) -> Result<UpdateSummary, IndexError> {
        let mut summary = UpdateSummary::default();
        match self.update_files(dirs, scope, progress, &mut summary) {
            Err(error @ IndexError::Unwritable(_)) => {
                summary.failed.push((self.path.clone(), error.to_string()));
            }
            result => result?,
        }
        Ok(summary)
    }

    fn update_files(
        &mut self,
        dirs: &DataDirs,
        scope: UpdateScope,
        progress: Progress<'_>,
        summary: &mut UpdateSummary,
    ) -> Result<(), IndexError> {
        let recordings = Store::new(&dirs.recordings).all();
        let histories = node_files::list(&dirs.history).into_iter();
        let histories: Vec<Source> =
            histories.map(|(path, node)| Source { path, node, ..Source::default() }).collect();
        let mut states = self.states()?;
        self.forget_removed(states.keys())?;
        let mut pending = Vec::new();
        for path in &recordings {
            let state = states.remove(path).unwrap_or_default();
            if !state.is_final {
                pending.push(path);
            }
        }
        let count = pending.len() + histories.len();
        let mut context = UpdateContext { dirs, turns: TurnReader::new(dirs), scope };
        for (index, path) in pending.iter().enumerate() {
            self.check_cancelled()?;
            progress(SearchProgress::Indexing { done: index, count });
            let outcome = self.update_recording(path, &mut context);
            summary.record_outcome(path, outcome)?;
        }
        let recorded = self.recorded_times()?;
        for (index, source) in histories.iter().enumerate() {
            self.check_cancelled()?;
            progress(SearchProgress::Indexing { done: pending.len() + index, count });
            let state = states.remove(&source.path).unwrap_or_default();
            let times = recorded.get(&source.node).map(Vec::as_slice).unwrap_or_default();
            let outcome = self.update_history(source, &state, times, dirs);
            summary.record_outcome(&source.path, outcome)?;
        }
        progress(SearchProgress::Indexing { done: count, count });
        Ok(())
    }

    /// Forgets the files that do not exist any more. A file in a folder that cannot be read now may still exist.
    fn forget_removed<'a>(&mut self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<(), IndexError> {
        let removed: Vec<PathBuf> = paths.filter(|path| is_removed(path)).cloned().collect();
        if removed.is_empty() { Ok(()) } else { self.forget(&removed) }
    }

    /// Indexes a recording if it has changed.
    fn update_recording(
        &mut self,
        path: &Path,
        context: &mut UpdateContext<'_>,
    ) -> Result<Outcome, IndexError> {
        // Another process may have indexed it since this update began.
        let old = self.state(path)?.unwrap_or_default();
        if old.is_final {
            return Ok(Outcome::Unchanged);
        }
        let Some(version) = RecordingVersion::read(path, &old, context) else {
            return Ok(Outcome::Unchanged);
        };
        if version.is_indexed_in(&old) {
            // A killed recorder leaves no end: its recording is compared each time.
            if !version.is_live && version.meta.ended_at.is_some() {
                // Without the mark, the next update compares it once more.
                if let Err(error @ IndexError::Damaged(_)) = self.mark_final(path, &old) {
                    return Err(error);
                }
            }
            return Ok(Outcome::Unchanged);
        }
        self.index_recording(path, &old, version, context)
    }

    /// Reads a recording and indexes its turns, and its screen if that has changed.
    fn index_recording(
        &mut self,
        path: &Path,
        old: &IndexState,
        version: RecordingVersion,
        context: &mut UpdateContext<'_>,
    ) -> Result<Outcome, IndexError> {
        let RecordingVersion { meta, source, history, screen_fingerprint, turns_fingerprint, .. } = version;
        let logged = context.turns.read(path, &meta, &history)?;
        let turn_documents = documents_of_transcript(&logged.transcript, source.started_ms);
        let screen = match old.screen_fingerprint == screen_fingerprint {
            true => None,
            false => Some(self.read_screen(path, &meta)?),
        };
        let session_file = logged.transcript.session_file.unwrap_or_default();
        // The session file is known only after it was read, and a failed reading is repeated: without a fingerprint the next
        // update reads the turns again.
        let is_settled = session_file == old.session_file && logged.failure.is_none();
        let turns_fingerprint = if is_settled { turns_fingerprint } else { String::new() };
        let is_whole = screen.as_ref().is_none_or(|screen| screen.is_whole);
        let screen_documents = screen.map(documents_of_screen);
        let has_cut_screen = match &screen_documents {
            Some(documents) => !is_whole || documents.iter().any(Document::is_cut),
            None => old.has_cut_screen,
        };
        let has_cut_turns = turn_documents.iter().any(Document::is_cut);
        let state = IndexState {
            is_final: false,
            session_file,
            turns_fingerprint,
            screen_fingerprint,
            has_cut_turns,
            has_cut_screen,
        };
        self.replace(&source, &state, Some(&turn_documents), screen_documents.as_deref())?;
        Ok(logged.failure.map_or(Outcome::Indexed, Outcome::Partial))
    }

    fn read_screen(&self, path: &Path, meta: &Meta) -> Result<ScreenText, IndexError> {
        let is_cancelled = || self.check_cancelled().is_err();
        let screen = read_screen_text(path, meta.initial_size(), is_cancelled).map_err(unreadable_error)?;
        screen.ok_or(IndexError::Cancelled)
    }

    /// Indexes the turns of a history that fall outside every recording of the node. Turns are numbered only if the node has no
    /// recordings; otherwise numbers refer to the transcript of the newest recording.
    fn update_history(
        &mut self,
        source: &Source,
        old: &IndexState,
        recorded: &[(u64, Option<u64>)],
        dirs: &DataDirs,
    ) -> Result<Outcome, IndexError> {
        // The hash may differ in another version, which costs one reading.
        let mut hasher = DefaultHasher::new();
        recorded.hash(&mut hasher);
        let turns_fingerprint = format!("{} {:x}", fingerprint_of(&source.path), hasher.finish());
        let Some(address) = source.node.address() else { return Ok(Outcome::Unchanged) };
        if old.turns_fingerprint == turns_fingerprint {
            return Ok(Outcome::Unchanged);
        }
        let mut documents = read_history(address, dirs)?
            .map(|transcript| documents_of_transcript(&transcript, 0))
            .unwrap_or_default();
        let is_covered =
            |at: u64| recorded.iter().any(|(start, end)| *start <= at && end.is_none_or(|end| at <= end));
        documents.retain(|document| !is_covered(document.at_ms));
        if !recorded.is_empty() {
            documents.iter_mut().for_each(|document| document.turn = None);
        }
        let has_cut_turns = documents.iter().any(Document::is_cut);
        let state = IndexState { turns_fingerprint, has_cut_turns, ..IndexState::default() };
        self.replace(source, &state, Some(&documents), None)?;
        Ok(Outcome::Indexed)
    }
}

/// Returns true if a file does not exist any more. One in a folder that cannot be read now may exist.
fn is_removed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn source_of(path: &Path, meta: &Meta) -> Source {
    Source {
        path: path.to_path_buf(),
        recording: id_of(path).map(str::to_string),
        node: NodeKey { server: meta.server.clone(), session: session_of(meta), node: meta.node.clone() },
        started_ms: start_ms(path, meta),
        ended_ms: end_of(path, meta).map(|end| end.0),
    }
}

/// Returns the start of a recording, in milliseconds since the Unix epoch; 0 if it is not known.
fn start_ms(path: &Path, meta: &Meta) -> u64 {
    match meta.started_at.0 / 1_000_000 {
        // Without metadata the first block has the time.
        0 => RecordingInfo::read(path).ok().and_then(|info| info.started).map_or(0, |at| at.0 / 1_000_000),
        started => started,
    }
}

/// Returns the size and modification time of a file as text, or an empty string if it cannot be read.
fn fingerprint_of(path: &Path) -> String {
    let Ok(metadata) = fs::metadata(path) else { return String::new() };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{}@{}", metadata.len(), modified.unwrap_or_default().as_nanos())
}

/// Returns the path of a node's history.
fn history_of(node: &NodeKey, base: &Path) -> Option<PathBuf> {
    let folder = base.join(node.server.as_ref()?);
    let folder = match node.session.as_deref() {
        Some(session) if session != DEFAULT_SESSION => folder.join(session),
        _ => folder,
    };
    Some(folder.join(format!("{}.jsonl", node.node.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use nerve_node::error::EngineError;

    use super::*;

    /// Updates an index of a folder with this number of empty histories.
    fn update(home: &nerve_testkit::Hermetic, index: &mut SearchIndex, histories: usize) -> UpdateSummary {
        let history = home.work().join("history");
        fs::create_dir_all(history.join("test")).unwrap();
        for number in 0..histories {
            fs::write(history.join(format!("test/node{number}.jsonl")), "").unwrap();
        }
        let dirs = DataDirs { history, ..DataDirs::default() };
        index.update(&dirs, UpdateScope::Everything, &mut |_| {}).unwrap()
    }

    #[test]
    fn update_stops_on_a_full_disk() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (mut index, _) = SearchIndex::open(&home.work()).unwrap();
        let pages: u32 = index.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        index.connection.pragma_update(None, "max_page_count", pages + 1).unwrap();
        let summary = update(&home, &mut index, 200);
        assert!(summary.indexed < 200);
        assert_eq!(summary.failed.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&index.path]);
        index.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        assert_eq!(update(&home, &mut index, 200).failed, []);
        assert_eq!(index.states().unwrap().len(), 200);
    }

    #[test]
    fn file_that_is_removed_during_the_update_is_no_failure() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let mut summary = UpdateSummary::default();
        let failed = || Err(EngineError::process("unreadable").into());
        summary.record_outcome(&home.work().join("gone"), failed()).unwrap();
        assert_eq!(summary, UpdateSummary::default());
        summary.record_outcome(&home.work(), failed()).unwrap();
        assert_eq!(summary.failed.len(), 1);
    }
}
