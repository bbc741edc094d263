//! The commands of a user: join, leave, show.

use std::fs;
use std::io;
use std::time::Duration;

use nerve_cluster::MachineId;
use nerve_nats::{Connection, NatsStore, StreamSettings, Streams};
use tokio::time::{Instant, sleep};

use crate::broker_check::BrokerCheck;
use crate::config::ClusterConfig;
use crate::error::MemberError;
use crate::identity::{Identity, machine_id};
use crate::member_list::MemberList;
use crate::paths::MemberPaths;
use crate::status::{MemberState, MemberStatus};

/// Interval at which the files of a server are read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for a server to notice a configuration and to release its lease.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Treatment of a cluster that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// Fails.
    Refuse,
    /// Creates its streams with these settings.
    Create(StreamSettings),
}

/// Runs the commands of a user on this machine's membership. The server's part is [`serve`](crate::serve).
#[derive(Debug, Clone)]
pub struct Membership {
    paths: MemberPaths,
}

/// The status of a membership, from the files and the broker.
#[derive(Debug)]
pub struct MembershipStatus {
    /// The configuration.
    pub config: ClusterConfig,
    /// Id of this machine; `None` before its first start as a member.
    pub machine_id: Option<MachineId>,
    /// The status of this machine's server; `None` if it is not running.
    pub server: Option<MemberStatus>,
    /// The members now, from the broker.
    pub members: Result<MemberList, MemberError>,
}

impl Membership {
    /// Creates the commands for a machine.
    pub fn new(paths: MemberPaths) -> Membership {
        Membership { paths }
    }

    /// Returns true if there is a configuration.
    pub fn is_configured(&self) -> bool {
        self.paths.config().exists()
    }

    /// Checks the broker and the machine's name, and saves the configuration. A running server follows it.
    ///
    /// # Errors
    /// See [`MemberError`]. Nothing is saved then.
    pub async fn join(&self, config: &ClusterConfig, creation: Creation) -> Result<BrokerCheck, MemberError> {
        if self.is_configured() {
            return Err(MemberError::AlreadyConfigured(self.paths.config()));
        }
        config.check()?;
        let store = open(config).await?;
        if let Creation::Create(settings) = creation {
            store.streams().create(store.connection(), settings).await?;
        }
        let check = BrokerCheck::run(store.connection(), store.streams(), first_broker(config)).await?;
        let members = MemberList::new(store.present_machines().await?);
        if let Some(holder) = members.namesake(&config.machine, machine_id(&self.paths)?) {
            return Err(MemberError::NameTaken { name: config.machine.clone(), holder });
        }
        config.save(&self.paths)?;
        Ok(check)
    }

    /// Waits until the server of this machine is a member. Returns the last status; `None` if no server has the membership.
    ///
    /// # Errors
    /// The status cannot be read.
    pub async fn wait_until_member(&self, timeout: Duration) -> Result<Option<MemberStatus>, MemberError> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.server_status()?;
            let is_member = status.as_ref().is_some_and(|status| status.state == MemberState::Member);
            if is_member || Instant::now() >= deadline {
                return Ok(status);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Removes the configuration, and waits until the server has ended the membership. Returns false if it has not in time.
    ///
    /// # Errors
    /// [`MemberError::NotConfigured`], or the file cannot be removed.
    pub async fn leave(&self) -> Result<bool, MemberError> {
        let path = self.paths.config();
        fs::remove_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MemberError::NotConfigured,
            _ => MemberError::write(&path, &error),
        })?;
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        while Identity::is_in_use(&self.paths) {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(true)
    }

    /// Returns the status of this machine's server, and the members from the broker.
    ///
    /// # Errors
    /// There is no configuration, or a file is invalid. An unavailable broker is a part of the status.
    pub async fn status(&self) -> Result<MembershipStatus, MemberError> {
        let config = ClusterConfig::load(&self.paths)?;
        let members = list(&config).await;
        let (machine_id, server) = (machine_id(&self.paths)?, self.server_status()?);
        Ok(MembershipStatus { config, machine_id, server, members })
    }

    /// Checks the brokers of the configured cluster.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn check_broker(&self) -> Result<BrokerCheck, MemberError> {
        let config = ClusterConfig::load(&self.paths)?;
        let store = open(&config).await?;
        BrokerCheck::run(store.connection(), store.streams(), first_broker(&config)).await
    }

    fn server_status(&self) -> Result<Option<MemberStatus>, MemberError> {
        MemberStatus::read(&self.paths).map_err(|error| MemberError::read(&self.paths.status(), &error))
    }
}

async fn open(config: &ClusterConfig) -> Result<NatsStore, MemberError> {
    let connection = Connection::open(&config.broker_options()?).await?;
    Ok(NatsStore::new(connection, Streams::new(config.cluster.clone())))
}

async fn list(config: &ClusterConfig) -> Result<MemberList, MemberError> {
    Ok(MemberList::new(open(config).await?.present_machines().await?))
}

fn first_broker(config: &ClusterConfig) -> &str {
    config.brokers.first().map_or("", String::as_str)
}
