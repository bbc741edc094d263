//! `nerve cluster init`, `join` and `leave`, and the check of the brokers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_cli::cluster::JoinArgs;
use nerve_commands::failure::{FAILED, Failure, TIMED_OUT, USAGE};
use nerve_commands::out;
use nerve_member::{BrokerCheck, ClusterConfig, Creation, Durability, MemberPaths, MemberState, Membership};
use nerve_server::daemon::{NameStatus, holder};
use nerve_server::paths::ServerPaths;
use serde_json::json;

use crate::failure;

/// Time limit for a running server to become a member, in addition to the time of the lease.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the brokers of this machine's cluster; `None` if it is in none.
///
/// # Errors
/// The brokers do not reply, or they do not keep each record safe.
pub async fn diagnose(paths: &ServerPaths) -> Option<Result<String, Failure>> {
    let membership = commands(paths);
    if !membership.is_configured() {
        return None;
    }
    Some(membership.check_broker().await.map_err(failure).and_then(describe))
}

fn describe(check: BrokerCheck) -> Result<String, Failure> {
    if let Some(difference) = check.differences.first() {
        let message = format!("the streams have other settings: {difference}");
        return Err(Failure::new(FAILED, message).hint("remove the streams, and create the cluster again"));
    }
    match check.durability {
        Durability::Replicated => Ok(format!("nats-server {}, three replicas", check.version)),
        Durability::OneBroker => {
            let message = format!("nats-server {}, one broker has each record", check.version);
            let hint = "its disk can lose records: use three brokers, or 'sync_interval: always' in its jetstream block";
            Err(Failure::new(FAILED, message).hint(hint))
        }
    }
}

/// Joins a cluster, and waits for a running server to do so.
pub(crate) async fn join(
    paths: &ServerPaths,
    membership: &Membership,
    args: JoinArgs,
    creation: Creation,
    prints_json: bool,
) -> Result<()> {
    let config = configure(args)?;
    let check =
        out::progress("asking the broker", membership.join(&config, creation)).await.map_err(failure)?;
    let is_running = matches!(holder(paths, &config.server)?, NameStatus::Held(_));
    let server = match is_running {
        false => None,
        true => {
            let timeout = Duration::from_secs(config.lease_seconds) + JOIN_TIMEOUT;
            let joined = membership.wait_until_member(timeout);
            let server = out::progress("joining", joined).await.map_err(failure)?;
            Some(
                server
                    .filter(|status| status.state == MemberState::Member)
                    .ok_or_else(|| late_server(&config))?,
            )
        }
    };
    if prints_json {
        let (cluster, machine) = (config.cluster.to_string(), &config.machine);
        return out::json(&json!({
            "cluster_name": cluster, "machine_name": machine, "member": server.is_some(), "promise": check.durability,
        }));
    }
    out::line(format_args!("machine '{}' is in cluster '{}'", config.machine, config.cluster))?;
    if server.is_none() {
        out::note(format_args!("its server is not running: nerve server start --name {}", config.server));
    }
    if check.durability == Durability::OneBroker {
        out::note("one broker has each record; 'nerve doctor' explains what that means");
    }
    Ok(())
}

/// Returns the error of a server that does not follow the new configuration.
fn late_server(config: &ClusterConfig) -> Failure {
    let message =
        format!("server '{}' did not become a member in time; the configuration is saved", config.server);
    Failure::new(TIMED_OUT, message).hint(
        "see 'nerve cluster status'; a server of an older build must be restarted: nerve server restart",
    )
}

/// Leaves the cluster.
pub(crate) async fn leave(membership: &Membership, prints_json: bool) -> Result<()> {
    let is_ended = out::progress("leaving", membership.leave()).await.map_err(failure)?;
    if prints_json {
        return out::json(&json!({ "left": true, "server_ended": is_ended }));
    }
    out::line("this machine has left the cluster")?;
    if !is_ended {
        out::warning("its server still uses the membership: nerve server restart");
    }
    Ok(())
}

/// Removes a machine that no longer exists.
pub(crate) async fn remove(membership: &Membership, name: &str, prints_json: bool) -> Result<()> {
    out::progress("asking the broker", membership.remove(name)).await.map_err(failure)?;
    if prints_json {
        return out::json(&json!({ "machine_name": name, "removed": true }));
    }
    out::line(format_args!("machine '{name}' is removed"))
}

/// Creates the configuration. Paths become absolute, because the server has another working directory.
fn configure(args: JoinArgs) -> Result<ClusterConfig> {
    let absolute = |path: Option<PathBuf>| {
        path.map(std::path::absolute).transpose().context("cannot find the current directory")
    };
    let cluster = args.cluster.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
    Ok(ClusterConfig {
        cluster,
        machine: args.name,
        server: args.server,
        brokers: args.brokers,
        credentials: absolute(args.credentials)?,
        ca: absolute(args.ca)?,
        certificate: absolute(args.certificate)?,
        key: absolute(args.key)?,
        slots: args.slots,
        labels: args.labels.into_iter().collect(),
        lease_seconds: args.lease,
    })
}

/// Returns the commands of this machine's membership.
pub(crate) fn commands(paths: &ServerPaths) -> Membership {
    Membership::new(MemberPaths::new(&paths.config, &paths.state))
}
