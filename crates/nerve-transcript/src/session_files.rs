//! The files in which agents store their conversations and the status of running processes.
//!
//! All of them belong to other programs: anything missing or unknown means "not known", never an error.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use nerve_agent::profile::TranscriptKind;
use nerve_agent::profile::session::{IdSource, SessionArgs};
use nerve_types::TsNs;
use nerve_types::files::private_folder;
use nerve_types::os::{self, ProcessStatus};
use serde_json::Value;
use uuid::Uuid;

/// Maximum size of a transcript in bytes.
const TRANSCRIPT_LIMIT: u64 = 512 << 20;
/// Maximum number of bytes read of a status file, or to find the first line of a conversation.
const STATUS_LIMIT: u64 = 1 << 20;
/// Time to wait for an agent to finish writing its status file.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);
/// The file with the events of a conversation of GitHub Copilot CLI.
const EVENTS: &str = "events.jsonl";
/// The file with the events of a conversation of Kimi Code, in the conversation's folder.
const WIRE: &str = "agents/main/wire.jsonl";
/// Interval of reading an unfinished status file again.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of processes in the agent's process tree that are searched.
const PROCESS_LIMIT: usize = 64;

/// The session files of the agents of one user.
#[derive(Debug, Clone)]
pub struct SessionFiles {
    home: PathBuf,
    /// Claude Code's settings folder.
    claude: PathBuf,
    /// Codex's folder.
    codex: PathBuf,
    /// pi's folder.
    pi: PathBuf,
    /// GitHub Copilot CLI's folder.
    copilot: PathBuf,
    /// Kimi Code's folder.
    kimi: PathBuf,
    /// Folder of programs' data (XDG Base Directory Specification).
    data: PathBuf,
}

impl SessionFiles {
    /// Locates the files for a program with this environment on top of ours. `None` without a home folder.
    pub fn for_env(env: &BTreeMap<String, String>) -> Option<SessionFiles> {
        let var = |name: &str| {
            env.get(name).map(PathBuf::from).or_else(|| std::env::var_os(name).map(PathBuf::from))
        };
        let home = env.get("HOME").map(PathBuf::from).or_else(std::env::home_dir)?;
        let SessionFiles { home, claude, codex, pi, copilot, kimi, data } = SessionFiles::in_home(home);
        Some(SessionFiles {
            home,
            claude: var("CLAUDE_CONFIG_DIR").unwrap_or(claude),
            codex: var("CODEX_HOME").unwrap_or(codex),
            pi: var("PI_CODING_AGENT_DIR").unwrap_or(pi),
            copilot: var("COPILOT_HOME").unwrap_or(copilot),
            kimi: var("KIMI_CODE_HOME").unwrap_or(kimi),
            data: var("XDG_DATA_HOME").filter(|path| path.is_absolute()).unwrap_or(data),
        })
    }

    /// Locates the files below a home folder.
    pub fn in_home(home: PathBuf) -> SessionFiles {
        SessionFiles {
            claude: home.join(".claude"),
            codex: home.join(".codex"),
            pi: home.join(".pi/agent"),
            copilot: home.join(".copilot"),
            kimi: home.join(".kimi-code"),
            data: home.join(".local/share"),
            home,
        }
    }

    /// Returns the id of a running process's current conversation, if it can be determined. Blocks for at most half a second per
    /// process that is writing its status file.
    ///
    /// # Errors
    /// The process does not finish its status file.
    pub fn current_id(&self, forms: &SessionArgs, pid: i32) -> io::Result<Option<String>> {
        let id = match forms.id_source {
            Some(IdSource::Claude) => {
                // A shell may have started the agent: use the nearest process with a status file.
                process_tree(pid).into_iter().find_map(|pid| self.status_id(pid).transpose()).transpose()?
            }
            Some(IdSource::Codex) => open_rollout(pid),
            None => None,
        };
        Ok(id.filter(|id| forms.is_id(id)))
    }

    /// Returns the status file of a process of Claude Code.
    pub(crate) fn status_file(&self, pid: i32) -> PathBuf {
        self.claude.join("sessions").join(format!("{pid}.json"))
    }

    /// Returns Claude Code's folder for the conversations of a working directory.
    pub(crate) fn conversations_in(&self, cwd: &Path) -> PathBuf {
        self.claude.join("projects").join(project(cwd))
    }

    /// Returns the folders in which Codex creates rollout files: `sessions`, and the last year, month and day in it.
    pub(crate) fn rollout_folders(&self) -> Vec<PathBuf> {
        let last = |folder: &PathBuf| entries(folder).filter(|path| path.is_dir()).max();
        std::iter::successors(Some(self.codex.join("sessions")), last).take(4).collect()
    }

    /// Returns the id in a process's status file. The agent may be writing it, so an incomplete file is read again until a
    /// deadline.
    fn status_id(&self, pid: i32) -> io::Result<Option<String>> {
        let path = self.status_file(pid);
        let deadline = Instant::now() + STATUS_TIMEOUT;
        loop {
            let Ok(text) = read(&path) else { return Ok(None) };
            match serde_json::from_str::<Value>(&text) {
                Ok(status) => return Ok(status.get("sessionId").and_then(Value::as_str).map(str::to_string)),
                Err(error) if Instant::now() >= deadline => return Err(error.into()),
                // Polling is cheaper than a file watch: the agent writes for less than a millisecond.
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Returns Claude Code's transcript of a conversation. Its folder is named after the agent's working directory, but ids are
    /// unique.
    pub fn transcript(&self, id: &str) -> Option<PathBuf> {
        let name = format!("{id}.jsonl");
        entries(&self.claude.join("projects")).map(|project| project.join(&name)).find(|path| path.is_file())
    }

    /// Returns true if an agent with transcripts of this kind has a file for a conversation. `None`: its folder is missing, or it
    /// stores no such files.
    pub fn has_conversation(&self, kind: Option<TranscriptKind>, id: &str) -> Option<bool> {
        let kind = kind?;
        let has_chat: &dyn Fn() -> bool = &|| self.chat(kind, id).is_some();
        let (folder, has_file): (_, &dyn Fn() -> bool) = match kind {
            TranscriptKind::Claude => (self.claude.join("projects"), &|| self.transcript(id).is_some()),
            TranscriptKind::Codex => (self.codex.clone(), &|| self.rollout(id).is_some()),
            TranscriptKind::Gemini => (self.home.join(".gemini/tmp"), has_chat),
            TranscriptKind::Pi => (self.pi.join("sessions"), has_chat),
            TranscriptKind::Qwen => (self.home.join(".qwen/projects"), has_chat),
            TranscriptKind::Copilot => (self.copilot_sessions(), has_chat),
            TranscriptKind::Kimi => (self.kimi_sessions(), has_chat),
            TranscriptKind::Opencode | TranscriptKind::Kilo => return None,
        };
        folder.is_dir().then(has_file)
    }

    /// Returns Claude Code's settings folder and the default one.
    pub fn claude(&self) -> (&Path, PathBuf) {
        (&self.claude, self.home.join(".claude"))
    }

    /// Returns Claude Code's transcripts in the folder for `cwd` that begin between two times (nanoseconds since the Unix epoch).
    pub fn started_in(&self, cwd: &Path, from: TsNs, to: TsNs) -> Vec<PathBuf> {
        let is_in_range = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "jsonl")
                // Checked before the file is opened, because there are many old files.
                && modified(path).is_some_and(|at| at >= u128::from(from.0))
                && first_time(path).is_some_and(|at| (from..=to).contains(&at))
        };
        entries(&self.conversations_in(cwd)).filter(is_in_range).collect()
    }

    /// Returns Codex's file of a conversation: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`.
    pub fn rollout(&self, id: &str) -> Option<PathBuf> {
        let in_folder = |folder: PathBuf| entries(&folder);
        let years = entries(&self.codex.join("sessions"));
        let files = years.flat_map(in_folder).flat_map(in_folder).flat_map(in_folder);
        files.filter(|file| rollout_id(file).as_deref() == Some(id)).max()
    }

    /// Returns the path of the database of opencode or Kilo. `None` for other agents.
    pub fn database(&self, kind: TranscriptKind) -> Option<PathBuf> {
        kind.database_name().map(|name| self.data.join(name).join(format!("{name}.db")))
    }

    /// Returns the file of a conversation of Gemini CLI, pi, Qwen Code, GitHub Copilot CLI or Kimi Code. The first line of the file has
    /// the id, or its folder is named by it. For Gemini CLI, the name of the file contains the beginning of the id. A conversation of
    /// Gemini CLI that was begun from a file has two files, and the messages are in the larger one.
    pub fn chat(&self, kind: TranscriptKind, id: &str) -> Option<PathBuf> {
        let (end, folders): (_, Vec<PathBuf>) = match kind {
            TranscriptKind::Copilot => (EVENTS.to_string(), vec![self.copilot_sessions().join(id)]),
            TranscriptKind::Kimi => (
                WIRE.to_string(),
                entries(&self.kimi_sessions()).map(|workspace| wire_folder(&workspace.join(id))).collect(),
            ),
            TranscriptKind::Gemini => (
                format!("-{}.jsonl", id.get(..8)?),
                self.projects().map(|project| project.join("chats")).collect(),
            ),
            TranscriptKind::Pi => (format!("_{id}.jsonl"), entries(&self.pi.join("sessions")).collect()),
            TranscriptKind::Qwen => (
                format!("{id}.jsonl"),
                entries(&self.home.join(".qwen/projects")).map(|project| project.join("chats")).collect(),
            ),
            _ => return None,
        };
        let chats = folders.iter().flat_map(|folder| entries(folder));
        let chats = chats.filter(|path| path.to_string_lossy().ends_with(&end));
        chats
            .filter(|path| first_id(path).as_deref() == Some(id))
            .max_by_key(|path| fs::metadata(path).map_or(0, |meta| meta.len()))
    }

    /// Returns the files of conversations of Gemini CLI, pi, Qwen Code, GitHub Copilot CLI or Kimi Code in a folder that changed since a
    /// time.
    pub fn chats_changed_in(&self, kind: TranscriptKind, cwd: &Path, since: TsNs) -> Vec<PathBuf> {
        let is_recent = |path: &PathBuf| modified(path).is_some_and(|at| at >= u128::from(since.0));
        self.chats_in(kind, cwd).filter(is_recent).filter(|path| is_chat_of(kind, path, cwd)).collect()
    }

    /// Returns the folder with a folder for each conversation of GitHub Copilot CLI.
    fn copilot_sessions(&self) -> PathBuf {
        self.copilot.join("session-state")
    }

    /// Returns the folder in which GitHub Copilot CLI writes a conversation, or those of all that are in use, and the root of all
    /// such folders. They may not exist yet.
    pub(crate) fn copilot_folders(&self, id: Option<&str>) -> Vec<PathBuf> {
        let root = self.copilot_sessions();
        let is_mark =
            |path: PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("inuse."));
        let mut folders: Vec<PathBuf> = match id {
            Some(id) => vec![root.join(id)],
            None => entries(&root).filter(|folder| entries(folder).any(is_mark)).collect(),
        };
        folders.push(root);
        folders
    }

    /// Returns the folder with a folder for each workspace of Kimi Code.
    fn kimi_sessions(&self) -> PathBuf {
        self.kimi.join("sessions")
    }

    /// Returns the folders of Kimi Code's conversations in a working directory, which its list of workspaces names.
    fn kimi_workspaces(&self, cwd: &Path) -> Vec<PathBuf> {
        let list = read(&self.kimi.join("workspaces.json")).unwrap_or_default();
        let list: Value = serde_json::from_str(&list).unwrap_or_default();
        let workspaces = list["workspaces"].as_object().into_iter().flatten();
        let is_here =
            |workspace: &Value| workspace["root"].as_str().is_some_and(|root| Path::new(root) == cwd);
        let here = workspaces.filter(|(_, workspace)| is_here(workspace));
        here.map(|(name, _)| self.kimi_sessions().join(name)).collect()
    }

    /// Returns the folders in which Kimi Code writes a conversation, or the newest one in a working directory, and those in which it
    /// creates them. They may not exist yet.
    pub(crate) fn kimi_folders(&self, id: Option<&str>, cwd: &Path) -> Vec<PathBuf> {
        let workspaces = self.kimi_workspaces(cwd);
        let newest = |workspace: &PathBuf| entries(workspace).max_by_key(|folder| modified(folder));
        let session = |workspace: &PathBuf| match id {
            Some(id) => Some(workspace.join(id)),
            None => newest(workspace),
        };
        let sessions = workspaces.iter().filter_map(session);
        let levels = sessions.flat_map(|session| [wire_folder(&session), session.join("agents"), session]);
        let mut folders: Vec<PathBuf> = levels.collect();
        folders.extend(workspaces);
        folders.push(self.kimi_sessions());
        folders
    }

    /// Returns the folders in which Gemini CLI, pi or Qwen Code creates the files of conversations in a folder, and the root of
    /// all such folders. They may not exist yet.
    pub(crate) fn chat_folders(&self, kind: TranscriptKind, cwd: &Path) -> Vec<PathBuf> {
        let (pi, qwen) = (self.pi.join("sessions"), self.home.join(".qwen/projects"));
        let chats = self.projects_of(cwd).map(|project| project.join("chats"));
        match kind {
            TranscriptKind::Pi => vec![pi.join(pi_project(cwd)), pi],
            TranscriptKind::Qwen => vec![qwen.join(project(cwd)).join("chats"), qwen],
            _ => std::iter::once(self.home.join(".gemini/tmp")).chain(chats).collect(),
        }
    }

    /// Returns the files that may be conversations in a folder.
    fn chats_in(&self, kind: TranscriptKind, cwd: &Path) -> impl Iterator<Item = PathBuf> {
        let folders = match kind {
            TranscriptKind::Copilot => entries(&self.copilot_sessions()).collect(),
            TranscriptKind::Kimi => {
                let sessions =
                    self.kimi_workspaces(cwd).into_iter().flat_map(|workspace| entries(&workspace));
                sessions.map(|session| wire_folder(&session)).collect()
            }
            _ => self.chat_folders(kind, cwd),
        };
        let files = folders.into_iter().flat_map(|folder| entries(&folder));
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
    }

    /// Returns the ids of the conversations of Gemini CLI, pi, Qwen Code, GitHub Copilot CLI or Kimi Code begun in a folder between two
    /// times (nanoseconds since the Unix epoch).
    pub fn chats_started_in(&self, kind: TranscriptKind, cwd: &Path, from: TsNs, to: TsNs) -> Vec<String> {
        let chats = self.chats_in(kind, cwd);
        let mut ids: Vec<String> = chats
            .filter(|path| first_time(path).is_some_and(|at| (from..=to).contains(&at)))
            .filter(|path| is_chat_of(kind, path, cwd))
            .filter_map(|path| first_id(&path))
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Returns the folders of Gemini CLI's projects that belong to a working directory.
    fn projects_of(&self, cwd: &Path) -> impl Iterator<Item = PathBuf> {
        self.projects().filter(move |project| is_project_of(project, cwd))
    }

    /// Returns the folders of Gemini CLI's projects.
    fn projects(&self) -> impl Iterator<Item = PathBuf> {
        entries(&self.home.join(".gemini/tmp"))
    }
}

/// Creates the id of a new conversation.
pub fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// Returns the paths in a folder; none if it cannot be read.
pub fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns true if a folder of Gemini CLI belongs to a working directory.
fn is_project_of(project: &Path, cwd: &Path) -> bool {
    read(&project.join(".project_root")).is_ok_and(|root| Path::new(root.trim()) == cwd)
}

/// Returns true unless a file of GitHub Copilot CLI begins in another working directory. Its folders do not name directories.
fn is_chat_of(kind: TranscriptKind, path: &Path, cwd: &Path) -> bool {
    let begins_there =
        |first: Value| first.pointer("/data/context/cwd")?.as_str().map(|dir| Path::new(dir) == cwd);
    kind != TranscriptKind::Copilot || first_line(path).and_then(begins_there) == Some(true)
}

/// Returns the folder of the wire file in a folder of a conversation of Kimi Code.
fn wire_folder(session: &Path) -> PathBuf {
    session.join("agents/main")
}

/// Returns when a file was modified, in nanoseconds since the Unix epoch.
fn modified(path: &Path) -> Option<u128> {
    let time = fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|time| time.as_nanos())
}

/// Reads a transcript.
///
/// # Errors
/// The I/O error; the file is too large or not UTF-8.
pub fn read_transcript(path: &Path) -> io::Result<String> {
    let size = fs::metadata(path)?.len();
    if size > TRANSCRIPT_LIMIT {
        let message = format!("its {size} bytes exceed {TRANSCRIPT_LIMIT}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    fs::read_to_string(path)
}

/// Returns the name of Claude Code's folder for the conversations of a working directory. Every UTF-16 unit other than an ASCII
/// letter or digit becomes a dash.
pub fn project(cwd: &Path) -> String {
    let units = cwd.to_string_lossy();
    let dashed = |unit: u16| char::from_u32(unit.into()).filter(char::is_ascii_alphanumeric).unwrap_or('-');
    units.encode_utf16().map(dashed).collect()
}

/// Returns the name of pi's folder for the conversations of a working directory.
fn pi_project(cwd: &Path) -> String {
    let path = cwd.to_string_lossy();
    format!("--{}--", path.strip_prefix('/').unwrap_or(&path).replace(['/', '\\', ':'], "-"))
}

/// Writes a transcript into a folder, like [`write_sibling`].
///
/// # Errors
/// The I/O error.
pub fn write_into(folder: &Path, id: &str, text: &str) -> io::Result<PathBuf> {
    private_folder(folder)?;
    write_sibling(&folder.join(id), id, text)
}

/// Writes a transcript next to another one, atomically and for its user only. Never replaces a file.
///
/// # Errors
/// The I/O error.
pub fn write_sibling(other: &Path, id: &str, text: &str) -> io::Result<PathBuf> {
    let folder = other.parent().unwrap_or(Path::new("."));
    let path = folder.join(format!("{id}.jsonl"));
    let mut file = tempfile::Builder::new()
        .prefix(".nerve-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(&path).map_err(|error| error.error)?;
    Ok(path)
}

/// Returns the id in the name of the only rollout file that a process or its descendants have open. `None` if there are several,
/// because Codex also writes side threads.
fn open_rollout(pid: i32) -> Option<String> {
    rollout_id(&open_rollout_path(pid)?)
}

/// Returns the path of the only rollout file that a process or its descendants have open.
pub(crate) fn open_rollout_path(pid: i32) -> Option<PathBuf> {
    let mut rollouts = open_files(pid).filter(|link| rollout_id(link).is_some());
    let first = rollouts.next()?;
    rollouts.all(|other| rollout_id(&other) == rollout_id(&first)).then_some(first)
}

/// Returns true if no process with this name, other than the agent and its relatives, works in a folder.
pub(crate) fn is_alone_in(cwd: &Path, program: &str, agent: i32) -> bool {
    let relatives: Vec<i32> = ancestors(agent).chain(process_tree(agent)).collect();
    let is_other = |pid: &i32| {
        let command = os::command_line(pid.cast_unsigned()).unwrap_or_default();
        let words = command.iter().filter_map(|word| word.to_str());
        // An interpreter, with or without options, may run the program.
        let mut words = words.filter(|word| !word.starts_with('-')).take(2);
        words.any(|word| Path::new(word).file_stem().is_some_and(|name| name == program))
            && os::current_dir(pid.cast_unsigned()).is_some_and(|path| path == cwd)
            && !relatives.contains(pid)
    };
    !os::processes().iter().any(is_other)
}

/// Returns the parents of a process, nearest first.
fn ancestors(pid: i32) -> impl Iterator<Item = i32> {
    let parent = |pid: &i32| Some(ProcessStatus::of(pid)?.parent).filter(|parent| *parent > 1);
    std::iter::successors(parent(&pid), parent)
}

/// Returns the path of the database of opencode or Kilo that a process or its descendants have open. Its name begins with
/// `program`.
pub(crate) fn open_database_path(pid: i32, program: &str) -> Option<PathBuf> {
    let is_database = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(program) && name.ends_with(".db")
    };
    open_files(pid).find(is_database)
}

/// Returns the files that a process and its descendants have open.
fn open_files(pid: i32) -> impl Iterator<Item = PathBuf> {
    process_tree(pid).into_iter().flat_map(os::open_files)
}

/// Returns a process and its descendants, nearest first.
fn process_tree(pid: i32) -> Vec<i32> {
    let mut process_tree = vec![pid];
    let mut at = 0;
    while let Some(pid) = process_tree.get(at).copied().filter(|_| process_tree.len() < PROCESS_LIMIT) {
        process_tree.extend(os::children(pid));
        at += 1;
    }
    process_tree
}

/// Parses `rollout-2026-11-22T08-59-47-<id>.jsonl`.
fn rollout_id(path: &Path) -> Option<String> {
    const ID: usize = 36;
    let name = path.file_name()?.to_str()?.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    name.get(name.len().checked_sub(ID)?..).map(str::to_string)
}

/// Returns the first timestamp in a transcript, or the start time of a conversation of Gemini CLI or Kimi Code.
fn first_time(path: &Path) -> Option<TsNs> {
    let text = read(path).ok()?;
    let time = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        if let Some(ms) = line["created_at"].as_u64() {
            return ms.checked_mul(1_000_000).map(TsNs);
        }
        let time = line.get("timestamp").or_else(|| line.get("startTime"))?;
        let time: jiff::Timestamp = time.as_str()?.parse().ok()?;
        u64::try_from(time.as_nanosecond()).ok().map(TsNs)
    };
    text.lines().find_map(time)
}

/// Returns the `sessionId` of a file's first line, the `id` of a session of pi, or the name of the folder of a conversation of Kimi
/// Code.
pub(crate) fn first_id(path: &Path) -> Option<String> {
    let first = first_line(path)?;
    let id = first.get("sessionId").or_else(|| match first["type"].as_str()? {
        "session" => first.get("id"),
        "session.start" => first.pointer("/data/sessionId"),
        _ => None,
    });
    match id {
        Some(id) => id.as_str().map(str::to_string),
        None if path.ends_with(WIRE) => Some(path.ancestors().nth(3)?.file_name()?.to_str()?.to_string()),
        None => None,
    }
}

/// Reads the first line of a file.
fn first_line(path: &Path) -> Option<Value> {
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?.take(STATUS_LIMIT)).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Reads the beginning of a file.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(STATUS_LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
