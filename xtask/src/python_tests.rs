//! Runs the Python client's tests against the program that the `build` step creates.

use anyhow::bail;

use crate::hermetic::Hermetic;
use crate::programs;
use crate::project::{self, Project};
use crate::report::Outcome;

/// Time limit in seconds.
const LIMIT: &str = "900";

/// Runs the tests with pytest, in the virtual environment of the PyPI packages. Skips them if it is missing; in CI this fails.
pub(crate) fn test(project: &Project) -> anyhow::Result<Outcome> {
    let python = project.pypi().join("bin/python").to_string_lossy().into_owned();
    if !has_packages(&python) {
        let missing = "pytest or httpx is missing; cargo xtask setup";
        if project.ci {
            bail!("{missing}");
        }
        return Ok(Outcome::LeftOut(missing.to_string()));
    }
    if !project.nerve().is_file() {
        bail!("{} is not built; run the step 'build' first", project.nerve().display());
    }
    let home = Hermetic::new("python")?;
    let mut command = project.command("timeout");
    home.apply(&mut command);
    // Keeps bytecode and caches out of the checkout.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("NERVE_BIN", project.nerve());
    command.current_dir(project.root.join("python"));
    command.args(["--kill-after=30", LIMIT, &python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    project::run(&mut command)?;
    Ok(Outcome::passed())
}

/// Returns true if the interpreter has pytest and the packages of the client's extra.
fn has_packages(python: &str) -> bool {
    programs::succeeds(python, &["-c", "import httpx, httpx_sse, pytest"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonexistent_interpreter_has_no_packages() {
        assert!(!has_packages("/nonexistent/python3"));
        assert!(!has_packages("/bin/false"));
    }
}
