//! A machine: its name, its address and what a connection to it needs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_client::{SshTarget, Tls};
use nerve_types::name;
use nerve_types::network_address::split_host_port;
use serde::{Deserialize, Serialize};

use crate::error::MachineError;

/// Name of the machine on which nerve runs. No other machine can have it.
pub const LOCAL: &str = "local";
/// Variable with the path of the ssh program.
const SSH: &str = "NERVE_SSH";
/// Maximum size of a token file or a file of certificates, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// A machine, as its entry in the list describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name: 1-32 of a-z, 0-9 and '-'; empty for an address that is not in the list.
    #[serde(rename = "machine_name")]
    pub name: String,
    /// `ssh://[USER@]HOST[:PORT]` or `tls://HOST:PORT`.
    pub address: String,
    /// The nerve program there, for ssh. `None`: `nerve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The server there, for ssh. `None`: `default`.
    #[serde(default, rename = "server_name", skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// File with the server's token, for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Variable with the server's token, for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// PEM file of the certificate authorities to trust, for TLS. `None`: the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Where and how to connect. Has no `Debug` output, because of the token.
pub(crate) enum Route {
    Ssh(Box<SshTarget>),
    Tls {
        /// `host:port`.
        address: String,
        token: String,
        tls: Tls,
    },
}

impl Machine {
    /// Creates a machine of an address that is not in the list.
    pub fn unnamed(address: &str) -> Machine {
        Machine { address: address.to_string(), ..Machine::default() }
    }

    /// Returns the name, or the address of an unnamed machine.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { &self.address } else { &self.name }
    }

    /// Returns the name of the server there. `None` over TLS, where the address decides which server replies.
    pub fn server_name(&self) -> Option<&str> {
        self.address.starts_with("ssh://").then(|| self.server.as_deref().unwrap_or("default"))
    }

    /// Returns the target of a machine that is reached through ssh. `timeout`: limit for connecting.
    pub(crate) fn ssh_target(&self, timeout: Duration) -> Option<SshTarget> {
        let mut target = SshTarget::parse(&self.address)?;
        target.timeout = timeout;
        if let Some(server) = &self.server {
            target.server.clone_from(server);
        }
        if let Some(program) = &self.program {
            target.nerve.clone_from(program);
        }
        if let Some(ssh) = std::env::var_os(SSH).filter(|ssh: &OsString| !ssh.is_empty()) {
            target.ssh = ssh;
        }
        Some(target)
    }

    /// Checks an entry of the list.
    ///
    /// # Errors
    /// The name, the address or an option is invalid, or options do not fit to the address.
    pub fn check(&self) -> Result<(), MachineError> {
        let invalid = |message: String| MachineError::new(ErrorKind::InvalidRequest, message);
        name::check("machine", &self.name).map_err(|error| invalid(error.to_string()))?;
        if self.name == LOCAL {
            return Err(invalid(format!("'{LOCAL}' is the name of this machine")).hint("choose another name"));
        }
        if let Some(server) = &self.server {
            name::check("server", server).map_err(|error| invalid(error.to_string()))?;
        }
        if let Some(program) = &self.program
            && (program.is_empty() || program.starts_with('-') || program.chars().any(char::is_control))
        {
            return Err(invalid(format!("{program:?} is not the path of a program")));
        }
        let has_token = self.token_file.is_some() || self.token_env.is_some();
        if self.address.starts_with("ssh://") {
            return match SshTarget::parse(&self.address) {
                None => Err(invalid_address(&self.address)),
                Some(_) if has_token || self.ca_file.is_some() => {
                    Err(invalid("ssh needs no token and no certificates".to_string())
                        .hint("omit --token-file, --token-env and --ca"))
                }
                Some(_) => Ok(()),
            };
        }
        self.tls_address().ok_or_else(|| invalid_address(&self.address))?;
        if self.program.is_some() || self.server.is_some() {
            let message = "over TLS the address decides which server replies";
            return Err(invalid(message.to_string()).hint("omit --program and --server"));
        }
        match has_token {
            true => Ok(()),
            false => Err(invalid(format!("no token for {}", self.address)).hint(
                "'nerve token show' prints it there: save it with mode 0600 and add --token-file FILE, or --token-env NAME",
            )),
        }
    }

    /// Returns `host:port` of an address with TLS.
    fn tls_address(&self) -> Option<&str> {
        let address = self.address.strip_prefix("tls://")?;
        let (host, _) = split_host_port(address)?;
        (!host.contains(|one: char| one.is_whitespace() || one == '/')).then_some(address)
    }

    /// Returns the route of a machine that is reached over TLS.
    pub(crate) fn tls_route(&self) -> Result<Route, MachineError> {
        let address = self.tls_address().ok_or_else(|| invalid_address(&self.address))?.to_string();
        let tls = match &self.ca_file {
            Some(file) => Tls::Authorities(read(file).map_err(|error| unreadable(file, &error))?),
            None => Tls::Public,
        };
        Ok(Route::Tls { address, token: self.token()?, tls })
    }

    fn token(&self) -> Result<String, MachineError> {
        let text = match (&self.token_file, &self.token_env) {
            (Some(file), _) => {
                let bytes = read(file).map_err(|error| unreadable(file, &error))?;
                String::from_utf8(bytes).unwrap_or_default()
            }
            (None, Some(variable)) => std::env::var(variable).unwrap_or_default(),
            (None, None) => String::new(),
        };
        let token = text.trim();
        if token.is_empty() {
            let message = format!("no token for machine '{}'", self.label());
            let hint = match (&self.token_file, &self.token_env) {
                (Some(file), _) => {
                    format!("save the output of 'nerve token show' there in {}", file.display())
                }
                (None, Some(variable)) => format!("set {variable} to what 'nerve token show' prints there"),
                (None, None) => "add the machine again with --token-file FILE".to_string(),
            };
            return Err(MachineError::new(ErrorKind::Authentication, message).hint(hint));
        }
        Ok(token.to_string())
    }
}

fn invalid_address(address: &str) -> MachineError {
    MachineError::new(ErrorKind::InvalidRequest, format!("{address:?} is not the address of a machine"))
        .hint("use ssh://[USER@]HOST[:PORT] or tls://HOST:PORT; HOST may be a name in your ssh configuration")
}

fn unreadable(file: &Path, error: &io::Error) -> MachineError {
    MachineError::new(ErrorKind::Process, format!("cannot read {}: {error}", file.display()))
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        0..=MAX_FILE => Ok(bytes),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {MAX_FILE} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, address: &str) -> Machine {
        Machine { name: name.to_string(), ..Machine::unnamed(address) }
    }

    fn tls(token_file: &str) -> Machine {
        Machine { token_file: Some(token_file.into()), ..machine("a", "tls://h:1") }
    }

    #[test]
    fn entries_are_checked() {
        assert_eq!(machine("work", "ssh://me@work:22").check(), Ok(()));
        assert_eq!(tls("/t").check(), Ok(()));
        assert_eq!(Machine { address: "tls://[::1]:1".into(), ..tls("/t") }.check(), Ok(()));
        let wrong = [
            machine("", "ssh://h"),
            machine("A", "ssh://h"),
            machine("-a", "ssh://h"),
            machine(LOCAL, "ssh://h"),
            machine("a", "ssh://-oProxyCommand=x"),
            machine("a", "h"),
            machine("a", "http://h"),
            machine("a", "tls://h:1"),
            Machine { token_file: Some("/t".into()), ..machine("a", "tls://h") },
            Machine { token_file: Some("/t".into()), ..machine("a", "tls://::1:1") },
            Machine { token_file: Some("/t".into()), ..machine("a", "ssh://h") },
            Machine { ca_file: Some("/t".into()), ..machine("a", "ssh://h") },
            Machine { program: Some("-x".into()), ..machine("a", "ssh://h") },
            Machine { program: Some("a\nb".into()), ..machine("a", "ssh://h") },
            Machine { server: Some("../x".into()), ..machine("a", "ssh://h") },
            Machine { program: Some("x".into()), ..tls("/t") },
        ];
        for machine in wrong {
            let error = machine.check().unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{machine:?}: {error}");
        }
    }

    #[test]
    fn token_comes_from_its_file_and_must_not_be_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let machine = tls(file.to_str().unwrap());
        assert_eq!(machine.token().unwrap_err().kind, ErrorKind::Process);
        std::fs::write(&file, " \n").unwrap();
        assert_eq!(machine.token().unwrap_err().kind, ErrorKind::Authentication);
        std::fs::write(&file, "secret\n").unwrap();
        assert_eq!(machine.token().as_deref(), Ok("secret"));
        std::fs::write(&file, vec![b'x'; MAX_FILE as usize + 1]).unwrap();
        assert_eq!(machine.token().unwrap_err().kind, ErrorKind::Process);
    }
}
