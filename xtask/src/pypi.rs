//! Packages of PyPI that the tests use as clients, pinned by `xtask/pypi/requirements.txt`, installed into a virtual environment under
//! `target/pypi`.

use std::fs;
use std::process::Command;

use anyhow::{Context, bail};

use crate::project::{self, Project};
use crate::tools;

/// Interpreters that may do. Debian's own has what Debian brings; a `python3` from elsewhere may shadow it.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];
/// What the packages need of one.
const NEEDS: &str = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10)";
/// A copy of the list, written when all are there.
const STAMP: &str = "installed.txt";

/// Installs them unless the same list is installed already.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    let folder = project.pypi();
    let list = project.root.join("xtask/pypi/requirements.txt");
    let wanted = fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
    if fs::read(folder.join(STAMP)).is_ok_and(|stamp| stamp == wanted) {
        println!("packages of PyPI: all there");
        return Ok(());
    }
    let Some(python) = INTERPRETERS.into_iter().find(|python| tools::succeeds(python, &["-c", NEEDS])) else {
        bail!("python3 (3.10 or newer) with venv is missing; apt-get install python3-venv");
    };
    println!("packages of PyPI: installing those of {}", list.display());
    project::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    project::run(Command::new(folder.join("bin/python")).args(pip).arg(&list))?;
    fs::write(folder.join(STAMP), wanted)?;
    Ok(())
}
