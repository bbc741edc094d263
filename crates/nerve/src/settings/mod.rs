//! The user's settings: the viewer's gutter, clipboard and keys, from `config.toml`.

mod notes;
mod parser;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::draw::Gutter;

pub(crate) use self::parser::Diagnostics;
use crate::cli::recording::GutterArg;
use crate::exit::{FAILED, Failure, USAGE};
use crate::out;

/// Maximum size of the settings file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Settings, with defaults for those that are not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Place of the viewer's snapshot marks.
    pub(crate) gutter: Gutter,
    /// Lets programs copy to the user's clipboard.
    pub(crate) clipboard: bool,
    /// Viewer operations by name, with the keys that replace their default keys.
    pub(crate) keys: Vec<(String, Vec<String>)>,
    /// Remarks on the settings.
    pub(crate) notes: Diagnostics,
    /// Message for the viewer if the settings could not be read and these are the defaults.
    pub(crate) load_error: Option<&'static str>,
}

impl Default for Settings {
    fn default() -> Settings {
        let notes = Diagnostics::default();
        Settings { gutter: Gutter::default(), clipboard: true, keys: Vec::new(), notes, load_error: None }
    }
}

impl Settings {
    /// Loads the user's settings. Returns the defaults if there is no file.
    ///
    /// # Errors
    /// The file exists but cannot be read, or is invalid: with line and column.
    pub(crate) fn load() -> Result<Settings> {
        Settings::read(&path(), false)
    }

    /// Loads the user's settings for the viewer. Errors are only warnings; the defaults apply.
    pub(crate) fn for_viewer() -> Settings {
        Settings::load().unwrap_or_else(|error| {
            let failure = Failure::from_error(&error);
            out::warning(format_args!("invalid settings, using the defaults:\n{}", failure.message));
            Settings { load_error: Some("invalid settings: see 'nerve config check'"), ..Settings::default() }
        })
    }

    /// Reads a settings file. Returns the defaults if it does not exist, unless `must_exist`.
    ///
    /// # Errors
    /// See [`Settings::load`].
    pub(crate) fn read(path: &Path, must_exist: bool) -> Result<Settings> {
        let text = match read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => {
                return Ok(Settings::default());
            }
            Err(error) => {
                let message = format!("cannot read the settings in {}: {error}", path.display());
                let failure = Failure::new(FAILED, message);
                let hint = match error.kind() {
                    io::ErrorKind::InvalidData => "save it as UTF-8 text",
                    io::ErrorKind::IsADirectory => "the settings must be a file: move the directory away",
                    io::ErrorKind::PermissionDenied => "make it readable",
                    io::ErrorKind::NotFound => "'nerve config path' prints the default path",
                    _ => "'nerve config show' prints a complete settings file",
                };
                return Err(failure.hint(hint).into());
            }
        };
        Settings::parse(&text).map_err(|errors| {
            let failure = Failure::new(USAGE, errors.render(path));
            failure
                .hint("check again with 'nerve config check'; list the settings with 'nerve config show'")
                .into()
        })
    }

    /// Parses the text of a settings file.
    ///
    /// # Errors
    /// All errors of the text.
    pub(crate) fn parse(text: &str) -> Result<Settings, Diagnostics> {
        parser::parse(text)
    }

    /// Returns the gutter from the command line, otherwise the configured one.
    pub(crate) fn gutter(&self, option: Option<GutterArg>) -> Gutter {
        match option {
            Some(GutterArg::Left) => Gutter::Left,
            Some(GutterArg::Right) => Gutter::Right,
            Some(GutterArg::None) => Gutter::None,
            None => self.gutter,
        }
    }

    /// Returns the key bindings of the viewer.
    pub(crate) fn bindings(&self) -> Bindings {
        // The parser has reported conflicts.
        Bindings::with(&self.keys).unwrap_or_default()
    }
}

/// Returns the path of the settings file, which may not exist.
pub(crate) fn path() -> PathBuf {
    ServerPaths::from_env().config.join("config.toml")
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}
