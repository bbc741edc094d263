//! Brings the index up to date with the files.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use nerve_graph::session::DEFAULT;
use nerve_node::error::EngineError;
use nerve_record::library::{RecordingInfo, is_live};
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};

use super::documents::{NodeKey, Source, of_transcript};
use super::index::{IndexState, SearchIndex};
use super::screen_text;
use crate::data_dirs::DataDirs;
use crate::transcripts::{NodeAddress, end_of, read_history, read_logged_turns, session_of};

/// Receives the number of files that were looked at, and of those to look at.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// The result of an update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpdateSummary {
    /// Number of files that had changed.
    pub changed: usize,
    /// Files that cannot be read or are indexed in part, with the reason. They are tried again next time.
    pub failed: Vec<(PathBuf, String)>,
}

impl UpdateSummary {
    fn add(&mut self, path: &Path, outcome: Result<Outcome, EngineError>) -> Result<(), EngineError> {
        match outcome {
            Ok(Outcome::Unchanged) => {}
            Ok(Outcome::Indexed) => self.changed += 1,
            Ok(Outcome::Partly(reason)) => {
                self.changed += 1;
                self.failed.push((path.to_path_buf(), reason));
            }
            Err(error) if super::index::is_damage(&error) => return Err(error),
            Err(error) => self.failed.push((path.to_path_buf(), error.message)),
        }
        Ok(())
    }
}

/// The result of indexing one file.
enum Outcome {
    Unchanged,
    Indexed,
    /// Something could not be read; the reason.
    Partly(String),
}

/// Start and end of the recordings of each node, in milliseconds since the Unix epoch. A running one has no end.
pub(super) type RecordedTimes = HashMap<NodeKey, Vec<(u64, Option<u64>)>>;

impl SearchIndex {
    /// Indexes what is new in the recordings and histories, and forgets what was removed. Ended sessions that are indexed
    /// are not looked at again.
    ///
    /// # Errors
    /// The index cannot be read or written.
    pub(super) fn update(
        &mut self,
        dirs: &DataDirs,
        progress: Progress<'_>,
    ) -> Result<UpdateSummary, EngineError> {
        let recordings = Store::new(&dirs.recordings).all();
        let histories = histories(&dirs.history);
        let mut states = self.states()?;
        let exist: HashSet<&PathBuf> =
            recordings.iter().chain(histories.iter().map(|history| &history.path)).collect();
        let removed: Vec<PathBuf> = states.keys().filter(|path| !exist.contains(path)).cloned().collect();
        if !removed.is_empty() {
            self.forget(&removed)?;
        }
        let jobs = recordings.iter().map(|path| (path, states.remove(path).unwrap_or_default()));
        let jobs: Vec<(&PathBuf, IndexState)> = jobs.filter(|(_, state)| !state.is_final).collect();
        let count = jobs.len() + histories.len();
        let mut summary = UpdateSummary::default();
        for (done, (path, state)) in jobs.iter().enumerate() {
            progress(done, count);
            let outcome = self.update_recording(path, state, dirs);
            summary.add(path, outcome)?;
        }
        let recorded = self.recorded_times()?;
        for (done, source) in histories.iter().enumerate() {
            progress(jobs.len() + done, count);
            let state = states.remove(&source.path).unwrap_or_default();
            let times = recorded.get(&source.node).map(Vec::as_slice).unwrap_or_default();
            let outcome = self.update_history(source, &state, times, dirs);
            summary.add(&source.path, outcome)?;
        }
        progress(count, count);
        Ok(summary)
    }

    /// Indexes a recording if it has changed.
    fn update_recording(
        &mut self,
        path: &Path,
        old: &IndexState,
        dirs: &DataDirs,
    ) -> Result<Outcome, EngineError> {
        // Taken before the files are read, so that what is written meanwhile is found next time.
        let screen = file_state(path);
        if screen.starts_with("0@") {
            // Its recorder may be about to lock it.
            return Ok(Outcome::Unchanged);
        }
        let is_ended = !is_live(path);
        let meta = Meta::load(path).ok().flatten().unwrap_or_default();
        let source = source_of(path, &meta);
        let NodeKey { server, session, node } = &source.node;
        let history = server.as_ref().zip(node.as_ref());
        let history =
            history.map(|(server, node)| history_path(&dirs.history, server, session.as_deref(), node));
        let turns_state = |session_file: &str| {
            let files = [Some(Meta::sidecar_path(path)), history.clone(), Some(PathBuf::from(session_file))];
            files.into_iter().flatten().map(|file| file_state(&file)).collect::<Vec<_>>().join(" ")
        };
        // Which session file belongs to the recording is known only after it was read: the first time its state is unknown.
        let turns = turns_state(&old.session_file);
        let is_same_screen = old.screen == screen;
        if is_same_screen && old.turns == turns {
            if is_ended {
                self.replace(&source, &IndexState { is_final: true, ..old.clone() }, None, None)?;
            }
            return Ok(Outcome::Unchanged);
        }
        let logged = read_logged_turns(path, &meta, dirs)?;
        let session_file = logged.transcript.session_file.clone().unwrap_or_default();
        let turns = if session_file == old.session_file { turns } else { String::new() };
        let documents = of_transcript(&logged.transcript, source.started_ms);
        let (rows, is_whole) = match is_same_screen {
            true => (None, true),
            false => screen_text::read(path, &meta).map(|text| (Some(text.documents), text.is_whole))?,
        };
        let state = IndexState { is_final: false, session_file, turns, screen };
        self.replace(&source, &state, Some(&documents), rows.as_deref())?;
        Ok(match logged.failure {
            Some(reason) => Outcome::Partly(reason),
            None if !is_whole => {
                Outcome::Partly("only the first 64 MiB of its text are searched".to_string())
            }
            None => Outcome::Indexed,
        })
    }

    /// Indexes the turns of a history that no recording of the node covers. They have numbers only if there is no recording
    /// at all, because the transcript of the node is that of its newest recording.
    fn update_history(
        &mut self,
        source: &Source,
        old: &IndexState,
        recorded: &[(u64, Option<u64>)],
        dirs: &DataDirs,
    ) -> Result<Outcome, EngineError> {
        let turns = format!("{} {}", file_state(&source.path), recorded.len());
        let NodeKey { server: Some(server), session, node: Some(node) } = &source.node else {
            return Ok(Outcome::Unchanged);
        };
        if old.turns == turns {
            return Ok(Outcome::Unchanged);
        }
        let address = NodeAddress { node, session: session.as_deref(), server };
        let mut documents =
            read_history(address, dirs)?.map(|transcript| of_transcript(&transcript, 0)).unwrap_or_default();
        let is_covered =
            |at: u64| recorded.iter().any(|(start, end)| *start <= at && end.is_none_or(|end| at <= end));
        documents.retain(|document| !is_covered(document.at_ms));
        if !recorded.is_empty() {
            documents.iter_mut().for_each(|document| document.turn = None);
        }
        self.replace(source, &IndexState { turns, ..IndexState::default() }, Some(&documents), None)?;
        Ok(Outcome::Indexed)
    }
}

fn source_of(path: &Path, meta: &Meta) -> Source {
    let started_ms = match meta.started_at.0 / 1_000_000 {
        // Without metadata the first block has the time.
        0 => RecordingInfo::read(path).ok().and_then(|info| info.started).map_or(0, |at| at.0 / 1_000_000),
        started => started,
    };
    Source {
        path: path.to_path_buf(),
        recording: id_of(path).map(str::to_string),
        node: NodeKey { server: meta.server.clone(), session: session_of(meta), node: meta.node.clone() },
        started_ms,
        ended_ms: end_of(path, meta).map(|end| end.0),
    }
}

/// Returns the size and time of a file, as text; empty if there is none.
fn file_state(path: &Path) -> String {
    let Ok(meta) = fs::metadata(path) else { return String::new() };
    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{}@{}", meta.len(), modified.unwrap_or_default().as_nanos())
}

fn history_path(base: &Path, server: &str, session: Option<&str>, node: &str) -> PathBuf {
    let session = session.filter(|session| *session != DEFAULT);
    let folder = base.join(server);
    session.map_or(folder.clone(), |session| folder.join(session)).join(format!("{node}.jsonl"))
}

/// Lists all histories: `<server>/<node>.jsonl` and `<server>/<session>/<node>.jsonl`.
fn histories(base: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for server in folders(base) {
        let sessions = folders(&server).into_iter().map(|folder| (file_stem(&folder), folder));
        for (session, folder) in sessions.chain([(Some(DEFAULT.to_string()), server.clone())]) {
            for path in log_files(&folder) {
                let (server, session) = (file_stem(&server), session.clone());
                let node = NodeKey { server, session, node: file_stem(&path) };
                found.push(Source { path, node, ..Source::default() });
            }
        }
    }
    found
}

fn file_stem(path: &Path) -> Option<String> {
    path.file_stem().and_then(|name| name.to_str()).map(str::to_string)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn log_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "jsonl")).collect()
}
