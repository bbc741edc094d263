//! The conversation that a tail follows, with those of its subagents: reads what is new in their files or rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nerve_agent::activity::ActivityReader;
use nerve_agent::profile::TranscriptKind;
use nerve_host::line_reader::{LineEvent, LineReader};
use nerve_record::activity::{Activity, TsMs};

use crate::fork::opencode::database;

/// Maximum number of subagents' transcripts that are followed in one session.
const MAX_SUBAGENTS: usize = 256;

/// Where a conversation is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// A file of lines.
    File(PathBuf),
    /// A session in opencode's database.
    Database {
        /// The database.
        path: PathBuf,
        /// Id of the session.
        session: String,
    },
}

/// Receives the activities.
pub(super) type Report = Box<dyn FnMut(Activity) + Send>;

/// A conversation and those of its subagents.
pub(super) struct FollowedSession {
    location: Location,
    /// Earlier activities are not reported.
    since: TsMs,
    conversations: Conversations,
}

/// The conversations, as the agent stores them.
enum Conversations {
    Files {
        main: Box<Conversation>,
        /// Claude Code's `<session>/subagents`, next to the transcript.
        subagents: Option<PathBuf>,
        others: BTreeMap<PathBuf, Conversation>,
    },
    Database {
        path: PathBuf,
        session: String,
        /// Messages that changed earlier have been read.
        changed: TsMs,
        /// One reader for each session.
        readers: BTreeMap<String, ActivityFilter>,
    },
}

/// Reads a file of lines.
struct Conversation {
    lines: LineReader,
    filter: ActivityFilter,
}

/// Reports the activities of a conversation, except those stamped before `since`.
struct ActivityFilter {
    kind: TranscriptKind,
    reader: ActivityReader,
    /// Earlier activities are not reported.
    since: TsMs,
    /// The time of the last reported activity.
    latest: Option<TsMs>,
}

impl FollowedSession {
    /// Starts at the beginning of the conversation; activities stamped before `since` are not reported.
    pub(super) fn new(kind: TranscriptKind, location: Location, since: TsMs) -> FollowedSession {
        let conversations = match location.clone() {
            Location::File(path) => Conversations::Files {
                subagents: (kind == TranscriptKind::Claude).then(|| subagents_folder(&path)),
                main: Box::new(Conversation::new(kind, path, since)),
                others: BTreeMap::new(),
            },
            Location::Database { path, session } => {
                Conversations::Database { path, session, changed: since, readers: BTreeMap::new() }
            }
        };
        FollowedSession { location, since, conversations }
    }

    /// Returns a time later than everything reported here.
    pub(super) fn end(&self) -> TsMs {
        let latest = match &self.conversations {
            Conversations::Files { main, others, .. } => {
                others.values().chain([&**main]).map(|one| one.filter.end()).max()
            }
            Conversations::Database { readers, .. } => readers.values().map(ActivityFilter::end).max(),
        };
        latest.unwrap_or(self.since)
    }

    /// Returns the folders whose changes matter.
    pub(super) fn folders(kind: TranscriptKind, location: &Location) -> Vec<PathBuf> {
        let (Location::File(path) | Location::Database { path, .. }) = location;
        let subagents = (kind == TranscriptKind::Claude).then(|| subagents_folder(path));
        path.parent().map(Path::to_path_buf).into_iter().chain(subagents).collect()
    }

    /// Returns true if the conversation is at this place.
    pub(super) fn is_at(&self, location: &Location) -> bool {
        self.location == *location
    }

    /// Returns true if it has entries of unknown kinds.
    pub(super) fn has_unknown_entries(&self) -> bool {
        match &self.conversations {
            Conversations::Files { main, .. } => main.filter.reader.unknown() > 0,
            Conversations::Database { readers, .. } => readers.values().any(|one| one.reader.unknown() > 0),
        }
    }

    /// Reports the new activities.
    pub(super) fn read(&mut self, now: TsMs, report: &mut Report) {
        match &mut self.conversations {
            Conversations::Files { main, subagents, others } => {
                if let Some(subagents) = subagents {
                    find_subagents(subagents, self.since, others);
                }
                std::iter::once(&mut **main).chain(others.values_mut()).for_each(|one| one.read(now, report));
            }
            Conversations::Database { path, session, changed, readers } => {
                let sessions = database::changed_since(path, session, *changed);
                let sessions = sessions.inspect_err(|error| {
                    tracing::debug!(path = %path.display(), %error, "cannot read transcript");
                });
                for found in sessions.into_iter().flatten() {
                    let filter = readers
                        .entry(found.id)
                        .or_insert_with(|| ActivityFilter::new(TranscriptKind::Opencode, self.since));
                    for message in &found.messages {
                        let activities = filter.reader.read_message(message, now);
                        filter.report(activities, report);
                    }
                    // Read again from here: more may be written in the same millisecond.
                    *changed = (*changed).max(found.changed);
                }
            }
        }
    }
}

/// Adds the transcripts of Claude Code's subagents in a folder.
fn find_subagents(folder: &Path, since: TsMs, known: &mut BTreeMap<PathBuf, Conversation>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_transcript = path.extension().is_some_and(|extension| extension == "jsonl");
        if is_transcript && known.len() < MAX_SUBAGENTS {
            let new = || Conversation::new(TranscriptKind::Claude, path.clone(), since);
            known.entry(path.clone()).or_insert_with(new);
        }
    }
}

impl Conversation {
    fn new(kind: TranscriptKind, path: PathBuf, since: TsMs) -> Conversation {
        Conversation { lines: LineReader::new(path), filter: ActivityFilter::new(kind, since) }
    }

    fn read(&mut self, now: TsMs, report: &mut Report) {
        let Conversation { lines, filter } = self;
        let read = lines.read(|found| match found {
            LineEvent::Reset => *filter = ActivityFilter::new(filter.kind, filter.end()),
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
    fn new(kind: TranscriptKind, since: TsMs) -> ActivityFilter {
        ActivityFilter { kind, reader: ActivityReader::new(kind), since, latest: None }
    }

    /// Returns a time later than everything reported here, also by a filter that this one replaced.
    fn end(&self) -> TsMs {
        self.latest.map_or(self.since, |latest| TsMs(latest.0 + 1))
    }

    fn report(&mut self, activities: Vec<Activity>, report: &mut Report) {
        for activity in activities {
            if activity.at() >= self.since {
                self.latest = self.latest.max(Some(activity.at()));
                report(activity);
            }
        }
    }
}

fn subagents_folder(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("subagents")
}
