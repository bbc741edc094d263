//! Steps in a process of their own, next to those of the main process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::project::Project;
use crate::report::Report;

/// A running process that does steps one after another. Its output goes to a file and is printed when it ends, so that outputs of
/// steps do not interleave.
pub(crate) struct StepProcess {
    steps: &'static [&'static str],
    process: Child,
    output: PathBuf,
}

impl StepProcess {
    /// Starts `cargo xtask test --only STEPS`, with `nice` at the lowest priority.
    pub(crate) fn start(
        project: &Project,
        quick: bool,
        steps: &'static [&'static str],
        nice: bool,
    ) -> anyhow::Result<StepProcess> {
        let output = project.target.join(format!("{}.txt", steps.join("-")));
        let program = program(project)?;
        let mut command = project.command(if nice { "nice".into() } else { program.clone() });
        if nice {
            command.args(["-n", "19"]).arg(program);
        }
        command.args(["test", "--only", &steps.join(",")]).args(quick.then_some("--quick"));
        let process = start(&mut command, &output)?;
        println!("\nrunning {} with output in {}", steps.join(", "), output.display());
        Ok(StepProcess { steps, process, output })
    }

    /// Waits for the process, prints its output and adds its steps to the report.
    pub(crate) fn finish(mut self, report: &mut Report) -> anyhow::Result<()> {
        self.process.wait()?;
        let output = String::from_utf8_lossy(&fs::read(&self.output)?).into_owned();
        print!("{output}");
        report.add_table(self.steps, &output);
        Ok(())
    }
}

fn start(command: &mut Command, output: &Path) -> anyhow::Result<Child> {
    let file = File::create(output).with_context(|| format!("cannot create {}", output.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    command.spawn().context("cannot start xtask")
}

/// Returns the path of this program. The step `build` may have replaced its file.
fn program(project: &Project) -> anyhow::Result<PathBuf> {
    let current = std::env::current_exe()?;
    Ok(if current.exists() { current } else { project.target.join("debug/xtask") })
}
