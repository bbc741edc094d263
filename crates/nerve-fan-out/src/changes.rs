//! The changes of attempts since the commit at which they started.

use anyhow::Result;

use crate::fan_out::{Attempt, FanOut};
use crate::git::{DiffStat, Git};

/// Counts the changes of all attempts at the same time; `None` for those that cannot be counted.
pub fn count_all_changes(fan_out: &FanOut) -> Vec<Option<DiffStat>> {
    std::thread::scope(|scope| {
        let count = |attempt| scope.spawn(move || count_changes(fan_out, attempt).ok().flatten());
        let jobs: Vec<_> = fan_out.attempts.iter().map(count).collect();
        jobs.into_iter().map(|job| job.join().ok().flatten()).collect()
    })
}

/// Counts the changes in a worktree, or on the branch if the worktree is gone; `None` if both are gone.
///
/// # Errors
/// git fails.
pub fn count_changes(fan_out: &FanOut, attempt: &Attempt) -> Result<Option<DiffStat>> {
    if attempt.worktree.is_dir() {
        return Git::at(&attempt.worktree).diff_stat(&fan_out.base).map(Some);
    }
    let git = Git::at(&fan_out.common_dir);
    match git.resolve_branch(&attempt.branch)? {
        Some(commit) => git.diff_stat_between(&fan_out.base, &commit).map(Some),
        None => Ok(None),
    }
}
