//! `node fork`: creates a node with the conversation of another one.

use anyhow::Result;
use nerve_api::reply::NodeForked;
use nerve_api::request::ForkNode;
use nerve_client::NerveClient;

use super::Target;
use super::args::ForkArgs;
use crate::out;

/// Maximum length of a node name, in characters.
const NAME_LIMIT: usize = 32;

/// Forks a node.
pub(super) async fn run(target: &Target, args: ForkArgs) -> Result<()> {
    let session_id = target.session.clone();
    let source_id = source(&args.node).to_string();
    let target_id = match args.target {
        Some(name) => name,
        None => free_name(&target.client, session_id.as_deref(), &source_id).await?,
    };
    let params = ForkNode { source_id, target_id, at: args.at, session_id };
    target
        .request_and_print(&params, |NodeForked { node_id, forked_from }| {
            out::line(format_args!("node '{node_id}' forked from '{forked_from}'"))
        })
        .await
}

/// Strips the `@` that may precede a node name.
pub(crate) fn source(node: &str) -> &str {
    node.strip_prefix('@').unwrap_or(node)
}

/// Returns an unused name for a fork.
pub(crate) async fn free_name(client: &NerveClient, session: Option<&str>, source: &str) -> Result<String> {
    let nodes = client.list_nodes(session).await?;
    Ok(name_for(source, |name| nodes.iter().any(|node| node.node_id == name)))
}

/// Returns the first free name of `SRC-fork`, `SRC-fork-2` …; forks of forks share the numbering.
fn name_for(source: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let base = match source.rsplit_once("-fork") {
        Some((base, end)) if end.is_empty() || end.strip_prefix('-').is_some_and(is_number) => base,
        _ => source,
    };
    let mut number = 1_u64;
    loop {
        let end = if number == 1 { "-fork".to_string() } else { format!("-fork-{number}") };
        let base: String = base.chars().take(NAME_LIMIT - end.len()).collect();
        let name = format!("{}{end}", base.trim_end_matches('-'));
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_free_name_from_source() {
        let name = |source: &str, taken: &[&str]| name_for(source, |name| taken.contains(&name));
        assert_eq!(name("me", &[]), "me-fork");
        assert_eq!(name("me", &["me-fork"]), "me-fork-2");
        assert_eq!(name("me-fork", &["me-fork"]), "me-fork-2");
        assert_eq!(name("me-fork-2", &["me-fork", "me-fork-2"]), "me-fork-3");
        assert_eq!(name("my-forks", &[]), "my-forks-fork");
        let long = "x".repeat(32);
        assert_eq!(name(&long, &[]), format!("{}-fork", "x".repeat(27)));
        assert_eq!(name(&format!("{}-y", "x".repeat(26)), &[]).len(), 31, "no dash before a dash");
        assert_eq!(source("@me"), "me");
    }
}
