//! `nerve fan-out pick`: merges an attempt into the current branch.

use anyhow::Result;
use nerve_client::NerveClient;
use nerve_fan_out::fan_out::FanOut;
use nerve_fan_out::merge::{find_target, merge};
use nerve_fan_out::removal::{check_idle, remove};
use nerve_fan_out::store::Store;
use serde_json::json;

use super::removal_report::{failed_to_json, print};
use crate::out;
use nerve_cli::fan_out::RemovalOptions;

/// Merges the attempt, and removes the other ones.
pub(super) async fn pick(
    client: Option<&NerveClient>,
    store: &Store,
    fan_out: &mut FanOut,
    index: usize,
    options: RemovalOptions,
    as_json: bool,
) -> Result<()> {
    let attempt = fan_out.attempts[index].clone();
    let git = find_target(fan_out)?;
    let others: Vec<usize> = (0..fan_out.attempts.len()).filter(|other| *other != index).collect();
    if !options.force {
        check_idle(client, fan_out).await?;
    }
    let summary = merge(&git, fan_out, &attempt)?;
    if !as_json {
        out::line(&summary)?;
    }
    let report = remove(client, store, fan_out, &others, options.discard).await?;
    if as_json {
        out::json(&json!({
            "name": fan_out.name, "picked": attempt.label, "node_id": attempt.node, "branch": attempt.branch,
            "merged_into": git.branch()?, "commit": git.head()?, "removed": report.removed,
            "kept": failed_to_json(&report), "branches": report.kept_branches,
        }))?;
    }
    let result = print(&report);
    if attempt.worktree.is_dir() && !as_json {
        let (node, name, options) = (&attempt.node, &fan_out.name, fan_out.node_options());
        out::note(format_args!(
            "{} stays: continue with 'nerve send{options} {node}', or remove it with 'nerve fan-out clean {name}'",
            attempt.label
        ));
    }
    Ok(result?)
}
