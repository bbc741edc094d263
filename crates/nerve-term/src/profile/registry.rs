//! The profiles of a server: built in, and the user's own over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Profile;

/// All known profiles.
#[derive(Debug, Clone)]
pub struct Profiles {
    by_name: BTreeMap<String, Arc<Profile>>,
}

/// A profile file that could not be used. The others still load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("profile file '{file}', line {line}, column {column}: {message}")]
pub struct ProfileError {
    /// The file, as the caller named it.
    pub file: String,
    /// 1-based; 1 where the file as a whole is at fault.
    pub line: usize,
    /// 1-based.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

const BUILTIN: [(&str, &str); 7] = [
    ("claude.toml", include_str!("../../profiles/claude.toml")),
    ("codex.toml", include_str!("../../profiles/codex.toml")),
    ("gemini.toml", include_str!("../../profiles/gemini.toml")),
    ("opencode.toml", include_str!("../../profiles/opencode.toml")),
    ("shell.toml", include_str!("../../profiles/shell.toml")),
    ("python.toml", include_str!("../../profiles/python.toml")),
    ("generic.toml", include_str!("../../profiles/generic.toml")),
];

/// Programs that run another program given in their arguments, and those of their options whose value is a word of its own
/// (values that are numbers or assignments need not be told).
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
    /// The built-in profiles.
    pub fn builtin() -> Profiles {
        let (profiles, errors) = Profiles::load(BUILTIN.iter().map(|(file, text)| (*file, *text)));
        debug_assert!(errors.is_empty(), "{errors:?}");
        profiles
    }

    /// The built-in profiles with the user's files over them: a file whose `name` is known replaces that profile.
    pub fn with_user<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> (Profiles, Vec<ProfileError>) {
        let mut all = Profiles::builtin();
        let (own, errors) = Profiles::load(files);
        all.by_name.extend(own.by_name);
        (all, errors)
    }

    fn load<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> (Profiles, Vec<ProfileError>) {
        let mut by_name = BTreeMap::new();
        let mut errors = Vec::new();
        for (file, text) in files {
            match toml::from_str::<Profile>(text) {
                Ok(profile) => {
                    by_name.insert(profile.name.clone(), Arc::new(profile));
                }
                Err(error) => errors.push(located(file, text, &error)),
            }
        }
        (Profiles { by_name }, errors)
    }

    /// A profile by its name.
    pub fn get(&self, name: &str) -> Option<Arc<Profile>> {
        self.by_name.get(name).cloned()
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    /// The profile for a command: by the program's file name, looking past wrappers such as `env` and `npx`; `generic` when
    /// none fits.
    pub fn for_command(&self, argv: &[String]) -> Option<Arc<Profile>> {
        let fits =
            |profile: &&Arc<Profile>, name: &str| profile.programs.iter().any(|program| program == name);
        let found = program(argv).and_then(|name| self.by_name.values().find(|profile| fits(profile, name)));
        found.cloned().or_else(|| self.get("generic"))
    }
}

/// The file name of the program that a command comes down to.
fn program(argv: &[String]) -> Option<&str> {
    argv.get(program_at(argv)?).map(|word| file_name(word))
}

/// Which word of a command is the program it comes down to. Behind a wrapper that is the first word which is not the wrapper's own
/// and no wrapper either: `claude` in `env cat claude` is a word for `cat`.
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

/// `NAME=value`, as `env` and `sudo` take it.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// A number, or one with a unit as `timeout` takes it: `60`, `1.5m`.
fn is_duration(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(word);
    number.starts_with(|first: char| first.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

pub(super) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn located(file: &str, text: &str, error: &toml::de::Error) -> ProfileError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    ProfileError { file: file.to_string(), line, column, message: error.message().to_string() }
}
