//! Names and starts the node of a branch.

use std::collections::BTreeSet;

use nerve_api::request::{CommandLine, CreateNode, ListNodes};
use nerve_api::value::NodeState;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_transcript::recorded::branch::Branch;
use nerve_types::name::numbered;

use super::environment::InheritedSettings;
use super::plan::{NodeName, Plan};
use super::server::NodeServer;

/// Maximum number of names to try.
const MAX_NAMES: usize = 100;

/// A failed start. The node may have been created all the same.
pub(super) struct StartFailure {
    pub(super) error: EngineError,
    /// Name of a node that may have been created.
    pub(super) possible_node: Option<String>,
}

/// Starts the node and returns its name. If its name was derived and has been taken meanwhile, tries other names.
pub(super) async fn start(
    server: &impl NodeServer,
    plan: &Plan,
    inherited: &InheritedSettings,
    mut node: String,
) -> Result<String, StartFailure> {
    let mut taken = BTreeSet::new();
    let not_started = |error| StartFailure { error, possible_node: None };
    loop {
        let request = params(plan, &node, inherited).map_err(not_started)?;
        let failure = match server.create_node(request).await {
            Ok(()) => return Ok(node),
            Err(failure) => failure,
        };
        let is_taken = failure.error.kind == ErrorKind::AlreadyExists;
        let is_requested = matches!(plan.node, NodeName::Requested(_));
        if is_requested || !is_taken || taken.len() >= MAX_NAMES {
            let possible_node = failure.may_exist.then_some(node);
            return Err(StartFailure { error: failure.error, possible_node });
        }
        // A node that is being started is not listed yet.
        taken.insert(node);
        node = free_name(server, plan, &taken).await.map_err(not_started)?;
    }
}

/// Returns the requested name, or a derived one that is unused and not in `taken`.
pub(super) async fn free_name(
    server: &impl NodeServer,
    plan: &Plan,
    taken: &BTreeSet<String>,
) -> Result<String, EngineError> {
    let nodes =
        server.list_nodes(ListNodes { session_id: plan.session.clone(), ..ListNodes::default() }).await?;
    match &plan.node {
        NodeName::DerivedFrom(base) => Ok(derive_name(base, |name| {
            taken.contains(name) || nodes.iter().any(|node| node.node_id == name)
        })),
        NodeName::Requested(name)
            if nodes.iter().any(|node| node.node_id == *name && node.state != NodeState::Stopped) =>
        {
            let message = format!("node '{name}' already exists on server '{}'", plan.server);
            Err(EngineError::already_exists(message)
                .hint("stop it first, or choose another name with `target_id`"))
        }
        NodeName::Requested(name) => Ok(name.clone()),
    }
}

/// Returns the first unused name of `BASE-branch`, `BASE-branch-2` and so on. Omits from the base what names cannot have.
pub(super) fn derive_name(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let plain: String =
        base.to_ascii_lowercase().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let name = numbered(plain.trim_matches('-'), "branch", |name| is_taken(name.trim_start_matches('-')));
    name.trim_start_matches('-').to_string()
}

fn params(plan: &Plan, node: &str, inherited: &InheritedSettings) -> Result<CreateNode, EngineError> {
    let Branch { command, env, .. } = &plan.branch;
    if plan.cwd.to_str().is_none() {
        return Err(EngineError::process(format!("{} is not UTF-8", plan.cwd.display())));
    }
    Ok(CreateNode {
        session_id: plan.session.clone(),
        command: Some(CommandLine::Argv(command.clone())),
        cwd: Some(plan.cwd.clone()),
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
