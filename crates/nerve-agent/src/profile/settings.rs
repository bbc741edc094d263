//! Settings files that select a screen which the profile does not describe.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{Profile, is_on};

/// The JSON files with a program's settings. A table `env` in them sets variables, which precede those of the process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsFiles {
    /// Name of the setting with which the program draws another screen if it is true.
    pub unsupported: String,
    /// Argument with a file, or with JSON text, whose settings precede those of the user's file.
    pub argument: String,
    /// Argument with the files to read, separated by commas: `user` is the user's file.
    pub sources: String,
    /// Environment variable with the folder of the user's file.
    pub folder_variable: String,
    /// That folder in the home folder if the variable is not set.
    pub folder: PathBuf,
    /// Name of the user's file.
    pub file: PathBuf,
}

/// A setting that selects a screen which the profile does not describe, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedSetting {
    /// Name of the setting, or of a variable that the settings set.
    pub name: String,
    /// The argument or the file that contains it.
    pub place: String,
}

impl fmt::Display for UnsupportedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.place)
    }
}

impl Profile {
    /// Returns the setting with which the program draws a screen that the profile does not describe. `env` returns the value of a
    /// variable, `read` the text of a file.
    pub fn unsupported_setting<'a>(
        &self,
        argv: &[String],
        env: impl Fn(&str) -> Option<&'a str>,
        read: impl Fn(&Path) -> Option<String>,
    ) -> Option<UnsupportedSetting> {
        let files = self.settings.as_ref()?;
        let args: Vec<&str> = argv[self.program_at(argv)? + 1..].iter().map(String::as_str).collect();
        let documents = files.documents(&args, &env, read);
        let find = |name: &String, at: &dyn Fn(&Value) -> Option<bool>| {
            let (place, is_on) =
                documents.iter().find_map(|(place, settings)| Some((place, at(settings)?)))?;
            Some((UnsupportedSetting { name: name.clone(), place: place.clone() }, is_on))
        };
        let variables = self.unsupported_env.iter();
        let mut variables = variables.filter_map(|name| find(name, &|settings| variable_of(settings, name)));
        if let Some((variable, is_on)) = variables.next() {
            return is_on.then_some(variable);
        }
        let is_set = |name: &String| env(name).is_some_and(|value| !value.is_empty());
        if self.unsupported_env.iter().any(is_set) {
            return None;
        }
        let (setting, is_on) = find(&files.unsupported, &|settings| {
            settings.get(&files.unsupported).map(|value| *value == Value::Bool(true))
        })?;
        is_on.then_some(setting)
    }
}

impl SettingsFiles {
    /// Returns the settings with their places; earlier ones precede.
    fn documents<'a>(
        &self,
        args: &[&str],
        env: impl Fn(&str) -> Option<&'a str>,
        read: impl Fn(&Path) -> Option<String>,
    ) -> Vec<(String, Value)> {
        let mut documents = Vec::new();
        if let Some(value) = last_value(args, &self.argument) {
            let text = if value.trim_start().starts_with('{') {
                Some(value.to_string())
            } else {
                read(Path::new(value))
            };
            documents.push((self.argument.clone(), text));
        }
        let has_user = last_value(args, &self.sources)
            .is_none_or(|sources| sources.split(',').any(|source| source.trim() == "user"));
        let folder = env(&self.folder_variable)
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(env("HOME")?).join(&self.folder)));
        if let Some(path) = folder.filter(|_| has_user).map(|folder| folder.join(&self.file)) {
            documents.push((path.display().to_string(), read(&path)));
        }
        let parse =
            |(place, text): (String, Option<String>)| Some((place, serde_json::from_str(&text?).ok()?));
        documents.into_iter().filter_map(parse).collect()
    }
}

/// Returns the last value of an option, as `NAME VALUE` or `NAME=VALUE`.
fn last_value<'a>(args: &[&'a str], name: &str) -> Option<&'a str> {
    let end = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
    let args = &args[..end];
    let of_next = |at: usize| args.get(at + 1).copied().filter(|_| args[at] == name);
    let mut values = args.iter().enumerate().filter_map(|(at, arg)| {
        let joined = arg.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        joined.or_else(|| of_next(at))
    });
    values.next_back()
}

/// Returns whether the settings turn a variable on or off; `None` if they do not set it.
fn variable_of(settings: &Value, name: &str) -> Option<bool> {
    Some(match settings.get("env")?.get(name)? {
        Value::String(value) => is_on(value),
        value => is_on(&value.to_string()),
    })
}
