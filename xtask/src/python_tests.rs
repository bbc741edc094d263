//! Runs the Python client's tests against the program that the `build` step creates.

use anyhow::bail;

use crate::hermetic::Hermetic;
use crate::programs;
use crate::project::{self, Project};
use crate::report::Outcome;

/// Time limit in seconds.
const LIMIT: &str = "900";

/// Candidate interpreters with pytest. Debian's own has Debian's packages; another `python3` may come first in `PATH`.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Runs the tests with pytest. Skips them if pytest is missing; in CI this fails.
pub(crate) fn test(project: &Project) -> anyhow::Result<Outcome> {
    let Some(python) = interpreter() else {
        let missing = "pytest is missing; apt-get install python3-pytest";
        if project.ci {
            bail!("{missing}");
        }
        return Ok(Outcome::LeftOut(missing.to_string()));
    };
    if !project.nerve().is_file() {
        bail!("{} is not built; run the step 'build' first", project.nerve().display());
    }
    let home = Hermetic::new("python")?;
    let mut command = project.command("timeout");
    home.apply(&mut command);
    // Keeps bytecode and caches out of the checkout.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("NERVE_BIN", project.nerve());
    command.current_dir(project.root.join("python"));
    command.args(["--kill-after=30", LIMIT, python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    project::run(&mut command)?;
    Ok(Outcome::passed())
}

/// Returns the first interpreter that is new enough and has pytest.
fn interpreter() -> Option<&'static str> {
    INTERPRETERS.into_iter().find(|python| has_pytest(python))
}

fn has_pytest(python: &str) -> bool {
    programs::find(python).is_some()
        && programs::succeeds(python, &["-c", "import sys, pytest; assert sys.version_info >= (3, 9)"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonexistent_interpreter_has_no_pytest() {
        assert!(!has_pytest("/nonexistent/python3"));
        assert!(!has_pytest("/bin/false"));
    }
}
