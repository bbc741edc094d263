//! The steps of a connection to a machine, checked one by one.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use nerve_api::ErrorKind;
use nerve_client::{ClientError, SshErrorKind, SshSharing, SshTarget};
use tokio::process::Command;
use tokio::time::timeout;

use crate::connect::{CONNECT_TIMEOUT, PARALLEL, connect_route};
use crate::error::MachineError;
use crate::machine::{Machine, Route};
use crate::machines::Machines;

/// Time limit for ssh to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// A step of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The ssh program on this machine, or the token and certificates.
    Setup,
    /// The network, the key of the host and the user.
    Connection,
    /// nerve on the machine.
    Nerve,
    /// Its version.
    Version,
    /// A running server.
    Server,
}

/// All steps in their order.
const STEPS: [Step; 5] = [Step::Setup, Step::Connection, Step::Nerve, Step::Version, Step::Server];

impl Step {
    /// Returns the name of the step.
    pub fn name(self) -> &'static str {
        match self {
            Step::Setup => "setup",
            Step::Connection => "connection",
            Step::Nerve => "nerve",
            Step::Version => "version",
            Step::Server => "server",
        }
    }
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The step.
    pub step: Step,
    /// The step succeeded. `None`: it was not reached, because an earlier one failed.
    pub ok: Option<bool>,
    /// What was found, or why the step failed.
    pub found: String,
    /// What helps, preferably a command to run.
    pub hint: Option<String>,
}

impl Machines {
    /// Checks each step of the connections to machines, in parallel. Returns the checks in the order of the machines. `version`: that
    /// of this program.
    pub async fn diagnose_all(&self, machines: &[Machine], version: &str) -> Vec<Vec<Check>> {
        let checks = machines.iter().map(|machine| self.diagnose(machine, version));
        stream::iter(checks).buffered(PARALLEL).collect().await
    }

    /// Checks each step of a connection to a machine.
    async fn diagnose(&self, machine: &Machine, version: &str) -> Vec<Check> {
        let route = match self.route(machine, CONNECT_TIMEOUT) {
            Ok(route) => route,
            Err(error) => return failed_checks(Step::Setup, error, String::new()),
        };
        let target = match &route {
            Route::Ssh(target) => Some(target.clone()),
            Route::Tls { .. } => None,
        };
        let (setup, start) = (describe_setup(&route).await, Instant::now());
        let client = match connect_route(route, CONNECT_TIMEOUT).await {
            Ok(client) => client,
            Err(error) => return failed_checks(step_of(&error), error.into(), setup),
        };
        let elapsed = start.elapsed();
        let pong = match timeout(CONNECT_TIMEOUT, client.ping()).await {
            Ok(Ok(pong)) => pong,
            Ok(Err(error)) => return failed_checks(Step::Server, error.into(), setup),
            Err(_) => {
                let error = MachineError::new(ErrorKind::Timeout, "the server does not respond");
                return failed_checks(Step::Server, error, setup);
            }
        };
        self.record_contact(machine);
        let sharing = match &target {
            Some(target) => describe_sharing(target).await,
            None => "for this command",
        };
        let found = [
            setup,
            format!("{} in {} ms, {sharing}", machine.address, elapsed.as_millis()),
            "found".to_string(),
            compare_versions(&pong.version, version),
            format!("'{}' runs {} nodes", machine.server_name().unwrap_or(machine.label()), pong.nodes),
        ];
        let check = |(step, found)| Check { step, ok: Some(true), found, hint: None };
        STEPS.into_iter().zip(found).map(check).collect()
    }
}

/// Returns the checks of a connection that failed at `step`. `setup`: what was found in the first step.
fn failed_checks(step: Step, error: MachineError, setup: String) -> Vec<Check> {
    let (mut checks, mut is_reached) = (Vec::new(), true);
    for one in STEPS {
        let (ok, found, hint) = match (one == step, is_reached) {
            (true, _) => (Some(false), error.message.clone(), error.hint.clone()),
            (false, true) if one == Step::Setup => (Some(true), setup.clone(), None),
            (false, true) => (Some(true), "ok".to_string(), None),
            (false, false) => (None, "not checked".to_string(), None),
        };
        is_reached &= one != step;
        checks.push(Check { step: one, ok, found, hint });
    }
    checks
}

/// Returns the step at which a connection failed.
fn step_of(error: &ClientError) -> Step {
    let error = match error {
        ClientError::Ssh(error) => error,
        // Invalid certificates on this machine.
        ClientError::Protocol(_) => return Step::Setup,
        ClientError::Server(error) if error.details.error_type != ErrorKind::Authentication => {
            return Step::Server;
        }
        _ => return Step::Connection,
    };
    match error.kind {
        SshErrorKind::NotInstalled => Step::Setup,
        SshErrorKind::NerveMissing => Step::Nerve,
        SshErrorKind::NerveOutdated => Step::Version,
        SshErrorKind::NotRunning => Step::Server,
        SshErrorKind::HostKey
        | SshErrorKind::Authentication
        | SshErrorKind::Unreachable
        | SshErrorKind::TimedOut
        | SshErrorKind::Failed => Step::Connection,
    }
}

/// Returns the version of ssh, or that the token and certificates could be read.
async fn describe_setup(route: &Route) -> String {
    let Route::Ssh(target) = route else { return "token and certificates are readable".to_string() };
    let printing = Command::new(&target.ssh).arg("-V").stdin(Stdio::null()).kill_on_drop(true).output();
    let text = match timeout(VERSION_TIMEOUT, printing).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stderr).into_owned(),
        _ => String::new(),
    };
    text.lines().next().map_or_else(|| target.ssh.display().to_string(), str::to_string)
}

/// Describes which commands use a connection.
async fn describe_sharing(target: &SshTarget) -> &'static str {
    match target.sharing().await {
        SshSharing::Master if target.master_process().await.is_some() => "shared by all commands",
        SshSharing::Configured | SshSharing::ConfiguredWithoutPersist => {
            "shared as your ssh configuration says"
        }
        SshSharing::Master | SshSharing::Off => "for this command",
    }
}

/// Describes the version of a server. Servers of other versions work, as far as they have the same requests.
fn compare_versions(there: &str, here: &str) -> String {
    match there == here {
        true => there.to_string(),
        false => format!("{there} there, {here} here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_after_the_failed_one_are_not_checked() {
        let error = MachineError::new(ErrorKind::NotFound, "nerve: not found").hint("install it");
        let checks = failed_checks(Step::Nerve, error, "OpenSSH".to_string());
        let ok: Vec<Option<bool>> = checks.iter().map(|check| check.ok).collect();
        assert_eq!(ok, [Some(true), Some(true), Some(false), None, None]);
        assert_eq!(checks[2].hint.as_deref(), Some("install it"));
    }
}
