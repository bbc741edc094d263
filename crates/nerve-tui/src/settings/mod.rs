//! The user's settings from the text of `config.toml`: the viewer's gutter, clipboard and keys, notifications, and the size of snapshots.

mod notes;
mod notify;
mod parser;

pub use self::notify::NotifySettings;
pub use self::parser::Diagnostics;
use crate::view::bindings::Bindings;
use crate::view::draw::Gutter;
use nerve_record::files::DEFAULT_STORE_LIMIT;
use nerve_types::ByteCount;

/// Settings, with defaults for those that are not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Place of the viewer's snapshot marks.
    pub gutter: Gutter,
    /// Opens recordings with the task entry at their end.
    pub task: bool,
    /// Lets programs copy to the user's clipboard.
    pub clipboard: bool,
    /// Viewer operations by name, with the keys that replace their default keys.
    pub keys: Vec<(String, Vec<String>)>,
    /// Notifications.
    pub notify: NotifySettings,
    /// Maximum size of all stored files of snapshots together.
    pub snapshot_limit: ByteCount,
    /// Remarks on the settings.
    pub notes: Diagnostics,
    /// Message for the viewer if the settings could not be read and these are the defaults.
    pub load_error: Option<&'static str>,
}

impl Default for Settings {
    fn default() -> Settings {
        let notes = Diagnostics::default();
        Settings {
            gutter: Gutter::default(),
            task: false,
            clipboard: true,
            keys: Vec::new(),
            notify: NotifySettings::default(),
            snapshot_limit: ByteCount(DEFAULT_STORE_LIMIT),
            notes,
            load_error: None,
        }
    }
}

impl Settings {
    /// Parses the text of a settings file.
    ///
    /// # Errors
    /// All errors of the text.
    pub fn parse(text: &str) -> Result<Settings, Diagnostics> {
        parser::parse(text)
    }

    /// Returns the key bindings of the viewer.
    pub fn bindings(&self) -> Bindings {
        // The parser has reported conflicts.
        Bindings::with(&self.keys).unwrap_or_default()
    }
}
