//! Access to opencode's conversations. They are in its own database, so the program itself lists, exports and imports them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nerve_agent::profile::session::SessionArgs;
use nerve_types::TsNs;
use serde::Deserialize;

/// Timeout of one call. The program takes seconds to start, and many on a loaded machine.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Poll interval for the program's exit.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of bytes read of its output.
const MAX_OUTPUT: u64 = 512 << 20;
/// Maximum number of characters of its error output in a message.
const MAX_ERROR_CHARS: usize = 200;

/// Runs the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opencode {
    /// The program, with the words before it in the command.
    argv: Vec<String>,
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ListEntry {
    id: String,
    /// Milliseconds since the Unix epoch.
    created: u64,
    directory: PathBuf,
}

impl Opencode {
    /// Creates the runner from a command. `None`: the command does not start the program directly.
    pub(super) fn from_command(
        command: &[String],
        forms: &SessionArgs,
        env: &BTreeMap<String, String>,
    ) -> Option<Opencode> {
        let program = forms.program_at(command)?;
        Some(Opencode { argv: command[..=program].to_vec(), env: env.clone() })
    }

    /// Returns the conversations begun in a folder between two times (nanoseconds since the Unix epoch).
    pub(super) fn started_in(&self, cwd: &Path, from: TsNs, to: TsNs) -> Result<Vec<String>, String> {
        let text = self.run(&["session", "list", "--format", "json"], cwd)?;
        // The program prints nothing if there are none.
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let entries: Vec<ListEntry> =
            serde_json::from_str(&text).map_err(|_| "its list of conversations is malformed".to_string())?;
        let ms = |at: TsNs| at.0 / 1_000_000;
        let is_match = |one: &ListEntry| one.directory == cwd && (ms(from)..=ms(to)).contains(&one.created);
        Ok(entries.into_iter().filter(is_match).map(|one| one.id).collect())
    }

    /// Returns a whole conversation.
    pub(super) fn export(&self, id: &str, cwd: &Path) -> Result<String, String> {
        self.run(&["export", id], cwd)
    }

    /// Imports a conversation, with `cwd` as its folder.
    pub(super) fn import(&self, text: &str, cwd: &Path) -> io::Result<()> {
        // A private file: conversations may contain the contents of files.
        let mut file = tempfile::Builder::new().prefix("nerve-").suffix(".json").tempfile()?;
        file.write_all(text.as_bytes())?;
        let path = file.path().to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        self.run(&["import", path], cwd).map(drop).map_err(io::Error::other)
    }

    /// Deletes a conversation.
    pub(super) fn delete(&self, id: &str, cwd: &Path) -> io::Result<()> {
        self.run(&["session", "delete", id], cwd).map(drop).map_err(io::Error::other)
    }

    /// Returns the program's output if it succeeds. The output goes to files, because the program does not wait for a pipe's
    /// reader.
    fn run(&self, words: &[&str], cwd: &Path) -> Result<String, String> {
        let what = words.iter().take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()));
        let what = what.copied().collect::<Vec<_>>().join(" ");
        let failed = |why: &str| format!("'{} {what}': {why}", self.argv.join(" "));
        let output = self.output(words, cwd).map_err(|error| failed(&error.to_string()))?;
        match output {
            Ok(text) => Ok(text),
            Err(error_output) => Err(failed(&error_output)),
        }
    }

    fn output(&self, words: &[&str], cwd: &Path) -> io::Result<Result<String, String>> {
        let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut child = Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .args(words)
            .envs(&self.env)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(err.try_clone()?)
            .spawn()?;
        let deadline = Instant::now() + CALL_TIMEOUT;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                return Ok(Err(format!("timed out after {CALL_TIMEOUT:?}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        if status.success() {
            return read(&mut out, MAX_OUTPUT).map(Ok);
        }
        let stderr: String =
            read(&mut err, MAX_OUTPUT)?.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect();
        Ok(Err(if stderr.is_empty() { status.to_string() } else { format!("{status}: {stderr}") }))
    }
}

fn read(file: &mut File, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nerve_agent::profile::Profiles;

    use super::*;

    fn program(script: &str) -> (tempfile::TempDir, Opencode) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let forms = Profiles::builtin().get("opencode").unwrap().session.clone().unwrap();
        let command = [path.to_str().unwrap(), "--model", "m"].map(String::from);
        let opencode = Opencode::from_command(&command, &forms, &BTreeMap::new()).unwrap();
        (folder, opencode)
    }

    #[test]
    fn conversations_are_filtered_by_folder_and_time() {
        let list = r#"[{"id":"ses_a","created":1000,"directory":"/tmp"},{"id":"ses_b","created":1500,"directory":"/usr"},
            {"id":"ses_c","created":9000,"directory":"/tmp"}]"#;
        let (_folder, opencode) =
            program(&format!("[ \"$*\" = 'session list --format json' ] && echo '{list}'"));
        let found = |from: u64, to: u64| {
            opencode.started_in(Path::new("/tmp"), TsNs(from * 1_000_000), TsNs(to * 1_000_000)).unwrap()
        };
        assert_eq!(found(500, 2000), ["ses_a"]);
        assert_eq!(found(500, 9000), ["ses_a", "ses_c"]);
        let (_folder, opencode) = program("true");
        assert_eq!(opencode.started_in(Path::new("/tmp"), TsNs(0), TsNs(1)), Ok(Vec::new()), "none");
    }

    #[test]
    fn error_output_is_reported() {
        let (_folder, opencode) = program("echo no such session >&2; exit 3");
        let why = opencode.export("ses_x", Path::new("/tmp")).unwrap_err();
        assert!(why.contains("opencode export': exit status: 3: no such session"), "{why}");
        let why = opencode.import("{}", Path::new("/tmp")).unwrap_err().to_string();
        assert!(why.contains("opencode import'"), "{why}");
    }
}
