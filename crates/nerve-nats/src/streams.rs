//! The streams of a cluster.

use std::fmt;
use std::str::FromStr;

use nerve_types::name::{self, NameError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::BrokerError;

/// Time after which the marker of a released or expired lease is removed, in seconds.
pub(crate) const MARKER_TTL: u64 = 600;
/// Oldest server that has times to live of messages in compare-and-set writes, batches of direct reads and markers.
const MIN_VERSION: (u64, u64) = (2, 11);

/// Name of a cluster, by the rule of [`nerve_types::name`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ClusterName(String);

impl TryFrom<String> for ClusterName {
    type Error = NameError;

    fn try_from(name: String) -> Result<ClusterName, NameError> {
        name::check("cluster", &name)?;
        Ok(ClusterName(name))
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<ClusterName, NameError> {
        ClusterName::try_from(name.to_string())
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Settings of new streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// Number of brokers that store each message: 1, 3 or 5.
    pub replicas: u8,
    /// Maximum size of each stream, in bytes. A full stream refuses writes; it never removes a record. `None`: that of the account.
    pub max_bytes: Option<u64>,
}

/// The streams and subjects of a cluster.
#[derive(Debug, Clone)]
pub struct Streams {
    cluster: ClusterName,
}

/// A stream, as the broker describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStatus {
    /// Its name.
    pub name: String,
    /// Number of brokers that store each message.
    pub replicas: u64,
    /// Number of messages.
    pub messages: u64,
    /// Size of the messages, in bytes.
    pub bytes: u64,
    /// Settings that differ from those that the cluster needs.
    pub differences: Vec<String>,
}

/// Durability of an acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Several brokers have it: one may fail with its disk.
    Replicated,
    /// One broker has it, on its disk only if its `sync_interval` is `always`, which its clients cannot see.
    OneBroker,
}

#[derive(Deserialize)]
struct StreamInfo {
    config: Value,
    state: StreamState,
}

#[derive(Deserialize)]
struct StreamState {
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    bytes: u64,
}

impl Streams {
    /// Creates the names of a cluster's streams.
    pub fn new(cluster: ClusterName) -> Streams {
        Streams { cluster }
    }

    /// Returns the name of the cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Returns the name of a stream: `leases` or `journals`.
    pub(crate) fn stream(&self, kind: &str) -> String {
        format!("nerve-{}-{kind}", self.cluster)
    }

    /// Returns a subject. `kind`: `lease` or `journal`.
    pub(crate) fn subject(&self, kind: &str, key: impl fmt::Display) -> String {
        format!("nerve.{}.{kind}.{key}", self.cluster)
    }

    /// Creates the streams. Those that exist with the same settings stay.
    ///
    /// # Errors
    /// A stream exists with other settings, the broker is too old or lacks space, or see [`BrokerError`].
    pub async fn create(&self, connection: &Connection, settings: StreamSettings) -> Result<(), BrokerError> {
        check_version(&connection.server_version())?;
        for mut config in self.configs() {
            config["num_replicas"] = json!(settings.replicas);
            if let Some(max_bytes) = settings.max_bytes {
                config["max_bytes"] = json!(max_bytes);
            }
            let name = config["name"].as_str().unwrap_or_default();
            let _: Value = connection.api(&format!("STREAM.CREATE.{name}"), &config).await?;
        }
        Ok(())
    }

    /// Describes the streams.
    ///
    /// # Errors
    /// [`BrokerError::NoStream`] if one is missing, or see [`BrokerError`].
    pub async fn inspect(&self, connection: &Connection) -> Result<Vec<StreamStatus>, BrokerError> {
        let mut found = Vec::new();
        for needed in self.configs() {
            let name = needed["name"].as_str().unwrap_or_default().to_string();
            let info: StreamInfo = connection.api(&format!("STREAM.INFO.{name}"), &json!({})).await?;
            let replicas = info.config["num_replicas"].as_u64().unwrap_or(1);
            let differences = differences(&needed, &info.config);
            let StreamState { messages, bytes } = info.state;
            found.push(StreamStatus { name, replicas, messages, bytes, differences });
        }
        Ok(found)
    }

    /// Returns the settings that the core needs.
    fn configs(&self) -> [Value; 2] {
        let config = |kind: &str, subjects: String| {
            json!({
                "name": self.stream(kind),
                "subjects": [subjects],
                "retention": "limits",
                "storage": "file",
                // A full stream refuses writes instead of removing old messages.
                "discard": "new",
                "max_msgs": -1,
                "max_age": 0,
            })
        };
        let mut leases = config("leases", self.subject("lease", ">"));
        leases["max_msgs_per_subject"] = json!(1);
        leases["allow_msg_ttl"] = json!(true);
        leases["subject_delete_marker_ttl"] = json!(MARKER_TTL * 1_000_000_000);
        // For lists of the machines. A single lease is read from the leader, because replicas lag.
        leases["allow_direct"] = json!(true);
        let mut journals = config("journals", self.subject("journal", "*"));
        journals["max_msgs_per_subject"] = json!(-1);
        journals["allow_direct"] = json!(true);
        journals["deny_delete"] = json!(true);
        [leases, journals]
    }
}

impl Durability {
    /// Returns the durability in the streams.
    pub fn of(streams: &[StreamStatus]) -> Durability {
        if streams.iter().all(|stream| stream.replicas >= 3) {
            Durability::Replicated
        } else {
            Durability::OneBroker
        }
    }
}

/// Returns the settings that differ from the needed ones. A setting that is missing has its zero value.
fn differences(needed: &Value, actual: &Value) -> Vec<String> {
    let fields = needed.as_object().into_iter().flatten();
    fields
        .filter(|(name, needed)| {
            let actual = &actual[name.as_str()];
            let is_zero = |value: &Value| value.is_null() || *value == json!(0) || *value == json!(false);
            actual != *needed && !(is_zero(actual) && is_zero(needed))
        })
        .map(|(name, needed)| format!("{name} is {}, not {needed}", actual[name.as_str()]))
        .collect()
}

fn check_version(version: &str) -> Result<(), BrokerError> {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= MIN_VERSION {
        return Ok(());
    }
    let (major, minor) = MIN_VERSION;
    let description = format!("nats-server {version} is older than {major}.{minor}");
    Err(BrokerError::Refused { code: 0, description })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ClusterName, Streams, check_version, differences};

    #[test]
    fn missing_setting_is_zero() {
        let needed = json!({ "max_age": 0, "allow_direct": false, "discard": "new" });
        assert!(differences(&needed, &json!({ "discard": "new" })).is_empty());
        assert_eq!(differences(&needed, &json!({ "discard": "old" })).len(), 1);
    }

    #[test]
    fn names_of_two_clusters_do_not_meet() {
        let subject = |name: &str| Streams::new(name.parse().unwrap()).subject("lease", "run.r.owner");
        assert_eq!(subject("a"), "nerve.a.lease.run.r.owner");
        assert_ne!(subject("a"), subject("b"));
        for name in ["", "a.b", "*", ">", "a b"] {
            assert!(name.parse::<ClusterName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn old_servers_are_refused() {
        assert!(check_version("2.15.1").is_ok() && check_version("3.0.0").is_ok());
        assert!(check_version("2.10.29").is_err() && check_version("").is_err());
    }
}
