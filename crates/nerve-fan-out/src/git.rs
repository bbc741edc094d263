//! git, through its command line.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use nerve_commands::failure::{FAILED, Failure, USAGE};
use serde::Serialize;

/// Variables that would redirect git to another repository, as in a git hook.
const REDIRECTS: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];
/// Maximum lines of git's messages in an error.
const MAX_ERROR_LINES: usize = 8;

/// A checkout: the main work tree of a repository, or a linked one.
#[derive(Debug, Clone)]
pub struct Git {
    dir: PathBuf,
}

/// Number of changed files and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DiffStat {
    /// Changed files.
    pub files: u64,
    /// Added lines.
    pub insertions: u64,
    /// Removed lines.
    pub deletions: u64,
}

impl fmt::Display for DiffStat {
    /// Writes `2 files +10 -3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DiffStat { files, insertions, deletions } = self;
        match files {
            0 => f.write_str("none"),
            1 => write!(f, "1 file +{insertions} -{deletions}"),
            files => write!(f, "{files} files +{insertions} -{deletions}"),
        }
    }
}

impl Git {
    /// Uses the checkout in a directory.
    pub fn at(dir: &Path) -> Git {
        Git { dir: dir.to_path_buf() }
    }

    /// Finds the checkout around a directory.
    ///
    /// # Errors
    /// Exit code 2 outside of a checkout; 1 if git is not installed.
    pub fn find(dir: &Path) -> Result<Git> {
        let candidate = Git::at(dir);
        let output = candidate.output(&["rev-parse", "--show-toplevel"])?;
        if !output.status.success() {
            let text = message(&output);
            let reason = if text.contains("not a git repository") || text.is_empty() {
                "not in a git repository".to_string()
            } else {
                text
            };
            let failure = Failure::new(USAGE, format!("cannot use {}: {reason}", dir.display()));
            return Err(failure.hint("go to a checkout, or create a repository with 'git init'").into());
        }
        Ok(Git::at(Path::new(OsStr::from_bytes(trim(&output.stdout)))))
    }

    /// Returns the root of the checkout.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the directory that all checkouts of the repository share.
    pub fn common_dir(&self) -> Result<PathBuf> {
        let path = self.run(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        Ok(PathBuf::from(OsStr::from_bytes(trim(&path))))
    }

    /// Returns the directory of the checkout's own git files.
    pub fn git_dir(&self) -> Result<PathBuf> {
        let path = self.run(&["rev-parse", "--absolute-git-dir"])?;
        Ok(PathBuf::from(OsStr::from_bytes(trim(&path))))
    }

    /// Returns the current commit; `None` in a repository without one.
    pub fn head(&self) -> Result<Option<String>> {
        self.resolve("HEAD")
    }

    /// Returns the commit of a revision; `None` if it does not exist.
    pub fn resolve(&self, revision: &str) -> Result<Option<String>> {
        let commit = format!("{revision}^{{commit}}");
        let output = self.output(&["rev-parse", "--quiet", "--verify", "--end-of-options", &commit])?;
        Ok(output.status.success().then(|| text(trim(&output.stdout))))
    }

    /// Returns the commit of a branch, also if a tag has the same name; `None` if it does not exist.
    pub fn resolve_branch(&self, branch: &str) -> Result<Option<String>> {
        self.resolve(&branch_reference(branch))
    }

    /// Returns the current branch; `None` if `HEAD` is detached.
    pub fn branch(&self) -> Result<Option<String>> {
        // Its short form has a prefix if a tag has the same name.
        let output = self.output(&["symbolic-ref", "--quiet", "HEAD"])?;
        let reference = text(trim(&output.stdout));
        Ok(output.status.success().then(|| reference.trim_start_matches("refs/heads/").to_string()))
    }

    /// Returns true if a branch, or one below it, exists.
    pub fn has_branches(&self, prefix: &str) -> Result<bool> {
        let pattern = format!("refs/heads/{prefix}");
        Ok(!self.run(&["for-each-ref", "--count=1", &pattern])?.is_empty())
    }

    /// Returns the number of files with uncommitted changes, untracked ones included.
    pub fn count_uncommitted(&self) -> Result<usize> {
        let status = self.run(&["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"])?;
        Ok(status.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).count())
    }

    /// Returns true if all commits of a branch are in the revision `other`, too.
    pub fn is_merged(&self, branch: &str, other: &str) -> Result<bool> {
        self.is_ancestor(&branch_reference(branch), other)
    }

    /// Returns true if all commits of `HEAD` are in a branch.
    pub fn is_head_in(&self, branch: &str) -> Result<bool> {
        self.is_ancestor("HEAD", &branch_reference(branch))
    }

    fn is_ancestor(&self, revision: &str, other: &str) -> Result<bool> {
        Ok(self.output(&["merge-base", "--is-ancestor", revision, other])?.status.success())
    }

    /// Returns true if another branch has all commits of this one.
    pub fn is_in_other_branch(&self, branch: &str) -> Result<bool> {
        let commit = self.resolve_branch(branch)?.unwrap_or_default();
        let names =
            self.run(&["for-each-ref", "--contains", &commit, "--format=%(refname)", "refs/heads"])?;
        let own_name = branch_reference(branch);
        Ok(text(&names).lines().any(|name| name != own_name))
    }

    /// Adds a worktree with a new branch at a commit. Calls of all processes run one at a time, because git fails if it reads a
    /// incomplete worktree; each writes the files on all cores, because that takes most of its time. `common_dir`: see
    /// [`Git::common_dir`], which would start git once more while the others wait.
    pub fn add_worktree(&self, common_dir: &Path, path: &Path, branch: &str, commit: &str) -> Result<()> {
        static TURN: Mutex<()> = Mutex::new(());
        let _guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // A file system may refuse to lock a directory. Then git reports a conflict.
        let shared = std::fs::File::open(common_dir);
        let _lock = shared.ok().filter(|directory| directory.lock().is_ok());
        let path = path.as_os_str();
        // Zero: as many workers as cores. Git uses them for 100 files or more.
        let args =
            ["-c", "checkout.workers=0", "worktree", "add", "--quiet", "--no-track", "-b", branch, "--"];
        let args = [&args.map(OsStr::new)[..], &[path, OsStr::new(commit)]].concat();
        check_status("worktree", self.output(&args)?).map(drop)
    }

    /// Removes a worktree. git refuses if it has uncommitted work or submodules, unless `force` is set.
    pub fn remove_worktree(&self, path: &Path, force: bool) -> Result<()> {
        let force: &[&OsStr] = if force { &[OsStr::new("--force")] } else { &[] };
        let args = [OsStr::new("worktree"), OsStr::new("remove")];
        self.run(&[&args[..], force, &[OsStr::new("--"), path.as_os_str()]].concat()).map(drop)
    }

    /// Returns true if a submodule belongs to the checkout, with or without files.
    pub fn has_submodules(&self) -> Result<bool> {
        let files = self.run(&["ls-files", "--stage", "-z"])?;
        Ok(files.split(|byte| *byte == 0).any(|file| file.starts_with(b"160000 ")))
    }

    /// Returns the repositories below the checkout that are neither in the commit `base` nor submodules. git commits no file of
    /// them, only a link that nothing can follow.
    pub fn nested_repositories(&self, base: &str) -> Result<Vec<String>> {
        let untracked = self.run(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        // Of other directories, git lists the files.
        let mut nested: Vec<String> =
            untracked.split(|byte| *byte == 0).filter_map(|path| path.strip_suffix(b"/")).map(text).collect();
        let links = parse_links(&self.run(&["ls-files", "--stage", "-z"])?);
        if !links.is_empty() {
            let mut known = parse_links(&self.run(&["ls-tree", "-r", "-z", base])?);
            let pattern = "^submodule\\..*\\.path$";
            let submodules =
                self.output(&["config", "--file", ".gitmodules", "-z", "--get-regexp", pattern])?;
            let submodules = submodules.stdout.split(|byte| *byte == 0).map(text).collect::<Vec<_>>();
            known.extend(submodules.iter().filter_map(|entry| Some(entry.split_once('\n')?.1.to_string())));
            nested.extend(links.into_iter().filter(|path| !known.contains(path)));
        }
        Ok(nested)
    }

    /// Returns the roots of the initialised submodules, those in submodules included.
    pub fn submodules(&self) -> Result<Vec<PathBuf>> {
        let list =
            self.run(&["submodule", "--quiet", "foreach", "--recursive", "printf '%s\\0' \"$PWD\""])?;
        let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    /// Returns the commits to which branches, remote branches and tags point.
    pub fn commits_of_refs(&self) -> Result<Vec<String>> {
        let commits = self.run(&["for-each-ref", "--format=%(objectname)"])?;
        Ok(text(&commits).lines().map(str::to_string).collect())
    }

    /// Returns true if a local branch, the current commit or the stash has commits that neither a remote branch nor `known` has.
    pub fn has_commits_besides(&self, known: &[String]) -> Result<bool> {
        let stash = self.resolve("refs/stash")?;
        let mut args = vec!["rev-list", "--ignore-missing", "--max-count=1", "HEAD", "--branches"];
        args.extend(stash.as_deref());
        args.extend(["--not", "--remotes"]);
        args.extend(known.iter().map(String::as_str));
        Ok(!self.run(&args)?.is_empty())
    }

    /// Returns the worktrees of the repository, the main one first.
    pub fn worktrees(&self) -> Result<Vec<PathBuf>> {
        let list = self.output(&["worktree", "list", "--porcelain", "-z"])?;
        let (list, end) = match list.status.success() {
            true => (list.stdout, 0),
            // git before 2.36 has no -z. It quotes no path either.
            false => (self.run(&["worktree", "list", "--porcelain"])?, b'\n'),
        };
        let paths = list.split(|byte| *byte == end).filter_map(|line| line.strip_prefix(b"worktree "));
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    /// Deletes a branch, merged or not.
    pub fn delete_branch(&self, branch: &str) -> Result<()> {
        self.run(&["branch", "--quiet", "-D", "--", branch]).map(drop)
    }

    /// Commits everything that is not ignored, without hooks, which may refuse unfinished work.
    pub fn commit_all(&self, message: &str) -> Result<()> {
        self.run(&["add", "--all", "--sparse"])?;
        let unattended = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"];
        let commit = ["commit", "--quiet", "--no-verify", "--message", message];
        check_status("commit", self.output(&[&unattended[..], &commit].concat())?).map(drop)
    }

    /// Merges a branch into the current one. The inner error has the files in conflict, after the merge was aborted.
    ///
    /// # Errors
    /// git refuses the merge.
    pub fn merge(&self, branch: &str) -> Result<Result<(), Vec<String>>> {
        // git's message names the branch as it is given here.
        let has_tag = self.resolve(&format!("refs/tags/{branch}"))?.is_some();
        let name = if has_tag { branch_reference(branch) } else { branch.to_string() };
        let output = self.output(&["merge", "--no-edit", "--", &name])?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let conflicts = self.run(&["diff", "--name-only", "--diff-filter=U", "-z"])?;
        let conflicts = conflicts.split(|byte| *byte == 0).filter(|file| !file.is_empty());
        let conflicts: Vec<String> = conflicts.map(text).collect();
        if self.resolve("MERGE_HEAD")?.is_some() {
            self.run(&["merge", "--abort"])?;
            if !conflicts.is_empty() {
                return Ok(Err(conflicts));
            }
        }
        Err(Failure::new(FAILED, format!("git refuses the merge: {}", message(&output))).into())
    }

    /// Returns the operation that is in progress in the checkout, such as a merge.
    pub fn operation_in_progress(&self) -> Result<Option<&'static str>> {
        let heads = [
            ("MERGE_HEAD", "merge"),
            ("REBASE_HEAD", "rebase"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
        ];
        for (head, operation) in heads {
            if self.resolve(head)?.is_some() {
                return Ok(Some(operation));
            }
        }
        Ok(None)
    }

    /// Returns the untracked files that match the patterns of a file and are ignored, relative to the checkout.
    pub fn ignored_files(&self, patterns: &Path) -> Result<Vec<PathBuf>> {
        let mut exclude = std::ffi::OsString::from("--exclude-from=");
        exclude.push(patterns);
        let args = ["ls-files", "-z", "--others", "--ignored"].map(OsStr::new);
        let matching = self.run(&[&args[..], &[exclude.as_os_str()]].concat())?;
        if matching.is_empty() {
            return Ok(Vec::new());
        }
        self.check_ignore(&matching)
    }

    /// Returns those of the paths that are ignored in this checkout. They need not exist.
    pub fn filter_ignored(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]).collect::<Vec<_>>();
        self.check_ignore(&bytes.concat())
    }

    /// Returns those of the paths, each with a NUL at its end, that are ignored.
    fn check_ignore(&self, paths: &[u8]) -> Result<Vec<PathBuf>> {
        let mut command = self.command(&["check-ignore", "-z", "--stdin"]);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(spawn_error)?;
        let (mut stdin, paths) = (child.stdin.take().context("no standard input")?, paths.to_vec());
        // In a thread, because git answers while it reads.
        let writer = std::thread::spawn(move || stdin.write_all(&paths));
        let output = child.wait_with_output().context("cannot read from git")?;
        let _ = writer.join();
        match output.status.code() {
            // 1: none of them is ignored.
            Some(0 | 1) => {
                let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
                Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
            }
            _ => Err(Failure::new(FAILED, format!("git check-ignore failed: {}", message(&output))).into()),
        }
    }

    /// Counts the changes since a commit, in the checkout as it is: uncommitted and untracked files included.
    pub fn diff_stat(&self, base: &str) -> Result<DiffStat> {
        let index = self.temporary_index()?;
        let mut command = self.command(&["diff", "--cached", "--numstat", "-z", "--no-renames", base]);
        let output = command.env("GIT_INDEX_FILE", index.as_os_str()).output().map_err(spawn_error)?;
        Ok(parse_numstat(&check_status("diff", output)?))
    }

    /// Counts the changes between two commits.
    pub fn diff_stat_between(&self, base: &str, commit: &str) -> Result<DiffStat> {
        Ok(parse_numstat(&self.run(&["diff", "--numstat", "-z", "--no-renames", base, commit])?))
    }

    /// Prints the changes since a commit, as [`Git::diff_stat`] counts them, with the user's pager and colours.
    pub fn print_diff(&self, base: &str) -> Result<()> {
        let index = self.temporary_index()?;
        let mut command = self.command(&["diff", "--cached", base]);
        command.env("GIT_INDEX_FILE", index.as_os_str());
        print(command)
    }

    /// Prints the changes between two commits.
    pub fn print_diff_between(&self, base: &str, commit: &str) -> Result<()> {
        print(self.command(&["diff", base, commit]))
    }

    /// Creates an index that contains all files of the checkout. The checkout's own index stays as it is.
    fn temporary_index(&self) -> Result<tempfile::TempPath> {
        let path = self.run(&["rev-parse", "--path-format=absolute", "--git-path", "index"])?;
        let path = Path::new(OsStr::from_bytes(trim(&path)));
        let mut index = tempfile::NamedTempFile::new().context("cannot create a temporary index")?;
        // The times in the copy save reading the files again.
        if let Ok(bytes) = std::fs::read(path) {
            index.write_all(&bytes).context("cannot write a temporary index")?;
        }
        let index = index.into_temp_path();
        let mut command = self.command(&["add", "--all", "--sparse"]);
        let output = command.env("GIT_INDEX_FILE", index.as_os_str()).output().map_err(spawn_error)?;
        check_status("add", output)?;
        Ok(index)
    }

    /// Runs git and returns its standard output.
    ///
    /// # Errors
    /// git fails: with its message.
    fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Vec<u8>> {
        let output = self.output(args)?;
        let name = args.first().map(|name| name.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        check_status(&name, output)
    }

    fn output<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Output> {
        self.command(args).output().map_err(spawn_error)
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new("git");
        for name in REDIRECTS {
            command.env_remove(name);
        }
        command.arg("-C").arg(&self.dir).args(args);
        // Messages in English are recognized; no question of git can be answered here.
        command.env("LC_ALL", "C").env("GIT_EDITOR", "true").env("GIT_TERMINAL_PROMPT", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a command that prints by itself.
fn print(mut command: Command) -> Result<()> {
    // The pager shows texts in the user's encoding.
    match std::env::var_os("LC_ALL") {
        Some(locale) => command.env("LC_ALL", locale),
        None => command.env_remove("LC_ALL"),
    };
    let status = command.stdout(Stdio::inherit()).stderr(Stdio::inherit()).status().map_err(spawn_error)?;
    // A reader that leaves early, such as `head`, ends git by a signal.
    match status.code() {
        Some(0) | None => Ok(()),
        Some(code) => Err(Failure::new(FAILED, format!("git diff failed: exit code {code}")).into()),
    }
}

fn check_status(name: &str, output: Output) -> Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let reason = message(&output);
    // git does not say that the disk is full.
    let hint = reason.contains("unable to write").then(|| "check the free space with 'df -h'".to_string());
    Err(Failure { hint, ..Failure::new(FAILED, format!("git {name} failed: {reason}")) }.into())
}

fn spawn_error(error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let failure = Failure::new(FAILED, "cannot run git: it is not installed, or not in PATH");
            failure.hint("install it, for example with 'apt install git'").into()
        }
        _ => anyhow::Error::new(error).context("cannot run git"),
    }
}

/// Returns the message of a failed git without its prefixes.
fn message(output: &Output) -> String {
    let report = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let report = String::from_utf8_lossy(report);
    let lines = report.lines().map(|line| {
        let line = line.strip_prefix("fatal: ").or_else(|| line.strip_prefix("error: ")).unwrap_or(line);
        line.trim_end()
    });
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let mut text = lines[..lines.len().min(MAX_ERROR_LINES)].join("\n");
    if text.is_empty() {
        let _ = write!(text, "{}", output.status);
    }
    text
}

fn parse_numstat(bytes: &[u8]) -> DiffStat {
    let mut stat = DiffStat::default();
    for entry in bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let mut numbers = entry.splitn(3, |byte| *byte == b'\t');
        // A binary file has dashes.
        let mut number = || numbers.next().and_then(|digits| text(digits).parse().ok()).unwrap_or(0);
        stat.files += 1;
        stat.insertions += number();
        stat.deletions += number();
    }
    stat
}

/// Returns the paths of the links to other repositories in a list of `ls-files --stage` or `ls-tree`.
fn parse_links(list: &[u8]) -> Vec<String> {
    let links = list.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    links.filter_map(|entry| Some(text(entry).split_once('\t')?.1.to_string())).collect()
}

/// Returns the full name of a branch: a tag or a commit may have the short one.
fn branch_reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(b"\n").unwrap_or(bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numstat_counts_text_and_binary_files() {
        let stat = parse_numstat(b"3\t1\ta.rs\0-\t-\timage.png\x0010\t0\twith\ttab\0");
        assert_eq!(stat, DiffStat { files: 3, insertions: 13, deletions: 1 });
        assert_eq!(parse_numstat(b""), DiffStat::default());
    }

    #[test]
    fn numbers_of_changes_are_short() {
        let text = |files, insertions, deletions| DiffStat { files, insertions, deletions }.to_string();
        assert_eq!(text(1, 10, 3), "1 file +10 -3");
        assert_eq!(text(2, 10, 0), "2 files +10 -0");
        assert_eq!(text(0, 0, 0), "none");
    }

    /// Creates a repository with one commit.
    fn repository(home: &nerve_testkit::Hermetic, name: &str) -> PathBuf {
        let repository = home.work().join(name);
        std::fs::create_dir(&repository).unwrap();
        home.git(&repository, &["init", "--quiet"]);
        commit(home, &repository);
        repository
    }

    fn commit(home: &nerve_testkit::Hermetic, checkout: &Path) {
        let identity = ["-c", "user.name=Me", "-c", "user.email=me@example.org"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "More"];
        home.git(checkout, &[&identity[..], &commit].concat());
    }

    #[test]
    fn tag_of_the_same_name_is_no_other_branch() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let repository = repository(&home, "repository");
        let git = Git::at(&repository);
        let base = git.head().unwrap().unwrap();
        home.git(&repository, &["checkout", "--quiet", "-b", "nerve/x/1-c"]);
        commit(&home, &repository);
        // The tag does not have the commit of the branch.
        home.git(&repository, &["tag", "nerve/x/1-c", &base]);
        let branch = "nerve/x/1-c";
        assert_eq!(git.branch().unwrap().as_deref(), Some(branch));
        assert_eq!(git.resolve_branch(branch).unwrap(), git.head().unwrap());
        assert!(!git.is_in_other_branch(branch).unwrap() && !git.is_merged(branch, &base).unwrap());
        assert!(git.is_head_in(branch).unwrap());
        home.git(&repository, &["checkout", "--quiet", "-b", "other"]);
        assert!(git.is_in_other_branch(branch).unwrap());
        home.git(&repository, &["reset", "--quiet", "--hard", &base]);
        assert_eq!(git.merge(branch).unwrap(), Ok(()));
        assert_eq!(git.head().unwrap(), git.resolve_branch(branch).unwrap());
    }

    #[test]
    fn nested_repositories_are_no_submodules() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let top = repository(&home, "repository");
        let git = Git::at(&top);
        let base = git.head().unwrap().unwrap();
        for name in ["repository/vendor", "repository/committed", "repository/module"] {
            repository(&home, name);
        }
        std::fs::create_dir(top.join("plain")).unwrap();
        std::fs::write(top.join("plain/file"), "").unwrap();
        let link = |name: &str| home.git(&top, &["-c", "advice.addEmbeddedRepo=false", "add", name]);
        link("committed");
        link("module");
        std::fs::write(top.join(".gitmodules"), "[submodule \"m\"]\npath = module\nurl = ./m\n").unwrap();
        assert_eq!(git.nested_repositories(&base).unwrap(), ["vendor", "committed"]);
        commit(&home, &top);
        assert_eq!(git.nested_repositories("HEAD").unwrap(), ["vendor"], "the commit has the other one");
    }

    #[test]
    fn worktrees_of_several_processes_are_added_one_at_a_time() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let repository = repository(&home, "repository");
        let directory = std::fs::File::open(repository.join(".git")).unwrap();
        directory.lock().unwrap();
        let (started, is_started) = std::sync::mpsc::channel();
        let worktree = home.work().join("worktree");
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| {
                started.send(()).unwrap();
                let git = Git::at(&repository);
                git.add_worktree(&git.common_dir().unwrap(), &worktree, "attempt", "HEAD")
            });
            is_started.recv().unwrap();
            // A branch of this name would make git fail, if it ran before.
            home.git(&repository, &["branch", "attempt"]);
            home.git(&repository, &["branch", "-D", "attempt"]);
            drop(directory);
            adding.join().unwrap().unwrap();
        });
        assert!(worktree.join(".git").is_file());
    }

    #[test]
    fn worktree_has_all_files_and_the_hook_has_run() {
        let home = nerve_testkit::Hermetic::new().unwrap();
        let (repository, worktree) = (home.work().join("repository"), home.work().join("worktree"));
        std::fs::create_dir(&repository).unwrap();
        // More than git writes without workers.
        let names: Vec<String> = (0..150).map(|number| format!("{number}.txt")).collect();
        names.iter().for_each(|name| std::fs::write(repository.join(name), name).unwrap());
        let identity = ["-c", "user.name=Me", "-c", "user.email=me@example.org"];
        home.git(&repository, &["init", "--quiet"]);
        home.git(&repository, &["add", "--all"]);
        home.git(&repository, &[&identity[..], &["commit", "--quiet", "--message", "Begin"]].concat());
        let hook = repository.join(".git/hooks/post-checkout");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\necho \"$1\" > hooked\n").unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let git = Git::at(&repository);
        let common_dir = git.common_dir().unwrap();
        git.add_worktree(&common_dir, &worktree, "attempt", "HEAD").unwrap();
        for name in &names {
            assert_eq!(std::fs::read_to_string(worktree.join(name)).unwrap(), *name);
        }
        let previous = std::fs::read_to_string(worktree.join("hooked")).unwrap();
        assert_eq!(previous.trim().trim_matches('0'), "", "a new worktree has no previous commit");
        let error = git.add_worktree(&common_dir, &worktree, "attempt", "HEAD").unwrap_err();
        assert!(error.to_string().starts_with("git worktree failed"), "{error}");
    }
}
