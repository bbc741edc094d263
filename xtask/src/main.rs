//! The project's own chores. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, reason = "a command line tool talks on stdout")]

mod agent_rotation;
mod agents;
mod bench;
mod browser;
mod debian_packages;
mod dist;
mod docs_blocks;
mod fuzz;
mod generated_pages;
mod hermetic;
mod import_circles;
mod lockfile;
mod machine_paths;
mod matrix;
mod package_checks;
mod programs;
mod project;
mod pypi_packages;
mod python_tests;
mod report;
mod rust_tests;
mod sha256;
mod shell_scripts;
mod soak;
mod sources;
mod step_process;
mod system_calls;
mod test;
mod vendored;
mod words;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--quick] [--only STEP[,STEP]]
              everything CI runs; --quick leaves out setup and the real agents
  setup       install what the tests need: Debian packages (as root), the pinned agents
              and browser driver
  generate    write the files that are generated and committed (docs/cli.md,
              docs/graph.schema.json, docs/openapi.json)
  bench [NAME …]
              run all benchmarks and write docs/benchmarks.md, or run some and print them
  matrix [--agents AGENT[,…]] [--versions VERSION[,…]] [--sizes COLSxROWS[,…]] [--jobs N] [--again] [--program FILE]
              run the scenarios with the last eight versions of the real agents that have no
              result yet (with --again those that failed, too) and write docs/compatibility.md;
              --program is the benchmark `agents`, already built
  matrix --page
              write the page from the results so far
  matrix --measure answers,VARIANT,COUNT or --measure starts,VARIANT,COUNT,AT_ONCE
              time answers, or start nodes, of a pinned agent
  blocks [--program FILE] [PAGE …]
              run the `sh` blocks of README.md and of the pages in docs/, or of some pages;
              --program is nerve, already built [default: target/release/nerve, which the
              README builds]
  dist [--binary FILE] [--target TRIPLE] [--out FOLDER] [--base-url URL] [--npm-scope @SCOPE] [--fast]
              build the packages in target/packages: tarball, wheels, npm packages, .deb, SBOM and
              checksums. --binary packs a built program instead of building one with the profile
              `dist`; --fast compresses little
  fuzz [--seconds N] [TARGET …]
              run the fuzz targets in fuzz/, each for so long [default: 60]; inputs that fail are
              in fuzz/artifacts
  soak [--hours N | --minutes N] [--seed N]
              work while servers, hosts and clients are killed and the disk fills up
              [default: one hour]
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
        "matrix" => matrix::run(&project::Project::find()?, rest),
        "blocks" => docs_blocks::run(&project::Project::find()?, rest),
        "dist" => dist::run(&project::Project::find()?, rest),
        "fuzz" => fuzz::run(&project::Project::find()?, rest),
        "soak" => soak::run(&project::Project::find()?, rest),
        "words" => words::update(&project::Project::find()?),
        "bench" => bench::run(&project::Project::find()?, rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("unknown command '{other}'; `cargo xtask help` lists them"),
    }
}
