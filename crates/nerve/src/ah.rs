//! `ah`: `nerve` under the name that the first recorder had.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("nerve"));
    let program = beside.filter(|nerve| nerve.is_file()).unwrap_or_else(|| PathBuf::from("nerve"));
    let error = Command::new(&program).arg0("ah").args(std::env::args_os().skip(1)).exec();
    eprintln!(
        "error: cannot run {}: {error}\nhint: 'ah' is a part of nerve: install both",
        program.display()
    );
    ExitCode::FAILURE
}
