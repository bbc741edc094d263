//! `ah`: runs `nerve` under the name of the earlier `ah` recorder.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let sibling = std::env::current_exe().ok().map(|own| own.with_file_name("nerve"));
    let program = sibling.filter(|nerve| nerve.is_file()).unwrap_or_else(|| PathBuf::from("nerve"));
    let error = Command::new(&program).arg0("ah").args(std::env::args_os().skip(1)).exec();
    eprintln!("error: cannot run {}: {error}\nhint: 'ah' needs nerve: install both", program.display());
    ExitCode::FAILURE
}
