//! The installed files below a prefix such as `/usr` or `~/.local`: the tarball and the .deb contain this tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::release::{Release, copy, write};
use crate::project;

/// Folder of the man pages in the tree.
pub(crate) const MAN: &str = "share/man/man1";
/// Folder of licences and texts in the tree.
pub(crate) const DOC: &str = "share/doc/nerve";

/// Scripts that complete command lines: shell, path in the tree.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/nerve"),
    ("zsh", "share/zsh/site-functions/_nerve"),
    ("fish", "share/fish/vendor_completions.d/nerve.fish"),
];

/// Texts of the checkout that every package contains.
pub(crate) const TEXTS: [&str; 5] = ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];

/// Files below a prefix.
pub(crate) struct Tree {
    pub(crate) folder: PathBuf,
}

impl Tree {
    /// Returns the files with licences of others, and the SBOM.
    pub(crate) fn notices(&self) -> [PathBuf; 2] {
        ["THIRD-PARTY-LICENSES.txt", "nerve.cdx.json"].map(|name| self.folder.join(DOC).join(name))
    }
}

/// Creates the tree. The program prints its own man pages and scripts.
pub(crate) fn create(release: &Release, bill: &Path, third_party: &Path) -> anyhow::Result<Tree> {
    let tree = Tree { folder: release.stage("tree")? };
    let folder = &tree.folder;
    copy(&release.program, &folder.join("bin/nerve"))?;
    let program = folder.join("bin/nerve");
    // The name of the earlier recorder, which `cargo install` and `cargo binstall` expect, too.
    symlink("nerve", folder.join("bin/ah"))?;
    project::run(release.command(&program).args(["man", "--dir"]).arg(folder.join(MAN)))?;
    write(&folder.join(MAN).join("ah.1"), ".so man1/nerve.1\n")?;
    for (shell, path) in COMPLETIONS {
        let script = project::output(release.command(&program).args(["completions", shell]))?;
        anyhow::ensure!(!script.is_empty(), "nerve completions {shell} prints nothing");
        write(&folder.join(path), script)?;
    }
    for name in TEXTS {
        copy(&release.project.root.join(name), &folder.join(DOC).join(name))?;
    }
    let [third_party_copy, bill_copy] = tree.notices();
    copy(third_party, &third_party_copy)?;
    copy(bill, &bill_copy)?;
    Ok(tree)
}

/// Copies a folder with its files, links and folders.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &copied)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, copied)?;
        } else {
            copy(&entry.path(), &copied)?;
        }
    }
    Ok(())
}
