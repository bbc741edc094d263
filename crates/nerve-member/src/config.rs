//! The configuration of a membership.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_cluster::LeaseTimes;
use nerve_nats::{BrokerOptions, ClusterName, Credentials};
use nerve_types::{files, name};
use serde::{Deserialize, Serialize};

use crate::error::MemberError;
use crate::paths::MemberPaths;
use crate::private_file;

/// Time to live of a lease if the configuration has none, in seconds.
pub const DEFAULT_LEASE_SECONDS: u64 = 15;
/// Limits of the time to live, in seconds.
const MIN_LEASE_SECONDS: u64 = 1;
const MAX_LEASE_SECONDS: u64 = 3_600;
/// Maximum number of brokers in the list.
const MAX_BROKERS: usize = 16;
/// Maximum number of slots, and of labels.
const MAX_SLOTS: u32 = 256;
pub(crate) const MAX_LABELS: usize = 32;
/// Limit of a call to the broker.
const MAX_CALL: Duration = Duration::from_secs(5);
/// Content of a file with credentials.
const CREDENTIALS: &str =
    "it must have type = \"password\", user and password, or type = \"token\" and token, as strings";

/// The configuration: `cluster.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// The cluster.
    pub cluster: ClusterName,
    /// Name of this machine, by the rule of [`nerve_types::name`].
    pub machine: String,
    /// Name of this machine's server that is the member.
    pub server: String,
    /// URLs of brokers, `nats://HOST:PORT` or `tls://HOST:PORT`, from 1 to 16.
    pub brokers: Vec<String>,
    /// File of mode 0600 with [`Credentials`] in TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// PEM file with the certificate authorities to trust, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of this machine's certificate. Needs `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Number of steps of runs that this machine executes at the same time, from 0 to 256. With 0, the default, it accepts none.
    #[serde(default)]
    pub slots: u32,
    /// Labels that steps can require, by the rule of [`nerve_types::name`], at most 32.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Time to live of the lease, in seconds, from 1 to 3600: a lost machine is present for at most this time.
    #[serde(default = "default_lease")]
    pub lease_seconds: u64,
}

fn default_lease() -> u64 {
    DEFAULT_LEASE_SECONDS
}

impl ClusterConfig {
    /// Loads the configuration.
    ///
    /// # Errors
    /// [`MemberError::NotConfigured`] if there is none. The file is not private, or its content is invalid.
    pub fn load(paths: &MemberPaths) -> Result<ClusterConfig, MemberError> {
        let path = paths.config();
        let config: ClusterConfig = private_file::read(&path)?.ok_or(MemberError::NotConfigured)?;
        config.check().map_err(|error| MemberError::invalid(path.display(), error))?;
        Ok(config)
    }

    /// Saves the configuration, with mode 0600.
    pub(crate) fn save(&self, paths: &MemberPaths) -> Result<(), MemberError> {
        let path = paths.config();
        let text = toml::to_string(self).map_err(|error| MemberError::invalid(path.display(), error))?;
        let folder = path.parent().map_or(Ok(()), files::private_folder);
        let written = folder.and_then(|()| files::replace(&path, text.as_bytes()));
        written.map_err(|error| MemberError::write(&path, &error))
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`MemberError::Invalid`] names the first invalid one.
    pub fn check(&self) -> Result<(), MemberError> {
        for (kind, name) in [("machine", &self.machine), ("server", &self.server)] {
            name::check(kind, name).map_err(|error| MemberError::invalid(format!("{kind} name"), error))?;
        }
        if self.brokers.is_empty() || self.brokers.len() > MAX_BROKERS {
            let problem = format!("{}, must be from 1 to {MAX_BROKERS}", self.brokers.len());
            return Err(MemberError::invalid("number of brokers", problem));
        }
        self.brokers.iter().try_for_each(|url| check_url(url))?;
        if !(MIN_LEASE_SECONDS..=MAX_LEASE_SECONDS).contains(&self.lease_seconds) {
            let problem = format!(
                "{} s, must be from {MIN_LEASE_SECONDS} to {MAX_LEASE_SECONDS} s",
                self.lease_seconds
            );
            return Err(MemberError::invalid("time of the lease", problem));
        }
        self.check_steps()?;
        if self.certificate.is_some() != self.key.is_some() {
            return Err(MemberError::invalid("certificate", "it needs its key, and a key its certificate"));
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), MemberError> {
        if self.slots > MAX_SLOTS {
            let problem = format!("{}, must be at most {MAX_SLOTS}", self.slots);
            return Err(MemberError::invalid("number of slots", problem));
        }
        if self.labels.len() > MAX_LABELS {
            let problem = format!("{}, must be at most {MAX_LABELS}", self.labels.len());
            return Err(MemberError::invalid("number of labels", problem));
        }
        let check = |label: &String| name::check("label", label);
        self.labels.iter().try_for_each(check).map_err(|error| MemberError::invalid("label", error))
    }

    /// Returns the files that the configuration names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.credentials, &self.ca, &self.certificate, &self.key].into_iter().flatten()
    }

    /// Returns the durations of the lease.
    pub(crate) fn lease_times(&self) -> LeaseTimes {
        LeaseTimes::new(Duration::from_secs(self.lease_seconds))
    }

    /// Returns the options of a connection, with the credentials.
    ///
    /// # Errors
    /// The file of the credentials is missing, not private or invalid.
    pub(crate) fn broker_options(&self) -> Result<BrokerOptions, MemberError> {
        let credentials = match &self.credentials {
            None => Credentials::None,
            Some(path) => read_credentials(path)?,
        };
        Ok(BrokerOptions {
            servers: self.brokers.clone(),
            credentials,
            ca: self.ca.clone(),
            certificate: self.certificate.clone().zip(self.key.clone()),
            client_name: format!("nerve {}", self.machine),
            deadline: self.lease_times().renewal().min(MAX_CALL),
        })
    }
}

fn read_credentials(path: &Path) -> Result<Credentials, MemberError> {
    match private_file::read(path) {
        Ok(Some(credentials)) => Ok(credentials),
        Ok(None) => Err(MemberError::read(path, &io::ErrorKind::NotFound.into())),
        // The cause may quote the password.
        Err(MemberError::Invalid { what, .. }) => {
            Err(MemberError::Invalid { what, problem: CREDENTIALS.into() })
        }
        Err(error) => Err(error),
    }
}

/// Checks the URL of a broker.
fn check_url(url: &str) -> Result<(), MemberError> {
    let invalid = |problem: &str| Err(MemberError::invalid(format!("broker '{url}'"), problem));
    let Some(host) = url.strip_prefix("nats://").or_else(|| url.strip_prefix("tls://")) else {
        return invalid("it must begin with nats:// or tls://");
    };
    if host.contains('@') {
        return Err(MemberError::invalid(
            "broker",
            "user and password belong into a file: --credentials FILE",
        ));
    }
    if host.is_empty() || host.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return invalid("it has no valid host");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config() -> ClusterConfig {
        ClusterConfig {
            cluster: "team".parse().unwrap(),
            machine: "build-1".into(),
            server: "default".into(),
            brokers: vec!["nats://127.0.0.1:4222".into()],
            credentials: None,
            ca: None,
            certificate: None,
            key: None,
            slots: 2,
            labels: ["gpu".to_string()].into(),
            lease_seconds: DEFAULT_LEASE_SECONDS,
        }
    }

    fn paths(folder: &Path) -> MemberPaths {
        MemberPaths::new(&folder.join("config"), &folder.join("state"))
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn configuration_is_kept_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        assert_eq!(ClusterConfig::load(&paths), Err(MemberError::NotConfigured));
        config().save(&paths).unwrap();
        assert_eq!(ClusterConfig::load(&paths), Ok(config()));
        assert_eq!(fs::metadata(paths.config()).unwrap().permissions().mode() & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o660] {
            set_mode(&paths.config(), mode);
            let error = ClusterConfig::load(&paths).unwrap_err();
            assert!(matches!(error, MemberError::NotPrivate { .. }), "{mode:o}: {error:?}");
        }
    }

    #[test]
    fn invalid_values_are_refused() {
        let invalid = [
            ClusterConfig { machine: "Build 1".into(), ..config() },
            ClusterConfig { server: String::new(), ..config() },
            ClusterConfig { brokers: Vec::new(), ..config() },
            ClusterConfig { brokers: vec!["nats://h".into(); MAX_BROKERS + 1], ..config() },
            ClusterConfig { brokers: vec!["http://127.0.0.1".into()], ..config() },
            ClusterConfig { brokers: vec!["nats://".into()], ..config() },
            ClusterConfig { brokers: vec!["nats://ann:secret@h".into()], ..config() },
            ClusterConfig { lease_seconds: 0, ..config() },
            ClusterConfig { lease_seconds: 3_601, ..config() },
            ClusterConfig { key: Some("k.pem".into()), ..config() },
            ClusterConfig { slots: MAX_SLOTS + 1, ..config() },
            ClusterConfig { labels: ["No label".to_string()].into(), ..config() },
            ClusterConfig { labels: (0..33).map(|number| format!("l{number}")).collect(), ..config() },
        ];
        for config in invalid {
            let error = config.check().unwrap_err();
            assert!(matches!(error, MemberError::Invalid { .. }), "{config:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert_eq!(config().check(), Ok(()));
    }

    #[test]
    fn credentials_are_read_only_from_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.toml");
        let config = ClusterConfig { credentials: Some(path.clone()), ..config() };
        assert!(matches!(config.broker_options(), Err(MemberError::File { .. })));
        fs::write(&path, "type = \"password\"\nuser = \"ann\"\npassword = \"right\"\n").unwrap();
        set_mode(&path, 0o644);
        assert!(matches!(config.broker_options(), Err(MemberError::NotPrivate { .. })));
        set_mode(&path, 0o600);
        let expected = Credentials::Password { user: "ann".into(), password: "right".into() };
        assert_eq!(config.broker_options().unwrap().credentials, expected);
        for text in ["type = \"password\"\nuser = \"ann\"\npassword = 4711\n", "type = \"4711\"\n", "4711"] {
            fs::write(&path, text).unwrap();
            let error = config.broker_options().unwrap_err();
            assert!(matches!(error, MemberError::Invalid { .. }), "{error:?}");
            assert!(!error.to_string().contains("4711"), "{error}");
        }
    }

    #[test]
    fn damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        config().save(&paths).unwrap();
        let whole = fs::read_to_string(paths.config()).unwrap();
        for text in ["", "cluster", &whole[..whole.len() / 2], &format!("{whole}\nunknown = 1\n")] {
            fs::write(paths.config(), text).unwrap();
            let error = ClusterConfig::load(&paths).unwrap_err();
            assert!(matches!(error, MemberError::Invalid { .. }), "{text:?}: {error:?}");
        }
    }
}
