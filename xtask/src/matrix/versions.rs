//! The versions of an agent to test.

use std::fs;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::project::{self, Project};

/// Number of published versions.
const LAST: usize = 8;

/// Returns the last published versions, the pinned one and the oldest one that the agent's profile claims, newest first.
pub(super) fn to_test(
    project: &Project,
    agent: &str,
    package: &str,
    pinned: &[(String, String)],
) -> anyhow::Result<Vec<String>> {
    let listed = project::output(Command::new("npm").args(["view", package, "versions", "--json"]))?;
    let listed: Value = serde_json::from_slice(&listed)?;
    let listed = listed.as_array().with_context(|| format!("npm lists no versions of {package}"))?;
    let mut published: Vec<&str> =
        listed.iter().filter_map(Value::as_str).filter(|version| parts(version).is_some()).collect();
    published.sort_by_key(|version| std::cmp::Reverse(parts(version)));
    published.truncate(LAST);
    let mut versions: Vec<String> = published.into_iter().map(String::from).collect();
    versions.extend(pinned.iter().filter(|(name, _)| name == package).map(|(_, version)| version.clone()));
    versions.extend(oldest(project, agent)?);
    versions.sort_by_key(|version| std::cmp::Reverse(parts(version)));
    versions.dedup();
    Ok(versions)
}

/// Returns the numbers of a version that is no pre-release.
pub(super) fn parts(version: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Returns the oldest version that the profile claims.
fn oldest(project: &Project, agent: &str) -> anyhow::Result<Option<String>> {
    let file = project.root.join(format!("crates/nerve-agent/profiles/{agent}.toml"));
    let profile = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let Some((_, range)) = profile.split_once("\n[versions]\n") else { return Ok(None) };
    let oldest = range.lines().find_map(|line| line.strip_prefix("oldest = \"")?.strip_suffix('"'));
    match oldest {
        Some(oldest) => Ok(Some(oldest.to_string())),
        None => bail!("{} has a table [versions] without `oldest`", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_releases_are_no_versions() {
        assert_eq!(parts("0.169.0"), Some([0, 169, 0]));
        assert_eq!(parts("0.170.0-alpha.1"), None);
        assert!(parts("0.99.0") < parts("0.100.0"));
    }
}
