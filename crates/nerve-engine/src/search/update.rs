//! Brings the index up to date with the files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use nerve_graph::session::DEFAULT;
use nerve_node::error::EngineError;
use nerve_record::library::{RecordingInfo, is_live};
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_search::{ScreenText, read_screen_text};

use super::documents::{Source, documents_of_screen, documents_of_transcript};
use super::index::{IndexState, SearchIndex, cancelled, is_damage};
use super::progress::{Progress, SearchProgress};
use crate::data_dirs::DataDirs;
use crate::node_files::{self, NodeKey};
use crate::recordings::unreadable;
use crate::transcripts::{TurnReader, end_of, read_history, session_of};

/// The result of an update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UpdateSummary {
    /// Number of files indexed.
    pub(super) indexed: usize,
    /// Files that cannot be read or are indexed in part, with the reason.
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
    /// Indexed in part, with the reason.
    Partial(String),
}

impl UpdateSummary {
    /// Adds the outcome of one file. Returns the error if the index is damaged.
    fn record_outcome(
        &mut self,
        path: &Path,
        outcome: Result<Outcome, EngineError>,
    ) -> Result<(), EngineError> {
        match outcome {
            Ok(Outcome::Unchanged) => {}
            Ok(Outcome::Indexed) => self.indexed += 1,
            Ok(Outcome::Partial(reason)) => {
                self.indexed += 1;
                self.failed.push((path.to_path_buf(), reason));
            }
            Err(error) if is_damage(&error) => return Err(error),
            Err(error) => self.failed.push((path.to_path_buf(), error.message)),
        }
        Ok(())
    }
}

impl SearchIndex {
    /// Indexes what is new in the recordings and histories, and forgets what was removed. Skips recordings that had ended and
    /// were unchanged at an earlier update.
    ///
    /// # Errors
    /// The index cannot be read or written. Cancelled.
    pub(super) fn update(
        &mut self,
        dirs: &DataDirs,
        scope: UpdateScope,
        progress: Progress<'_>,
    ) -> Result<UpdateSummary, EngineError> {
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
                pending.push((path, state));
            }
        }
        let count = pending.len() + histories.len();
        let mut context = UpdateContext { dirs, turns: TurnReader::new(dirs), scope };
        let mut summary = UpdateSummary::default();
        for (index, (path, state)) in pending.iter().enumerate() {
            self.check_cancelled()?;
            progress(SearchProgress::Indexing { done: index, count });
            let outcome = self.update_recording(path, state, &mut context);
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
        Ok(summary)
    }

    /// Forgets the files that do not exist any more. A file in a folder that cannot be read now may still exist.
    fn forget_removed<'a>(&mut self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<(), EngineError> {
        let is_removed = |path: &&PathBuf| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let removed: Vec<PathBuf> = paths.filter(is_removed).cloned().collect();
        if removed.is_empty() { Ok(()) } else { self.forget(&removed) }
    }

    /// Indexes a recording if it has changed.
    fn update_recording(
        &mut self,
        path: &Path,
        old: &IndexState,
        context: &mut UpdateContext<'_>,
    ) -> Result<Outcome, EngineError> {
        // All of this is read before the contents, so that what is written meanwhile is found next time.
        let is_live = is_live(path);
        let is_postponed = is_live && context.scope == UpdateScope::Settled;
        let screen_fingerprint =
            if is_postponed { old.screen_fingerprint.clone() } else { fingerprint_of(path) };
        if fs::metadata(path).is_ok_and(|file| file.len() == 0) {
            // Its recorder may not hold the lock yet.
            return Ok(Outcome::Unchanged);
        }
        let meta_fingerprint = fingerprint_of(&Meta::sidecar_path(path));
        let meta = Meta::load(path).ok().flatten().unwrap_or_default();
        let source = source_of(path, &meta);
        let history = history_of(&source.node, &context.dirs.history).map(|path| fingerprint_of(&path));
        let history = history.unwrap_or_default();
        let turns_fingerprint =
            format!("{meta_fingerprint} {history} {}", fingerprint_of(Path::new(&old.session_file)));
        let is_same_screen = old.screen_fingerprint == screen_fingerprint;
        if is_same_screen && old.turns_fingerprint == turns_fingerprint {
            // A killed recorder leaves no end: its recording is compared each time.
            if !is_live && meta.ended_at.is_some() {
                self.mark_final(path)?;
            }
            return Ok(Outcome::Unchanged);
        }
        let logged = context.turns.read(path, &meta, &history)?;
        let turn_documents = documents_of_transcript(&logged.transcript, source.started_ms);
        let screen = match is_same_screen {
            true => None,
            false => Some(self.read_screen(path, &meta)?),
        };
        let session_file = logged.transcript.session_file.unwrap_or_default();
        // The session file is known only after it was read, and a failed reading is repeated: without a fingerprint the next
        // update reads the turns again.
        let is_settled = session_file == old.session_file && logged.failure.is_none();
        let turns_fingerprint = if is_settled { turns_fingerprint } else { String::new() };
        let state = IndexState { is_final: false, session_file, turns_fingerprint, screen_fingerprint };
        let is_whole = screen.as_ref().is_none_or(|screen| screen.is_whole);
        let screen_documents = screen.map(documents_of_screen);
        self.replace(&source, &state, Some(&turn_documents), screen_documents.as_deref())?;
        Ok(match logged.failure {
            Some(reason) => Outcome::Partial(reason),
            None if !is_whole => {
                Outcome::Partial("only the first 64 MiB of its text are indexed".to_string())
            }
            None => Outcome::Indexed,
        })
    }

    fn read_screen(&self, path: &Path, meta: &Meta) -> Result<ScreenText, EngineError> {
        let is_cancelled = || self.check_cancelled().is_err();
        read_screen_text(path, meta.initial_size(), is_cancelled).map_err(unreadable)?.ok_or_else(cancelled)
    }

    /// Indexes the turns of a history that fall outside every recording of the node. Turns are numbered only if the node has no
    /// recordings; otherwise numbers refer to the transcript of the newest recording.
    fn update_history(
        &mut self,
        source: &Source,
        old: &IndexState,
        recorded: &[(u64, Option<u64>)],
        dirs: &DataDirs,
    ) -> Result<Outcome, EngineError> {
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
        let state = IndexState { turns_fingerprint, ..IndexState::default() };
        self.replace(source, &state, Some(&documents), None)?;
        Ok(Outcome::Indexed)
    }
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
        Some(session) if session != DEFAULT => folder.join(session),
        _ => folder,
    };
    Some(folder.join(format!("{}.jsonl", node.node.as_ref()?)))
}
