//! The licence texts of all packages in the program, which most of them require to be passed on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::release::Release;
use super::sbom::{Bill, Component};

const HEADER: &str = "\
nerve contains the packages below. Each text is followed by the packages that it applies to.
The standard library of Rust is licensed under MIT OR Apache-2.0, musl under MIT; SQLite is in the
public domain.
";
const RULE: &str = "\n================================================================================\n";

/// Writes the texts, and returns the path of the file.
pub(crate) fn write(release: &Release, bill: &Bill) -> anyhow::Result<PathBuf> {
    let file = release.stage.join("THIRD-PARTY-LICENSES.txt");
    fs::write(&file, document(&bill.components)?)?;
    Ok(file)
}

fn document(components: &[Component]) -> anyhow::Result<String> {
    let mut packages_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for component in components.iter().filter(|component| !component.is_own) {
        let license = component.license.as_deref().unwrap_or("see its text");
        let line = format!("{} {} ({license})", component.name, component.version);
        let texts = license_texts(component)?;
        if texts.is_empty() {
            packages_of.entry("No licence file in the package.".to_string()).or_default().push(line.clone());
        }
        for text in texts {
            packages_of.entry(text).or_default().push(line.clone());
        }
    }
    let mut document = HEADER.to_string();
    for (text, packages) in packages_of {
        // Writing to a string cannot fail.
        let _ = write!(document, "{RULE}{text}\n\nApplies to: {}\n", packages.join(", "));
    }
    Ok(document)
}

/// Returns the texts of the licence files in the package's folder.
fn license_texts(component: &Component) -> anyhow::Result<Vec<String>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&component.folder)? {
        let path = entry?.path();
        if path.is_file() && is_license(&path, &component.name) {
            files.push(path);
        }
    }
    files.sort();
    let texts = files.iter().map(|file| {
        let text = String::from_utf8_lossy(&fs::read(file)?).into_owned();
        Ok(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_string())
    });
    texts.collect()
}

/// Returns true for names such as `LICENSE-MIT`, and in the folder of the web console's libraries for that of the package.
fn is_license(file: &Path, package: &str) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    let own = format!("{}.LICENSE.TXT", package.rsplit('/').next().unwrap_or(package).to_uppercase());
    name == own
        || ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_licence_files() {
        for (file, package, expected) in [
            ("/a/LICENSE-MIT", "a", true),
            ("/a/license.txt", "a", true),
            ("/v/xterm.LICENSE.txt", "@xterm/xterm", true),
            ("/v/marked.LICENSE.txt", "@xterm/xterm", false),
            ("/a/README.md", "a", false),
        ] {
            assert_eq!(is_license(Path::new(file), package), expected, "{file}");
        }
    }
}
