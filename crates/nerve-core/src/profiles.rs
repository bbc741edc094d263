//! Reads the user's own profiles.

use std::path::Path;

use nerve_term::profile::{ProfileError, Profiles};

/// A profile file larger than this is none.
const FILE_LIMIT: u64 = 1 << 20;

/// The built-in profiles with those of `folder` (`*.toml`, by name) over them. What could not be read or understood is told;
/// the rest is used.
pub fn load(folder: Option<&Path>) -> (Profiles, Vec<ProfileError>) {
    let mut errors = Vec::new();
    let mut files = Vec::new();
    for path in folder.map(toml_files).unwrap_or_default() {
        let name = path.display().to_string();
        match read(&path) {
            Ok(text) => files.push((name, text)),
            Err(message) => errors.push(ProfileError { file: name, line: 1, column: 1, message }),
        }
    }
    let (profiles, more) =
        Profiles::with_user(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    errors.extend(more);
    (profiles, errors)
}

fn toml_files(folder: &Path) -> Vec<std::path::PathBuf> {
    // No such folder: the user has no profiles.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_LIMIT {
        return Err(format!("{size} bytes: a profile has at most {FILE_LIMIT}"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}
