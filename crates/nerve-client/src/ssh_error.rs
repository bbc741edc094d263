//! Errors of a connection through ssh.

use crate::ssh_target::SshTarget;

/// Reason why a connection through ssh failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshErrorKind {
    /// There is no ssh program on this machine.
    NotInstalled,
    /// The key of the host is unknown, or not the one that is known.
    HostKey,
    /// The machine rejects the user or the key.
    Authentication,
    /// The machine cannot be reached.
    Unreachable,
    /// The server did not reply in time.
    TimedOut,
    /// The shell on the machine does not find nerve.
    NerveMissing,
    /// nerve on the machine is older than `nerve connect`.
    NerveOutdated,
    /// No server of this name runs on the machine.
    NotRunning,
    /// Another reason.
    Failed,
}

/// A failed connection through ssh. Nothing was sent but a PING.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect to {} through ssh: {reason}", target.address())]
pub struct SshError {
    /// Kind of error.
    pub kind: SshErrorKind,
    /// Machine and server that the connection was for.
    pub target: SshTarget,
    /// Message of ssh or of the machine, in one line.
    pub reason: String,
}

/// Exit status of ssh for its own errors (ssh(1)).
const SSH_FAILED: i32 = 255;
/// Exit statuses of a shell that does not find a program, or may not run it (POSIX, 2.8.2).
const NOT_FOUND: [i32; 2] = [126, 127];
/// Exit status of nerve for an unknown command.
const USAGE: i32 = 2;
/// Exit status of nerve if no server runs.
const NOT_RUNNING: i32 = 3;

impl SshError {
    /// Returns the kind of error, and its reason in one line. `exit`: the exit status of ssh; `None` if a signal ended it.
    pub(crate) fn classify(exit: Option<i32>, report: &str) -> (SshErrorKind, String) {
        let kind = match exit {
            Some(SSH_FAILED) => ssh_kind(report),
            Some(code) if NOT_FOUND.contains(&code) => SshErrorKind::NerveMissing,
            Some(USAGE) if report.contains("connect") => SshErrorKind::NerveOutdated,
            Some(NOT_RUNNING) => SshErrorKind::NotRunning,
            _ => SshErrorKind::Failed,
        };
        let nerve_error = report.lines().find_map(|line| line.trim().strip_prefix("error: "));
        let line = match kind {
            SshErrorKind::NotRunning | SshErrorKind::NerveOutdated | SshErrorKind::Failed => nerve_error,
            _ => None,
        };
        let reason = line.map(printable).or_else(|| SshError::last_line(report));
        let reason = reason.unwrap_or_else(|| match exit {
            Some(code) => format!("ssh ended with exit status {code}"),
            None => "ssh was ended by a signal".to_string(),
        });
        (kind, reason)
    }

    /// Returns the last line of a report that is not empty.
    pub(crate) fn last_line(report: &str) -> Option<String> {
        report.lines().map(str::trim).rfind(|line| !line.is_empty()).map(printable)
    }

    /// Returns a hint, preferably a command to run.
    pub fn hint(&self) -> String {
        let target = &self.target;
        match self.kind {
            SshErrorKind::NotInstalled => {
                "install it (apt-get install openssh-client), or set NERVE_SSH to its path".to_string()
            }
            SshErrorKind::HostKey => format!("connect once and check the key of the host: ssh {target} true"),
            SshErrorKind::Authentication => format!(
                "this must work without a password: ssh {target} true; 'ssh-add' loads a key, 'ssh-copy-id' installs one"
            ),
            SshErrorKind::Unreachable | SshErrorKind::TimedOut => {
                format!("check that the machine is on and reachable: ssh {target} true")
            }
            SshErrorKind::NerveMissing => {
                // A machine that is in the list cannot be added twice.
                let server = match target.server.as_str() {
                    "default" => String::new(),
                    server => format!(" --server {server}"),
                };
                format!(
                    "install nerve there, or name its path: nerve machine add NAME {}{server} --program PATH; remove the machine \
                     first if it is in the list: nerve machine remove NAME",
                    target.url()
                )
            }
            SshErrorKind::NerveOutdated => {
                format!("install nerve {} or newer there", env!("CARGO_PKG_VERSION"))
            }
            SshErrorKind::NotRunning => {
                format!("start a server there: {}", target.shell_command(&["server", "start"], &[]))
            }
            SshErrorKind::Failed => {
                format!("find out more with: {}", target.shell_command(&["connect"], &["--server"]))
            }
        }
    }

    /// Returns true if another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            SshErrorKind::Unreachable
                | SshErrorKind::TimedOut
                | SshErrorKind::NotRunning
                | SshErrorKind::Failed
        )
    }
}

/// Returns the kind of an error that ssh itself reports.
fn ssh_kind(report: &str) -> SshErrorKind {
    let has = |words: &str| report.contains(words);
    if has("Host key verification failed") || has("HOST IDENTIFICATION HAS CHANGED") {
        SshErrorKind::HostKey
    // With its methods in brackets: a file can also be denied, for example that of a key.
    } else if has("Permission denied (") || has("Too many authentication failures") {
        SshErrorKind::Authentication
    } else {
        SshErrorKind::Unreachable
    }
}

/// Returns a line without characters that could control a terminal, at most 200 characters long.
fn printable(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_and_report_tell_the_kind() {
        let kind = |exit, report: &str| SshError::classify(exit, report).0;
        let cases = [
            (Some(255), "Host key verification failed.\r\n", SshErrorKind::HostKey),
            (Some(255), "me@h: Permission denied (publickey).\n", SshErrorKind::Authentication),
            (Some(255), "ssh: connect to host h port 22: Connection refused\n", SshErrorKind::Unreachable),
            (
                Some(255),
                "Load key \"k\": Permission denied\nssh: connect to host h port 22: Connection refused\n",
                SshErrorKind::Unreachable,
            ),
            (
                Some(255),
                "me@jump: Permission denied (publickey).\nConnection closed\n",
                SshErrorKind::Authentication,
            ),
            (Some(255), "", SshErrorKind::Unreachable),
            (Some(127), "sh: 1: nerve: not found\n", SshErrorKind::NerveMissing),
            (Some(126), "", SshErrorKind::NerveMissing),
            (Some(2), "error: unrecognized subcommand 'connect'\n", SshErrorKind::NerveOutdated),
            (Some(2), "cannot open the disk\n", SshErrorKind::Failed),
            (Some(3), "error: server 'x' is not running\nhint: y\n", SshErrorKind::NotRunning),
            (Some(0), "", SshErrorKind::Failed),
            (None, "", SshErrorKind::Failed),
        ];
        for (exit, report, expected) in cases {
            assert_eq!(kind(exit, report), expected, "{exit:?} {report}");
        }
    }

    #[test]
    fn reason_is_one_printable_line() {
        let reason = |exit, report: &str| SshError::classify(exit, report).1;
        let not_running = "motd\nerror: server 'x' is not running\nhint: start it\n";
        assert_eq!(reason(Some(3), not_running), "server 'x' is not running");
        assert_eq!(reason(Some(255), "Warning: a\r\n\x1b[31mlast\x07\r\n"), "[31mlast");
        assert_eq!(reason(Some(255), &"x".repeat(5000)).len(), 200);
        assert!(reason(None, " \n").contains("signal"));
    }

    #[test]
    fn hints_name_program_and_server_of_the_machine() {
        let mut target = SshTarget::parse("ssh://me@work").unwrap();
        target.nerve = "/opt/nerve".to_string();
        target.server = "night".to_string();
        let hint = |kind| SshError { kind, target: target.clone(), reason: String::new() }.hint();
        assert!(hint(SshErrorKind::NotRunning).contains("ssh me@work /opt/nerve server start night"));
        assert!(hint(SshErrorKind::Failed).contains("ssh me@work /opt/nerve connect --server night"));
        let missing = hint(SshErrorKind::NerveMissing);
        assert!(
            missing.contains("ssh://me@work --server night --program") && missing.contains("machine remove")
        );
    }
}
