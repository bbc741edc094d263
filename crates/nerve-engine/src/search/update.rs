//! Brings the index up to date with the files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use nerve_api::reply::{Transcript, TranscriptTurn};
use nerve_node::error::EngineError;
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of, sidecar_path};
use nerve_types::activity::TsMs;
use nerve_types::{Section, SectionKind};

use super::index::{Document, IndexState, NodeKey, SearchIndex, Source};
use super::{DocumentKind, screen_text};
use crate::data_dirs::DataDirs;
use crate::transcripts::{NodeName, of_node, of_recording, session_of};

/// Receives the number of sources that were read, and of those to read.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// The result of an update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Updated {
    /// Number of sources that had changed.
    pub changed: usize,
    /// Sources that cannot be read, with the reason. They are tried again next time.
    pub failed: Vec<(PathBuf, String)>,
}

impl SearchIndex {
    /// Indexes what is new in the recordings and histories, and forgets what was removed. Ended sessions that are indexed
    /// are not looked at again.
    ///
    /// # Errors
    /// The index cannot be read or written.
    pub fn update(&mut self, dirs: &DataDirs, progress: Progress<'_>) -> Result<Updated, EngineError> {
        let recordings = Store::new(&dirs.recordings).all();
        let mut states = self.states()?;
        let known: Vec<PathBuf> = states.keys().cloned().collect();
        let jobs = recordings.iter().map(|path| (path, states.remove(path).unwrap_or_default()));
        let jobs: Vec<(&PathBuf, IndexState)> = jobs.filter(|(_, state)| !state.is_final).collect();
        let mut updated = Updated::default();
        let count = jobs.len();
        for (done, (path, state)) in jobs.into_iter().enumerate() {
            progress(done, count);
            match self.update_recording(path, &state, dirs) {
                Ok(is_changed) => updated.changed += usize::from(is_changed),
                Err(error) => updated.failed.push((path.clone(), error.message)),
            }
        }
        let histories = self.histories_without_recording(dirs)?;
        for (path, source) in &histories {
            let old = states.get(path).cloned().unwrap_or_default();
            match self.update_history(path, source, &old, dirs) {
                Ok(is_changed) => updated.changed += usize::from(is_changed),
                Err(error) => updated.failed.push((path.clone(), error.message)),
            }
        }
        let exist: HashSet<&PathBuf> =
            recordings.iter().chain(histories.iter().map(|(path, _)| path)).collect();
        let removed: Vec<PathBuf> = known.into_iter().filter(|path| !exist.contains(path)).collect();
        if !removed.is_empty() {
            self.remove(&removed)?;
        }
        progress(count, count);
        Ok(updated)
    }

    /// Indexes a recording if it has changed. Returns true if it has.
    fn update_recording(
        &mut self,
        path: &Path,
        old: &IndexState,
        dirs: &DataDirs,
    ) -> Result<bool, EngineError> {
        // Read before the files, so that what is written meanwhile is found next time.
        let is_ended = !nerve_record::library::is_live(path);
        let screen = file_state(path);
        let meta = Meta::load(path).ok().flatten().unwrap_or_default();
        let history = meta
            .server
            .as_ref()
            .zip(meta.node.as_ref())
            .map(|(server, node)| history_path(&dirs.history, server, meta.session.as_deref(), node));
        // The session file is part of the state, and known only after it was read.
        let (known_file, known_state) = old.turns.split_once('\n').unwrap_or_default();
        let turns_state = |file: &str| {
            let files = [Some(sidecar_path(path, ".meta.json")), history.clone(), Some(PathBuf::from(file))];
            files.into_iter().flatten().map(|file| file_state(&file)).collect::<Vec<_>>().join(" ")
        };
        let is_same_screen = old.screen == screen;
        if is_same_screen && !known_state.is_empty() && turns_state(known_file) == known_state {
            if is_ended {
                self.replace(
                    &source_of(path, &meta),
                    &IndexState { is_final: true, ..old.clone() },
                    None,
                    None,
                )?;
            }
            return Ok(false);
        }
        let transcript = of_recording(path, dirs)?;
        let file = transcript.session_file.clone().unwrap_or_default();
        // Turns of the screen have no times, and the screen is indexed itself.
        let turns = documents_of(&transcript, meta.started_at.0 / 1_000_000);
        let rows = if is_same_screen { None } else { Some(screen_text::read(path, &meta)?) };
        let state =
            IndexState { is_final: is_ended, turns: format!("{file}\n{}", turns_state(&file)), screen };
        self.replace(&source_of(path, &meta), &state, Some(&turns), rows.as_deref())?;
        Ok(true)
    }

    /// Indexes the history of a node without a recording if it has changed. Returns true if it has.
    fn update_history(
        &mut self,
        path: &Path,
        source: &Source,
        old: &IndexState,
        dirs: &DataDirs,
    ) -> Result<bool, EngineError> {
        let turns = file_state(path);
        if old.turns == turns {
            return Ok(false);
        }
        let (Some(node), Some(server)) = (&source.node, &source.server) else { return Ok(false) };
        let transcript = of_node(NodeName { node, session: source.session.as_deref(), server }, dirs)?;
        let documents = documents_of(&transcript, 0);
        self.replace(source, &IndexState { turns, ..IndexState::default() }, Some(&documents), None)?;
        Ok(true)
    }

    /// Returns the histories of nodes that no recording belongs to.
    fn histories_without_recording(&self, dirs: &DataDirs) -> Result<Vec<(PathBuf, Source)>, EngineError> {
        let recorded = self.recorded_nodes()?;
        let mut found = Vec::new();
        for server in folders(&dirs.history) {
            let sessions = folders(&server).into_iter().map(|folder| (name_of(&folder), folder));
            for (session, folder) in sessions.chain([(None, server.clone())]) {
                for path in histories(&folder) {
                    let node = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_string);
                    let session = session.clone().or_else(|| Some(nerve_graph::session::DEFAULT.to_string()));
                    let server = name_of(&server);
                    let key =
                        NodeKey { server: server.clone(), session: session.clone(), node: node.clone() };
                    if !recorded.contains(&key) {
                        let source =
                            Source { path: path.clone(), node, session, server, ..Source::default() };
                        found.push((path, source));
                    }
                }
            }
        }
        Ok(found)
    }
}

fn source_of(path: &Path, meta: &Meta) -> Source {
    Source {
        path: path.to_path_buf(),
        recording: id_of(path).map(str::to_string),
        node: meta.node.clone(),
        session: session_of(meta),
        server: meta.server.clone(),
        started_ms: meta.started_at.0 / 1_000_000,
    }
}

/// Returns the documents of a transcript, except those that only the screen has. `started` is the time of turns without one,
/// in milliseconds since the Unix epoch.
fn documents_of(transcript: &Transcript, started: u64) -> Vec<Document> {
    let mut documents = Vec::new();
    let is_of_turns = |turn: &&TranscriptTurn| turn.source != nerve_api::reply::TranscriptSource::Screen;
    for turn in transcript.turns.iter().filter(is_of_turns) {
        let time = |text: &Option<String>| {
            text.clone().and_then(|text| TsMs::try_from(text).ok()).map(|TsMs(at)| at)
        };
        let began = time(&turn.started_at).unwrap_or(started);
        let ended = time(&turn.ended_at).unwrap_or(began);
        let mut add = |kind, at_ms, text: String| {
            if !text.trim().is_empty() {
                documents.push(Document { kind, turn: Some(turn.turn), at_ms, text });
            }
        };
        add(DocumentKind::Prompt, began, turn.prompt.clone());
        let is_answer = |section: &&Section| section.kind != SectionKind::ToolCall;
        let answer = turn.sections.iter().filter(is_answer).map(|section| section.content.as_str());
        add(DocumentKind::Answer, ended, answer.collect::<Vec<_>>().join("\n\n"));
        for call in turn.sections.iter().filter(|section| section.kind == SectionKind::ToolCall) {
            let property = |name: &str| call.metadata.get(name).map(String::as_str).unwrap_or_default();
            let text = format!("{} {}\n{}", property("tool"), property("args"), call.content);
            add(DocumentKind::Tool, ended, text);
        }
    }
    documents
}

/// Returns the size and time of a file, as text; empty if there is none.
fn file_state(path: &Path) -> String {
    let Ok(meta) = fs::metadata(path) else { return String::new() };
    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{}@{}", meta.len(), modified.unwrap_or_default().as_nanos())
}

fn history_path(base: &Path, server: &str, session: Option<&str>, node: &str) -> PathBuf {
    let session = session.filter(|session| *session != nerve_graph::session::DEFAULT);
    let folder = base.join(server);
    session.map_or(folder.clone(), |session| folder.join(session)).join(format!("{node}.jsonl"))
}

fn name_of(folder: &Path) -> Option<String> {
    folder.file_name().and_then(|name| name.to_str()).map(str::to_string)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn histories(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "jsonl")).collect()
}
