//! Finds calls that only Linux has, and unsafe code, outside of the folder for them.

use anyhow::bail;

use crate::project::Project;
use crate::report::Outcome;
use crate::sources::read_sources;

/// The folder that has them, with an implementation for Linux and one for other systems.
const FOLDER: &str = "crates/nerve-types/src/os/";

/// Texts that may occur only in that folder. Comments may contain them.
const RESERVED: [&str; 9] = [
    "\"/proc",
    "inotify::",
    "ioctl_ficlone",
    "os::linux",
    "parent_process_death",
    "peercred",
    "pidfd_",
    "CLOSE_RANGE",
    "unsafe {",
];

/// Fails if a source file of the program contains one of them elsewhere. Tests, and the harness of tests, may use
/// Linux.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let sources = read_sources(project)?;
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| is_checked(&source.name)) {
        let lines = reserved_lines(&source.text);
        problems.extend(lines.map(|(line, reserved)| format!("{}:{line}: {reserved}", source.name)));
    }
    if !problems.is_empty() {
        eprintln!("{}", problems.join("\n"));
        bail!("{} lines depend on the operating system: move them to {FOLDER}", problems.len());
    }
    Ok(Outcome::Passed(format!("{} files", sources.len())))
}

fn is_checked(name: &str) -> bool {
    !name.starts_with(FOLDER) && !name.starts_with("crates/nerve-testkit/")
}

/// Returns the 1-based numbers of such lines, up to the tests of the file.
fn reserved_lines(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).enumerate();
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).filter_map(|(index, line)| {
        let reserved = RESERVED.into_iter().find(|reserved| line.contains(reserved))?;
        Some((index + 1, reserved))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_calls_are_found_outside_of_tests() {
        let text = "// see \"/proc\nlet path = \"/proc/1\";\n\n    unsafe { call() }\n#[cfg(test)]\nunsafe { call() }\n";
        assert_eq!(reserved_lines(text).collect::<Vec<_>>(), [(2, "\"/proc"), (4, "unsafe {")]);
        assert!(
            is_checked("crates/nerve-host/src/lib.rs") && !is_checked("crates/nerve-types/src/os/linux.rs")
        );
    }
}
