//! Reads the new entries of the conversation that a tail follows, and of its subagents' conversations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nerve_agent::activity::ActivityReader;
use nerve_agent::profile::TranscriptKind;
use nerve_host::line_reader::{LineEvent, LineReader};
use nerve_record::activity::{Activity, TsMs};

use crate::opencode_database as database;
use crate::session_files::{entries, first_id};

/// Maximum number of subagents' transcripts that are followed in one session.
const MAX_SUBAGENTS: usize = 256;

/// The location of a stored conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A file of lines.
    File(PathBuf),
    /// A session in the database of opencode or Kilo.
    Database {
        /// The database.
        path: PathBuf,
        /// Id of the session.
        session: String,
    },
}

impl Location {
    /// Returns the id of the conversation, if the file names it. Blocks.
    pub fn conversation_id(&self) -> Option<String> {
        match self {
            Location::File(path) => first_id(path),
            Location::Database { session, .. } => Some(session.clone()),
        }
    }
}

/// Receives the activities.
pub(super) type Report = Box<dyn FnMut(Activity) + Send>;

/// A conversation and its subagents' conversations.
pub(super) struct FollowedSession {
    location: Location,
    /// Earlier activities are not reported.
    cutoff: TsMs,
    readers: SessionReaders,
}

/// The readers of a conversation and its subagents' conversations, by how the agent stores them.
enum SessionReaders {
    Files {
        main: Box<TranscriptFile>,
        /// Claude Code's `<session>/subagents`, next to the transcript.
        subagents_folder: Option<PathBuf>,
        subagents: BTreeMap<PathBuf, TranscriptFile>,
    },
    Database {
        path: PathBuf,
        session: String,
        /// Time up to which changed messages have been read.
        cursor: TsMs,
        /// One filter for each session.
        filters: BTreeMap<String, ActivityFilter>,
    },
}

/// A transcript that is a file of lines.
struct TranscriptFile {
    lines: LineReader,
    filter: ActivityFilter,
}

/// Reports the activities of a conversation, except those stamped before `cutoff`.
struct ActivityFilter {
    kind: TranscriptKind,
    reader: ActivityReader,
    cutoff: TsMs,
    /// The time of the last reported activity.
    latest: Option<TsMs>,
}

impl FollowedSession {
    /// Starts at the beginning of the conversation; activities stamped before `cutoff` are not reported.
    pub(super) fn new(kind: TranscriptKind, location: Location, cutoff: TsMs) -> FollowedSession {
        let readers = match location.clone() {
            Location::File(path) => SessionReaders::Files {
                subagents_folder: (kind == TranscriptKind::Claude).then(|| subagents_folder(&path)),
                main: Box::new(TranscriptFile::new(kind, path, cutoff)),
                subagents: BTreeMap::new(),
            },
            Location::Database { path, session } => {
                SessionReaders::Database { path, session, cursor: cutoff, filters: BTreeMap::new() }
            }
        };
        FollowedSession { location, cutoff, readers }
    }

    /// Returns the cutoff for the session that is followed next: a time later than everything reported here.
    pub(super) fn next_cutoff(&self) -> TsMs {
        self.readers.filters().map(ActivityFilter::next_cutoff).fold(self.cutoff, TsMs::max)
    }

    /// Returns the folders whose changes matter.
    pub(super) fn folders(kind: TranscriptKind, location: &Location) -> Vec<PathBuf> {
        let (Location::File(path) | Location::Database { path, .. }) = location;
        let subagents = (kind == TranscriptKind::Claude).then(|| subagents_folder(path));
        path.parent().map(Path::to_path_buf).into_iter().chain(subagents).collect()
    }

    /// Returns true if the conversation is stored at `location`.
    pub(super) fn is_at(&self, location: &Location) -> bool {
        self.location == *location
    }

    /// Returns true if the conversation or a subagent's has entries of unknown kinds.
    pub(super) fn has_unknown_entries(&self) -> bool {
        self.readers.filters().any(|filter| filter.reader.unknown() > 0)
    }

    /// Reports the new activities.
    pub(super) fn read(&mut self, now: TsMs, report: &mut Report) {
        match &mut self.readers {
            SessionReaders::Files { main, subagents_folder, subagents } => {
                if let Some(folder) = subagents_folder {
                    find_subagents(folder, self.cutoff, subagents);
                }
                std::iter::once(&mut **main)
                    .chain(subagents.values_mut())
                    .for_each(|file| file.read(now, report));
            }
            SessionReaders::Database { path, session, cursor, filters } => {
                let sessions = database::changed_since(path, session, *cursor);
                let sessions = sessions.inspect_err(|error| {
                    tracing::debug!(path = %path.display(), %error, "cannot read transcript");
                });
                for stored in sessions.into_iter().flatten() {
                    let filter = filters
                        .entry(stored.id)
                        .or_insert_with(|| ActivityFilter::new(TranscriptKind::Opencode, self.cutoff));
                    for message in &stored.messages {
                        let activities = filter.reader.read_message(message, now);
                        filter.report(activities, report);
                    }
                    // Read again from here: more may be written in the same millisecond.
                    *cursor = (*cursor).max(stored.changed);
                }
            }
        }
    }
}

impl SessionReaders {
    /// Returns the filters of the conversation and its subagents.
    fn filters(&self) -> Box<dyn Iterator<Item = &ActivityFilter> + '_> {
        match self {
            SessionReaders::Files { main, subagents, .. } => {
                Box::new(subagents.values().chain([&**main]).map(|file| &file.filter))
            }
            SessionReaders::Database { filters, .. } => Box::new(filters.values()),
        }
    }
}

/// Adds the transcripts of Claude Code's subagents in a folder.
fn find_subagents(folder: &Path, cutoff: TsMs, known: &mut BTreeMap<PathBuf, TranscriptFile>) {
    for path in entries(folder) {
        let is_transcript = path.extension().is_some_and(|extension| extension == "jsonl");
        if is_transcript && known.len() < MAX_SUBAGENTS {
            let new = || TranscriptFile::new(TranscriptKind::Claude, path.clone(), cutoff);
            known.entry(path.clone()).or_insert_with(new);
        }
    }
}

impl TranscriptFile {
    fn new(kind: TranscriptKind, path: PathBuf, cutoff: TsMs) -> TranscriptFile {
        TranscriptFile { lines: LineReader::new(path), filter: ActivityFilter::new(kind, cutoff) }
    }

    fn read(&mut self, now: TsMs, report: &mut Report) {
        let TranscriptFile { lines, filter } = self;
        let read = lines.read(|event| match event {
            LineEvent::Reset => *filter = ActivityFilter::new(filter.kind, filter.next_cutoff()),
            LineEvent::Line(line) => {
                let activities = filter.reader.read_line(line, now);
                filter.report(activities, report);
            }
        });
        if let Err(error) = read {
            tracing::debug!(path = %lines.path().display(), %error, "cannot read transcript");
        }
    }
}

impl ActivityFilter {
    fn new(kind: TranscriptKind, cutoff: TsMs) -> ActivityFilter {
        ActivityFilter { kind, reader: ActivityReader::new(kind), cutoff, latest: None }
    }

    /// Returns a time later than everything reported here, also by a filter that this one replaced.
    fn next_cutoff(&self) -> TsMs {
        self.latest.map_or(self.cutoff, |latest| TsMs(latest.0 + 1))
    }

    fn report(&mut self, activities: Vec<Activity>, report: &mut Report) {
        for activity in activities {
            if activity.at() >= self.cutoff {
                self.latest = self.latest.max(Some(activity.at()));
                report(activity);
            }
        }
    }
}

/// Returns the folder with the transcripts of a Claude Code session's subagents.
pub(crate) fn subagents_folder(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("subagents")
}
