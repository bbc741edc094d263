//! Checks the files of running servers. `--fix` makes the servers create them again.

use nerve_server::paths::ServerPaths;

use super::check::Check;
use super::hosts::{HINT, summarize};
use crate::cmd::server::repair;
use crate::out;

/// Checks that clients can find every running server.
pub(super) fn check_files(paths: &ServerPaths) -> Check {
    let problems = repair::incomplete(paths).into_iter().map(|(name, files)| {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        format!("server '{name}' has no {}", files.join(" and no "))
    });
    Check::new("server files", summarize("complete".to_string(), problems.collect())).essential().hint(HINT)
}

/// Makes running servers create their missing files again. Failures are printed; the check shows what is left.
pub(super) async fn repair(paths: &ServerPaths) {
    for (name, _) in repair::incomplete(paths) {
        if let Err(error) = repair::repair(paths, &name).await {
            out::warning(format_args!("{error:#}"));
        }
    }
}
