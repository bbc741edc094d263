//! The project's own chores. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, reason = "a command line tool talks on stdout")]

mod agents;
mod bench;
mod compatibility;
mod debian;
mod foreign;
mod hermetic;
mod lockfile;
mod project;
mod pypi;
mod python;
mod readme;
mod reference;
mod report;
mod scripts;
mod suite;
mod test;
mod tools;
mod words;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--quick] [--only STEP[,STEP]]
              everything CI runs; --quick leaves out setup and the real agents
  setup       install what the tests need: Debian packages (as root), the pinned agents
  generate    write the files that are generated and committed (docs/cli.md,
              docs/graph.schema.json, docs/openapi.json)
  bench [NAME …]
              run all benchmarks and write docs/benchmarks.md, or run some and print them
  agents [--versions AGENT=VERSION[,…]] [--package NAME=VERSION …] [--bin DIR] [--only AGENT]
              try what nerve does with the real agents and write the table in
              docs/agents.md; with other versions, a folder or one agent: print it
  words       lower the counts in xtask/words.txt to what the files contain now
  help        this text

Environment of `test`:
  CI=true     nothing may be skipped or missing
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one chore; `false` means that it ran and found something wrong.
fn dispatch(args: &[String]) -> anyhow::Result<bool> {
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", args),
    };
    match command {
        "test" => test::run(&test::Options::parse(rest)?),
        "setup" => test::setup(&project::Project::find()?),
        "generate" => reference::generate(&project::Project::find()?),
        "agents" => compatibility::run(&project::Project::find()?, rest),
        "words" => words::update(&project::Project::find()?),
        "bench" => bench::run(&project::Project::find()?, rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("unknown command '{other}'; `cargo xtask help` lists them"),
    }
}
