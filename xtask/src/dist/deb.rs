//! `nerve_VERSION_ARCHITECTURE.deb` with dpkg-deb.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::release::{Release, copy, write};
use super::tree::{self, DOC, MAN, Tree};
use crate::programs;
use crate::project;

/// Revision of the package for the same version of nerve.
const REVISION: u32 = 1;
/// Maintainer, unless `DEBFULLNAME` and `DEBEMAIL` name one.
const NO_MAINTAINER: [&str; 2] = ["nerve maintainers", "maintainers@nerve.invalid"];
const ZSH: [&str; 2] = ["share/zsh/site-functions", "share/zsh/vendor-completions"];

/// Packs the tree below `/usr`, with a systemd user unit.
pub(crate) fn pack(release: &Release, tree: &Tree) -> anyhow::Result<PathBuf> {
    let root = release.stage("deb")?;
    let usr = root.join("usr");
    tree::copy_folder(&tree.folder, &usr)?;
    // Debian's zsh reads packages' scripts from a folder of its own.
    fs::rename(usr.join(ZSH[0]), usr.join(ZSH[1]))?;
    copy(&packaging(release, "systemd/nerve.service"), &usr.join("lib/systemd/user/nerve.service"))?;
    write_docs(release, &usr)?;
    fs::create_dir(root.join("DEBIAN"))?;
    write_control(release, &root)?;
    write(&root.join("DEBIAN/md5sums"), md5sums(release, &root)?)?;
    project::run(Command::new("chmod").args(["-R", "u+rw,go+rX,go-w"]).arg(&root))?;
    let architecture = release.platform.arch.debian();
    let file = release.out.join(format!("nerve_{}-{REVISION}_{architecture}.deb", release.version));
    let mut dpkg = release.command("dpkg-deb");
    dpkg.args(["--root-owner-group", if release.options.fast { "-Znone" } else { "-Zxz" }]);
    // Compression in parallel depends on the number of cores.
    dpkg.env("DPKG_DEB_THREADS_MAX", "1").arg("--build").arg(&root).arg(&file);
    project::run(&mut dpkg)?;
    if programs::find("lintian").is_some() && !release.options.fast {
        project::run(Command::new("lintian").args(["--fail-on", "error", "--allow-root"]).arg(&file))?;
    }
    Ok(file)
}

/// Writes the changelog and the copyright file, and compresses man pages and changelogs as Debian's policy requires.
fn write_docs(release: &Release, usr: &Path) -> anyhow::Result<()> {
    let doc = usr.join(DOC);
    let date = Command::new("date").args(["--utc", "-R", &format!("--date=@{}", release.epoch)]).output()?;
    let date = String::from_utf8(date.stdout)?;
    let values = [
        ("VERSION", format!("{}-{REVISION}", release.version)),
        ("MAINTAINER", maintainer()),
        ("DATE", date.trim().to_string()),
    ];
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    write(&doc.join("changelog.Debian"), release.template("debian/changelog", &values)?)?;
    let mit = debian_paragraph(&fs::read_to_string(doc.join("LICENSE-MIT"))?);
    write(&doc.join("copyright"), release.template("debian/copyright", &[("MIT", &mit)])?)?;
    fs::rename(doc.join("CHANGELOG.md"), doc.join("changelog"))?;
    // The copyright file refers to Debian's copy of the Apache licence.
    for name in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::remove_file(doc.join(name))?;
    }
    let mut pages = vec![doc.join("changelog.Debian"), doc.join("changelog")];
    for entry in fs::read_dir(usr.join(MAN))? {
        pages.push(entry?.path());
    }
    project::run(Command::new("gzip").args(["-9", "--no-name"]).args(pages))
}

fn write_control(release: &Release, root: &Path) -> anyhow::Result<()> {
    let mut depends = Vec::new();
    if let Some(minor) = release.platform.glibc {
        depends.push(format!("libc6 (>= 2.{minor})"));
    }
    if release.platform.needs_libgcc {
        depends.push("libgcc-s1 (>= 4.2)".to_string());
    }
    let depends = match depends.join(", ") {
        list if list.is_empty() => String::new(),
        list => format!("\nDepends: {list}"),
    };
    let size =
        Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1K"]).arg(root).output()?;
    let size = String::from_utf8(size.stdout)?;
    let size = size.split_whitespace().next().context("du prints no size")?;
    let values = [
        ("VERSION", format!("{}-{REVISION}", release.version)),
        ("ARCHITECTURE", release.platform.arch.debian().to_string()),
        ("MAINTAINER", maintainer()),
        ("SIZE", size.to_string()),
        ("DEPENDS", depends),
    ];
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    write(&root.join("DEBIAN/control"), release.template("debian/control", &values)?)
}

/// Returns a text as the continuation of a field: indented, with a dot in empty lines.
fn debian_paragraph(text: &str) -> String {
    let indented = |line: &str| if line.trim().is_empty() { " .".to_string() } else { format!(" {line}") };
    text.trim().lines().map(indented).collect::<Vec<_>>().join("\n")
}

/// Returns the MD5 sums of all files, as dpkg keeps them to detect changes.
fn md5sums(release: &Release, root: &Path) -> anyhow::Result<Vec<u8>> {
    let find = "find usr -type f -print0 | sort --zero-terminated | xargs --null md5sum";
    project::output(release.command("sh").current_dir(root).args(["-c", find]))
}

/// Returns the maintainer from the variables that Debian's tools use.
fn maintainer() -> String {
    let variable = |name: &str, other: &str| std::env::var(name).unwrap_or_else(|_| other.to_string());
    format!("{} <{}>", variable("DEBFULLNAME", NO_MAINTAINER[0]), variable("DEBEMAIL", NO_MAINTAINER[1]))
}

fn packaging(release: &Release, file: &str) -> PathBuf {
    release.project.root.join("packaging").join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_of_a_paragraph_get_a_dot() {
        assert_eq!(debian_paragraph("MIT\n\nText\n"), " MIT\n .\n Text");
    }
}
