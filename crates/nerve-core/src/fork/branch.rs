//! The conversation of a recorded session, gone on with from one of its moments: in another folder, in a new node, while the recorded
//! program may still run or be long gone.
//!
//! [`Branch::plan`] looks and writes nothing; [`Branch::place`] makes the copy of the conversation that it planned, if any.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_term::event::TsNs;
use nerve_term::parse::past::{NewSession, cut_gemini, cut_opencode};
use nerve_term::parse::transcript::{CutAt, cut_at};
use nerve_term::profile::session::{Learn, PastKind, SessionForms, Told};
use nerve_term::profile::{Profile, TranscriptKind};

use super::new_id;
use super::opencode::Opencode;
use super::session_files::{Records, project, read_transcript, write_into};

/// What is known of the session that was recorded.
#[derive(Debug, Clone, Copy)]
pub struct Past<'a> {
    /// The agent.
    pub profile: &'a Profile,
    /// Its command, without what was added to it for the recording.
    pub command: &'a [String],
    /// Id of its conversation, as last told.
    pub agent_session: Option<&'a str>,
    /// Its own record of that conversation.
    pub transcript: Option<&'a Path>,
    /// Its `HOME`, if it had another than this process.
    pub home: Option<&'a Path>,
    /// Where it worked.
    pub cwd: &'a Path,
    /// When it was started, and when it ended: nanoseconds since the Unix epoch.
    pub begun: TsNs,
    /// `None` while it runs.
    pub ended: Option<TsNs>,
    /// Where copies of conversations go that an agent is started with; made when first needed.
    pub copies: &'a Path,
}

/// What the new node knows of what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// A copy of the transcript, up to the moment.
    Cut {
        /// The transcript it is copied from.
        from: PathBuf,
        /// The copy's folder and name.
        to: PathBuf,
        /// Turns in the copy, and in the whole.
        turns: u64,
        /// Turns of the whole.
        of: u64,
    },
    /// The same, in a database of the agent's own.
    Imported {
        /// The conversation it is copied from.
        from: String,
        /// The copy's id.
        to: String,
        /// Turns in the copy.
        turns: u64,
        /// Turns of the whole.
        of: u64,
    },
    /// The agent forks it by itself, with everything that was said in it, also after the moment.
    Whole {
        /// The id of the conversation.
        id: String,
    },
    /// It begins anew, and why.
    New(String),
}

/// How a new node goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// What it knows.
    pub conversation: Conversation,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables it needs to find the conversation.
    pub env: BTreeMap<String, String>,
    making: Making,
    at: Option<TsNs>,
    moved: Option<(PathBuf, PathBuf)>,
}

/// What is left to do for the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Making {
    Nothing,
    /// A copy of Claude Code's transcript, of this id.
    Transcript(String),
    /// A copy of Gemini CLI's file, of this name.
    Chat(String),
    /// This is imported, where the agent is to work.
    Import {
        text: Arc<str>,
        by: Opencode,
        cwd: PathBuf,
    },
}

/// What was made for a conversation. It may be taken back as long as no agent has it.
#[derive(Debug)]
pub struct Placed(Option<Thing>);

#[derive(Debug)]
enum Thing {
    File(PathBuf),
    Imported { id: String, by: Opencode, cwd: PathBuf },
}

impl Placed {
    /// Nothing was made.
    pub const NOTHING: Placed = Placed(None);

    /// The file that was made, if one was.
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Some(Thing::File(path)) => Some(path),
            _ => None,
        }
    }

    /// Removes it.
    ///
    /// # Errors
    /// What the system says, or the agent.
    pub fn take_back(&self) -> io::Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(Thing::File(path)) => std::fs::remove_file(path),
            Some(Thing::Imported { id, by, cwd }) => by.delete(id, cwd),
        }
    }
}

impl Branch {
    /// Finds out how to go on from `at` (the end, if `None`) in the folder `cwd`. `moved`: the folder whose files are another's from now
    /// on. Reads other programs' files; what is missing or not understood there makes the conversation a new one, and is said.
    pub fn plan(past: &Past<'_>, at: Option<TsNs>, cwd: &Path, moved: Option<(&Path, &Path)>) -> Branch {
        let mut env = BTreeMap::new();
        if let Some(home) = past.home.and_then(Path::to_str) {
            env.insert("HOME".to_string(), home.to_string());
        }
        let base =
            || past.profile.session.as_ref().map_or(past.command.to_vec(), |forms| forms.base(past.command));
        let folders = moved;
        let moved = moved.map(|(from, to)| (from.to_path_buf(), to.to_path_buf()));
        let branch = |conversation, command| Branch {
            conversation,
            command,
            env: env.clone(),
            making: Making::Nothing,
            at,
            moved: moved.clone(),
        };
        let planned = match (&past.profile.session, Records::of(&env)) {
            (None, _) => Err(format!("a '{}' program has none", past.profile.name)),
            (_, None) => Err("there is no home folder to look for it in".to_string()),
            (Some(forms), Some(records)) => match (past.profile.transcript, forms.past) {
                (Some(TranscriptKind::Claude), _) => cut(past, forms, &records, (at, cwd)),
                (None, Some(PastKind::Gemini)) => chat(past, forms, &records, at),
                (None, Some(PastKind::Opencode)) => imported(past, forms, &env, (at, cwd, folders)),
                (None, None) => whole(past, forms, &records, cwd),
            },
        };
        match planned {
            Ok((conversation, command, making)) => {
                let mut branch = Branch { making, ..branch(conversation, command) };
                branch.find_from(&env);
                branch
            }
            Err(why) => branch(Conversation::New(why), base()),
        }
    }

    /// Makes the copy of the conversation that was planned, if any.
    ///
    /// # Errors
    /// The conversation cannot be read any more, or the copy not be written; nothing is left of it.
    pub fn place(&self) -> io::Result<Placed> {
        let moved = self.moved.as_ref().map(|(from, to)| (from.as_path(), to.as_path()));
        let placed = match (&self.making, &self.conversation) {
            (Making::Transcript(id), Conversation::Cut { from, to, .. }) => {
                let cut = cut_at(&read_transcript(from)?, self.at, id, moved).map_err(io::Error::other)?;
                Some(Thing::File(write_into(folder_of(to), id, &cut.text)?))
            }
            (Making::Chat(id), Conversation::Cut { from, to, .. }) => {
                let cut = cut_gemini(&read_transcript(from)?, self.at, moved).map_err(io::Error::other)?;
                Some(Thing::File(write_into(folder_of(to), id, &cut.text)?))
            }
            (Making::Import { text, by, cwd }, Conversation::Imported { to, .. }) => {
                by.import(text, cwd)?;
                Some(Thing::Imported { id: to.clone(), by: by.clone(), cwd: cwd.clone() })
            }
            _ => None,
        };
        Ok(Placed(placed))
    }

    /// An agent whose settings were elsewhere finds its conversation only there.
    fn find_from(&mut self, env: &BTreeMap<String, String>) {
        let (Making::Transcript(_), Conversation::Cut { to, .. }, Some(records)) =
            (&self.making, &self.conversation, Records::of(env))
        else {
            return;
        };
        let folder = to.ancestors().nth(3).unwrap_or(Path::new("/"));
        if folder != records.claude().1
            && let Some(folder) = folder.to_str()
        {
            self.env.insert("CLAUDE_CONFIG_DIR".to_string(), folder.to_string());
        }
    }
}

/// What the new node knows, its command, and what is to be made for it.
type Planned = (Conversation, Vec<String>, Making);

/// A transcript cut at the moment, with its own id, in the folder where the agent looks for it.
fn cut(
    past: &Past<'_>,
    forms: &SessionForms,
    records: &Records,
    (at, cwd): (Option<TsNs>, &Path),
) -> Result<Planned, String> {
    let new = new_id();
    let command = forms.resumed(past.command, &new).ok_or_else(|| not_started_by(past.command))?;
    let cut = |path: PathBuf| -> Result<(PathBuf, CutAt), String> {
        let read = read_transcript(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Counted here; written when everything else is there.
        let cut = cut_at(&read, at, &new, None).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((path, cut))
    };
    let known = transcript(past, forms, records);
    let found = match &known {
        Ok(path) => cut(path.clone())?,
        Err(why) => cut(begun_then(past, records, at).ok_or_else(|| why.clone())?)?,
    };
    let (from, cut) = match found {
        // It was another conversation then: `/clear` begins a new one.
        (_, CutAt { turns: 0, .. }) if known.is_ok() && at.is_some() => {
            cut(begun_then(past, records, at).ok_or_else(nothing_said)?)?
        }
        found => found,
    };
    if cut.turns == 0 {
        return Err(nothing_said());
    }
    let projects = from.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let folder = match cwd == past.cwd {
        true => from.parent().map_or(projects.to_path_buf(), Path::to_path_buf),
        false => projects.join(project(cwd)),
    };
    let to = folder.join(format!("{new}.jsonl"));
    Ok((Conversation::Cut { from, to, turns: cut.turns, of: cut.of }, command, Making::Transcript(new)))
}

/// A copy of Gemini CLI's file up to the moment, which it is started with.
fn chat(
    past: &Past<'_>,
    forms: &SessionForms,
    records: &Records,
    at: Option<TsNs>,
) -> Result<Planned, String> {
    let begun = || only_one(records.chats_begun_in(past.cwd, past.begun, until(past, at)));
    let id = told_id(past, forms).map_or_else(begun, Ok)?;
    let from = records.chat(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?;
    let named = |error: String| format!("{}: {error}", from.display());
    let text = read_transcript(&from).map_err(|error| named(error.to_string()))?;
    // Counted here; written when everything else is there.
    let cut = cut_gemini(&text, at, None).map_err(|error| named(error.to_string()))?;
    if cut.turns == 0 {
        return Err(nothing_said());
    }
    let new = new_id();
    let to = past.copies.join(format!("{new}.jsonl"));
    let file = to.to_str().ok_or_else(|| format!("{} is not UTF-8", to.display()))?;
    let command = forms.forked(past.command, &id, &new, file).ok_or_else(|| not_started_by(past.command))?;
    Ok((Conversation::Cut { from, to, turns: cut.turns, of: cut.of }, command, Making::Chat(new)))
}

/// A conversation of opencode up to the moment, with another id and another folder to work in. Its own fork would work in the old one.
fn imported(
    past: &Past<'_>,
    forms: &SessionForms,
    env: &BTreeMap<String, String>,
    (at, cwd, moved): (Option<TsNs>, &Path, Option<(&Path, &Path)>),
) -> Result<Planned, String> {
    let by = Opencode::of(past.command, forms, env).ok_or_else(|| not_started_by(past.command))?;
    let id = match told_id(past, forms) {
        Some(id) => id,
        None if past.cwd.is_dir() => only_one(by.begun_in(past.cwd, past.begun, until(past, at))?)?,
        None => {
            return Err(format!(
                "which conversation the agent had is not known, and cannot be asked for in {}, which is gone",
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
        return Err(nothing_said());
    }
    let command = forms.resumed(past.command, &cut.id).ok_or_else(|| not_started_by(past.command))?;
    let making = Making::Import { text: cut.text.into(), by, cwd: cwd.to_path_buf() };
    Ok((Conversation::Imported { from: id, to: cut.id, turns: cut.turns, of: cut.of }, command, making))
}

/// The id of the conversation, as the agent told it or its command names it.
fn told_id(past: &Past<'_>, forms: &SessionForms) -> Option<String> {
    let told = || match forms.told(past.command) {
        Told::Id(id) => Some(id),
        _ => None,
    };
    past.agent_session.map(str::to_string).or_else(told).filter(|id| forms.is_id(id))
}

/// Until when a conversation may have begun.
fn until(past: &Past<'_>, at: Option<TsNs>) -> TsNs {
    at.or(past.ended).unwrap_or(TsNs(u64::MAX))
}

/// Who else works in the folder cannot be told from it.
fn only_one(mut begun: Vec<String>) -> Result<String, String> {
    match (begun.pop(), begun.len()) {
        (Some(id), 0) => Ok(id),
        (None, _) => Err(nothing_said()),
        (Some(_), others) => Err(format!(
            "which conversation the agent had is not known: {} were begun in its folder meanwhile",
            others + 1
        )),
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// Where the conversation is kept that the program had last.
fn transcript(past: &Past<'_>, forms: &SessionForms, records: &Records) -> Result<PathBuf, String> {
    let id = told_id(past, forms).ok_or("which conversation the agent had is not known")?;
    let is_its = |path: &&Path| path.file_stem().is_some_and(|stem| stem == id.as_str()) && path.is_file();
    let path = past.transcript.filter(is_its).map(Path::to_path_buf).or_else(|| records.transcript(&id));
    path.ok_or_else(|| match past.transcript {
        Some(path) => format!("its transcript {} is gone", path.display()),
        None => format!("the agent has no transcript of conversation {id}"),
    })
}

/// The only conversation in the same folder that began while the program ran, before the moment.
fn begun_then(past: &Past<'_>, records: &Records, at: Option<TsNs>) -> Option<PathBuf> {
    let mut begun = records.begun_in(past.cwd, past.begun, until(past, at));
    let one = begun.pop()?;
    begun.is_empty().then_some(one)
}

/// The agent's own fork, of everything.
fn whole(past: &Past<'_>, forms: &SessionForms, records: &Records, cwd: &Path) -> Result<Planned, String> {
    let id = told_id(past, forms).ok_or_else(|| match forms.learn {
        Some(Learn::Codex) => {
            "which conversation the agent had is not known: it tells when something is said".to_string()
        }
        _ => "which conversation the agent had is not known: its command does not say, and it does not tell"
            .to_string(),
    })?;
    let file = match forms.fork.iter().any(|word| word.contains("{file}")) {
        true => records.chat(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?,
        false => PathBuf::new(),
    };
    let new = new_id();
    let command = forms
        .forked(past.command, &id, &new, &file.display().to_string())
        .ok_or_else(|| forms.cannot.clone().unwrap_or_else(|| not_started_by(past.command)))?;
    let command = match cwd.to_str().filter(|_| cwd != past.cwd) {
        Some(cwd) => forms.moved(command, cwd),
        None => command,
    };
    Ok((Conversation::Whole { id }, command, Making::Nothing))
}

fn nothing_said() -> String {
    "nothing had been said yet".to_string()
}

fn not_started_by(command: &[String]) -> String {
    format!(
        "the command '{}' does not start the agent itself, so nothing can be said to it there",
        shell_words::join(command)
    )
}
