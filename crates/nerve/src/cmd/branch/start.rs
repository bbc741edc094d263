//! A branch's node: its name, and its start.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use nerve_api::request::{CommandLine, CreateNode};
use nerve_client::{ClientError, NerveClient, RemoteNode};
use nerve_core::fork::branch::Branch;

use super::environment::Inherited;
use super::plan::Plan;
use crate::exit::{FAILED, Failure};

/// A node's name has at most so many characters.
const NAME_LIMIT: usize = 32;
/// Of names that are taken when the node is to be started, so many are tried.
const NAMES: usize = 100;
/// What the server says of a name that is taken, and of what broke in it.
const TAKEN_NAME: &str = "already_exists_error";
const BROKEN: &str = "internal_error";

/// No node was made, as far as is known.
pub(super) struct NotMade {
    pub(super) error: anyhow::Error,
    /// The name of one that may have been made all the same.
    pub(super) perhaps: Option<String>,
}

impl From<anyhow::Error> for NotMade {
    fn from(error: anyhow::Error) -> NotMade {
        NotMade { error, perhaps: None }
    }
}

/// Starts the node, under this name or, if that may be, under another one should somebody have taken this one meanwhile.
pub(super) async fn start(
    client: &NerveClient,
    plan: &Plan,
    inherited: &Inherited,
    mut node: String,
) -> Result<(RemoteNode, String), NotMade> {
    let mut taken = BTreeSet::new();
    loop {
        let error = match client.create_node(&params(plan, &node, inherited)?).await {
            Ok(made) => return Ok((made, node)),
            Err(error) => error,
        };
        let is_taken = error.server().is_some_and(|error| error.error_type == TAKEN_NAME);
        if plan.node.is_ok() || !is_taken || taken.len() >= NAMES {
            let perhaps = may_be_done(&error).then_some(node);
            return Err(NotMade { error: error.into(), perhaps });
        }
        // One that is only being started is in no list yet.
        taken.insert(node);
        node = free(client, plan, &taken).await?;
    }
}

/// What was asked may have been done: its answer is lost.
fn may_be_done(error: &ClientError) -> bool {
    match error {
        ClientError::Closed(unanswered) => unanswered.sent,
        ClientError::Protocol(_) => true,
        ClientError::Server(error) => error.error_type == BROKEN,
        ClientError::NotRunning { .. } | ClientError::Io { .. } => false,
    }
}

/// The name that was asked for, if it is free; else one that is, and that is not among those.
pub(super) async fn free(client: &NerveClient, plan: &Plan, taken: &BTreeSet<String>) -> Result<String> {
    let nodes = client.list_nodes(plan.session.as_deref()).await;
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return Err(error.into()),
    };
    match &plan.node {
        Err(base) => Ok(named(base, |name| taken.contains(name) || nodes.iter().any(|node| node.id == name))),
        Ok(name) if nodes.iter().any(|node| node.id == *name && node.state != "stopped") => {
            let message = format!("node '{name}' exists already on server '{}'", plan.server);
            Err(Failure::new(FAILED, message).hint("stop it first, or take another name with --node").into())
        }
        Ok(name) => Ok(name.clone()),
    }
}

/// `BASE-branch`, `BASE-branch-2` and so on; branches of branches are counted with them.
pub(super) fn named(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let base = match base.rsplit_once("-branch") {
        Some((base, end)) if end.is_empty() || end.strip_prefix('-').is_some_and(is_number) => base,
        _ => base,
    };
    let plain: String =
        base.to_ascii_lowercase().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let mut number = 1_u64;
    loop {
        let end = if number == 1 { "-branch".to_string() } else { format!("-branch-{number}") };
        let base: String = plain.trim_matches('-').chars().take(NAME_LIMIT - end.len()).collect();
        let name = format!("{}{end}", base.trim_end_matches('-'));
        let name = name.trim_start_matches('-').to_string();
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

fn params(plan: &Plan, node: &str, inherited: &Inherited) -> Result<CreateNode> {
    let Branch { command, env, .. } = &plan.branch;
    let cwd = plan.cwd.to_str().with_context(|| format!("{} is not UTF-8", plan.cwd.display()))?;
    Ok(CreateNode {
        session_id: plan.session.clone(),
        command: Some(CommandLine::Argv(command.clone())),
        cwd: Some(cwd.to_string()),
        env: env.clone().into_iter().chain(plan.asked.env.clone()).collect(),
        proxy: plan.asked.proxy.clone(),
        like: inherited.like.clone(),
        cols: Some(plan.size.cols),
        rows: Some(plan.size.rows),
        profile: Some(plan.profile.clone()),
        ..CreateNode::new(node)
    })
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_name_is_made_of_the_recorded_nodes_and_is_free() {
        let name = |base: &str, taken: &[&str]| named(base, |name| taken.contains(&name));
        assert_eq!(name("me", &[]), "me-branch");
        assert_eq!(name("me", &["me-branch"]), "me-branch-2");
        assert_eq!(name("me-branch-2", &["me-branch", "me-branch-2"]), "me-branch-3");
        assert_eq!(name("My Agent_", &[]), "myagent-branch");
        assert_eq!(name("ä", &[]), "branch");
        assert_eq!(name(&"x".repeat(40), &[]), format!("{}-branch", "x".repeat(25)));
    }
}
