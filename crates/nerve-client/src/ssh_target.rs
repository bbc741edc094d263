//! The address of a server on another machine, and the commands of ssh that reach it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nerve_types::name::DEFAULT_SERVER;
use tokio::process::Command;

/// Options of each connection. The user's own ssh configuration decides everything else.
///
/// nerve needs no forwardings: the machine gets no access to the user's agent and display. `ClearAllForwardings` affects ports only.
/// A peer that no longer responds is noticed after a minute.
const OPTIONS: [&str; 6] = [
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
];
/// Further options of a connection without a terminal, over which no prompt of ssh can be answered.
const BATCH_OPTIONS: [&str; 2] = ["BatchMode=yes", "RequestTTY=no"];
/// Time by which ssh gives up earlier than nerve, so that its own report is the reason of the failure.
const SSH_MARGIN: Duration = Duration::from_secs(1);
/// The program of ssh, unless another one is set.
const DEFAULT_PROGRAM: &str = "ssh";

/// How connections to a machine share a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshSharing {
    /// They use nerve's own master connection, which the first one starts.
    Master,
    /// The user's ssh configuration has a `ControlPath`, which decides.
    Configured,
    /// As `Configured`, but a master would end with the connection that starts it. nerve uses an existing one and starts none.
    ConfiguredWithoutPersist,
    /// Each connection logs in.
    Off,
}

/// A server on another machine that is reached through ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    /// The ssh program. Default: `ssh`.
    pub ssh: OsString,
    /// The nerve program on the machine: a name, or a path that may begin with `~/`. Default: `nerve`.
    pub nerve: String,
    /// Name of the server on the machine. Default: `default`.
    pub server: String,
    /// Time limit for connecting, until the server has replied. Default: 15 s.
    pub timeout: Duration,
    /// Private directory for the sockets of master connections, which share one login between commands. Default: none, so each
    /// connection logs in unless the user's ssh configuration shares it.
    pub control_directory: Option<PathBuf>,
}

impl SshTarget {
    /// Parses `ssh://[USER@]HOST[:PORT]`. Returns `None` for another address. A user or host that begins with a dash, or has characters
    /// other than letters, digits, `.`, `_`, `-` and, in brackets, `:`, is rejected: it could become an option or a command.
    pub fn parse(url: &str) -> Option<SshTarget> {
        let authority = url.strip_prefix("ssh://")?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (user, authority) = match authority.split_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':')?)),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let in_brackets = authority.starts_with('[');
        if !is_plain(host, in_brackets) || user.is_some_and(|user| !is_plain(user, false)) {
            return None;
        }
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
            None => None,
        };
        Some(SshTarget {
            user: user.map(str::to_string),
            host: host.to_string(),
            port,
            ssh: DEFAULT_PROGRAM.into(),
            nerve: "nerve".to_string(),
            server: DEFAULT_SERVER.to_string(),
            timeout: Duration::from_secs(15),
            control_directory: None,
        })
    }

    /// Prepares `ssh -t` that runs nerve on the machine in the user's terminal. `sharing`: see [`SshTarget::sharing`].
    pub fn interactive_command(&self, args: &[String], sharing: SshSharing) -> std::process::Command {
        let mut command = std::process::Command::new(&self.ssh);
        command.arg("-t").args(self.options(&self.sharing_options(sharing)));
        command.args(self.host_args()).arg(self.remote_command(args));
        command
    }

    /// Prepares `ssh` that runs nerve on the machine without a terminal.
    pub(crate) fn batch_command(&self, args: &[String], sharing: SshSharing) -> Command {
        let mut options = self.sharing_options(sharing);
        options.extend(BATCH_OPTIONS.map(str::to_string));
        let mut command = Command::new(&self.ssh);
        command.args(self.options(&options)).args(self.host_args()).arg(self.remote_command(args));
        command
    }

    /// Returns the options of each connection and further ones, each after `-o`.
    pub(crate) fn options(&self, more: &[String]) -> Vec<String> {
        let seconds = self.timeout.saturating_sub(SSH_MARGIN).as_secs().max(1);
        let options = OPTIONS.map(str::to_string).into_iter().chain(more.iter().cloned());
        let options = options.chain([format!("ConnectTimeout={seconds}")]);
        options.flat_map(|option| ["-o".to_string(), option]).collect()
    }

    /// Returns port and host.
    pub(crate) fn host_args(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(port) = self.port {
            words.extend(["-p".to_string(), port.to_string()]);
        }
        words.extend(["--".to_string(), self.user_and_host()]);
        words
    }

    /// Returns the command that runs nerve. ssh passes it to the login shell on the machine as one text.
    fn remote_command(&self, args: &[String]) -> String {
        let program = match self.nerve.strip_prefix("~/") {
            Some(path) => format!("~/{}", quote(path)),
            None => quote(&self.nerve),
        };
        let args = args.iter().map(|arg| quote(arg));
        std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command with which the user runs nerve on the machine, for the shell on this machine. `server_option`: the words
    /// before the name of the server, which is left out if it is the default.
    pub(crate) fn shell_command(&self, words: &[&str], server_option: &[&str]) -> String {
        let mut args: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        if self.server != DEFAULT_SERVER {
            args.extend(server_option.iter().map(|word| (*word).to_string()));
            args.push(self.server.clone());
        }
        let remote = self.remote_command(&args);
        let is_plain = remote.split(' ').all(|word| quote(word) == word);
        format!("ssh {self} {}", if is_plain { remote } else { quote(&remote) })
    }

    /// Returns the address, `ssh://[USER@]HOST[:PORT]`.
    pub(crate) fn url(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("ssh://{user}{host}{port}")
    }

    fn user_and_host(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns user, host and port: `USER@HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.user_and_host()),
            None => self.user_and_host(),
        }
    }
}

/// The words after `ssh`: `-p PORT USER@HOST`.
impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(port) = self.port {
            write!(f, "-p {port} ")?;
        }
        f.write_str(&self.user_and_host())
    }
}

/// Returns true if a user or host means only itself, for ssh and for the commands in its configuration.
fn is_plain(word: &str, with_colons: bool) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte) || (with_colons && byte == b':');
    !word.is_empty() && word.len() <= 255 && !word.starts_with('-') && word.bytes().all(is_allowed)
}

/// Quotes a word for the shell on the machine, if necessary.
fn quote(word: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:=@%+,".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_safe) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_user_host_and_port() {
        let shown = |url: &str| SshTarget::parse(url).map(|target| target.to_string());
        assert_eq!(shown("ssh://work").as_deref(), Some("work"));
        assert_eq!(shown("ssh://me@work.example.com:2222").as_deref(), Some("-p 2222 me@work.example.com"));
        assert_eq!(shown("ssh://me@[fe80::1]:22").as_deref(), Some("-p 22 me@fe80::1"));
        assert_eq!(shown("ssh://[::1]/").as_deref(), Some("::1"));
    }

    #[test]
    fn address_that_could_be_an_option_or_command_is_rejected() {
        for url in [
            "work",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-l@host",
            "ssh://me@-host",
            "ssh://@host",
            "ssh://me@",
            "ssh://a b",
            "ssh://a;b",
            "ssh://$(x)",
            "ssh://`x`@h",
            "ssh://h%h",
            "ssh://a:0",
            "ssh://a:70000",
            "ssh://a:x",
            "ssh://::1",
            "ssh://[::1]x",
            "ssh://a/b",
            "ssh://a@b@c",
            "ssh://h\n",
        ] {
            assert_eq!(SshTarget::parse(url), None, "{url}");
        }
    }

    #[test]
    fn remote_command_is_one_quoted_text_after_the_host() {
        let mut target = SshTarget::parse("ssh://me@work:22").unwrap();
        target.nerve = "~/my tools/it's".to_string();
        let words = ["connect".to_string(), "a b".to_string()];
        let command = target.interactive_command(&words, SshSharing::Off);
        let args: Vec<OsString> = command.get_args().map(|arg| arg.to_owned()).collect();
        let expected = ["-p", "22", "--", "me@work", r"~/'my tools/it'\''s' connect 'a b'"];
        assert_eq!(args[args.len() - expected.len()..], expected.map(OsString::from));
        target.nerve = "/opt/nerve-0.1/bin/nerve".to_string();
        assert_eq!(target.remote_command(&[]), "/opt/nerve-0.1/bin/nerve");
    }

    #[test]
    fn ssh_forwards_nothing_and_gives_up_before_nerve() {
        let target = SshTarget { timeout: Duration::from_secs(5), ..SshTarget::parse("ssh://work").unwrap() };
        let (batch, interactive) =
            (target.batch_command(&[], SshSharing::Off), target.interactive_command(&[], SshSharing::Off));
        let all: [Vec<OsString>; 2] = [batch.as_std(), &interactive]
            .map(|command| command.get_args().map(|arg| arg.to_owned()).collect());
        for args in all {
            for option in ["ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "ConnectTimeout=4"]
            {
                assert!(args.iter().any(|arg| arg == option), "{option}: {args:?}");
            }
            assert!(args.iter().any(|arg| arg == "ServerAliveInterval=15"), "{args:?}");
        }
    }

    #[test]
    fn command_for_the_user_has_program_and_server() {
        let mut target = SshTarget::parse("ssh://me@[::1]:22").unwrap();
        assert_eq!(target.url(), "ssh://me@[::1]:22");
        let command = |target: &SshTarget| target.shell_command(&["connect"], &["--server"]);
        assert_eq!(command(&target), "ssh -p 22 me@::1 nerve connect");
        target.server = "night".to_string();
        assert_eq!(command(&target), "ssh -p 22 me@::1 nerve connect --server night");
        // The shell on this machine must not expand the home directory.
        target.nerve = "~/bin/nerve".to_string();
        assert_eq!(command(&target), "ssh -p 22 me@::1 '~/bin/nerve connect --server night'");
    }
}
