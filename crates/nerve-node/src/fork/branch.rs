//! Continues the conversation of a recorded session from one of its moments: in another folder and a new node. The recorded program
//! may still be running or long gone.
//!
//! [`Branch::plan`] only reads. [`Branch::place`] makes the copy of the conversation that it planned, if any.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_agent::parse::session_files::{NewSession, cut_gemini, cut_opencode};
use nerve_agent::parse::transcript::{TranscriptCut, cut_at};
use nerve_agent::profile::session::{ConversationRef, IdSource, PastKind, SessionArgs};
use nerve_agent::profile::{Profile, TranscriptKind};
use nerve_types::TsNs;

use super::new_id;
use super::opencode::Opencode;
use super::session_files::{SessionFiles, project, read_transcript, write_into};

/// Known facts of the recorded session.
#[derive(Debug, Clone, Copy)]
pub struct RecordedSession<'a> {
    /// The agent's profile.
    pub profile: &'a Profile,
    /// The command, without the arguments added for the recording.
    pub command: &'a [String],
    /// The last known id of the conversation.
    pub agent_session: Option<&'a str>,
    /// The agent's transcript of the conversation.
    pub transcript: Option<&'a Path>,
    /// The agent's `HOME`, if it differed from that of this process.
    pub home: Option<&'a Path>,
    /// The working directory.
    pub cwd: &'a Path,
    /// Start of the agent, in nanoseconds since the Unix epoch.
    pub begun: TsNs,
    /// End of the agent; `None` while it runs.
    pub ended: Option<TsNs>,
    /// Folder for copies of conversations that are passed to the agent by path. It is created when needed.
    pub copies: &'a Path,
}

/// Part of the conversation that the new node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// A copy of the transcript up to the moment.
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
    /// A copy up to the moment in the agent's own database.
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
    /// The agent's own fork, with the whole conversation including what followed the moment.
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
    Nothing,
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
pub struct Placed(Option<MadeCopy>);

#[derive(Debug)]
enum MadeCopy {
    File(PathBuf),
    Imported { id: String, by: Opencode, cwd: PathBuf },
}

impl Placed {
    /// No copy was made.
    pub const NOTHING: Placed = Placed(None);

    /// Returns the file that was made, if any.
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Some(MadeCopy::File(path)) => Some(path),
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
            Some(MadeCopy::File(path)) => std::fs::remove_file(path),
            Some(MadeCopy::Imported { id, by, cwd }) => by.delete(id, cwd),
        }
    }
}

impl Branch {
    /// Plans how to continue from `at` (`None`: the end) in the folder `cwd`. `moved`: a folder and its new location, for paths
    /// in the conversation. Reads other programs' files; if they are missing or unreadable, the conversation is a new one, with
    /// the reason.
    pub fn plan(
        past: &RecordedSession<'_>,
        at: Option<TsNs>,
        cwd: &Path,
        moved: Option<(&Path, &Path)>,
    ) -> Branch {
        let mut env = BTreeMap::new();
        if let Some(home) = past.home.and_then(Path::to_str) {
            env.insert("HOME".to_string(), home.to_string());
        }
        let base = || {
            past.profile
                .session
                .as_ref()
                .map_or(past.command.to_vec(), |forms| forms.without_session_args(past.command))
        };
        let folders = moved;
        let moved = moved.map(|(from, to)| (from.to_path_buf(), to.to_path_buf()));
        let branch = |conversation, command| Branch {
            conversation,
            command,
            env: env.clone(),
            copy: PlannedCopy::Nothing,
            at,
            moved: moved.clone(),
        };
        let planned = match (&past.profile.session, SessionFiles::of(&env)) {
            (None, _) => Err(format!("a '{}' program has no conversations", past.profile.name)),
            (_, None) => Err("the home folder is not known".to_string()),
            (Some(forms), Some(session_files)) => match (past.profile.transcript, forms.past) {
                (Some(TranscriptKind::Claude), _) => {
                    plan_transcript_copy(past, forms, &session_files, (at, cwd))
                }
                (None, Some(PastKind::Gemini)) => plan_gemini_copy(past, forms, &session_files, at),
                (None, Some(PastKind::Opencode)) => plan_import(past, forms, &env, (at, cwd, folders)),
                (None, None) => plan_own_fork(past, forms, &session_files, cwd),
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
    pub fn place(&self) -> io::Result<Placed> {
        let moved = self.moved.as_ref().map(|(from, to)| (from.as_path(), to.as_path()));
        let placed = match (&self.copy, &self.conversation) {
            (PlannedCopy::Transcript(id), Conversation::Cut { from, to, .. }) => {
                let cut = cut_at(&read_transcript(from)?, self.at, id, moved).map_err(io::Error::other)?;
                Some(MadeCopy::File(write_into(folder_of(to), id, &cut.text)?))
            }
            (PlannedCopy::Chat(id), Conversation::Cut { from, to, .. }) => {
                let cut = cut_gemini(&read_transcript(from)?, self.at, moved).map_err(io::Error::other)?;
                Some(MadeCopy::File(write_into(folder_of(to), id, &cut.text)?))
            }
            (PlannedCopy::Import { text, by, cwd }, Conversation::Imported { to, .. }) => {
                by.import(text, cwd)?;
                Some(MadeCopy::Imported { id: to.clone(), by: by.clone(), cwd: cwd.clone() })
            }
            _ => None,
        };
        Ok(Placed(placed))
    }

    /// Points the agent to its settings folder if that is not the default one.
    fn set_config_dir(&mut self, env: &BTreeMap<String, String>) {
        let (PlannedCopy::Transcript(_), Conversation::Cut { to, .. }, Some(session_files)) =
            (&self.copy, &self.conversation, SessionFiles::of(env))
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
type Planned = (Conversation, Vec<String>, PlannedCopy);

/// Plans a copy of Claude Code's transcript up to the moment, with a new id, in the folder where the agent looks for it.
fn plan_transcript_copy(
    past: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
    (at, cwd): (Option<TsNs>, &Path),
) -> Result<Planned, String> {
    let new = new_id();
    let command =
        forms.resume_command(past.command, &new).ok_or_else(|| not_started_directly(past.command))?;
    let cut = |path: PathBuf| -> Result<(PathBuf, TranscriptCut), String> {
        let read = read_transcript(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Only counts turns here; the copy is written when everything else succeeded.
        let cut = cut_at(&read, at, &new, None).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((path, cut))
    };
    let known = transcript(past, forms, session_files);
    let found = match &known {
        Ok(path) => cut(path.clone())?,
        Err(why) => cut(only_transcript_begun(past, session_files, at).ok_or_else(|| why.clone())?)?,
    };
    let (from, cut) = match found {
        // No turn before the moment: the conversation was a different one then, because `/clear` begins a new one.
        (_, TranscriptCut { turns: 0, .. }) if known.is_ok() && at.is_some() => {
            cut(only_transcript_begun(past, session_files, at).ok_or_else(no_messages)?)?
        }
        found => found,
    };
    if cut.turns == 0 {
        return Err(no_messages());
    }
    let projects = from.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let folder = match cwd == past.cwd {
        true => from.parent().map_or(projects.to_path_buf(), Path::to_path_buf),
        false => projects.join(project(cwd)),
    };
    let to = folder.join(format!("{new}.jsonl"));
    Ok((Conversation::Cut { from, to, turns: cut.turns, of: cut.of }, command, PlannedCopy::Transcript(new)))
}

/// Plans a copy of Gemini CLI's file up to the moment, with which the agent is started.
fn plan_gemini_copy(
    past: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
    at: Option<TsNs>,
) -> Result<Planned, String> {
    let only_candidate = || only_one(session_files.chats_begun_in(past.cwd, past.begun, until(past, at)));
    let id = conversation_id(past, forms).map_or_else(only_candidate, Ok)?;
    let from =
        session_files.chat(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?;
    let with_path = |error: String| format!("{}: {error}", from.display());
    let text = read_transcript(&from).map_err(|error| with_path(error.to_string()))?;
    // Only counts turns here; the copy is written when everything else succeeded.
    let cut = cut_gemini(&text, at, None).map_err(|error| with_path(error.to_string()))?;
    if cut.turns == 0 {
        return Err(no_messages());
    }
    let new = new_id();
    let to = past.copies.join(format!("{new}.jsonl"));
    let file = to.to_str().ok_or_else(|| format!("{} is not UTF-8", to.display()))?;
    let command = forms
        .fork_command(past.command, &id, &new, file)
        .ok_or_else(|| not_started_directly(past.command))?;
    Ok((Conversation::Cut { from, to, turns: cut.turns, of: cut.of }, command, PlannedCopy::Chat(new)))
}

/// Plans an import of opencode's conversation up to the moment, with a new id and folder. Its own fork would work in the old
/// folder.
fn plan_import(
    past: &RecordedSession<'_>,
    forms: &SessionArgs,
    env: &BTreeMap<String, String>,
    (at, cwd, moved): (Option<TsNs>, &Path, Option<(&Path, &Path)>),
) -> Result<Planned, String> {
    let by = Opencode::of(past.command, forms, env).ok_or_else(|| not_started_directly(past.command))?;
    let id = match conversation_id(past, forms) {
        Some(id) => id,
        None if past.cwd.is_dir() => only_one(by.begun_in(past.cwd, past.begun, until(past, at))?)?,
        None => {
            return Err(format!(
                "the agent's conversation is not known, and its folder {} is gone",
                past.cwd.display()
            ));
        }
    };
    let here = if past.cwd.is_dir() { past.cwd } else { Path::new("/") };
    let export = by.export(&id, here)?;
    let salt: String = new_id().chars().filter(char::is_ascii_alphanumeric).take(10).collect();
    let cut = cut_opencode(&export, at, NewSession { salt: &salt, cwd, moved });
    let cut = cut.map_err(|error| format!("its conversation {id}: {error}"))?;
    if cut.turns == 0 {
        return Err(no_messages());
    }
    let command =
        forms.resume_command(past.command, &cut.id).ok_or_else(|| not_started_directly(past.command))?;
    let copy = PlannedCopy::Import { text: cut.text.into(), by, cwd: cwd.to_path_buf() };
    Ok((Conversation::Imported { from: id, to: cut.id, turns: cut.turns, of: cut.of }, command, copy))
}

/// Returns the id of the conversation, as reported by the agent or named by its command.
fn conversation_id(past: &RecordedSession<'_>, forms: &SessionArgs) -> Option<String> {
    let in_command = || match forms.conversation(past.command) {
        ConversationRef::Id(id) => Some(id),
        _ => None,
    };
    past.agent_session.map(str::to_string).or_else(in_command).filter(|id| forms.is_id(id))
}

/// Returns the time before which the conversation began.
fn until(past: &RecordedSession<'_>, at: Option<TsNs>) -> TsNs {
    at.or(past.ended).unwrap_or(TsNs(u64::MAX))
}

/// Returns the only conversation, because several cannot be distinguished.
fn only_one(mut candidates: Vec<String>) -> Result<String, String> {
    match (candidates.pop(), candidates.len()) {
        (Some(id), 0) => Ok(id),
        (None, _) => Err(no_messages()),
        (Some(_), others) => Err(format!(
            "the agent's conversation is not known: {} were begun in its folder in that time",
            others + 1
        )),
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// Returns the transcript of the program's last conversation.
fn transcript(
    past: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
) -> Result<PathBuf, String> {
    let id = conversation_id(past, forms).ok_or("the agent's conversation is not known")?;
    let is_its = |path: &&Path| path.file_stem().is_some_and(|stem| stem == id.as_str()) && path.is_file();
    let path =
        past.transcript.filter(is_its).map(Path::to_path_buf).or_else(|| session_files.transcript(&id));
    path.ok_or_else(|| match past.transcript {
        Some(path) => format!("its transcript {} is gone", path.display()),
        None => format!("the agent has no transcript of conversation {id}"),
    })
}

/// Returns the only conversation in the same folder that began while the program ran, before the moment.
fn only_transcript_begun(
    past: &RecordedSession<'_>,
    session_files: &SessionFiles,
    at: Option<TsNs>,
) -> Option<PathBuf> {
    let mut candidates = session_files.begun_in(past.cwd, past.begun, until(past, at));
    let one = candidates.pop()?;
    candidates.is_empty().then_some(one)
}

/// Plans the agent's own fork of the whole conversation.
fn plan_own_fork(
    past: &RecordedSession<'_>,
    forms: &SessionArgs,
    session_files: &SessionFiles,
    cwd: &Path,
) -> Result<Planned, String> {
    let id = conversation_id(past, forms).ok_or_else(|| match forms.learn {
        Some(IdSource::Codex) => {
            "the agent's conversation is not known: the agent reports it after the first message".to_string()
        }
        _ => "the agent's conversation is not known: neither its command nor the agent names it".to_string(),
    })?;
    let file = match forms.fork.iter().any(|word| word.contains("{file}")) {
        true => {
            session_files.chat(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?
        }
        false => PathBuf::new(),
    };
    let new = new_id();
    let command = forms
        .fork_command(past.command, &id, &new, &file.display().to_string())
        .ok_or_else(|| forms.cannot.clone().unwrap_or_else(|| not_started_directly(past.command)))?;
    let command = match cwd.to_str().filter(|_| cwd != past.cwd) {
        Some(cwd) => forms.with_cwd(command, cwd),
        None => command,
    };
    Ok((Conversation::Whole { id }, command, PlannedCopy::Nothing))
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
