//! `nerve-VERSION-TARGET.tar.xz` with GNU tar and xz.

use std::path::PathBuf;
use std::process::Command;

use super::release::Release;
use super::tree::Tree;
use crate::project;

/// Packs the tree below a folder named like the tarball.
pub(crate) fn pack(release: &Release, tree: &Tree) -> anyhow::Result<PathBuf> {
    let name = format!("nerve-{}-{}", release.version, release.platform.triple());
    let tar = release.stage.join(format!("{name}.tar"));
    let mut command = release.command("tar");
    command.arg("--create").arg("--file").arg(&tar);
    // The same bytes on every machine and for every user.
    command.args(["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    command.args(["--mode=u+rw,go+rX,go-w", &format!("--mtime=@{}", release.epoch)]);
    command.arg(format!("--transform=s,^\\.,{name},")).arg("--directory").arg(&tree.folder).arg(".");
    project::run(&mut command)?;
    let level = if release.options.fast { "-0" } else { "-9" };
    // One thread, because the number of threads changes the bytes.
    project::run(Command::new("xz").args(["--threads=1", "--force", level]).arg(&tar))?;
    let packed = release.out.join(format!("{name}.tar.xz"));
    std::fs::rename(tar.with_extension("tar.xz"), &packed)?;
    Ok(packed)
}
