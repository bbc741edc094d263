//! The project's own chores. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, reason = "a command line tool talks on stdout")]

mod agent_matrix;
mod agents;
mod bench;
mod debian_packages;
mod generated_pages;
mod hermetic;
mod lockfile;
mod machine_paths;
mod programs;
mod project;
mod pypi_packages;
mod python_tests;
mod readme_blocks;
mod report;
mod rust_tests;
mod shell_scripts;
mod test;
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

/// Runs one chore. Returns `false` if it found problems.
fn dispatch(args: &[String]) -> anyhow::Result<bool> {
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", args),
    };
    match command {
        "test" => test::run(&test::Options::parse(rest)?),
        "setup" => test::setup(&project::Project::find()?),
        "generate" => generated_pages::generate(&project::Project::find()?),
        "agents" => agent_matrix::run(&project::Project::find()?, rest),
        "words" => words::update(&project::Project::find()?),
        "bench" => bench::run(&project::Project::find()?, rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("unknown command '{other}'; `cargo xtask help` lists them"),
    }
}
