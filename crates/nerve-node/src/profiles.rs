//! Loads the user's own profiles.

use std::path::Path;
use std::sync::Arc;

use nerve_agent::profile::{Profile, ProfileError, Profiles};
use nerve_types::files::read_text;

use crate::error::EngineError;

/// Maximum size of a profile file in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// Returns the built-in profiles, overridden by those in `folder` (`*.toml`, in the order of their names), and the errors of
/// invalid files.
pub fn load(folder: Option<&Path>) -> (Profiles, Vec<ProfileError>) {
    let mut errors = Vec::new();
    let mut files = Vec::new();
    for path in folder.map(toml_files).unwrap_or_default() {
        let name = path.display().to_string();
        match read_text(&path, FILE_LIMIT) {
            Ok(text) => files.push((name, text)),
            Err(error) => {
                errors.push(ProfileError { file: name, line: 1, column: 1, message: error.to_string() })
            }
        }
    }
    let (profiles, more) =
        Profiles::with_user(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    errors.extend(more);
    (profiles, errors)
}

/// Profiles, and the errors of invalid files.
pub struct LoadedProfiles {
    profiles: Profiles,
    /// The error messages.
    pub(crate) errors: Vec<String>,
}

impl LoadedProfiles {
    /// See [`load`].
    pub(crate) fn from_folder(folder: Option<&Path>) -> LoadedProfiles {
        let (profiles, errors) = load(folder);
        LoadedProfiles { profiles, errors: errors.iter().map(ToString::to_string).collect() }
    }

    /// Returns the profile of that name, otherwise the one for the command.
    ///
    /// # Errors
    /// No profile has that name.
    pub fn find(&self, name: Option<&str>, argv: &[String]) -> Result<Arc<Profile>, EngineError> {
        let LoadedProfiles { profiles, errors } = self;
        let known = |profiles: &Profiles| profiles.names().join(", ");
        match name {
            None => profiles.for_command(argv).ok_or_else(|| EngineError::internal("no generic profile")),
            Some(name) => profiles.get(name).ok_or_else(|| {
                let error = EngineError::not_found(format!("no profile '{name}'"));
                error.hint(format!(
                    "profiles: {}{}{}",
                    known(profiles),
                    if errors.is_empty() { "" } else { "; not loaded: " },
                    errors.join("; ")
                ))
            }),
        }
    }
}

fn toml_files(folder: &Path) -> Vec<std::path::PathBuf> {
    // A missing directory means no user profiles.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::load;

    #[test]
    fn pipe_in_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let (profiles, errors) = load(Some(folder.path()));
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].file, path.display().to_string());
        assert!(profiles.names().len() > 1);
    }
}
