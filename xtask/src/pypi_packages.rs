//! Installs the PyPI packages that tests use into a virtual environment under `target/pypi`, as pinned by
//! `xtask/pypi/requirements.txt`: clients of other projects, and the packages that the Python client's own tests
//! need.

use std::fs;
use std::process::Command;

use anyhow::{Context, bail};

use crate::programs;
use crate::project::{self, Project};

/// Candidate interpreters. Debian's own has Debian's packages; another `python3` may come first in `PATH`.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];
/// A program that succeeds if the interpreter can create the environment.
const NEEDS: &str = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10)";
/// A copy of the requirements, written after a successful installation.
const STAMP: &str = "installed.txt";

/// Installs the packages unless the same requirements are already installed.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    let folder = project.pypi();
    let list = project.root.join("xtask/pypi/requirements.txt");
    let requirements = fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
    if fs::read(folder.join(STAMP)).is_ok_and(|stamp| stamp == requirements) {
        println!("packages of PyPI: all there");
        return Ok(());
    }
    let Some(python) = INTERPRETERS.into_iter().find(|python| programs::succeeds(python, &["-c", NEEDS]))
    else {
        bail!("python3 (3.10 or newer) with venv is missing; apt-get install python3-venv");
    };
    println!("packages of PyPI: installing those of {}", list.display());
    project::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    project::run(Command::new(folder.join("bin/python")).args(pip).arg(&list))?;
    fs::write(folder.join(STAMP), requirements)?;
    Ok(())
}
