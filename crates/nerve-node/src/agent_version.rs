//! Reads the version of an agent before its node is created.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nerve_agent::profile::{Profile, TestedVersions, Version};
use nerve_host::backend::Program;
use nerve_types::files::read_json;
use parking_lot::Mutex;
use serde_json::Value;

use crate::error::EngineError;

/// Limit for `PROGRAM --version`.
const PRINT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of folders above a program that are searched for its package.json.
const PACKAGE_DEPTH: usize = 4;
/// Maximum number of bytes read from a package.json.
const MAX_PACKAGE_JSON: u64 = 64 << 10;
/// Maximum number of cached versions.
const MAX_CACHED: usize = 64;

/// Printed versions by the path of the program and its target without links.
static PRINTED: Mutex<BTreeMap<(PathBuf, PathBuf), PrintedVersion>> = Mutex::new(BTreeMap::new());

/// A version and the file that printed it.
#[derive(Debug, Clone, Copy)]
struct PrintedVersion {
    version: Version,
    file: FileId,
}

/// Device, inode, size and change time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64, u64, (i64, i64));

impl FileId {
    fn of(file: &Metadata) -> FileId {
        FileId(file.dev(), file.ino(), file.len(), (file.ctime(), file.ctime_nsec()))
    }
}

/// Returns the agent's version for the metadata, or `unknown` if it cannot be read. Returns `None` if the profile names no tested
/// versions.
///
/// # Errors
/// InvalidRequest: the version is older than the tested ones, and `force` is not set.
pub(crate) async fn check(
    profile: &Profile,
    program: &Program,
    force: bool,
) -> Result<Option<String>, EngineError> {
    let Some(tested) = &profile.versions else { return Ok(None) };
    let Some(version) = read(profile, tested, program).await else { return Ok(Some("unknown".to_string())) };
    if version < tested.oldest && !force {
        let name = &profile.name;
        let message = format!("{name} {version} is outside the tested range ({tested})");
        let hint = format!("update {name}, or add `--force` to start it anyway");
        return Err(EngineError::invalid_request(message).hint(hint));
    }
    Ok(Some(match tested.contains(version) {
        true => version.to_string(),
        false => format!("{version} (tested: {tested})"),
    }))
}

async fn read(profile: &Profile, tested: &TestedVersions, program: &Program) -> Option<Version> {
    let at = profile.program_at(&program.argv)?;
    let program = Program { argv: program.argv[at..].to_vec(), ..program.clone() };
    let path = program.find().ok()?;
    let target = path.canonicalize().ok()?;
    match tested.package.as_deref().and_then(|package| packaged_version(&target, package)) {
        Some(version) => Some(version),
        None => printed_version(&path, &target, &program).await,
    }
}

/// Returns the version in the package.json of the package that contains the program.
fn packaged_version(path: &Path, package: &str) -> Option<Version> {
    let read = |folder: &Path| {
        let content: Value = read_json(&folder.join("package.json"), MAX_PACKAGE_JSON).ok()?;
        (content["name"] == package).then(|| content["version"].as_str()?.parse().ok())?
    };
    path.ancestors().skip(1).take(PACKAGE_DEPTH).find_map(read)
}

/// Returns the version that the program prints. `target` is its path without links. The program is started by the path with links,
/// because version managers link many names to one binary that acts by its name. A script is not run, because it may do anything
/// with an unknown argument.
///
/// A version is remembered only if the target's path names it, as `versions/2.1.200/claude` does. The shim of a version manager
/// stays the same when another version is selected, and no file shows that it is a shim.
async fn printed_version(path: &Path, target: &Path, program: &Program) -> Option<Version> {
    let mut start = [0; 2];
    File::open(target).ok()?.read_exact(&mut start).ok()?;
    if start == *b"#!" {
        return None;
    }
    let file = FileId::of(&target.metadata().ok()?);
    let key = (path.to_path_buf(), target.to_path_buf());
    if let Some(printed) = PRINTED.lock().get(&key).filter(|printed| printed.file == file) {
        return Some(printed.version);
    }
    let mut command = tokio::process::Command::new(path);
    command.arg("--version").envs(&program.env).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    for name in &program.env_remove {
        command.env_remove(name);
    }
    let output = tokio::time::timeout(PRINT_TIMEOUT, command.output()).await.ok()?.ok()?;
    let version = Version::in_text(&String::from_utf8_lossy(&output.stdout))?;
    if names_version(target, version) {
        let mut printed = PRINTED.lock();
        if printed.len() >= MAX_CACHED {
            printed.clear();
        }
        printed.insert(key, PrintedVersion { version, file });
    }
    Some(version)
}

/// Returns true if a file or folder of the path is named like the version.
fn names_version(path: &Path, version: Version) -> bool {
    path.iter().filter_map(|name| name.to_str()).any(|name| name.parse() == Ok(version))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nerve_agent::profile::Profiles;

    use super::*;
    use crate::error::ErrorKind;

    /// Installs a package as npm does and returns a program that starts it.
    fn install(folder: &Path, version: &str) -> Program {
        let package = folder.join("node_modules/@openai/codex");
        fs::create_dir_all(package.join("bin")).unwrap();
        fs::create_dir_all(folder.join("node_modules/.bin")).unwrap();
        let content = format!(r#"{{"name": "@openai/codex", "version": "{version}"}}"#);
        fs::write(package.join("package.json"), content).unwrap();
        let script = package.join("bin/codex.js");
        fs::write(&script, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let link = folder.join("node_modules/.bin/codex");
        if !link.exists() {
            symlink(&script, &link).unwrap();
        }
        program(&["env", "A=b", &link.display().to_string()])
    }

    fn program(argv: &[&str]) -> Program {
        let argv = argv.iter().map(ToString::to_string).collect();
        Program { argv, cwd: None, env: BTreeMap::new(), env_remove: Vec::new() }
    }

    async fn checked(program: &Program, force: bool) -> Result<Option<String>, EngineError> {
        let profile = Profiles::builtin().get("codex").unwrap();
        check(&profile, program, force).await
    }

    #[tokio::test]
    async fn older_version_is_refused_without_force() {
        let folder = tempfile::tempdir().unwrap();
        let program = install(folder.path(), "0.1.0");
        let error = checked(&program, false).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.hint.unwrap().contains("--force"));
        let forced = checked(&program, true).await.unwrap().unwrap();
        assert!(forced.starts_with("0.1.0 (tested: 0."), "{forced}");
    }

    #[tokio::test]
    async fn newer_version_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let newer = checked(&install(folder.path(), "99.0.0"), false).await.unwrap().unwrap();
        assert!(newer.starts_with("99.0.0 (tested: "), "{newer}");
        let tested = Profiles::builtin().get("codex").unwrap().versions.clone().unwrap().newest.to_string();
        assert_eq!(checked(&install(folder.path(), &tested), false).await.unwrap(), Some(tested));
    }

    #[tokio::test]
    async fn scripts_and_missing_programs_have_no_version() {
        let folder = tempfile::tempdir().unwrap();
        let script = install(folder.path(), "no version");
        assert_eq!(checked(&script, false).await.unwrap().as_deref(), Some("unknown"));
        let missing = program(&["/nonexistent/codex"]);
        assert_eq!(checked(&missing, false).await.unwrap().as_deref(), Some("unknown"));
    }

    /// Copies an installed program into a new folder and returns the copy.
    fn copy(name: &str, folder: &Path) -> PathBuf {
        let installed = program(&[name]).find().unwrap().canonicalize().unwrap();
        fs::create_dir_all(folder).unwrap();
        let copy = folder.join("codex");
        fs::copy(installed, &copy).unwrap();
        copy
    }

    async fn printed(path: &Path) -> Option<Version> {
        let target = path.canonicalize().unwrap();
        printed_version(path, &target, &program(&[&path.display().to_string()])).await
    }

    fn is_cached(path: &Path) -> bool {
        PRINTED.lock().contains_key(&(path.to_path_buf(), path.canonicalize().unwrap()))
    }

    #[tokio::test]
    async fn version_is_cached_only_if_path_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let shim = copy("git", &folder.path().join("shims"));
        let version = printed(&shim).await.expect("git prints its version");
        assert!(!is_cached(&shim), "it may be another one next time");
        let installed = copy("git", &folder.path().join(format!("v{version}/bin")));
        assert_eq!(printed(&installed).await, Some(version));
        assert!(is_cached(&installed));
        assert_eq!(printed(&installed).await, Some(version));
    }

    #[tokio::test]
    async fn link_to_other_version_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (git, bash) = (copy("git", &folder.path().join("a")), copy("bash", &folder.path().join("b")));
        let written = fs::metadata(&git).unwrap().modified().unwrap();
        File::options().write(true).open(&bash).unwrap().set_modified(written).unwrap();
        let link = folder.path().join("codex");
        symlink(&git, &link).unwrap();
        let before = printed(&link).await;
        fs::remove_file(&link).unwrap();
        symlink(&bash, &link).unwrap();
        let after = printed(&link).await;
        // bash prints a version with four parts, which is none.
        assert!(before.is_some());
        assert_eq!(after, None);
    }

    #[tokio::test]
    async fn program_is_started_by_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let target = program(&["git"]).find().unwrap().canonicalize().unwrap();
        let link = folder.path().join("git");
        symlink(&target, &link).unwrap();
        let linked = Program { cwd: Some(folder.path().to_path_buf()), ..program(&["./git"]) };
        let path = linked.find().unwrap();
        assert_ne!(path, target);
        assert!(printed_version(&path, &target, &linked).await.is_some());
    }
}
