//! The registry of profiles: built-in ones, and the user's own, which override them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::Profile;

/// All profiles by name.
#[derive(Debug, Clone)]
pub struct Profiles {
    by_name: BTreeMap<String, Arc<Profile>>,
    sources: BTreeMap<String, ProfileSource>,
}

/// The origin of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileSource {
    /// The user's file, as named by the caller; `None` for a built-in profile.
    pub file: Option<String>,
    /// The file's text.
    pub text: Arc<str>,
}

/// An invalid profile file. The others are still loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("profile file '{file}', line {line}, column {column}: {message}")]
pub struct ProfileError {
    /// The file's name as given by the caller.
    pub file: String,
    /// Line, 1-based; 1 for an error in the file as a whole.
    pub line: usize,
    /// Column, 1-based.
    pub column: usize,
    /// Description of the error.
    pub message: String,
}

const BUILTIN: [(&str, &str); 12] = [
    ("claude.toml", include_str!("../../profiles/claude.toml")),
    ("codex.toml", include_str!("../../profiles/codex.toml")),
    ("gemini.toml", include_str!("../../profiles/gemini.toml")),
    ("opencode.toml", include_str!("../../profiles/opencode.toml")),
    ("kilo.toml", include_str!("../../profiles/kilo.toml")),
    ("pi.toml", include_str!("../../profiles/pi.toml")),
    ("qwen.toml", include_str!("../../profiles/qwen.toml")),
    ("copilot.toml", include_str!("../../profiles/copilot.toml")),
    ("kimi.toml", include_str!("../../profiles/kimi.toml")),
    ("shell.toml", include_str!("../../profiles/shell.toml")),
    ("python.toml", include_str!("../../profiles/python.toml")),
    ("generic.toml", include_str!("../../profiles/generic.toml")),
];

/// Programs that run another program from their arguments, with the options that take a separate value (numbers and
/// assignments are skipped anyway).
const WRAPPERS: [(&str, &[&str]); 13] = [
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("nerve", &[]),
    ("npx", &["-p", "--package"]),
    ("bunx", &["-p", "--package"]),
    ("pnpx", &["-p", "--package"]),
    ("uvx", &["-p", "--python", "--from", "--with"]),
    ("nice", &[]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("sudo", &["-u", "--user", "-g", "--group", "-D", "--chdir", "-h", "--host"]),
    ("time", &["-f", "-o"]),
    ("timeout", &["-s", "--signal"]),
    ("unshare", &[]),
];

impl Profiles {
    /// Returns the built-in profiles. They are compiled once in a process.
    pub fn builtin() -> Profiles {
        static COMPILED: LazyLock<Profiles> = LazyLock::new(|| {
            let (mut profiles, errors) = Profiles::load(BUILTIN.iter().map(|(file, text)| (*file, *text)));
            debug_assert!(errors.is_empty(), "{errors:?}");
            profiles.sources.values_mut().for_each(|source| source.file = None);
            profiles
        });
        COMPILED.clone()
    }

    /// Returns the built-in profiles with the user's files added. A file with the name of a built-in profile replaces
    /// it.
    pub fn with_user<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> (Profiles, Vec<ProfileError>) {
        let mut all = Profiles::builtin();
        let (own, errors) = Profiles::load(files);
        all.by_name.extend(own.by_name);
        all.sources.extend(own.sources);
        (all, errors)
    }

    fn load<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> (Profiles, Vec<ProfileError>) {
        let mut profiles = Profiles { by_name: BTreeMap::new(), sources: BTreeMap::new() };
        let mut errors = Vec::new();
        for (file, text) in files {
            match Profile::parse(file, text) {
                Ok(profile) => {
                    let source = ProfileSource { file: Some(file.to_string()), text: text.into() };
                    profiles.sources.insert(profile.name.clone(), source);
                    profiles.by_name.insert(profile.name.clone(), Arc::new(profile));
                }
                Err(error) => errors.push(error),
            }
        }
        (profiles, errors)
    }

    /// Returns the origin of a profile.
    pub fn source(&self, name: &str) -> Option<&ProfileSource> {
        self.sources.get(name)
    }

    /// Returns a profile by name.
    pub fn get(&self, name: &str) -> Option<Arc<Profile>> {
        self.by_name.get(name).cloned()
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    /// Returns the profile for a command by the program's file name, behind wrappers such as `env` and `npx`; `generic`
    /// if none matches.
    pub fn for_command(&self, argv: &[String]) -> Option<Arc<Profile>> {
        let fits =
            |profile: &&Arc<Profile>, name: &str| profile.programs.iter().any(|program| program == name);
        let profile =
            program(argv).and_then(|name| self.by_name.values().find(|profile| fits(profile, name)));
        profile.cloned().or_else(|| self.get("generic"))
    }
}

/// Returns the file name of the program that a command runs.
fn program(argv: &[String]) -> Option<&str> {
    argv.get(program_at(argv)?).map(|word| file_name(word))
}

/// Returns the index of the program that a command runs. Behind a wrapper, this is the first word that is neither an
/// option nor another wrapper: in `env cat claude`, `claude` is an argument of `cat`.
pub(super) fn program_at(argv: &[String]) -> Option<usize> {
    let mut words = argv.iter().map(String::as_str).enumerate();
    let (mut at, first) = words.next()?;
    let mut name = file_name(first);
    while let Some((_, valued)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
        (at, name) = loop {
            let (at, word) = words.next()?;
            if valued.contains(&word) {
                words.next();
            } else if !(word.starts_with('-') || is_assignment(word) || is_duration(word)) {
                break (at, file_name(word));
            }
        };
    }
    Some(at)
}

/// Returns true for `NAME=value`, as in `env` and `sudo`.
pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Returns true for a number with an optional unit, as in `timeout`: `60`, `1.5m`.
fn is_duration(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(word);
    number.starts_with(|first: char| first.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

pub(super) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

impl Profile {
    /// Reads a profile from the text of a file.
    ///
    /// # Errors
    /// The text is not TOML, or not a valid profile.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        toml::from_str(text).map_err(|error| profile_error(file, text, &error))
    }
}

fn profile_error(file: &str, text: &str, error: &toml::de::Error) -> ProfileError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    ProfileError { file: file.to_string(), line, column, message: error.message().to_string() }
}
