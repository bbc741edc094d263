//! Installs the packages for the tests and the benchmark of the web console, and the SDK of the Agent Client Protocol, under
//! `target/browser`, as pinned by `xtask/browser/package-lock.json`. The browser itself is a Debian package.

use crate::agents;
use crate::project::Project;

/// Installs the packages unless the same lockfile is already installed.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    let folder = project.target.join("browser");
    if agents::is_installed(&project.root.join("xtask/browser"), &folder)? {
        println!("browser driver: all there");
        return Ok(());
    }
    println!("browser driver: installing the pinned packages with npm");
    agents::install_locked(&project.root.join("xtask/browser"), &folder)?;
    agents::mark_installed(&folder)
}
