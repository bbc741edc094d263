//! What an agent ran in a session, beside its recording: `<stem>.executions.jsonl` lists it, and `<stem>.executions/<id>.ahr` is the
//! terminal of what had one of its own (seed agent-record §3, `show-sandbox-execution`).

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::store::{self, StoreError, check_id};

/// A list that is longer gets no more lines: 64 MiB.
pub const MAX_LIST: u64 = 64 << 20;
/// Executions of a session that are remembered: the newest.
pub const MAX_EXECUTIONS: usize = 4096;
/// The most bytes of a command and of an output that go into a line; the rest is cut off.
pub const MAX_TEXT: usize = 64 << 10;
/// Longer lines are passed over. Two texts, six times as long in JSON at worst.
const MAX_LINE: u64 = 1 << 20;

/// What is told of one execution. A later line of the same id says what was not known before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionLine {
    /// Its id: the agent's own for the use of a tool, or the one `nerve exec` was given.
    pub id: String,
    /// The agent's tool, if an agent ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What was run, as the agent wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// When it began; nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// When it ended; nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Its exit code, as a shell gives it: 128 and the signal's number, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How it went, in the words of [`crate::activity::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Output bytes in the session's recording before it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor_byte: Option<u64>,
    /// The host of its own terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What it gave back to the agent, where it had no terminal of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl ExecutionLine {
    /// It has a terminal of its own, recorded as [`recording_of`] says.
    pub fn has_terminal(&self) -> bool {
        self.host.is_some()
    }

    /// It is over.
    pub fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// Takes on what `later` says. When it began is what the first said.
    fn amend(&mut self, later: ExecutionLine) {
        *self = ExecutionLine {
            id: later.id,
            tool: self.tool.take().or(later.tool),
            command: self.command.take().or(later.command),
            started_ns: self.started_ns.or(later.started_ns),
            ended_ns: later.ended_ns.or(self.ended_ns),
            exit_code: later.exit_code.or(self.exit_code),
            status: later.status.or(self.status.take()),
            anchor_byte: self.anchor_byte.or(later.anchor_byte),
            host: later.host.or(self.host.take()),
            output: later.output.or(self.output.take()),
        };
    }
}

/// The list beside `recording`.
pub fn path_of(recording: &Path) -> PathBuf {
    store::beside(recording, "executions.jsonl")
}

/// The folder of recordings beside `recording`.
pub fn folder_of(recording: &Path) -> PathBuf {
    store::beside(recording, "executions")
}

/// Where the terminal of an execution is recorded.
///
/// # Errors
/// [`StoreError::Id`] when `id` cannot be part of a path.
pub fn recording_of(recording: &Path, id: &str) -> Result<PathBuf, StoreError> {
    check_id(id)?;
    Ok(folder_of(recording).join(format!("{id}.{}", store::EXTENSION)))
}

/// The executions of a session, folded from the lines of its list; oldest first.
#[derive(Debug, Clone, Default)]
pub struct Executions {
    known: VecDeque<ExecutionLine>,
    /// Number of the execution at the front, and of each id.
    first: u64,
    places: HashMap<String, u64>,
}

impl Executions {
    /// Takes a line of the list. One that is none, or whose id cannot be one, is passed over.
    pub fn line(&mut self, line: &[u8]) {
        if let Ok(line) = serde_json::from_slice::<ExecutionLine>(line)
            && check_id(&line.id).is_ok()
        {
            self.add(line);
        }
    }

    fn add(&mut self, line: ExecutionLine) {
        let place = self.places.get(&line.id).and_then(|number| usize::try_from(number - self.first).ok());
        match place.and_then(|place| self.known.get_mut(place)) {
            Some(known) => known.amend(line),
            None => {
                self.places.insert(line.id.clone(), self.first + self.known.len() as u64);
                self.known.push_back(line);
            }
        }
        if self.known.len() > MAX_EXECUTIONS
            && let Some(oldest) = self.known.pop_front()
        {
            self.places.remove(&oldest.id);
            self.first += 1;
        }
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ExecutionLine> {
        self.known.iter()
    }

    /// The one of that id.
    pub fn get(&self, id: &str) -> Option<&ExecutionLine> {
        let number = self.places.get(id)?;
        self.known.get(usize::try_from(number - self.first).ok()?)
    }
}

/// The executions listed beside `recording`; none when there is no list.
///
/// # Errors
/// What the operating system says.
pub fn read(recording: &Path) -> io::Result<Executions> {
    match OpenOptions::new().read(true).custom_flags(flags()).open(path_of(recording)) {
        Ok(file) => read_from(&file),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Executions::default()),
        Err(error) => Err(error),
    }
}

/// Adds a line to the list beside `recording`, by one write at its end: several processes may add lines. Makes the file (mode 0600)
/// if it is missing. Long texts are cut.
///
/// # Errors
/// What the operating system says; the list has [`MAX_LIST`] bytes.
pub fn append(recording: &Path, line: ExecutionLine) -> io::Result<()> {
    write(&mut open(recording)?, line)
}

/// Adds the line of an execution that begins, unless its id has a terminal already.
///
/// # Errors
/// [`ClaimError`].
pub fn claim(recording: &Path, line: ExecutionLine) -> Result<(), ClaimError> {
    let mut file = open(recording)?;
    // Of two that come at once, the second sees what the first wrote.
    file.lock()?;
    if read_from(&file)?.get(&line.id).is_some_and(ExecutionLine::has_terminal) {
        return Err(ClaimError::Taken(line.id));
    }
    Ok(write(&mut file, line)?)
}

/// An execution cannot have its id.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another one has it.
    #[error("the session has an execution '{0}' already")]
    Taken(String),
    /// The list cannot be read or written.
    #[error("the list of executions cannot be written: {0}")]
    Io(#[from] io::Error),
}

fn open(recording: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.custom_flags(flags()).open(path_of(recording))
}

/// Not a link to somewhere else, and not a pipe that waits for its other end.
fn flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

fn write(file: &mut File, mut line: ExecutionLine) -> io::Result<()> {
    line.command = line.command.map(cut);
    line.output = line.output.map(cut);
    let end = file.seek(SeekFrom::End(0))?;
    if end >= MAX_LIST {
        let message = format!("it has {end} bytes, and no list gets longer than {MAX_LIST}");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    let mut text = Vec::new();
    // After a line that was cut short, by a full disk or a power failure.
    if end > 0 && last_byte(file)? != b'\n' {
        text.push(b'\n');
    }
    serde_json::to_writer(&mut text, &line)?;
    text.push(b'\n');
    file.write_all(&text)
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0])
}

fn read_from(mut file: &File) -> io::Result<Executions> {
    file.seek(SeekFrom::Start(0))?;
    // Somebody else may have written more.
    let mut lines = BufReader::new(file.take(MAX_LIST + MAX_LINE));
    let (mut executions, mut bytes) = (Executions::default(), Vec::new());
    loop {
        bytes.clear();
        if lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(executions);
        }
        if !bytes.ends_with(b"\n") && bytes.len() as u64 == MAX_LINE {
            lines.skip_until(b'\n')?;
            continue;
        }
        executions.line(&bytes);
    }
}

/// At most [`MAX_TEXT`] bytes of it, whole characters.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn line(id: &str) -> ExecutionLine {
        ExecutionLine { id: id.into(), ..ExecutionLine::default() }
    }

    #[test]
    fn later_lines_say_what_was_not_known_and_the_list_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        assert_eq!(read(&recording).unwrap().iter().count(), 0);
        let told = ExecutionLine {
            tool: Some("Bash".into()),
            command: Some("ls | wc".into()),
            started_ns: Some(1),
            anchor_byte: Some(7),
            ..line("a")
        };
        append(&recording, told).unwrap();
        append(&recording, line("b")).unwrap();
        let own = ExecutionLine {
            host: Some("h".into()),
            command: Some("x".into()),
            started_ns: Some(5),
            ..line("a")
        };
        claim(&recording, own).unwrap();
        append(&recording, ExecutionLine { ended_ns: Some(9), exit_code: Some(3), ..line("a") }).unwrap();
        let known = read(&recording).unwrap();
        let ids: Vec<&str> = known.iter().map(|line| line.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        let a = known.get("a").unwrap();
        assert!(a.has_terminal() && a.has_ended());
        assert_eq!((a.command.as_deref(), a.started_ns, a.anchor_byte), (Some("ls | wc"), Some(1), Some(7)));
        assert_eq!((a.exit_code, a.ended_ns), (Some(3), Some(9)));
        assert!(!known.get("b").unwrap().has_ended() && known.get("c").is_none());
        let mode = fs::metadata(path_of(&recording)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_id_has_one_terminal_however_many_want_it_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        append(&recording, line("a")).unwrap();
        let claims: Vec<_> = (0..8)
            .map(|at| {
                let recording = recording.clone();
                let own = ExecutionLine { host: Some(at.to_string()), ..line("a") };
                std::thread::spawn(move || claim(&recording, own).is_ok())
            })
            .collect();
        let won = claims.into_iter().map(|claim| claim.join().unwrap());
        assert_eq!(won.filter(|won| *won).count(), 1);
        assert!(matches!(claim(&recording, line("a")), Err(ClaimError::Taken(_))));
    }

    #[test]
    fn what_is_no_line_is_passed_over_and_a_cut_one_spoils_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let bad = format!("{{}}\nnull\n{{\"id\":\"../up\"}}\n{}\n{{\"id\":\"cu", "x".repeat(3 << 20));
        fs::write(path_of(&recording), bad).unwrap();
        append(&recording, line("good")).unwrap();
        let known = read(&recording).unwrap();
        assert_eq!(known.iter().map(|line| line.id.as_str()).collect::<Vec<_>>(), ["good"]);
        for id in ["../up", "a/b", "", "a.b", "\u{e4}"] {
            assert!(recording_of(&recording, id).is_err(), "{id:?}");
        }
        assert!(recording_of(&recording, "a-1").unwrap().ends_with("s.executions/a-1.ahr"));
    }

    #[test]
    fn texts_lists_and_memory_have_their_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        append(&recording, ExecutionLine { output: Some("\u{e4}".repeat(MAX_TEXT)), ..line("a") }).unwrap();
        let known = read(&recording).unwrap();
        assert!(known.get("a").unwrap().output.as_ref().unwrap().len() < MAX_TEXT + 4);
        let file = File::options().write(true).open(path_of(&recording)).unwrap();
        file.set_len(MAX_LIST).unwrap();
        let error = append(&recording, line("b")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);

        let mut executions = Executions::default();
        for at in 0..MAX_EXECUTIONS + 10 {
            executions.add(line(&at.to_string()));
        }
        assert_eq!(executions.iter().count(), MAX_EXECUTIONS);
        assert!(executions.get("9").is_none());
        assert_eq!(executions.get("10").unwrap().id, "10");
        executions.add(ExecutionLine { exit_code: Some(1), ..line("20") });
        assert_eq!(executions.get("20").unwrap().exit_code, Some(1));
    }

    #[test]
    fn a_link_in_place_of_the_list_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, path_of(&recording)).unwrap();
        assert!(append(&recording, line("a")).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"");
    }
}
