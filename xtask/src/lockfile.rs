//! Checks that `Cargo.lock` is current and within its package budget.

use std::fs;

use anyhow::{Context, bail};

use crate::project::{self, Project, cargo_program};
use crate::report::Outcome;

/// Maximum number of packages of others; raising it needs a reason.
const BUDGET: usize = 374;

/// Checks the lockfile.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let file = project.root.join("Cargo.lock");
    let text = fs::read_to_string(&file).context("cannot read Cargo.lock")?;
    let count = packages(&text);
    if count > BUDGET {
        bail!("Cargo.lock holds {count} packages of others, the budget is {BUDGET}");
    }
    let tree = ["tree", "--locked", "--workspace", "--depth", "0", "--quiet"];
    project::output(project.command(cargo_program()).args(tree))?;
    if project.ci {
        // Building xtask may have updated an outdated lockfile, which then differs from the commit.
        project::run(project.command("git").args(["diff", "--exit-code", "--stat", "--", "Cargo.lock"]))
            .context("Cargo.lock is not the committed one")?;
    }
    Ok(Outcome::Passed(format!("{count} packages of others, at most {BUDGET}")))
}

/// Counts the packages that come from a registry. Those of the workspace have no source.
fn packages(lockfile: &str) -> usize {
    lockfile.lines().filter(|line| line.starts_with("source = ")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_workspace_are_not_counted() {
        let text = "version = 4\n\n[[package]]\nname = \"a\"\nsource = \"registry\"\n\n[[package]]\nname = \"b\"\ndependencies = [\n \"a\",\n]\n";
        assert_eq!(packages(text), 1);
    }
}
