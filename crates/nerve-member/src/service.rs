//! The part of a server that makes its machine a member, as long as the configuration says so.

use std::time::Duration;

use nerve_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::config::ClusterConfig;
use crate::driver;
use crate::error::MemberError;
use crate::fingerprint::Fingerprint;
use crate::identity::Identity;
use crate::paths::MemberPaths;
use crate::status::StatusFile;
use crate::step_executor::StepExecutor;

/// Time limit for an earlier process of this machine to end its membership, in one attempt.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before another attempt to begin a membership.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Follows the configuration: while it names `server`, this process is a member, whose steps `engine` executes. Returns after `stop`,
/// with the lease released.
pub async fn serve(paths: MemberPaths, server: String, engine: Engine, stop: CancellationToken) {
    while !stop.is_cancelled() {
        // The fingerprint precedes the content, so that a change in between is noticed.
        let mut fingerprint = Fingerprint::read(vec![paths.config()]);
        let config = ClusterConfig::load(&paths);
        fingerprint.extend(config.iter().flat_map(ClusterConfig::files).cloned().collect());
        let is_retried = match config {
            Ok(config) if config.server == server => {
                let result = follow(&paths, &config, &engine, &fingerprint, &stop).await;
                result.inspect_err(log).is_err()
            }
            Ok(_) | Err(MemberError::NotConfigured) => false,
            Err(error) => {
                log(&error);
                false
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = fingerprint.changed() => {}
            () = tokio::time::sleep(RETRY_DELAY), if is_retried => {}
        }
    }
}

/// Runs the membership until `stop` or a change of the configuration.
async fn follow(
    paths: &MemberPaths,
    config: &ClusterConfig,
    engine: &Engine,
    fingerprint: &Fingerprint,
    stop: &CancellationToken,
) -> Result<(), MemberError> {
    let options = config.broker_options()?;
    let identity_paths = paths.clone();
    let taken = tokio::task::spawn_blocking(move || Identity::take(&identity_paths, IDENTITY_TIMEOUT)).await;
    let identity = taken.map_err(|error| MemberError::invalid("state", error))??;
    let status = StatusFile::create(paths.clone(), config, identity.instance);
    let end = stop.child_token();
    let steps = StepExecutor::new(engine.clone(), config.slots);
    let membership = driver::run(config, &options, identity.instance, steps, status, &end);
    tokio::pin!(membership);
    tokio::select! {
        () = &mut membership => {}
        () = fingerprint.changed() => {
            end.cancel();
            membership.await;
        }
    }
    drop(identity);
    Ok(())
}

fn log(error: &MemberError) {
    tracing::error!(%error, hint = error.hint(), "cannot join the cluster");
}
