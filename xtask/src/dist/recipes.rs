//! Files that install the tarball from the web, with its checksum.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::release::Release;
use crate::sha256;

/// Writes the Homebrew formula `nerve.rb`.
pub(crate) fn homebrew(release: &Release, tarball: &Path) -> anyhow::Result<PathBuf> {
    let name = tarball.file_name().context("the tarball has no name")?.to_string_lossy();
    let url = format!("{}/{name}", release.options.base_url);
    let hash = sha256::hex(&fs::read(tarball)?);
    let values = [
        ("VERSION", release.version.as_str()),
        ("HOMEPAGE", release.options.base_url.as_str()),
        ("URL", url.as_str()),
        ("HASH", hash.as_str()),
        ("CPU", if release.platform.arch.debian() == "amd64" { "intel" } else { "arm" }),
    ];
    let file = release.out.join("nerve.rb");
    fs::write(&file, release.template("homebrew/nerve.rb", &values)?)?;
    Ok(file)
}
