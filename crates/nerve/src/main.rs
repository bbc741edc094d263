//! `nerve`: drives, records and orchestrates terminal AI agents.
//!
//! [`cli`] declares the command line, [`cmd`] does what it says, [`repl`] does so line by line, [`out`] prints, [`exit`] decides the exit code.

mod cli;
mod cmd;
mod exit;
mod out;
mod repl;
mod telemetry;
mod trace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = if cli::ah::is_called() { cli::ah::parse() } else { cli::Cli::parse() };
    let json = cmd::prints_json(&cli);
    let code = match cmd::run(cli) {
        Ok(code) => code,
        Err(error) if error.is::<exit::ReaderGone>() => exit::DONE,
        Err(error) => {
            let failure = exit::Failure::from_error(&error);
            out::failure(&failure, json);
            failure.code
        }
    };
    ExitCode::from(code)
}
