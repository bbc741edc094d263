//! Reads the user's settings from `config.toml`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::ViewerOptions;
use nerve_tui::settings::Settings;
use nerve_tui::view::draw::Gutter;

use crate::exit::{self, FAILED, Failure, USAGE};
use crate::out;
use nerve_cli::recording::GutterArg;

/// Maximum size of the settings file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Loads the user's settings. Returns the defaults if there is no file.
///
/// # Errors
/// The file exists but cannot be read, or is invalid; the message has line and column.
pub(crate) fn load() -> Result<Settings> {
    read(&path(), false)
}

/// Loads the user's settings for the viewer. Errors are only warnings; the defaults apply.
pub(crate) fn for_viewer() -> Settings {
    load().unwrap_or_else(|error| {
        let failure = exit::failure(&error);
        out::warning(format_args!("invalid settings, using the defaults:\n{}", failure.message));
        Settings { load_error: Some("invalid settings: see 'nerve config check'"), ..Settings::default() }
    })
}

/// Reads a settings file. Returns the defaults if it does not exist, unless `must_exist`.
///
/// # Errors
/// See [`load`].
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

/// Returns the gutter from the command line, otherwise the configured one.
pub(crate) fn gutter(settings: &Settings, option: Option<GutterArg>) -> Gutter {
    match option {
        Some(GutterArg::Left) => Gutter::Left,
        Some(GutterArg::Right) => Gutter::Right,
        Some(GutterArg::None) => Gutter::None,
        None => settings.gutter,
    }
}

/// Returns the options of a viewer: `name` and `gutter`, and the user's settings.
pub(crate) fn viewer_options(settings: &Settings, name: String, gutter: Gutter) -> ViewerOptions {
    ViewerOptions {
        name,
        gutter,
        bindings: settings.bindings(),
        read_only: false,
        has_colors: has_colors(false),
        clipboard: settings.clipboard,
        stay: false,
        notice: settings.load_error,
    }
}

/// Returns true unless colours are disabled by an option or by `NO_COLOR` (no-color.org).
pub(crate) fn has_colors(no_colors: bool) -> bool {
    !no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
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
