//! The wheels of the Python client: a pure one, and one that also contains the program.

use std::path::PathBuf;

use anyhow::Context;

use super::binary::Platform;
use super::release::{Release, copy};
use super::tree::{self, Tree};
use crate::project;

pub(crate) struct Wheels {
    pub(crate) pure: PathBuf,
    pub(crate) platform: PathBuf,
}

/// Builds both wheels with setuptools, from a copy of the sources.
pub(crate) fn build(release: &Release, tree: &Tree) -> anyhow::Result<Wheels> {
    let python = release.project.pypi().join("bin/python");
    let source = release.project.root.join("python");
    let copied = release.stage("python")?;
    for name in ["pyproject.toml", "README.md"] {
        copy(&source.join(name), &copied.join(name))?;
    }
    tree::copy_folder(&source.join("nerve_sdk"), &copied.join("nerve_sdk"))?;
    for name in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&release.project.root.join(name), &copied.join(name))?;
    }
    let mut pip = release.command(&python);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-build-isolation"]);
    pip.args(["--no-deps", "--no-index", "--wheel-dir"]).arg(&release.out).arg(&copied);
    project::run(&mut pip)?;
    let pure = release.out.join(format!("nerve_sdk-{}-py3-none-any.whl", release.version));
    let mut convert = release.command(&python);
    convert.arg(source.join("tools/platform_wheel.py")).arg(&pure).arg(&release.program);
    convert.args(["--tag", &platform_tag(&release.platform), "--out"]).arg(&release.out);
    for notice in tree.notices() {
        convert.arg("--notice").arg(notice);
    }
    convert.args(["--level", if release.options.fast { "1" } else { "9" }]);
    let name =
        String::from_utf8(project::output(&mut convert)?).context("the name of a wheel is not UTF-8")?;
    Ok(Wheels { pure, platform: release.out.join(name.trim()) })
}

/// Returns the platforms on which pip installs the program (PEP 600 and PEP 656).
fn platform_tag(platform: &Platform) -> String {
    let arch = platform.arch.name();
    match platform.glibc {
        Some(minor) => format!("manylinux_2_{minor}_{arch}"),
        None => format!("manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"),
    }
}
