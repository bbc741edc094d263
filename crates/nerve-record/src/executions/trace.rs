//! Runs the commands of an agent's shell tool under `nerve exec`, with the ids that the agent gave them.
//!
//! Claude Code (2.1.330) needs two steps. Its PreToolUse hook announces id and command before it requests the user's
//! permission, and the announcement is stored in the node's hook folder. When the command runs, Claude Code passes the shell line,
//! with its own preparations around the command, to the program in `CLAUDE_CODE_SHELL_PREFIX`. That program is a link
//! named [`LINK`] to this one, in the same folder. It finds the announcement and runs the line in a terminal of its own.
//!
//! A hook could also replace the command with the wrapped one (`updatedInput`). But then dialogs would ask for permission to run
//! `nerve`, rules that allow certain commands would not match, and "don't ask again" would allow everything.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::store::check_id;
use nerve_types::files::replace_unsynced;
use nerve_types::regular_file::{Links, open_regular};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The variable that enables tracing for a node's program, if set to `1`.
pub const VARIABLE: &str = "NERVE_TRACE_TOOLS";
/// Claude Code's variable for the program that runs the lines of its shells and hooks.
pub const PREFIX: &str = "CLAUDE_CODE_SHELL_PREFIX";
/// The name under which this program runs a traced command.
pub const LINK: &str = "nerve-tool";
/// Folder of the announcements, in the hook folder.
const ANNOUNCEMENTS: &str = "tools";
/// Maximum number of stored announcements. Rejected commands leave theirs behind.
const MAX_ANNOUNCEMENTS: usize = 256;
/// Maximum size of an announcement in bytes.
const MAX_ANNOUNCEMENT_SIZE: u64 = 16 << 20;

/// A command that an agent announced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The id.
    pub id: String,
    /// The command as the agent wrote it.
    pub command: String,
}

impl Announcement {
    /// Returns the announcement in a PreToolUse hook's input, if it is a shell command.
    pub fn from_hook_input(input: &Value) -> Option<Announcement> {
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_string);
        let is_shell = text(input, "hook_event_name")? == "PreToolUse" && text(input, "tool_name")? == "Bash";
        let id = text(input, "tool_use_id").filter(|id| is_shell && check_id(id).is_ok())?;
        Some(Announcement { id, command: text(input.get("tool_input")?, "command")? })
    }

    /// Stores the announcement for the process that runs the command.
    ///
    /// # Errors
    /// The I/O error.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        let announcements = folder.join(ANNOUNCEMENTS);
        for (_, stale) in list_announcements(&announcements).into_iter().skip(MAX_ANNOUNCEMENTS - 1) {
            // Another process may have removed it in the meantime.
            let _ = fs::remove_file(stale);
        }
        replace_unsynced(&announcements.join(&self.id), &serde_json::to_vec(self)?)
    }

    /// Removes and returns the announcement of the command in this shell line. `None` for a line that does not come from a tool.
    pub fn take(folder: &Path, line: &str) -> Option<Announcement> {
        let command = command_in(line)?;
        let announcements = list_announcements(&folder.join(ANNOUNCEMENTS)).into_iter();
        let mut readable = announcements.filter_map(|(_, path)| Some((read(&path)?, path)));
        // The newest one with this command counts: older ones were rejected.
        let (announcement, path) =
            readable.find(|(announcement, _)| normalize(&announcement.command) == normalize(&command))?;
        // Only one process succeeds in removing the file.
        fs::remove_file(path).ok()?;
        Some(announcement)
    }
}

/// Prepares the hook folder for [`Announcement::store`] and the agent's shell. Returns the link that `PREFIX` names.
///
/// # Errors
/// The I/O error.
pub fn prepare(folder: &Path, program: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().mode(0o700).create(folder.join(ANNOUNCEMENTS))?;
    let link = folder.join(LINK);
    std::os::unix::fs::symlink(program, &link)?;
    Ok(link)
}

/// Returns the stored announcements, newest first.
fn list_announcements(announcements: &Path) -> Vec<(SystemTime, PathBuf)> {
    let entries = fs::read_dir(announcements).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut announcements: Vec<(SystemTime, PathBuf)> =
        visible.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    announcements.sort_unstable_by(|one, other| other.cmp(one));
    announcements
}

fn read(path: &Path) -> Option<Announcement> {
    let file = open_regular(path, fs::OpenOptions::new().read(true), Links::Refuse).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_ANNOUNCEMENT_SIZE).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the command in a line that Claude Code gives its shell: the evaluated word, between preparations and a redirection
/// that saves the working directory. Lines of hooks and other programs do not have this frame.
fn command_in(line: &str) -> Option<String> {
    if !line.contains("pwd -P >| ") {
        return None;
    }
    let words = shell_words::split(line).ok()?;
    let at = words.iter().position(|word| word == "eval")?;
    words.get(at + 1).cloned()
}

/// Returns true if Claude Code's shell line redirects `/dev/null` to the command or to the first command of its pipeline.
pub fn reads_nothing(line: &str) -> bool {
    let Some(words) = shell_words::split(line).ok() else { return false };
    let eval = words.iter().position(|word| word == "eval");
    let after = eval.map(|at| &words[at + 1..]).unwrap_or_default();
    after.get(1..3).is_some_and(|words| words == ["<", "/dev/null"])
        || after.first().is_some_and(|command| command.contains("< /dev/null |"))
}

/// Normalises a command: removes whitespace and the redirection that the agent adds to the first command of a pipeline.
fn normalize(command: &str) -> String {
    let compact: String = command.chars().filter(|letter| !letter.is_whitespace()).collect();
    compact.replace("</dev/null", "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(id: &str, command: &str) -> Value {
        json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": id,
                "tool_input": { "command": command, "description": "d" }, "cwd": "/" })
    }

    /// A line as Claude Code 2.1.330 gives it to its shell.
    fn line(command: &str) -> String {
        let quoted = shell_words::quote(command).into_owned();
        let quoted = if quoted == command { format!("'{command}'") } else { quoted };
        format!(
            "source /h/.claude/snapshot.sh 2>/dev/null || true && {{ \\builtin unalias -- 'which'; }} >/dev/null 2>&1 || true && \
             eval {quoted} < /dev/null && pwd -P >| /tmp/claude-bcbb-cwd"
        )
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path(), Path::new("/usr/bin/nerve")).unwrap();
        let path = dir.path().to_path_buf();
        (dir, path)
    }

    #[test]
    fn announced_command_is_found_once_by_its_shell_line() {
        let (_dir, folder) = folder();
        let odd = "echo 'it''s' \"$HOME\" | wc -l # none\nls";
        Announcement::from_hook_input(&input("t1", "ls")).unwrap().store(&folder).unwrap();
        Announcement::from_hook_input(&input("t2", odd)).unwrap().store(&folder).unwrap();
        let found = Announcement::take(&folder, &line(odd)).unwrap();
        assert_eq!(found, Announcement { id: "t2".into(), command: odd.into() });
        assert_eq!(Announcement::take(&folder, &line("ls")).unwrap().id, "t1");
        assert_eq!(Announcement::take(&folder, &line("ls")), None);
    }

    #[test]
    fn newest_announcement_with_the_same_words_is_taken() {
        let (_dir, folder) = folder();
        for id in ["refused", "run"] {
            Announcement::from_hook_input(&input(id, "make")).unwrap().store(&folder).unwrap();
            // Announcements are ordered by their modification times.
            let file = fs::File::open(folder.join(ANNOUNCEMENTS).join(id)).unwrap();
            let ago = if id == "refused" { 10 } else { 0 };
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(ago)).unwrap();
        }
        assert_eq!(Announcement::take(&folder, &line("make")).unwrap().id, "run");
        assert_eq!(Announcement::take(&folder, &line("make clean")), None);
        assert_eq!(Announcement::take(&folder, &line("make < /dev/null")).unwrap().id, "refused");
    }

    #[test]
    fn lines_of_hooks_and_other_programs_are_ignored() {
        let (_dir, folder) = folder();
        Announcement::from_hook_input(&input("t", "ls")).unwrap().store(&folder).unwrap();
        for line in ["ls", "nerve hook /s", "eval ls", "", "'"] {
            assert_eq!(Announcement::take(&folder, line), None, "{line}");
        }
        assert!(Announcement::take(&folder, &line("ls")).is_some());
    }

    #[test]
    fn only_shell_commands_with_plain_ids_are_announced() {
        assert!(Announcement::from_hook_input(&input("../up", "ls")).is_none());
        let mut other = input("t", "ls");
        other["tool_name"] = "Read".into();
        assert!(Announcement::from_hook_input(&other).is_none());
        other["tool_name"] = "Bash".into();
        other["hook_event_name"] = "PostToolUse".into();
        assert!(Announcement::from_hook_input(&other).is_none());
        assert!(Announcement::from_hook_input(&json!([])).is_none());
    }

    #[test]
    fn null_input_is_recognised_in_shell_line() {
        assert!(reads_nothing(&line("sudo true")));
        assert!(reads_nothing("eval 'cat < /dev/null | wc' && pwd -P >| /tmp/x"));
        assert!(!reads_nothing("eval 'cat' && pwd -P >| /tmp/x"));
        assert!(!reads_nothing("eval") && !reads_nothing("echo '"));
    }

    #[test]
    fn announcements_of_rejected_commands_do_not_pile_up() {
        let (_dir, folder) = folder();
        for at in 0..MAX_ANNOUNCEMENTS + 20 {
            Announcement::from_hook_input(&input(&at.to_string(), "ls")).unwrap().store(&folder).unwrap();
        }
        assert_eq!(fs::read_dir(folder.join(ANNOUNCEMENTS)).unwrap().count(), MAX_ANNOUNCEMENTS);
    }
}
