//! `nerve`: drives, records and orchestrates terminal AI agents.
//!
//! [`nerve_cli`] declares the command line, [`cmd`] implements the commands, [`exit`] ends the process. [`nerve_commands`] has the
//! output, the errors, and the commands that the REPL has too.

mod cmd;
mod current_exe;
mod exit;
mod settings;

use std::process::ExitCode;

use nerve_commands::{out, trace};
use nerve_tui::stdio_relay::Interrupted;

fn main() -> ExitCode {
    if cmd::hook::run_if_invoked() || cmd::completion::run_if_requested() {
        return ExitCode::SUCCESS;
    }
    let cli = parse_command_line();
    let json = cli.as_ref().is_ok_and(|cli| cli.prints_json);
    let code = match cli.and_then(cmd::run) {
        Ok(code) => code,
        Err(error) if error.is::<out::BrokenPipe>() => exit::DONE,
        Err(error) => match error.downcast_ref::<Interrupted>() {
            Some(interrupted) => exit::terminate(*interrupted),
            None => {
                let failure = exit::failure(&error);
                out::failure(&failure, json);
                failure.code
            }
        },
    };
    ExitCode::from(code)
}

/// Parses the command line of the name that this program was started under: `nerve`, `ah` or an agent's shell.
fn parse_command_line() -> anyhow::Result<nerve_cli::Cli> {
    if cmd::exec::tool::is_invoked() {
        let args = cmd::exec::tool::arguments()?;
        return Ok(nerve_cli::Cli { prints_json: false, command: nerve_cli::Command::Exec(args) });
    }
    Ok(if nerve_cli::ah::is_invoked() {
        nerve_cli::ah::parse()
    } else {
        nerve_cli::Cli::parse_process_args()
    })
}
