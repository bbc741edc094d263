//! `cargo xtask matrix`: runs the scenarios with published versions of the agents and writes `docs/compatibility.md` and the
//! table of capabilities in `docs/agents.md`.

mod capabilities;
mod cells;
mod options;
mod page;
mod results;
mod versions;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Context;

use crate::agents::Agent;
use crate::project::{self, Project, cargo_program};
use crate::report;
use crate::{agents, bench};
use cells::{Cell, Runner};
use options::Options;
use results::Results;

/// The page that the results are written to.
const PAGE: &str = "docs/compatibility.md";

/// The results behind the page.
const RESULTS: &str = "xtask/matrix/results.jsonl";

/// Runs the cells that have no result yet and writes the page. Returns `false` if a scenario failed or did not run.
pub(crate) fn run(project: &Project, args: &[String]) -> anyhow::Result<bool> {
    let options = Options::parse(args)?;
    let folder = project.target.join("matrix");
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(project.root.join(RESULTS).with_file_name(""))?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build(project)?,
    };
    let plan = cells::Plan::of(&program)?;
    let results = Arc::new(Mutex::new(Results::open(&project.root.join(RESULTS))?));
    let pinned = agents::pinned(project)?;
    let mut is_complete = true;
    if options.runs() {
        let mut cells = VecDeque::new();
        for Agent { name, package, .. } in agents::AGENTS.iter().filter(|agent| options.has_agent(agent.name))
        {
            let versions = match &options.versions {
                versions if versions.is_empty() => versions::to_test(project, name, package, &pinned)?,
                versions => versions.clone(),
            };
            for version in versions {
                let is_pinned = pinned.iter().any(|(name, pin)| name == package && *pin == version);
                let install = Arc::new(cells::Install::new(&folder, package, &version, is_pinned, project));
                cells.extend(plan.cells(name, &version, &options.sizes, &install));
            }
        }
        // The pinned versions come first.
        cells.make_contiguous().sort_by_key(|cell: &Cell| !cell.install.is_pinned());
        is_complete = run_cells(&program, &results, cells, &options)?;
    }
    if let Some(measure) = &options.measure {
        agents::install(project)?;
        let lines = Runner { program: &program, results: &results, repeats_failures: false }
            .measure(measure, project)?;
        println!("{lines}");
    }
    let mut results = lock(&results);
    results.compact().with_context(|| format!("cannot write {RESULTS}"))?;
    fs::write(project.root.join(PAGE), page::render(&plan, &results, &pinned))
        .with_context(|| format!("cannot write {PAGE}"))?;
    println!("written: {PAGE}");
    capabilities::write(project, &results, &pinned)?;
    println!("written: {}", capabilities::PAGE);
    Ok(is_complete && !results.has_failures())
}

/// Fails if the table of capabilities differs from the results.
pub(crate) fn check(project: &Project) -> anyhow::Result<report::Outcome> {
    let results = Results::open(&project.root.join(RESULTS))?;
    capabilities::check(project, &results, &agents::pinned(project)?)
}

/// Runs the cells on `--jobs` threads. Returns false if some scenarios did not run.
fn run_cells(
    program: &Path,
    results: &Arc<Mutex<Results>>,
    cells: VecDeque<Cell>,
    options: &Options,
) -> anyhow::Result<bool> {
    let queue = Mutex::new(cells);
    let runner = Runner { program, results, repeats_failures: options.repeats_failures };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<bool> {
                    let mut is_complete = true;
                    loop {
                        let Some(cell) = lock(&queue).pop_front() else { return Ok(is_complete) };
                        is_complete &= runner.run(&cell)?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_fold(true, |is_complete, worker| match worker.join() {
            Ok(outcome) => outcome.map(|ran_all| ran_all && is_complete),
            Err(_) => anyhow::bail!("a worker panicked"),
        })
    })
}

/// Builds nerve and the program that runs a cell.
fn build(project: &Project) -> anyhow::Result<PathBuf> {
    let mut command = project.command(cargo_program());
    command.args(["build", "--workspace", "--bin", "nerve", "--bench", "agents", "--locked"]);
    command.args(project::FEATURES).arg("--message-format=json-render-diagnostics");
    let artifacts = String::from_utf8(project::output(&mut command)?)?;
    let program = bench::program(&artifacts, "agents").context("cargo built no such program")?;
    Ok(PathBuf::from(program))
}

/// Locks a mutex and ignores poisoning: updates are complete even if a thread panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
