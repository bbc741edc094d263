//! Options of `cargo xtask matrix`.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::agents;

/// Sizes of the terminal, in columns and rows. Scenarios that do not depend on the size run in the first.
pub(super) const SIZES: [&str; 3] = ["120x40", "60x20", "200x60"];

/// The options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Agents to test; all if empty.
    agents: Vec<String>,
    /// Versions to test instead of the last ones.
    pub(super) versions: Vec<String>,
    /// Sizes to test.
    pub(super) sizes: Vec<String>,
    /// Cells that run at the same time.
    pub(super) jobs: usize,
    /// Runs failed scenarios again.
    pub(super) repeats_failures: bool,
    /// The program that runs a cell. `None`: it is built.
    pub(super) program: Option<PathBuf>,
    /// Writes the page from earlier results only.
    is_page_only: bool,
    /// Arguments of a measurement, instead of scenarios.
    pub(super) measure: Option<Vec<String>>,
}

impl Options {
    pub(super) fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options {
            agents: Vec::new(),
            versions: Vec::new(),
            sizes: SIZES.map(String::from).to_vec(),
            jobs: 2,
            repeats_failures: false,
            program: None,
            is_page_only: false,
            measure: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut list = || {
                let value = args.next().with_context(|| format!("{arg} needs a value"))?;
                Ok::<Vec<String>, anyhow::Error>(value.split(',').map(String::from).collect())
            };
            match arg.as_str() {
                "--agents" => options.agents = list()?,
                "--versions" => options.versions = list()?,
                "--sizes" => options.sizes = list()?,
                "--jobs" => options.jobs = list()?.concat().parse().context("--jobs needs a number")?,
                "--measure" => options.measure = Some(list()?),
                "--again" => options.repeats_failures = true,
                "--program" => options.program = Some(PathBuf::from(list()?.concat())),
                "--page" => options.is_page_only = true,
                other => bail!(
                    "unknown option '{other}' of matrix; there are --agents, --versions, --sizes, --jobs, --again, --program, --page and --measure"
                ),
            }
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> anyhow::Result<()> {
        let names = agents::AGENTS.map(|agent| agent.name);
        if let Some(unknown) = self.agents.iter().find(|agent| !names.contains(&agent.as_str())) {
            bail!("unknown agent '{unknown}'; there are {}", names.join(", "));
        }
        if let Some(unknown) = self.sizes.iter().find(|size| !SIZES.contains(&size.as_str())) {
            bail!("unknown size '{unknown}'; there are {}", SIZES.join(", "));
        }
        // A version is written into a JSON file for npm.
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
        if let Some(bad) =
            self.versions.iter().find(|version| version.is_empty() || !version.chars().all(is_part))
        {
            bail!("'{bad}' is no version");
        }
        if !self.versions.is_empty() && self.agents.len() != 1 {
            bail!("--versions needs --agents with one agent");
        }
        if self.jobs == 0 {
            bail!("--jobs must be at least 1");
        }
        Ok(())
    }

    pub(super) fn has_agent(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|name| name == agent)
    }

    /// Returns true if scenarios run.
    pub(super) fn runs(&self) -> bool {
        !self.is_page_only && self.measure.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn parses_selection() {
        let options =
            parse(&["--agents", "codex", "--versions", "0.160.0,0.161.0", "--sizes", "60x20", "--jobs", "3"])
                .unwrap();
        assert_eq!(options.versions, ["0.160.0", "0.161.0"]);
        assert_eq!((options.sizes, options.jobs), (vec!["60x20".to_string()], 3));
        assert_eq!(parse(&[]).unwrap().sizes, SIZES);
    }

    #[test]
    fn rejects_unknown_names_and_versions() {
        for bad in [
            &["--agents", "vim"][..],
            &["--sizes", "80x24"],
            &["--versions", "1.0.0"],
            &["--agents", "codex", "--versions", "\"x"],
            &["--jobs", "0"],
            &["--jobs"],
            &["x"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
