//! `cargo xtask agents`: generates the compatibility table of agents and versions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::project::{self, Project};
use crate::{agents, bench};

/// Page that contains the table.
const PAGE: &str = "docs/agents.md";
/// Line before the table.
const BEGIN: &str = "<!-- agents: written by `cargo xtask agents`; changes by hand are lost -->";
const END: &str = "<!-- agents: end -->";

/// Options of `cargo xtask agents`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Packages and versions to test instead of the pinned ones.
    packages: Vec<(String, String)>,
    /// Folder of installed programs to test.
    bin: Option<PathBuf>,
    /// Tests only this agent.
    only: Option<String>,
}

impl Options {
    fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--package" | "--versions" => {
                    for pair in value()?.split(',') {
                        options.packages.push(package(pair)?);
                    }
                }
                "--bin" => options.bin = Some(PathBuf::from(value()?)),
                "--only" => options.only = Some(value()?.clone()),
                other => bail!(
                    "unknown option '{other}' of agents; there are --package, --versions, --bin and --only"
                ),
            }
        }
        if options.bin.is_some() && !options.packages.is_empty() {
            bail!(
                "--bin and --package exclude each other: --bin tests installed programs, --package installs some"
            );
        }
        Ok(options)
    }
}

/// Parses `NAME=VERSION`; NAME is an npm package or an agent.
fn package(pair: &str) -> anyhow::Result<(String, String)> {
    let (name, version) = pair.split_once('=').with_context(|| format!("'{pair}' is not NAME=VERSION"))?;
    let known = agents::PACKAGES.iter().find(|(agent, package)| name == *agent || name == *package);
    let Some((_, package)) = known else {
        let names: Vec<&str> = agents::PACKAGES.iter().map(|(agent, _)| *agent).collect();
        bail!("unknown agent '{name}'; there are {}", names.join(", "));
    };
    // The version is written into a JSON file for npm.
    let is_version = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    if version.is_empty() || !version.chars().all(is_version) {
        bail!("'{version}' is no version");
    }
    Ok((package.to_string(), version.to_string()))
}

/// Tests the agents. Writes the table for the pinned versions, prints it for others.
pub(crate) fn run(project: &Project, args: &[String]) -> anyhow::Result<bool> {
    let options = Options::parse(args)?;
    let is_pinned = options.bin.is_none() && options.packages.is_empty();
    let bin = match &options.bin {
        Some(bin) => fs::canonicalize(bin).with_context(|| format!("no folder {}", bin.display()))?,
        None if is_pinned => {
            agents::install(project)?;
            project.agents_bin()
        }
        None => agents::install_others(project, &options.packages)?,
    };
    let table = tried(project, &bin, options.only.as_deref())?;
    println!("{table}");
    if is_pinned && options.only.is_none() {
        let page = project.root.join(PAGE);
        let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
        fs::write(&page, with_table(&text, &table)?).with_context(|| format!("cannot write {PAGE}"))?;
        println!("written: {PAGE}");
    }
    Ok(!table.contains('✗') && !table.contains("| – |"))
}

/// Runs the benchmark program `agents`, which tests the agents.
fn tried(project: &Project, bin: &Path, only: Option<&str>) -> anyhow::Result<String> {
    let artifacts = bench::build_only(project, "agents")?;
    let program = bench::program(&artifacts, "agents").context("cargo built no such program")?;
    let mut command = project.command(program);
    command.arg("--table").env("NERVE_TEST_AGENTS", bin);
    if let Some(only) = only {
        command.args(["--only", only]);
    }
    let table = String::from_utf8(project::output(&mut command)?)?;
    if !table.starts_with("| agent |") {
        bail!("it printed no table");
    }
    Ok(table.trim_end().to_string())
}

/// Returns the page with the table replaced.
fn with_table(page: &str, table: &str) -> anyhow::Result<String> {
    let missing = || format!("{PAGE} has no place for the table: `{BEGIN}` and `{END}`");
    let (before, rest) = page.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn package_option_accepts_agent_or_package_name() {
        let options =
            parse(&["--versions", "codex=0.160.0,gemini=0.60.0", "--package", "opencode-ai=1.18.0-rc.1"])
                .unwrap();
        let packages: Vec<String> =
            options.packages.iter().map(|(name, version)| format!("{name}@{version}")).collect();
        assert_eq!(
            packages,
            ["@openai/codex@0.160.0", "@google/gemini-cli@0.60.0", "opencode-ai@1.18.0-rc.1"]
        );
        for bad in [
            &["--package", "vim=9"][..],
            &["--package", "codex"],
            &["--package", "codex=\"x"],
            &["--bin"],
            &["x"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse(&["--bin", "/x", "--package", "codex=1"]).is_err());
    }

    #[test]
    fn replaces_old_table() {
        let page = format!("# A\n\n{BEGIN}\n\nold\n\n{END}\n\nmore\n");
        assert_eq!(with_table(&page, "new").unwrap(), format!("# A\n\n{BEGIN}\n\nnew\n\n{END}\n\nmore\n"));
        assert!(with_table("# A\n", "new").is_err());
    }

    #[test]
    fn committed_page_has_table_markers() {
        let project = Project::find().unwrap();
        let page = fs::read_to_string(project.root.join(PAGE)).unwrap();
        assert!(with_table(&page, "x").is_ok());
    }
}
