//! Scripts that use the web console in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Hermetic, skip};

/// Returns the command that runs a script of Node.js in a browser which `link` logs in. `name` names the folder of its screenshots.
/// Returns `None`, and records a skip of `name`, if Chromium or a package that `cargo xtask setup` installs is missing.
///
/// # Panics
/// The folder of the screenshots cannot be created.
pub fn browser_script(home: &Hermetic, name: &str, script: &Path, link: &str) -> Option<Command> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser/node_modules");
    let modules = modules.join("puppeteer-core").exists().then_some(modules);
    let programs = find_program("node").and(find_program("chromium")).zip(modules);
    let Some((chromium, modules)) = programs else {
        skip(name, "node, chromium or puppeteer-core is missing");
        return None;
    };
    let folder = std::env::var_os("NERVE_TEST_SCREENSHOTS")
        .map_or_else(|| home.root().join("screenshots"), |folder| PathBuf::from(folder).join(name));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        panic!("cannot create {}: {error}", folder.display());
    }
    let mut command = home.command("node");
    command.arg(script).arg(modules).arg(chromium).arg(link).arg(folder).current_dir(home.work());
    Some(command)
}

/// Returns the path of a program in `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.exists())
}
