//! A cell is one variant of an agent in one version and size. Each runs in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::Context;
use serde_json::Value;

use super::lock;
use super::options::SIZES;
use super::results::{Key, Results};
use crate::agents;
use crate::project::{self, Project};

/// Seconds after which a cell or a group of measurements is killed. Each scenario has its own, shorter limit.
const CELL_LIMIT: &str = "1500";

/// A variant of an agent.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) agent: String,
    pub(super) name: String,
    pub(super) title: String,
}

/// The variants and scenarios that the program has.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) variants: Vec<Variant>,
    /// Titles; true if the result depends on the size.
    pub(super) scenarios: Vec<(String, bool)>,
}

/// A cell and the scenarios that it runs.
pub(super) struct Cell {
    variant: String,
    version: String,
    size: String,
    scenarios: Vec<String>,
    pub(super) install: Arc<Install>,
}

impl Plan {
    /// Reads the variants and scenarios that the program lists.
    pub(super) fn of(program: &Path) -> anyhow::Result<Plan> {
        let mut plan = Plan { variants: Vec::new(), scenarios: Vec::new() };
        let listed = String::from_utf8(project::output(Command::new(program).arg("--list"))?)?;
        for line in listed.lines() {
            let line: Value = serde_json::from_str(line)?;
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_string();
            match line["scenario"].as_str() {
                Some(scenario) => {
                    plan.scenarios.push((scenario.to_string(), line["depends_on_size"] == true))
                }
                None => plan.variants.push(Variant {
                    agent: text("agent"),
                    name: text("variant"),
                    title: text("title"),
                }),
            }
        }
        Ok(plan)
    }

    /// Returns true if the scenario runs in terminals of this size.
    pub(super) fn runs(depends_on_size: bool, size: &str) -> bool {
        depends_on_size || size == SIZES[0]
    }

    /// Returns the cells of one version of an agent.
    pub(super) fn cells(
        &self,
        agent: &str,
        version: &str,
        sizes: &[String],
        install: &Arc<Install>,
    ) -> Vec<Cell> {
        let variants = self.variants.iter().filter(|variant| variant.agent == agent);
        let cells = variants.flat_map(|variant| sizes.iter().map(move |size| (variant, size)));
        let scenarios = |size: &str| {
            let runs = self.scenarios.iter().filter(|(_, depends)| Plan::runs(*depends, size));
            runs.map(|(title, _)| title.clone()).collect()
        };
        cells
            .map(|(variant, size)| Cell {
                variant: variant.name.clone(),
                version: version.to_string(),
                size: size.clone(),
                scenarios: scenarios(size),
                install: install.clone(),
            })
            .collect()
    }
}

/// A version of an agent, installed when its first cell runs and deleted after its last one.
pub(super) struct Install {
    package: String,
    version: String,
    folder: PathBuf,
    /// The folder of the pinned programs, if this is the pinned version.
    pinned: Option<PathBuf>,
    bin: OnceLock<Result<PathBuf, String>>,
}

impl Install {
    pub(super) fn new(
        folder: &Path,
        package: &str,
        version: &str,
        is_pinned: bool,
        project: &Project,
    ) -> Install {
        let name = package.rsplit('/').next().unwrap_or(package);
        Install {
            package: package.to_string(),
            version: version.to_string(),
            folder: folder.join(format!("{name}-{version}")),
            pinned: is_pinned.then(|| project.agents_bin()),
            bin: OnceLock::new(),
        }
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// Returns the folder of the program; waits if another thread is installing it.
    fn bin(&self) -> anyhow::Result<PathBuf> {
        let install = || match &self.pinned {
            Some(bin) if bin.exists() => Ok(bin.clone()),
            _ => agents::install_version(&self.folder, &self.package, &self.version)
                .map_err(|error| format!("{error:#}")),
        };
        self.bin.get_or_init(install).clone().map_err(|error| anyhow::anyhow!(error))
    }
}

impl Drop for Install {
    fn drop(&mut self) {
        // A pinned version has no such folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs cells and keeps their results.
pub(super) struct Runner<'a> {
    pub(super) program: &'a Path,
    pub(super) results: &'a Arc<Mutex<Results>>,
    /// Runs failed scenarios again.
    pub(super) repeats_failures: bool,
}

impl Runner<'_> {
    /// Runs the scenarios of a cell that have no result yet. Returns false if some of them did not run.
    pub(super) fn run(&self, cell: &Cell) -> anyhow::Result<bool> {
        let key = |scenario: &str| -> Key {
            [cell.variant.clone(), cell.version.clone(), cell.size.clone(), scenario.to_string()]
        };
        let has_result = |scenario: &&String| {
            let results = lock(self.results);
            let counts = |verdict: &str| verdict != "failed" || !self.repeats_failures;
            results.get(&key(scenario)).is_some_and(|outcome| counts(&outcome.verdict))
        };
        let missing: Vec<&String> = cell.scenarios.iter().filter(|scenario| !has_result(scenario)).collect();
        if missing.is_empty() {
            return Ok(true);
        }
        let bin = match cell.install.bin() {
            Ok(bin) => bin,
            Err(error) => {
                eprintln!("{} {}: {error:#}", cell.variant, cell.version);
                return Ok(false);
            }
        };
        let mut command = self.command(&bin);
        command.args(["--cell", &cell.variant, &cell.size]).args(&missing);
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start a cell")?;
        let output = child.stdout.take().context("a cell has no output")?;
        for line in BufReader::new(output).lines() {
            let line: Value = serde_json::from_str(&line?)?;
            let text = |name: &str| line[name].as_str().unwrap_or_default();
            if line["scenario"].is_null() {
                continue;
            }
            println!(
                "{} {} {} {}: {} {}",
                cell.variant,
                cell.version,
                cell.size,
                text("scenario"),
                text("verdict"),
                text("note").lines().next().unwrap_or_default()
            );
            lock(self.results).add(&key(text("scenario")), text("verdict"), text("note"))?;
        }
        let status = child.wait()?;
        if !status.success() {
            eprintln!("{} {} {}: {status}", cell.variant, cell.version, cell.size);
        }
        Ok(status.success())
    }

    /// Runs a measurement of the pinned agents and keeps its first line.
    pub(super) fn measure(&self, arguments: &[String], project: &Project) -> anyhow::Result<String> {
        let mut command = self.command(&project.agents_bin());
        let (kind, rest) = arguments.split_first().context("--measure needs a kind")?;
        let output = project::output(command.arg(format!("--{kind}")).args(rest))?;
        let output = String::from_utf8(output)?;
        let line = output.lines().next().context("it printed nothing")?;
        lock(self.results).add_measurement(&arguments.join(" "), line)?;
        Ok(output)
    }

    /// Returns the program, limited in time.
    fn command(&self, bin: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", CELL_LIMIT]).arg(self.program);
        command.env("NERVE_TEST_AGENTS", bin);
        command
    }
}
