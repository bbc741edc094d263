//! The file with the list of executions.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{ExecutionLine, Executions, MAX_LIST, MAX_TEXT, list_path, truncate};
use nerve_types::regular_file::{Links, OpenError, open_regular};

/// Maximum bytes of a line; longer ones are skipped. A line has two texts, each up to six times as long in JSON.
const MAX_LINE: u64 = 1 << 20;

/// Reads the executions of `recording`; empty if there is no list.
///
/// # Errors
/// Any I/O error.
pub fn read(recording: &Path) -> io::Result<Executions> {
    let mut executions = Executions::default();
    if let Some(file) = existing(recording)? {
        each_line(&file, |line| {
            executions.line(line);
        })?;
    }
    Ok(executions)
}

/// Finds an execution by id, even if it is older than the remembered ones; `None` if it is not listed.
///
/// # Errors
/// Any I/O error.
pub fn find(recording: &Path, id: &str) -> io::Result<Option<ExecutionLine>> {
    match existing(recording)? {
        Some(file) => find_in(&file, id),
        None => Ok(None),
    }
}

fn existing(recording: &Path) -> io::Result<Option<File>> {
    match open_regular(&list_path(recording), File::options().read(true), Links::Refuse) {
        Ok(file) => Ok(Some(file)),
        Err(OpenError::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Appends a line to the list of `recording` in a single write, because several processes may append. Creates the file
/// (mode 0600) if it is missing. Truncates long texts.
///
/// # Errors
/// Any I/O error; also if the list has reached [`MAX_LIST`] bytes.
pub fn append(recording: &Path, line: ExecutionLine) -> io::Result<()> {
    write(&mut open(recording)?, line)
}

/// Appends the line of a starting execution, unless its id already has a terminal.
///
/// # Errors
/// [`ClaimError`].
pub fn claim(recording: &Path, line: ExecutionLine) -> Result<(), ClaimError> {
    let mut file = open(recording)?;
    // Of two concurrent claims, the second sees the first one's line.
    file.lock()?;
    if find_in(&file, &line.id)?.is_some_and(|line| line.has_terminal()) {
        return Err(ClaimError::Taken(line.id));
    }
    Ok(write(&mut file, line)?)
}

/// An execution id that cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The id is in use.
    #[error("the session already has an execution '{0}'")]
    Taken(String),
    /// The list cannot be read or written.
    #[error("cannot write the list of executions: {0}")]
    Io(#[from] io::Error),
}

fn open(recording: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    Ok(open_regular(&list_path(recording), &mut options, Links::Refuse)?)
}

fn write(file: &mut File, mut line: ExecutionLine) -> io::Result<()> {
    line.command = line.command.map(|text| truncate(text, MAX_TEXT));
    line.output = line.output.map(|text| truncate(text, MAX_TEXT));
    let end = file.seek(SeekFrom::End(0))?;
    if end >= MAX_LIST {
        let message = format!("the list has reached its limit of {MAX_LIST} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    let mut text = Vec::new();
    // The last line may be incomplete after a full disk or a power failure.
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

fn find_in(file: &File, id: &str) -> io::Result<Option<ExecutionLine>> {
    // Ids need no JSON escaping, so most lines can be skipped without parsing.
    let quoted_id = format!("\"{id}\"");
    let mut executions = Executions::default();
    each_line(file, |line| {
        if std::str::from_utf8(line).is_ok_and(|line| line.contains(&quoted_id)) {
            executions.line(line);
        }
    })?;
    Ok(executions.get(id).cloned())
}

fn each_line(mut file: &File, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    // Other processes may have appended more than the limit.
    let mut lines = BufReader::with_capacity(64 << 10, file.take(MAX_LIST + MAX_LINE));
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        if !bytes.ends_with(b"\n") && bytes.len() as u64 == MAX_LINE {
            lines.skip_until(b'\n')?;
            continue;
        }
        each(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::recording_path;
    use super::*;

    fn line(id: &str) -> ExecutionLine {
        ExecutionLine { id: id.into(), ..ExecutionLine::default() }
    }

    #[test]
    fn later_lines_add_unknown_fields_and_list_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        assert_eq!(read(&recording).unwrap().iter().count(), 0);
        let from_agent = ExecutionLine {
            tool: Some("Bash".into()),
            command: Some("ls | wc".into()),
            started_ns: Some(1),
            anchor_byte: Some(7),
            ..line("a")
        };
        append(&recording, from_agent).unwrap();
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
        let mode = fs::metadata(list_path(&recording)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn concurrent_claims_have_one_winner() {
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
    fn invalid_and_incomplete_lines_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let bad = format!("{{}}\nnull\n{{\"id\":\"../up\"}}\n{}\n{{\"id\":\"cu", "x".repeat(3 << 20));
        fs::write(list_path(&recording), bad).unwrap();
        append(&recording, line("good")).unwrap();
        let known = read(&recording).unwrap();
        assert_eq!(known.iter().map(|line| line.id.as_str()).collect::<Vec<_>>(), ["good"]);
        for id in ["../up", "a/b", "", "a.b", "\u{e4}"] {
            assert!(recording_path(&recording, id).is_err(), "{id:?}");
        }
        assert!(recording_path(&recording, "a-1").unwrap().ends_with("s.executions/a-1.ahr"));
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        append(&recording, ExecutionLine { output: Some("\u{e4}".repeat(MAX_TEXT)), ..line("a") }).unwrap();
        let known = read(&recording).unwrap();
        assert!(known.get("a").unwrap().output.as_ref().unwrap().len() < MAX_TEXT + 4);
        let file = File::options().write(true).open(list_path(&recording)).unwrap();
        file.set_len(MAX_LIST).unwrap();
        let error = append(&recording, line("b")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, list_path(&recording)).unwrap();
        assert!(append(&recording, line("a")).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"");
    }

    #[test]
    fn forgotten_execution_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        assert_eq!(find(&recording, "a").unwrap(), None);
        let texts = |id: &str| ExecutionLine { command: Some("echo \"b\"".into()), ..line(id) };
        append(&recording, texts("a")).unwrap();
        let mut list = fs::read(list_path(&recording)).unwrap();
        for at in 0..super::super::MAX_EXECUTIONS + 1 {
            writeln!(list, "{{\"id\":\"n{at}\"}}").unwrap();
        }
        fs::write(list_path(&recording), list).unwrap();
        append(&recording, ExecutionLine { exit_code: Some(7), ..line("a") }).unwrap();
        let known = find(&recording, "a").unwrap();
        assert_eq!(known, Some(ExecutionLine { exit_code: Some(7), ..texts("a") }));
        assert_eq!(find(&recording, "b").unwrap(), None, "it is a part of another's command");
        claim(&recording, ExecutionLine { host: Some("h".into()), ..line("a") }).unwrap();
        assert!(matches!(claim(&recording, line("a")), Err(ClaimError::Taken(_))));
    }
}
