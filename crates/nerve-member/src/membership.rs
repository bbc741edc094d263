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
use crate::identity::{Identity, ensure_machine_id, machine_id};
use crate::machine_name::MachineName;
use crate::member_list::{DrainState, MemberInfo, MemberList};
use crate::paths::MemberPaths;
use crate::status::{MemberState, MemberStatus};

/// Interval at which the files of a server are read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for a server to notice a configuration and to release its lease.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which the list of the members is read while a machine is drained.
const LIST_INTERVAL: Duration = Duration::from_millis(500);

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

    /// Checks the broker, takes the machine's name, frees its former ones and saves the configuration. A running server follows it.
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
        let present = store.present_machines().await?;
        let names = present.names.clone();
        let members = MemberList::new(present);
        let id = ensure_machine_id(&self.paths, LEAVE_TIMEOUT)?;
        if let Some(holder) = members.namesake(&config.machine, Some(id)) {
            return Err(MemberError::NameTaken { name: config.machine.clone(), holder });
        }
        MachineName::new(&store, &config.machine).claim(id).await?;
        // The machine still has a former name if it left while the broker was away.
        let is_former = |name: &str| name != config.machine && members.find(name).is_none();
        for (name, _) in names.iter().filter(|(name, holder)| holder.machine_id == id && is_former(name)) {
            MachineName::new(&store, name).release(id).await?;
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

    /// Removes the configuration, waits until the server has ended the membership, and makes the name free if the broker replies. Returns
    /// false if the server has not ended it in time.
    ///
    /// # Errors
    /// [`MemberError::NotConfigured`], or the file cannot be removed.
    pub async fn leave(&self) -> Result<bool, MemberError> {
        let path = self.paths.config();
        let config = ClusterConfig::load(&self.paths);
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
        if let Ok(config) = config
            && let Err(error) = self.release_name(&config).await
        {
            tracing::debug!(%error, "the name of this machine is not free: only this machine can take it");
        }
        Ok(true)
    }

    /// Drains a machine of the cluster, or ends its drain. A drained machine ends the steps that run, and begins no other; those that were
    /// offered to it go to other machines. It may be away. `None`: this machine.
    ///
    /// # Errors
    /// [`MemberError::NoMachine`], or see [`MemberError`].
    pub async fn set_drained(&self, name: Option<&str>, is_drained: bool) -> Result<String, MemberError> {
        let config = ClusterConfig::load(&self.paths)?;
        let store = open(&config).await?;
        let name = name.unwrap_or(&config.machine);
        let id = find(&store, name).await?;
        MachineName::new(&store, name).set_drained(id, is_drained).await?;
        Ok(name.to_string())
    }

    /// Waits until a drained machine executes no step, or is away. Returns its last description, unless it is away. A broker that is
    /// away for a while is waited for.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn wait_until_drained(&self, name: &str) -> Result<Option<MemberInfo>, MemberError> {
        let store = open(&ClusterConfig::load(&self.paths)?).await?;
        loop {
            match store.present_machines().await {
                Ok(present) => {
                    let member = MemberList::new(present).find(name).cloned();
                    if member.as_ref().is_none_or(|member| member.drain == Some(DrainState::Drained)) {
                        return Ok(member);
                    }
                }
                Err(error) if error.is_temporary() || error.is_startup() => {}
                Err(error) => return Err(error.into()),
            }
            sleep(LIST_INTERVAL).await;
        }
    }

    /// Frees a name that no member uses: its machine no longer exists, or has another name now.
    ///
    /// # Errors
    /// [`MemberError::NoMachine`], [`MemberError::IsMember`], or see [`MemberError`].
    pub async fn remove(&self, name: &str) -> Result<(), MemberError> {
        let store = open(&ClusterConfig::load(&self.paths)?).await?;
        let present = store.present_machines().await?;
        let holder = present.names.get(name).map(|holder| holder.machine_id);
        let is_member = MemberList::new(present).find(name).is_some();
        match holder {
            _ if is_member => Err(MemberError::IsMember(name.to_string())),
            Some(id) => MachineName::new(&store, name).release(id).await,
            None => Err(MemberError::NoMachine(name.to_string())),
        }
    }

    async fn release_name(&self, config: &ClusterConfig) -> Result<(), MemberError> {
        let Some(id) = machine_id(&self.paths)? else { return Ok(()) };
        MachineName::new(&open(config).await?, &config.machine).release(id).await
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

/// Returns the id of the machine with a name, which may be away.
async fn find(store: &NatsStore, name: &str) -> Result<MachineId, MemberError> {
    let list = MemberList::new(store.present_machines().await?);
    let present = list.find(name).map(|member| member.machine_id);
    let away = || list.away.iter().find(|away| away.machine_name == name).map(|away| away.machine_id);
    present.or_else(away).ok_or_else(|| MemberError::NoMachine(name.to_string()))
}

fn first_broker(config: &ClusterConfig) -> &str {
    config.brokers.first().map_or("", String::as_str)
}
