//! Checks the libraries of other projects in the page of the web console against their npm packages.
//!
//! `crates/nerve-server/web/vendor/vendor.json` names the origin of each file. npm refuses a package whose content differs from
//! the registry's integrity hash; this step compares that hash and the files with the pinned ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::agents;
use crate::project::{self, Project};
use crate::report::Outcome;
use crate::sha256;

const LIST: &str = "vendor.json";
const LOCKFILE: &str = "package-lock.json";

/// A vendored file and its origin.
#[derive(Debug)]
struct VendoredFile {
    name: String,
    package: String,
    version: String,
    integrity: String,
    /// Path in the package.
    path: String,
    sha256: String,
}

/// Compares the files with the pinned hashes and, unless `quick`, with the packages that npm fetches.
///
/// # Errors
/// Names the file that differs, is missing or is not listed.
pub(crate) fn check(project: &Project, quick: bool) -> anyhow::Result<Outcome> {
    let folder = project.root.join("crates/nerve-server/web/vendor");
    let files = read_list(&folder)?;
    check_hashes(&folder, &files)?;
    if quick {
        return Ok(Outcome::Passed(format!("{} files, hashes only", files.len())));
    }
    let packages = project.target.join("vendor");
    install(&packages, &files)?;
    for file in &files {
        let original = packages.join("node_modules").join(&file.package).join(&file.path);
        if read(&original)? != read(&folder.join(&file.name))? {
            bail!("{} is not {} of {} {}", file.name, file.path, file.package, file.version);
        }
    }
    Ok(Outcome::Passed(format!("{} files", files.len())))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn read_list(folder: &Path) -> anyhow::Result<Vec<VendoredFile>> {
    let list: Vec<BTreeMap<String, String>> = serde_json::from_slice(&read(&folder.join(LIST))?)?;
    let file = |mut entry: BTreeMap<String, String>| {
        let mut take =
            |name: &str| entry.remove(name).with_context(|| format!("{LIST}: no '{name}' in an entry"));
        Ok(VendoredFile {
            name: take("file")?,
            package: take("package")?,
            version: take("version")?,
            integrity: take("integrity")?,
            path: take("path")?,
            sha256: take("sha256")?,
        })
    };
    list.into_iter().map(file).collect()
}

/// Checks that the folder contains exactly the listed files with their hashes.
fn check_hashes(folder: &Path, files: &[VendoredFile]) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != LIST && !files.iter().any(|file| file.name == name) {
            bail!("{name} is not in {LIST}");
        }
    }
    for file in files {
        let actual = sha256::hex(&read(&folder.join(&file.name))?);
        if actual != file.sha256 {
            bail!("{}: its SHA-256 is {actual}, but {LIST} has {}", file.name, file.sha256);
        }
    }
    Ok(())
}

/// Installs the packages with npm unless they are there, and compares their integrity hashes.
fn install(target: &Path, files: &[VendoredFile]) -> anyhow::Result<()> {
    let versions: BTreeMap<&str, &str> =
        files.iter().map(|file| (file.package.as_str(), file.version.as_str())).collect();
    let manifest = serde_json::to_vec_pretty(&json!({ "private": true, "dependencies": versions }))?;
    let paths: [PathBuf; 2] = [target.join("package.json"), target.join(LOCKFILE)];
    if !fs::read(&paths[0]).is_ok_and(|old| old == manifest) || !paths[1].exists() {
        agents::check_npm()?;
        fs::create_dir_all(target)?;
        fs::write(&paths[0], manifest)?;
        let npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        project::run(Command::new("npm").current_dir(target).args(npm))?;
    }
    let lock: Value = serde_json::from_slice(&read(&paths[1])?)?;
    for file in files {
        let actual = &lock["packages"][format!("node_modules/{}", file.package)]["integrity"];
        if *actual != json!(file.integrity) {
            bail!(
                "{}: the registry's integrity is {actual}, but {LIST} has {}",
                file.package,
                file.integrity
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vendored(name: &str, content: &[u8]) -> VendoredFile {
        let text = || "x".to_string();
        let sha256 = sha256::hex(content);
        VendoredFile {
            name: name.into(),
            package: text(),
            version: text(),
            integrity: text(),
            path: text(),
            sha256,
        }
    }

    #[test]
    fn changed_missing_and_unlisted_files_are_found() {
        let folder = std::env::temp_dir().join(format!("nerve-vendored-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let listed = [vendored("a.mjs", b"a")];
        let problem = || check_hashes(&folder, &listed).unwrap_err().to_string();
        assert!(problem().contains("a.mjs"));
        fs::write(folder.join("a.mjs"), b"a").unwrap();
        check_hashes(&folder, &listed).unwrap();
        fs::write(folder.join("b.mjs"), b"b").unwrap();
        assert!(problem().contains("b.mjs is not in"));
        fs::remove_file(folder.join("b.mjs")).unwrap();
        fs::write(folder.join("a.mjs"), b"b").unwrap();
        assert!(problem().contains("SHA-256"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
