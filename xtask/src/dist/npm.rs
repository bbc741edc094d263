//! npm packages: a launcher, and the program for one platform, on which the launcher optionally depends.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::options::NO_SCOPE;
use super::release::{Release, copy, write};
use super::tree::{TEXTS, Tree};
use crate::project;

/// Packs both packages with `npm pack`, which gives all files the same time.
pub(crate) fn pack(release: &Release, tree: &Tree) -> anyhow::Result<[PathBuf; 2]> {
    let folder = release.stage("npm")?;
    let [launcher, platform] = ["launcher", "platform"].map(|name| folder.join(name));
    let arch = release.platform.arch.node();
    let is_private = (release.options.npm_scope == NO_SCOPE).to_string();
    // A static program runs with every C library.
    let libc = if release.platform.glibc.is_some() { "\"glibc\"" } else { "\"glibc\", \"musl\"" };
    let values = [
        ("SCOPE", release.options.npm_scope.as_str()),
        ("VERSION", release.version.as_str()),
        ("PRIVATE", is_private.as_str()),
        ("ARCH", arch),
        ("LIBC", libc),
    ];
    let package = |name: &str| release.template(&format!("npm/{name}/package.json"), &values);
    write(&launcher.join("package.json"), package("launcher")?)?;
    write(&platform.join("package.json"), package("platform")?)?;
    write(&launcher.join("bin/nerve.js"), release.template("npm/launcher/bin/nerve.js", &values)?)?;
    copy(&release.program, &platform.join("bin/nerve"))?;
    for name in TEXTS.iter().filter(|name| name.starts_with("LICENSE")) {
        copy(&release.project.root.join(name), &launcher.join(name))?;
        copy(&release.project.root.join(name), &platform.join(name))?;
    }
    copy(&release.project.root.join("README.md"), &launcher.join("README.md"))?;
    for notice in tree.notices() {
        let name = notice.file_name().context("a notice has no name")?;
        copy(&notice, &platform.join(name))?;
    }
    Ok([pack_folder(release, &launcher)?, pack_folder(release, &platform)?])
}

/// Runs `npm pack` and returns the tarball.
fn pack_folder(release: &Release, folder: &Path) -> anyhow::Result<PathBuf> {
    let mut npm = release.command("npm");
    npm.current_dir(folder).args(["pack", "--silent", "--offline", "--ignore-scripts", "--pack-destination"]);
    let name = String::from_utf8(project::output(npm.arg(&release.out))?)?;
    let file = release.out.join(name.trim());
    fs::metadata(&file).with_context(|| format!("npm pack wrote no {}", file.display()))?;
    Ok(file)
}
