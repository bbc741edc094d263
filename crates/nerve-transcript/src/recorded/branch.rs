//! Continues the conversation of a recorded session from one of its points (the branch point), in another folder and a new node.
//! The recorded program may still be running.
//!
//! [`Branch::plan`] only reads. [`Branch::make_copy`] makes the copy of the conversation that it planned, if any.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_agent::parse::session_files::{NewSession, cut_gemini, cut_opencode};
use nerve_agent::parse::transcript::{TranscriptCut, cut_at};
use nerve_agent::profile::session::{ConversationRef, IdSource, SessionArgs, SessionFileFormat};
use nerve_agent::profile::{Profile, TranscriptKind};
use nerve_types::TsNs;

use super::opencode::Opencode;
use crate::session_files::{SessionFiles, new_id, project, read_transcript, write_into};

/// The known properties of the recorded session.
#[derive(Debug, Clone, Copy)]
pub struct RecordedSession<'a> {
    /// The agent's profile.
    pub profile: &'a Profile,
    /// The command, without the arguments added for the recording.
    pub command: &'a [String],
    /// The last known id of the conversation.
    pub conversation_id: Option<&'a str>,
    /// The agent's transcript of the conversation.
    pub transcript: Option<&'a Path>,
    /// The agent's `HOME`, if it differed from that of this process.
    pub home: Option<&'a Path>,
    /// The working directory.
    pub cwd: &'a Path,
    /// Start of the agent, in nanoseconds since the Unix epoch.
    pub started_at: TsNs,
    /// End of the agent; `None` while it runs.
    pub ended_at: Option<TsNs>,
    /// Folder for copies of conversations that are passed to the agent by path. It is created when needed.
    pub copies: &'a Path,
}

/// Part of the conversation that the new node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// A copy of the transcript up to the branch point.
    Cut {
        /// The source transcript.
        from: PathBuf,
        /// The path of the copy.
        to: PathBuf,
        /// Turns in the copy.
        turns: u64,
        /// Turns in the source.
        of: u64,
    },
    /// A copy up to the branch point in the agent's own database.
    Imported {
        /// The source conversation.
        from: String,
        /// The id of the copy.
        to: String,
        /// Turns in the copy.
        turns: u64,
        /// Turns in the source.
        of: u64,
    },
    /// The agent's own fork, with the whole conversation, including the part after the branch point.
    Whole {
        /// The id of the conversation.
        id: String,
    },
    /// A new conversation; the reason.
    New(String),
}

/// The plan of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The conversation of the new node.
    pub conversation: Conversation,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that the agent needs to find the conversation.
    pub env: BTreeMap<String, String>,
    copy: PlannedCopy,
    at: Option<TsNs>,
    moved: Option<(PathBuf, PathBuf)>,
}

/// The copy that is still to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PlannedCopy {
    None,
    /// A copy of Claude Code's transcript with this id.
    Transcript(String),
    /// A copy of Gemini CLI's file with this name.
    Chat(String),
    /// An import with the agent's working directory.
    Import {
        text: Arc<str>,
        by: Opencode,
        cwd: PathBuf,
    },
}

/// The copy that was made for a conversation. It can be removed again until an agent uses it.
#[derive(Debug)]
pub struct ConversationCopy(Option<CopyLocation>);

#[derive(Debug)]
enum CopyLocation {
    File(PathBuf),
    Imported { id: String, by: Opencode, cwd: PathBuf },
}

impl ConversationCopy {
    /// No copy was made.
    pub const NONE: ConversationCopy = ConversationCopy(None);

    /// Returns the file that was made, if any.
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Some(CopyLocation::File(path)) => Some(path),
            _ => None,
        }
    }

    /// Removes the copy.
    ///
    /// # Errors
    /// The I/O error, or the agent's.
    pub fn remove(&self) -> io::Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(CopyLocation::File(path)) => std::fs::remove_file(path),
            Some(CopyLocation::Imported { id, by, cwd }) => by.delete(id, cwd),
        }
    }
}

impl Branch {
    /// Plans how to continue from `at` (`None`: the end) in the folder `cwd`. `moved`: a folder and its new location, for paths
    /// in the conversation. Reads other programs' files; if they are missing or unreadable, the conversation is a new one, with
    /// the reason.
    pub fn plan(
        recorded: &RecordedSession<'_>,
        at: Option<TsNs>,
        cwd: &Path,
        moved: Option<(&Path, &Path)>,
    ) -> Branch {
        let mut env = BTreeMap::new();
        if let Some(home) = recorded.home.and_then(Path::to_str) {
            env.insert("HOME".to_string(), home.to_string());
        }
        let base = || {
            recorded
                .profile
                .session
                .as_ref()
                .map_or(recorded.command.to_vec(), |forms| forms.without_session_args(recorded.command))
        };
        let folders = moved;
        let moved = moved.map(|(from, to)| (from.to_path_buf(), to.to_path_buf()));
        let branch = |conversation, command| Branch {
            conversation,
            command,
            env: env.clone(),
            copy: PlannedCopy::None,
            at,
            moved: moved.clone(),
        };
        let planned = match (&recorded.profile.session, SessionFiles::for_env(&env)) {
            (None, _) => Err(format!("a '{}' program has no conversations", recorded.profile.name)),
            (_, None) => Err("the home folder is not known".to_string()),
            (Some(forms), Some(session_files)) => match (recorded.profile.transcript, forms.file_format) {
                (Some(TranscriptKind::Claude), _) => {
                    plan_transcript_copy(recorded, forms, &session_files, at, cwd)
                }
                (_, Some(SessionFileFormat::Gemini)) => plan_gemini_copy(recorded, forms, &session_files, at),
                (_, Some(SessionFileFormat::Opencode)) => {
                    plan_import(recorded, forms, &env, at, cwd, folders)
                }
                // Codex's file cannot be cut; the program forks its own conversation.
                (_, None) => plan_own_fork(recorded, forms, &session_files, cwd),
            },
        };
        match planned {
            Ok((conversation, command, copy)) => {
                let mut branch = Branch { copy, ..branch(conversation, command) };
                branch.set_config_dir(&env);
                branch
            }
            Err(why) => branch(Conversation::New(why), base()),
        }
    }

    /// Makes the planned copy of the conversation, if any.
    ///
    /// # Errors
    /// The conversation cannot be read any more, or the copy cannot be written. Nothing is left of the copy.
    pub fn make_copy(&self) -> io::Result<ConversationCopy> {
        let moved = self.moved.as_ref().map(|(from, to)| (from.as_path(), to.as_path()));
        let location = match (&self.copy, &self.conversation) {
            (PlannedCopy::Transcript(id), Conversation::Cut { from, to, .. }) => {
                let cut = cut_at(&read_transcript(from)?, self.at, id, moved).map_err(io::Error::other)?;
                Some(CopyLocation::File(write_into(parent_folder(to), id, &cut.text)?))
            }
            (PlannedCopy::Chat(id), Conversation::Cut { from, to, .. }) => {
                let cut = cut_gemini(&read_transcript(from)?, self.at, moved).map_err(io::Error::other)?;
                Some(CopyLocation::File(write_into(parent_folder(to), id, &cut.text)?))
            }
            (PlannedCopy::Import { text, by, cwd }, Conversation::Imported { to, .. }) => {
                by.import(text, cwd)?;
                Some(CopyLocation::Imported { id: to.clone(), by: by.clone(), cwd: cwd.clone() })
            }
            _ => None,
        };
        Ok(ConversationCopy(location))
    }

    /// Points the agent to its settings folder if that is not the default one.
    fn set_config_dir(&mut self, env: &BTreeMap<String, String>) {
        let (PlannedCopy::Transcript(_), Conversation::Cut { to, .. }, Some(session_files)) =
            (&self.copy, &self.conversation, SessionFiles::for_env(env))
        else {
            return;
        };
        let folder = to.ancestors().nth(3).unwrap_or(Path::new("/"));
        if folder != session_files.claude().1
            && let Some(folder) = folder.to_str()
        {
            self.env.insert("CLAUDE_CONFIG_DIR".to_string(), folder.to_string());
        }
    }
}

/// The conversation, the command, and the copy to make.
type CopyPlan = (Conversation, Vec<String>, PlannedCopy);

/// Plans a copy of Claude Code's transcript up to the branch point, with a new id, in the folder where the agent looks for it.
fn plan_transcript_copy(
    recorded: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
    at: Option<TsNs>,
    cwd: &Path,
) -> Result<CopyPlan, String> {
    let new = new_id();
    let command =
        forms.resume_command(recorded.command, &new).ok_or_else(|| not_started_directly(recorded.command))?;
    let cut = |path: PathBuf| -> Result<(PathBuf, TranscriptCut), String> {
        let read = read_transcript(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Only counts turns here; the copy is written when everything else succeeded.
        let cut = cut_at(&read, at, &new, None).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((path, cut))
    };
    let transcript_path = transcript(recorded, forms, session_files);
    let candidate = match &transcript_path {
        Ok(path) => cut(path.clone())?,
        Err(why) => cut(single_transcript(recorded, session_files, at).ok_or_else(|| why.clone())?)?,
    };
    let (from, cut) = match candidate {
        // No turn before the branch point: the conversation was a different one then, because `/clear` begins a new one.
        (_, TranscriptCut { turns: 0, .. }) if transcript_path.is_ok() && at.is_some() => {
            cut(single_transcript(recorded, session_files, at).ok_or_else(no_messages)?)?
        }
        candidate => candidate,
    };
    if cut.turns == 0 {
        return Err(no_messages());
    }
    let projects = from.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let folder = match cwd == recorded.cwd {
        true => from.parent().map_or(projects.to_path_buf(), Path::to_path_buf),
        false => projects.join(project(cwd)),
    };
    let to = folder.join(format!("{new}.jsonl"));
    let conversation = Conversation::Cut { from, to, turns: cut.turns, of: cut.total_turns };
    Ok((conversation, command, PlannedCopy::Transcript(new)))
}

/// Plans a copy of Gemini CLI's file up to the branch point, with which the agent is started.
fn plan_gemini_copy(
    recorded: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
    at: Option<TsNs>,
) -> Result<CopyPlan, String> {
    let only_candidate = || {
        single_candidate(session_files.chats_started_in(
            TranscriptKind::Gemini,
            recorded.cwd,
            recorded.started_at,
            latest_start(recorded, at),
        ))
    };
    let id = conversation_id(recorded, forms).map_or_else(only_candidate, Ok)?;
    let from = session_files
        .chat(TranscriptKind::Gemini, &id)
        .ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?;
    let with_path = |error: String| format!("{}: {error}", from.display());
    let text = read_transcript(&from).map_err(|error| with_path(error.to_string()))?;
    // Only counts turns here; the copy is written when everything else succeeded.
    let cut = cut_gemini(&text, at, None).map_err(|error| with_path(error.to_string()))?;
    if cut.turns == 0 {
        return Err(no_messages());
    }
    let new = new_id();
    let to = recorded.copies.join(format!("{new}.jsonl"));
    let file = to.to_str().ok_or_else(|| format!("{} is not UTF-8", to.display()))?;
    let command = forms
        .fork_command(recorded.command, &id, &new, file)
        .ok_or_else(|| not_started_directly(recorded.command))?;
    let conversation = Conversation::Cut { from, to, turns: cut.turns, of: cut.total_turns };
    Ok((conversation, command, PlannedCopy::Chat(new)))
}

/// Plans an import of opencode's conversation up to the branch point, with a new id and folder. Its own fork would work in the old
/// folder.
fn plan_import(
    recorded: &RecordedSession<'_>,
    forms: &SessionArgs,
    env: &BTreeMap<String, String>,
    at: Option<TsNs>,
    cwd: &Path,
    moved: Option<(&Path, &Path)>,
) -> Result<CopyPlan, String> {
    let by = Opencode::from_command(recorded.command, forms, env)
        .ok_or_else(|| not_started_directly(recorded.command))?;
    let id = match conversation_id(recorded, forms) {
        Some(id) => id,
        None if recorded.cwd.is_dir() => {
            single_candidate(by.started_in(recorded.cwd, recorded.started_at, latest_start(recorded, at))?)?
        }
        None => {
            return Err(format!(
                "the agent's conversation is not known, and its folder {} is gone",
                recorded.cwd.display()
            ));
        }
    };
    let here = if recorded.cwd.is_dir() { recorded.cwd } else { Path::new("/") };
    let export = by.export(&id, here)?;
    let salt: String = new_id().chars().filter(char::is_ascii_alphanumeric).take(10).collect();
    let cut = cut_opencode(&export, at, NewSession { salt: &salt, cwd, moved });
    let cut = cut.map_err(|error| format!("its conversation {id}: {error}"))?;
    if cut.turns == 0 {
        return Err(no_messages());
    }
    let command = forms
        .resume_command(recorded.command, &cut.id)
        .ok_or_else(|| not_started_directly(recorded.command))?;
    let copy = PlannedCopy::Import { text: cut.text.into(), by, cwd: cwd.to_path_buf() };
    let conversation = Conversation::Imported { from: id, to: cut.id, turns: cut.turns, of: cut.total_turns };
    Ok((conversation, command, copy))
}

/// Returns the id of the conversation, as reported by the agent or named by its command.
pub(super) fn conversation_id(recorded: &RecordedSession<'_>, forms: &SessionArgs) -> Option<String> {
    let in_command = || match forms.conversation(recorded.command) {
        ConversationRef::Id(id) => Some(id),
        _ => None,
    };
    recorded.conversation_id.map(str::to_string).or_else(in_command).filter(|id| forms.is_id(id))
}

/// Returns the latest time at which the conversation can have begun.
fn latest_start(recorded: &RecordedSession<'_>, at: Option<TsNs>) -> TsNs {
    at.or(recorded.ended_at).unwrap_or(TsNs(u64::MAX))
}

/// Returns the only conversation, because several cannot be distinguished.
fn single_candidate(mut candidates: Vec<String>) -> Result<String, String> {
    match (candidates.pop(), candidates.len()) {
        (Some(id), 0) => Ok(id),
        (None, _) => Err(no_messages()),
        (Some(_), others) => Err(format!(
            "the agent's conversation is not known: {} were begun in its folder in that time",
            others + 1
        )),
    }
}

fn parent_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// Returns the transcript of the program's last conversation.
pub(super) fn transcript(
    recorded: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
) -> Result<PathBuf, String> {
    let id = conversation_id(recorded, forms).ok_or("the agent's conversation is not known")?;
    let matches_id =
        |path: &&Path| path.file_stem().is_some_and(|stem| stem == id.as_str()) && path.is_file();
    let path = recorded
        .transcript
        .filter(matches_id)
        .map(Path::to_path_buf)
        .or_else(|| session_files.transcript(&id));
    path.ok_or_else(|| match recorded.transcript {
        Some(path) => format!("its transcript {} is gone", path.display()),
        None => format!("the agent has no transcript of conversation {id}"),
    })
}

/// Returns the only conversation in the same folder that began while the program ran, before the branch point.
pub(super) fn single_transcript(
    recorded: &RecordedSession<'_>,
    session_files: &SessionFiles,
    at: Option<TsNs>,
) -> Option<PathBuf> {
    let mut candidates =
        session_files.started_in(recorded.cwd, recorded.started_at, latest_start(recorded, at));
    let one = candidates.pop()?;
    candidates.is_empty().then_some(one)
}

/// Plans the agent's own fork of the whole conversation.
fn plan_own_fork(
    recorded: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
    cwd: &Path,
) -> Result<CopyPlan, String> {
    let id = conversation_id(recorded, forms).ok_or_else(|| match forms.id_source {
        Some(IdSource::Codex) => {
            "the agent's conversation is not known: the agent reports it after the first message".to_string()
        }
        _ => "the agent's conversation is not known: neither its command nor the agent names it".to_string(),
    })?;
    let file = match forms.fork.iter().any(|word| word.contains("{file}")) {
        true => session_files
            .chat(TranscriptKind::Gemini, &id)
            .ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?,
        false => PathBuf::new(),
    };
    let new = new_id();
    let command = forms
        .fork_command(recorded.command, &id, &new, &file.display().to_string())
        .ok_or_else(|| forms.cannot.clone().unwrap_or_else(|| not_started_directly(recorded.command)))?;
    let command = match cwd.to_str().filter(|_| cwd != recorded.cwd) {
        Some(cwd) => forms.with_cwd(command, cwd),
        None => command,
    };
    Ok((Conversation::Whole { id }, command, PlannedCopy::None))
}

fn no_messages() -> String {
    "the conversation had no messages yet".to_string()
}

fn not_started_directly(command: &[String]) -> String {
    format!(
        "the command '{}' does not start the agent directly, so no arguments can be added",
        shell_words::join(command)
    )
}
