//! A build without the feature `cluster`.

use anyhow::Result;
use nerve_cli::cluster::ClusterArgs;
use nerve_cli::graph::RunArgs;
use nerve_cli::machine::{DrainArgs, UndrainArgs};
use nerve_engine::Engine;
use nerve_graph::file::GraphFile;
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use crate::exit::{FAILED, Failure};

/// Fails: this build has no clusters.
pub(crate) async fn run(_args: ClusterArgs) -> Result<()> {
    Err(unsupported().into())
}

/// Fails: this build has no clusters.
pub(crate) async fn run_graph(_: &GraphFile, _: Value, _: &RunArgs, _: bool) -> Result<()> {
    Err(unsupported().into())
}

/// Fails: this build has no clusters.
pub(crate) async fn drain(_: &DrainArgs, _: bool) -> Result<()> {
    Err(unsupported().into())
}

/// Fails: this build has no clusters.
pub(crate) async fn undrain(_: &UndrainArgs, _: bool) -> Result<()> {
    Err(unsupported().into())
}

/// Returns the problem of a machine that has the configuration of a cluster; `None` without one.
pub(crate) async fn diagnose(paths: &ServerPaths) -> Option<Result<String, Failure>> {
    paths.config.join("cluster.toml").exists().then(|| Err(unsupported()))
}

/// The membership of a server: none.
pub(crate) struct ServerMembership;

impl ServerMembership {
    /// Does nothing.
    pub(crate) fn start(_: &ServerPaths, _: &str, _: &Engine) -> ServerMembership {
        ServerMembership
    }

    /// Does nothing.
    pub(crate) async fn stop(self) {}
}

fn unsupported() -> Failure {
    Failure::new(FAILED, "this build has no cluster support")
        .hint("build it with the feature: cargo install --path crates/nerve --locked --features cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn configuration_of_a_cluster_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(folder.path());
        assert!(diagnose(&paths).await.is_none());
        std::fs::write(folder.path().join("cluster.toml"), "").unwrap();
        let failure = diagnose(&paths).await.unwrap().unwrap_err();
        assert!(failure.hint.unwrap().contains("--features cluster"));
    }
}
