//! The files in which agents store their conversations and the status of running processes.
//!
//! All of them belong to other programs: anything missing or unknown means "not known", never an error.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use nerve_agent::profile::TranscriptKind;
use nerve_agent::profile::session::{IdSource, SessionArgs};
use nerve_types::TsNs;
use nerve_types::os::{self, ProcessStatus};
use serde_json::Value;

/// Maximum size of a transcript in bytes.
const TRANSCRIPT_LIMIT: u64 = 512 << 20;
/// Maximum number of bytes read of a status file, or to find the first line of a conversation.
const STATUS_LIMIT: u64 = 1 << 20;
/// Time to wait for an agent to finish writing its status file.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);
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
        let SessionFiles { home, claude, codex, pi, data } = SessionFiles::in_home(home);
        Some(SessionFiles {
            home,
            claude: var("CLAUDE_CONFIG_DIR").unwrap_or(claude),
            codex: var("CODEX_HOME").unwrap_or(codex),
            pi: var("PI_CODING_AGENT_DIR").unwrap_or(pi),
            data: var("XDG_DATA_HOME").filter(|path| path.is_absolute()).unwrap_or(data),
        })
    }

    /// Locates the files below a home folder.
    pub(crate) fn in_home(home: PathBuf) -> SessionFiles {
        SessionFiles {
            claude: home.join(".claude"),
            codex: home.join(".codex"),
            pi: home.join(".pi/agent"),
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

    /// Returns the id in a process's status file. The agent may be writing it, so an incomplete file is read again until a
    /// deadline.
    fn status_id(&self, pid: i32) -> io::Result<Option<String>> {
        let path = self.claude.join("sessions").join(format!("{pid}.json"));
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
        let (folder, has_file): (_, &dyn Fn() -> bool) = match kind? {
            TranscriptKind::Claude => (self.claude.join("projects"), &|| self.transcript(id).is_some()),
            TranscriptKind::Codex => (self.codex.clone(), &|| self.rollout(id).is_some()),
            kind @ TranscriptKind::Gemini => {
                (self.home.join(".gemini/tmp"), &move || self.chat(kind, id).is_some())
            }
            kind @ TranscriptKind::Pi => (self.pi.join("sessions"), &move || self.chat(kind, id).is_some()),
            TranscriptKind::Opencode => return None,
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
        entries(&self.claude.join("projects").join(project(cwd))).filter(is_in_range).collect()
    }

    /// Returns Codex's file of a conversation: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`.
    pub fn rollout(&self, id: &str) -> Option<PathBuf> {
        let in_folder = |folder: PathBuf| entries(&folder);
        let years = entries(&self.codex.join("sessions"));
        let files = years.flat_map(in_folder).flat_map(in_folder).flat_map(in_folder);
        files.filter(|file| rollout_id(file).as_deref() == Some(id)).max()
    }

    /// Returns the path of opencode's database.
    pub fn opencode_database(&self) -> PathBuf {
        self.data.join("opencode/opencode.db")
    }

    /// Returns the file of a conversation of Gemini CLI or pi; its first line has the id. For Gemini CLI, its name contains the
    /// beginning of the id, and a conversation that was begun from a file has two: the messages are in the larger one.
    pub fn chat(&self, kind: TranscriptKind, id: &str) -> Option<PathBuf> {
        let (end, folders): (_, Vec<PathBuf>) = match kind {
            TranscriptKind::Gemini => (
                format!("-{}.jsonl", id.get(..8)?),
                self.projects().map(|project| project.join("chats")).collect(),
            ),
            TranscriptKind::Pi => (format!("_{id}.jsonl"), entries(&self.pi.join("sessions")).collect()),
            _ => return None,
        };
        let chats = folders.iter().flat_map(|folder| entries(folder));
        let chats = chats.filter(|path| path.to_string_lossy().ends_with(&end));
        chats
            .filter(|path| first_id(path).as_deref() == Some(id))
            .max_by_key(|path| fs::metadata(path).map_or(0, |meta| meta.len()))
    }

    /// Returns the files of conversations of Gemini CLI or pi in a folder that changed since a time.
    pub(crate) fn chats_changed_in(&self, kind: TranscriptKind, cwd: &Path, since: TsNs) -> Vec<PathBuf> {
        let is_recent = |path: &PathBuf| modified(path).is_some_and(|at| at >= u128::from(since.0));
        self.chats_in(kind, cwd).filter(is_recent).collect()
    }

    /// Returns the folders in which Gemini CLI or pi creates the files of conversations in a folder, and their parent. They may
    /// not exist yet.
    pub(crate) fn chat_folders(&self, kind: TranscriptKind, cwd: &Path) -> Vec<PathBuf> {
        if kind == TranscriptKind::Pi {
            let sessions = self.pi.join("sessions");
            return vec![sessions.join(pi_project(cwd)), sessions];
        }
        let chats = self.projects_of(cwd).map(|project| project.join("chats"));
        std::iter::once(self.home.join(".gemini/tmp")).chain(chats).collect()
    }

    fn chats_in(&self, kind: TranscriptKind, cwd: &Path) -> impl Iterator<Item = PathBuf> {
        let files = self.chat_folders(kind, cwd).into_iter().flat_map(|folder| entries(&folder));
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
    }

    /// Returns the ids of the conversations of Gemini CLI or pi begun in a folder between two times (nanoseconds since the Unix
    /// epoch).
    pub fn chats_started_in(&self, kind: TranscriptKind, cwd: &Path, from: TsNs, to: TsNs) -> Vec<String> {
        let chats = self.chats_in(kind, cwd);
        let mut ids: Vec<String> = chats
            .filter(|path| first_time(path).is_some_and(|at| (from..=to).contains(&at)))
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

/// Returns the paths in a folder; none if it cannot be read.
pub fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns true if a folder of Gemini CLI belongs to a working directory.
fn is_project_of(project: &Path, cwd: &Path) -> bool {
    read(&project.join(".project_root")).is_ok_and(|root| Path::new(root.trim()) == cwd)
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
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
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

/// Returns the folders in which Codex creates rollout files: `sessions`, and the last year, month and day in it.
pub(crate) fn rollout_folders(home: &Path) -> Vec<PathBuf> {
    let last = |folder: &PathBuf| entries(folder).filter(|path| path.is_dir()).max();
    std::iter::successors(Some(home.join(".codex/sessions")), last).take(4).collect()
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

/// Returns the path of opencode's database that a process or its descendants have open.
pub(crate) fn open_database_path(pid: i32) -> Option<PathBuf> {
    let is_database = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("opencode") && name.ends_with(".db")
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

/// Returns the first timestamp in a transcript, or the start time of a Gemini CLI conversation.
fn first_time(path: &Path) -> Option<TsNs> {
    let text = read(path).ok()?;
    let time = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let time = line.get("timestamp").or_else(|| line.get("startTime"))?;
        let time: jiff::Timestamp = time.as_str()?.parse().ok()?;
        u64::try_from(time.as_nanosecond()).ok().map(TsNs)
    };
    text.lines().find_map(time)
}

/// Returns the `sessionId` of a file's first line, or the `id` of a session of pi.
pub(crate) fn first_id(path: &Path) -> Option<String> {
    let text = read(path).ok()?;
    let first: Value = serde_json::from_str(text.lines().next()?).ok()?;
    let id = first.get("sessionId").or_else(|| first.get("id").filter(|_| first["type"] == "session"))?;
    id.as_str().map(str::to_string)
}

/// Reads the beginning of a file.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(STATUS_LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use nerve_agent::profile::Profiles;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
    const B: &str = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";

    fn home() -> (tempfile::TempDir, SessionFiles) {
        let home = tempfile::tempdir().unwrap();
        let session_files = SessionFiles::in_home(home.path().into());
        (home, session_files)
    }

    fn write(home: &tempfile::TempDir, path: &str, text: &str) -> PathBuf {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn id_is_read_from_valid_status_files_only() {
        let (home, session_files) = home();
        let forms = Profiles::builtin().get("claude").unwrap().session.clone().unwrap();
        assert_eq!(session_files.current_id(&forms, 7).unwrap(), None);
        for bad in ["[]", r#"{"sessionId": 5}"#, r#"{"sessionId": "../../x"}"#] {
            write(&home, ".claude/sessions/7.json", bad);
            assert_eq!(session_files.current_id(&forms, 7).unwrap(), None, "{bad}");
        }
        write(&home, ".claude/sessions/7.json", &format!(r#"{{"pid": 7, "sessionId": "{A}"}}"#));
        assert_eq!(session_files.current_id(&forms, 7).unwrap().as_deref(), Some(A));
    }

    #[test]
    fn status_file_that_is_being_written_is_read_again() {
        let (home, session_files) = home();
        let forms = Profiles::builtin().get("claude").unwrap().session.clone().unwrap();
        let status = format!(r#"{{"pid": 7, "sessionId": "{A}"}}"#);
        let complete = write(&home, "complete.json", &status);
        let path = write(&home, ".claude/sessions/7.json", "");
        fs::remove_file(&path).unwrap();
        // A pipe has the reader wait for what is written here.
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let reader = thread::spawn(move || session_files.current_id(&forms, 7));
        let mut pipe = File::options().write(true).open(&path).unwrap();
        pipe.write_all(&status.as_bytes()[..20]).unwrap();
        fs::rename(complete, path).unwrap();
        drop(pipe);
        assert_eq!(reader.join().unwrap().unwrap().as_deref(), Some(A));
    }

    #[test]
    fn files_are_found_by_id() {
        let (home, session_files) = home();
        assert_eq!(session_files.transcript(A), None);
        let transcript = write(&home, &format!(".claude/projects/-x-y/{A}.jsonl"), "{}\n");
        assert_eq!(session_files.transcript(A), Some(transcript));
        assert_eq!(session_files.transcript(B), None);
        let name = ".gemini/tmp/project/chats/session-2026-11-22T08-59-aaaaaaaa.jsonl";
        let chat = write(&home, name, &format!("{{\"sessionId\":\"{A}\"}}\n"));
        assert_eq!(session_files.chat(TranscriptKind::Gemini, A), Some(chat));
        assert_eq!(
            session_files.chat(TranscriptKind::Gemini, "aaaaaaaa-0000-4000-8000-000000000000"),
            None,
            "same prefix, other id"
        );
    }

    #[test]
    fn codex_folder_of_environment_is_searched() {
        let (home, _) = home();
        let var = |name: &str, path: PathBuf| (name.to_string(), path.display().to_string());
        let env =
            BTreeMap::from([var("HOME", home.path().into()), var("CODEX_HOME", home.path().join("other"))]);
        write(&home, &format!("other/sessions/2026/11/22/rollout-2026-11-22T08-59-47-{A}.jsonl"), "");
        fs::create_dir_all(home.path().join(".codex")).unwrap();
        let session_files = SessionFiles::for_env(&env).unwrap();
        let has = |id: &str| session_files.has_conversation(Some(TranscriptKind::Codex), id);
        assert_eq!((has(A), has(B)), (Some(true), Some(false)));
    }

    #[test]
    fn gemini_conversations_are_found_by_folder_and_time() {
        let (home, session_files) = home();
        let line = |id: &str, time: &str| format!("{{\"sessionId\":\"{id}\",\"startTime\":\"{time}\"}}\n");
        let chat = |project: &str, name: &str, text: &str| {
            write(&home, &format!(".gemini/tmp/{project}/chats/session-{name}.jsonl"), text)
        };
        write(&home, ".gemini/tmp/project/.project_root", "/x/project");
        write(&home, ".gemini/tmp/other/.project_root", "/x/other");
        let begun = line(A, "1970-01-01T00:00:10Z");
        let whole = chat("project", "1-aaaaaaaa", &format!("{begun}{{}}\n"));
        chat("project", "2-aaaaaaaa", &begun);
        chat("project", "3-bbbbbbbb", &line(B, "1970-01-01T00:00:30Z"));
        chat("other", "4-bbbbbbbb", &line(B, "1970-01-01T00:00:10Z"));
        let seconds = |from: u64, to: u64| {
            session_files.chats_started_in(
                TranscriptKind::Gemini,
                Path::new("/x/project"),
                TsNs(from * 1_000_000_000),
                TsNs(to * 1_000_000_000),
            )
        };
        assert_eq!(seconds(5, 20), [A], "listed once, although it has two files");
        assert_eq!(seconds(5, 40), [A, B]);
        assert_eq!(seconds(11, 20), [""; 0]);
        assert_eq!(session_files.chat(TranscriptKind::Gemini, A), Some(whole), "the larger file");
    }

    #[test]
    fn pi_conversations_are_found_by_folder_time_and_id() {
        let (home, session_files) = home();
        let session = |folder: &str, id: &str, time: &str| {
            let head = format!("{{\"type\":\"session\",\"id\":\"{id}\",\"timestamp\":\"{time}\"}}\n");
            write(&home, &format!(".pi/agent/sessions/{folder}/1970_{id}.jsonl"), &head)
        };
        let one = session("--x-my.project--", A, "1970-01-01T00:00:10Z");
        session("--x-other--", B, "1970-01-01T00:00:10Z");
        let (kind, cwd) = (TranscriptKind::Pi, Path::new("/x/my.project"));
        assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(20_000_000_000)), [A]);
        assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(5_000_000_000)), [""; 0]);
        assert_eq!(session_files.chats_changed_in(kind, cwd, TsNs(1)), std::slice::from_ref(&one));
        assert_eq!(session_files.chat(kind, A), Some(one));
        assert_eq!(
            session_files.has_conversation(Some(kind), "aaaaaaaa"),
            Some(false),
            "not by a part of the id"
        );
    }

    #[test]
    fn copy_is_private_and_never_replaces_a_file() {
        let (home, _) = home();
        let source = write(&home, &format!("p/{A}.jsonl"), "old\n");
        let copy = write_sibling(&source, B, "new\n").unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&copy).unwrap(), "new\n");
        assert_eq!(write_sibling(&source, A, "x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&source).unwrap(), "old\n");
        assert_eq!(fs::read_dir(home.path().join("p")).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn single_open_rollout_determines_id() {
        let (home, _) = home();
        let pid = i32::try_from(std::process::id()).unwrap();
        let name = |id: &str| format!(".codex/sessions/2026/11/22/rollout-2026-11-22T08-59-47-{id}.jsonl");
        let one = File::open(write(&home, &name(A), "")).unwrap();
        assert_eq!(open_rollout(pid).as_deref(), Some(A));
        let other = File::open(write(&home, &name(B), "")).unwrap();
        assert_eq!(open_rollout(pid), None, "ambiguous");
        drop((one, other));
        assert_eq!(open_rollout(pid), None);
    }
}
