//! The programs that build packages.

use crate::programs;
use crate::project::Project;

/// Programs, and the Debian packages that contain them.
const PROGRAMS: [(&str, &str); 8] = [
    ("readelf", "binutils"),
    ("strip", "binutils"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("gzip", "gzip"),
    ("dpkg-deb", "dpkg"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// Returns the missing programs, each with the way to install it.
pub(crate) fn missing(project: &Project) -> Vec<String> {
    let programs = PROGRAMS.iter().filter(|(name, _)| programs::find(name).is_none());
    let mut missing: Vec<String> =
        programs.map(|(name, package)| format!("{name} (apt-get install {package})")).collect();
    let python = project.pypi().join("bin/python");
    if !programs::succeeds(&python.to_string_lossy(), &["-c", "import setuptools.command.bdist_wheel"]) {
        missing.push("setuptools (cargo xtask setup)".to_string());
    }
    missing
}
