//! One login for many commands: the master connection of OpenSSH (ssh_config(5), `ControlMaster`).

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::process::Command;
use tokio::time::timeout;

use crate::ssh_target::{SshSharing, SshTarget};

/// Time that a master connection stays without sessions.
const PERSIST: &str = "ControlPersist=10m";
/// Longest path of a socket that all systems accept, in bytes (`sun_path` of macOS).
const MAX_SOCKET_PATH: usize = 103;
/// Bytes behind the directory: a separator, the hash of the target, a dash, the hash `%C`, and the suffix with which ssh binds.
const SOCKET_NAME: usize = 1 + 8 + 1 + 40 + 17;
/// Maximum length of the path of a directory for the sockets of master connections, in bytes.
pub const MAX_CONTROL_DIRECTORY: usize = MAX_SOCKET_PATH - SOCKET_NAME;
/// Age at which the answer of ssh about the user's configuration is outdated.
const MAX_ANSWER_AGE: Duration = Duration::from_secs(3600);
/// Maximum length of that answer in its file, in bytes.
const MAX_ANSWER: u64 = 32;
/// Time limit for ssh to print its configuration, or to reach a master.
pub(crate) const LOCAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The configuration of all users of this machine.
const SYSTEM_CONFIG: &str = "/etc/ssh/ssh_config";

/// All kinds of sharing, with the text in the file that keeps the answer of ssh.
const ANSWERS: [(SshSharing, &str); 4] = [
    (SshSharing::Master, "master"),
    (SshSharing::Configured, "configured"),
    (SshSharing::ConfiguredWithoutPersist, "without-persist"),
    (SshSharing::Off, "off"),
];

impl SshSharing {
    /// Reads the output of `ssh -G`. Another program than OpenSSH prints something else.
    fn from_config(config: &str) -> SshSharing {
        let value = |key| config_value(config, key);
        match (value("hostname"), value("controlpath"), value("controlmaster"), value("controlpersist")) {
            (None, ..) => SshSharing::Off,
            (_, None, ..) => SshSharing::Master,
            (_, _, Some("false" | "no"), _) => SshSharing::Configured,
            (_, _, _, None | Some("no" | "false")) => SshSharing::ConfiguredWithoutPersist,
            _ => SshSharing::Configured,
        }
    }
}

/// Returns the value of a line `KEY VALUE`.
fn config_value<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    config.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).map(str::trim)
}

impl SshTarget {
    /// Returns how connections share a login. Asks ssh for the user's configuration, at most once an hour unless it changes.
    pub async fn sharing(&self) -> SshSharing {
        let (Some(directory), Some(_)) = (&self.control_directory, self.control_path()) else {
            return SshSharing::Off;
        };
        let file = directory.join(self.hash());
        if let Some(answer) = read_answer(&file) {
            return answer;
        }
        let Some(config) = self.print_config(&[]).await else { return SshSharing::Off };
        let sharing = SshSharing::from_config(&config);
        if let Some((_, text)) = ANSWERS.iter().find(|(answer, _)| *answer == sharing) {
            // Without the file, the next command asks again.
            let _ = fs::write(file, text);
        }
        sharing
    }

    /// Returns the process of nerve's master connection; `None` if there is none.
    pub async fn master_process(&self) -> Option<u32> {
        let (succeeded, report) = self.control("check").await?;
        let pid = report.split_once("pid=")?.1.split_once(')')?.0;
        pid.parse().ok().filter(|_| succeeded)
    }

    /// Ends nerve's master connection and all connections over it. Returns false if there was none.
    pub async fn end_master(&self) -> bool {
        if self.sharing().await != SshSharing::Master {
            return false;
        }
        self.remove_forwarded();
        match self.control("exit").await {
            Some((succeeded, _)) => succeeded,
            // A stopped process does not reply. Without its socket, no command uses it.
            None => self.remove_socket(SystemTime::now()).await,
        }
    }

    /// Removes the socket of a master that existed at this time. Its sessions continue, and the next command logs in. Returns false if
    /// there is none.
    pub(crate) async fn remove_socket(&self, time: SystemTime) -> bool {
        let Some(socket) = self.control_socket().await else { return false };
        let is_older = |created: SystemTime| created <= time;
        let exists = fs::symlink_metadata(&socket).and_then(|file| file.modified()).is_ok_and(is_older);
        if exists {
            self.remove_forwarded();
        }
        exists && fs::remove_file(socket).is_ok()
    }

    /// Returns the path of the master's socket, whether or not it exists.
    pub(crate) async fn control_socket(&self) -> Option<PathBuf> {
        let config = self.print_config(&[format!("ControlPath={}", self.control_path()?)]).await?;
        config_value(&config, "controlpath").map(PathBuf::from)
    }

    /// Returns the options of a connection for this kind of sharing.
    pub(crate) fn sharing_options(&self, sharing: SshSharing) -> Vec<String> {
        match (sharing, self.control_path()) {
            (SshSharing::Master, Some(path)) => {
                vec!["ControlMaster=auto".to_string(), format!("ControlPath={path}"), PERSIST.to_string()]
            }
            (SshSharing::ConfiguredWithoutPersist, _) => vec!["ControlMaster=no".to_string()],
            _ => Vec::new(),
        }
    }

    /// Returns the path of the master's socket, in which ssh replaces `%C`: a hash of the host, port and user that its configuration
    /// gives. The target's own hash separates names of one host, which may differ in their keys. `None` if the path is too long, or
    /// has characters that ssh would interpret.
    fn control_path(&self) -> Option<String> {
        let directory = self.control_directory.as_ref()?.to_str()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        let fits = directory.len() <= MAX_CONTROL_DIRECTORY && directory.bytes().all(is_plain);
        fits.then(|| format!("{directory}/{}-%C", self.hash()))
    }

    /// Returns a hash of the address and the ssh program as 8 digits.
    fn hash(&self) -> String {
        self.hash_with(())
    }

    /// Returns a hash of the address, the ssh program and more as 8 digits.
    pub(crate) fn hash_with(&self, more: impl Hash) -> String {
        let mut hasher = DefaultHasher::new();
        (self.url(), &self.ssh, more).hash(&mut hasher);
        format!("{:08x}", hasher.finish() as u32)
    }

    /// Runs `ssh -G` with further options. Returns `None` if it fails.
    async fn print_config(&self, options: &[String]) -> Option<String> {
        let mut command = Command::new(&self.ssh);
        command.arg("-G").args(self.options(options)).args(self.host_args());
        let printed = run(command, LOCAL_TIMEOUT).await.filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&printed.stdout).into_owned())
    }

    /// Sends a command to nerve's master connection. Returns whether it succeeded, and the report; `None` without a reply in time.
    async fn control(&self, command_name: &str) -> Option<(bool, String)> {
        let options = [format!("ControlPath={}", self.control_path()?)];
        let mut command = Command::new(&self.ssh);
        command.args(["-O", command_name]).args(self.options(&options)).args(self.host_args());
        let output = run(command, LOCAL_TIMEOUT).await?;
        Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// Runs a program that makes no login.
pub(crate) async fn run(mut command: Command, limit: Duration) -> Option<std::process::Output> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    timeout(limit, command.output()).await.ok()?.ok()
}

/// Reads the answer of ssh that an earlier command kept, unless it is outdated.
fn read_answer(file: &Path) -> Option<SshSharing> {
    let meta = fs::metadata(file).ok().filter(|meta| meta.len() <= MAX_ANSWER)?;
    let written = meta.modified().ok()?;
    // A clock that was set back makes the answer outdated.
    let is_fresh = written.elapsed().is_ok_and(|age| age < MAX_ANSWER_AGE);
    let user_config = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ssh/config"));
    let is_newer = |config: &Path| {
        fs::metadata(config).and_then(|meta| meta.modified()).is_ok_and(|changed| changed >= written)
    };
    if !is_fresh || is_newer(Path::new(SYSTEM_CONFIG)) || user_config.as_deref().is_some_and(is_newer) {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    ANSWERS.iter().find(|(_, answer)| *answer == text).map(|(sharing, _)| *sharing)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn target(directory: &Path) -> SshTarget {
        let mut target = SshTarget::parse("ssh://me@work").unwrap();
        target.control_directory = Some(directory.to_path_buf());
        target
    }

    #[test]
    fn control_path_of_the_user_decides() {
        let sharing = |lines: &str| SshSharing::from_config(&format!("host work\nhostname h\n{lines}"));
        assert_eq!(sharing("controlmaster false\ncontrolpersist no\n"), SshSharing::Master);
        let own = "controlpath /home/me/.ssh/c-1\n";
        assert_eq!(
            sharing(&format!("controlmaster auto\n{own}controlpersist 300\n")),
            SshSharing::Configured
        );
        assert_eq!(
            sharing(&format!("controlmaster false\n{own}controlpersist no\n")),
            SshSharing::Configured
        );
        let foreground = format!("controlmaster auto\n{own}controlpersist no\n");
        assert_eq!(sharing(&foreground), SshSharing::ConfiguredWithoutPersist);
        assert_eq!(SshSharing::from_config("Welcome to work\n"), SshSharing::Off);
    }

    #[test]
    fn socket_has_a_short_plain_path() {
        let short = target(Path::new("/run/user/1000/nerve/ssh"));
        let path = short.control_path().unwrap();
        assert!(path.len() - "%C".len() + 40 + 17 <= MAX_SOCKET_PATH, "{path}");
        assert_eq!(short.sharing_options(SshSharing::Master)[1], format!("ControlPath={path}"));
        assert_eq!(short.sharing_options(SshSharing::Off), Vec::<String>::new());
        let mut other = short.clone();
        other.nerve = "x".to_string();
        assert_eq!(other.control_path().as_ref(), Some(&path));
        other.ssh = "x".into();
        assert_ne!(other.control_path(), Some(path));
        for directory in ["/run/a b", "/run/%h", "/run/$HOME", &format!("/{}", "x".repeat(40))] {
            assert_eq!(target(Path::new(directory)).control_path(), None, "{directory}");
        }
        assert_eq!(SshTarget::parse("ssh://work").unwrap().control_path(), None);
    }

    #[tokio::test]
    async fn ssh_is_asked_once() {
        let folder = tempfile::Builder::new().prefix("n").tempdir_in("/tmp").unwrap();
        let (program, calls) = (folder.path().join("fake-ssh"), folder.path().join("calls"));
        let script = format!("#!/bin/sh\necho \"$*\" >> {}\necho hostname work\n", calls.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut target = target(folder.path());
        target.ssh = program.into();
        for _ in 0..3 {
            assert_eq!(target.sharing().await, SshSharing::Master);
        }
        let calls = fs::read_to_string(calls).unwrap();
        assert!(calls.lines().count() == 1 && calls.starts_with("-G "), "{calls}");
        let file = folder.path().join(target.hash());
        fs::write(&file, "something else").unwrap();
        assert_eq!(read_answer(&file), None);
        let old = fs::File::options().write(true).open(&file).unwrap();
        fs::write(&file, "off").unwrap();
        assert_eq!(read_answer(&file), Some(SshSharing::Off));
        old.set_modified(SystemTime::now() - 2 * MAX_ANSWER_AGE).unwrap();
        assert_eq!(read_answer(&file), None);
    }
}
