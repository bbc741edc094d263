//! Runs in place of an agent's shell: announced tool commands become executions, other lines run unchanged.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_record::executions::trace::{Announcement, LINK, reads_nothing};

use super::shell;
use crate::exit::{FAILED, Failure};
use nerve_cli::exec::ExecArgs;

/// Returns true if an agent started this program as its shell.
pub(crate) fn is_invoked() -> bool {
    own_name().is_some_and(|name| name.file_name().is_some_and(|name| name == LINK))
}

/// Returns the arguments of an announced execution. Any other line replaces this process.
///
/// # Errors
/// The line cannot be run.
pub(crate) fn arguments() -> anyhow::Result<ExecArgs> {
    let line = std::env::args_os().next_back().unwrap_or_default();
    let line = line.into_string().map_err(|_| Failure::new(FAILED, "the command line is not UTF-8"))?;
    let argv = vec![shell(), "-c".to_string(), line];
    let folder = own_name().and_then(|name| name.parent().map(Path::to_path_buf));
    match folder.and_then(|folder| Announcement::take(&folder, &argv[2])) {
        Some(Announcement { id, command }) => Ok(ExecArgs {
            id: Some(id),
            session: None,
            line: None,
            interactive: false,
            cols: None,
            rows: None,
            reads_nothing: reads_nothing(&argv[2]),
            command: argv,
            announced: Some(command),
        }),
        None => Err(replace(&argv)),
    }
}

/// Replaces this process by a command. Returns only on failure.
pub(super) fn replace(argv: &[String]) -> anyhow::Error {
    let (program, args) = argv.split_first().map_or(("", &[][..]), |(program, args)| (program, args));
    let error = Command::new(program).args(args).exec();
    Failure::new(FAILED, format!("cannot run {program}: {error}")).into()
}

fn own_name() -> Option<PathBuf> {
    std::env::args_os().next().map(PathBuf::from)
}
