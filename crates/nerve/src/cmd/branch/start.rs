//! Names and starts the node of a branch.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use nerve_api::ErrorKind;
use nerve_api::request::{CommandLine, CreateNode};
use nerve_api::value::NodeState;
use nerve_client::{ClientError, NerveClient, RemoteNode};
use nerve_core::fork::branch::Branch;

use super::environment::InheritedSettings;
use super::plan::Plan;
use crate::exit::{FAILED, Failure};

/// Maximum length of a node name, in characters.
const MAX_NAME_LEN: usize = 32;
/// Maximum number of names to try.
const MAX_NAMES: usize = 100;

/// The node was not started, or it is unknown whether it was.
pub(super) struct StartFailure {
    pub(super) error: anyhow::Error,
    /// Name of a node that may have been created.
    pub(super) possible_node: Option<String>,
}

impl From<anyhow::Error> for StartFailure {
    fn from(error: anyhow::Error) -> StartFailure {
        StartFailure { error, possible_node: None }
    }
}

/// Starts the node. If its name was derived and has been taken meanwhile, tries other names.
pub(super) async fn start(
    client: &NerveClient,
    plan: &Plan,
    inherited: &InheritedSettings,
    mut node: String,
) -> Result<(RemoteNode, String), StartFailure> {
    let mut taken = BTreeSet::new();
    loop {
        let error = match client.create_node(&params(plan, &node, inherited)?).await {
            Ok(made) => return Ok((made, node)),
            Err(error) => error,
        };
        let is_taken = error.server().is_some_and(|error| error.error_type == ErrorKind::AlreadyExists);
        if plan.node.is_ok() || !is_taken || taken.len() >= MAX_NAMES {
            let possible_node = may_have_taken_effect(&error).then_some(node);
            return Err(StartFailure { error: error.into(), possible_node });
        }
        // A node that is being started is not listed yet.
        taken.insert(node);
        node = free_name(client, plan, &taken).await?;
    }
}

/// Returns true if the request may have taken effect although its reply is missing.
fn may_have_taken_effect(error: &ClientError) -> bool {
    match error {
        ClientError::Closed(unanswered) => unanswered.sent,
        ClientError::Protocol(_) => true,
        ClientError::Server(error) => error.error_type == ErrorKind::Internal,
        ClientError::NotRunning { .. } | ClientError::Io { .. } => false,
    }
}

/// Returns the requested name, or a derived one that is unused and not in `taken`.
pub(super) async fn free_name(client: &NerveClient, plan: &Plan, taken: &BTreeSet<String>) -> Result<String> {
    let nodes = client.list_nodes(plan.session.as_deref()).await;
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return Err(error.into()),
    };
    match &plan.node {
        Err(base) => {
            Ok(derive_name(base, |name| taken.contains(name) || nodes.iter().any(|node| node.id == name)))
        }
        Ok(name) if nodes.iter().any(|node| node.id == *name && node.state != NodeState::Stopped) => {
            let message = format!("node '{name}' already exists on server '{}'", plan.server);
            Err(Failure::new(FAILED, message)
                .hint("stop it first, or choose another name with --node")
                .into())
        }
        Ok(name) => Ok(name.clone()),
    }
}

/// Returns the first unused name of `BASE-branch`, `BASE-branch-2` and so on. A base that is itself a branch name is
/// not extended.
pub(super) fn derive_name(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
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
        let base: String = plain.trim_matches('-').chars().take(MAX_NAME_LEN - end.len()).collect();
        let name = format!("{}{end}", base.trim_end_matches('-'));
        let name = name.trim_start_matches('-').to_string();
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

fn params(plan: &Plan, node: &str, inherited: &InheritedSettings) -> Result<CreateNode> {
    let Branch { command, env, .. } = &plan.branch;
    let cwd = plan.cwd.to_str().with_context(|| format!("{} is not UTF-8", plan.cwd.display()))?;
    Ok(CreateNode {
        session_id: plan.session.clone(),
        command: Some(CommandLine::Argv(command.clone())),
        cwd: Some(cwd.to_string()),
        env: env.clone().into_iter().chain(plan.overrides.env.clone()).collect(),
        proxy: plan.overrides.proxy.clone(),
        inherit: inherited.inherit.clone(),
        cols: Some(plan.size.cols),
        rows: Some(plan.size.rows),
        profile: Some(plan.profile.clone()),
        ..CreateNode::new(node)
    })
}

#[cfg(test)]
mod tests {
    use super::derive_name;

    #[test]
    fn derived_name_is_unused() {
        let name = |base: &str, taken: &[&str]| derive_name(base, |name| taken.contains(&name));
        assert_eq!(name("me", &[]), "me-branch");
        assert_eq!(name("me", &["me-branch"]), "me-branch-2");
        assert_eq!(name("me-branch-2", &["me-branch", "me-branch-2"]), "me-branch-3");
        assert_eq!(name("My Agent_", &[]), "myagent-branch");
        assert_eq!(name("ä", &[]), "branch");
        assert_eq!(name(&"x".repeat(40), &[]), format!("{}-branch", "x".repeat(25)));
    }
}
