//! `nerve doctor`: checks this machine for nerve's requirements.

mod agents;
mod check;
mod hosts;
mod machine;
mod programs;
mod report;
mod servers;

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use serde_json::json;

use self::check::Check;
use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::local_commands::DoctorArgs;

/// Runs all checks and prints the results.
pub(crate) async fn run(args: &DoctorArgs) -> Result<()> {
    if args.agents {
        return agents::run(args.json, args.timeout.0).await;
    }
    let paths = ServerPaths::from_env();
    if args.fix {
        hosts::repair(&paths).await;
        servers::repair(&paths).await;
    }
    let mut checks = machine::check_machine(&paths);
    checks.extend(out::progress("checking versions", programs::check_programs()).await);
    checks.extend(programs::check_multiplexers().await);
    let running = super::server::status::running(&paths).await;
    let running = if running.is_empty() { "none running".to_string() } else { running.join(", ") };
    checks.push(Check::new("servers", Ok(running)));
    checks.extend(super::cluster::diagnose(&paths).await.map(new_cluster_check));
    if args.report {
        return report::run(args, &checks).await;
    }
    let missing: Vec<&str> = checks
        .iter()
        .filter(|check| check.is_essential && !check.is_ok)
        .map(|check| check.name.as_str())
        .collect();
    if args.json {
        let list: Vec<_> = checks.iter().map(check::to_json).collect();
        out::json(
            &json!({ "ok": missing.is_empty(), "version": env!("CARGO_PKG_VERSION"), "checks": list }),
        )?;
    } else {
        check::print(&checks)?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(FAILED, format!("essential checks failed: {}", missing.join(", "))).into())
}

/// Creates the check of the brokers of this machine's cluster, from its result or the problem and what helps.
fn new_cluster_check(result: Result<String, Failure>) -> Check {
    match result {
        Ok(detail) => Check::new("cluster", Ok(detail)),
        Err(failure) => {
            Check { hint: failure.hint.clone(), ..Check::new("cluster", Err(failure.to_string())) }
        }
    }
}
