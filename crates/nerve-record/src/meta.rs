//! Metadata of a recorded session: `<stem>.meta.json`.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use nerve_types::{ExitStatus, Size, TsNs};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store;

/// Default Brotli quality of recordings.
pub const DEFAULT_QUALITY: u8 = 4;

/// Maximum size of the file; a larger one is malformed.
const MAX_BYTES: u64 = 1 << 20;

/// Metadata of a recorded session. Any field may be missing in a foreign file; unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Version of this file's format; 1.
    pub version: u32,
    /// Start; nanoseconds since the Unix epoch.
    #[serde(rename = "startedAtNs")]
    pub started_at: TsNs,
    /// Program and arguments.
    pub cmd: Vec<String>,
    /// Initial columns; 0 if unknown.
    pub cols: u16,
    /// Initial rows; 0 if unknown.
    pub rows: u16,
    /// Brotli quality, 0–11.
    pub brotli_q: u8,
    /// The machine.
    pub host: Host,
    /// The recording's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Working directory of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The node whose terminal it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The node's session (workspace).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The server that made the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The profile of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Program and arguments as requested, if more were added (`cmd` has all).
    #[serde(rename = "asked", skip_serializing_if = "Vec::is_empty")]
    pub requested_cmd: Vec<String>,
    /// `HOME` of the program, if it differs from its parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// Names of the added environment variables. Values are never stored, since they may be secret.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Kind of the proxy in front of the model's API, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Id of the agent's conversation, as last reported.
    #[serde(rename = "agentSession", alias = "conversationId", skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The agent's own transcript of that conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    /// The terminal's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// End; nanoseconds since the Unix epoch.
    #[serde(rename = "endedAtNs", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<TsNs>,
    /// Exit status: `{"code": 0}`, `{"signal": 9}` or `{}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Reason why the final snapshot has no files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_note: Option<String>,
    /// The output consists of screen states instead of the child's bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub screens: bool,
}

/// The machine a session ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// `linux`, `macos` …
    pub os: String,
    /// `x86_64`, `aarch64` …
    pub arch: String,
}

impl Host {
    /// Returns the machine this program was built for.
    pub fn this() -> Host {
        Host { os: std::env::consts::OS.into(), arch: std::env::consts::ARCH.into() }
    }
}

impl Default for Host {
    /// An unknown machine: empty names.
    fn default() -> Host {
        Host { os: String::new(), arch: String::new() }
    }
}

impl Default for Meta {
    /// Everything unknown except the version.
    fn default() -> Meta {
        Meta {
            version: Meta::VERSION,
            started_at: TsNs(0),
            cmd: Vec::new(),
            cols: 0,
            rows: 0,
            brotli_q: DEFAULT_QUALITY,
            host: Host::default(),
            id: None,
            cwd: None,
            node: None,
            session: None,
            server: None,
            profile: None,
            requested_cmd: Vec::new(),
            home: None,
            env: Vec::new(),
            proxy: None,
            conversation_id: None,
            transcript: None,
            title: None,
            ended_at: None,
            exit: None,
            end_note: None,
            screens: false,
        }
    }
}

impl Meta {
    /// The current format version.
    pub const VERSION: u32 = 1;

    /// Returns the terminal's size at the recording's start; the default if it is unknown.
    pub fn initial_size(&self) -> Size {
        if self.cols > 0 && self.rows > 0 { Size::new(self.cols, self.rows) } else { Size::default() }
    }

    /// Returns the path of the metadata of `recording`.
    pub fn sidecar_path(recording: &Path) -> PathBuf {
        store::sidecar_path(recording, "meta.json")
    }

    /// Loads the metadata of `recording`; `None` if there is no file.
    ///
    /// # Errors
    /// [`MetaError::Io`] if it cannot be read, [`MetaError::Malformed`] if it is invalid.
    pub fn load(recording: &Path) -> Result<Option<Meta>, MetaError> {
        Meta::load_as(recording)
    }

    /// Loads only the fields of `T`, as [`Meta::load`] does.
    pub(crate) fn load_as<T: DeserializeOwned>(recording: &Path) -> Result<Option<T>, MetaError> {
        let path = Meta::sidecar_path(recording);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MetaError::Io { path, source }),
            Ok(_) => {}
        }
        if bytes.len() as u64 > MAX_BYTES {
            return Err(MetaError::Malformed {
                path,
                reason: format!("it is longer than {MAX_BYTES} bytes"),
            });
        }
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| MetaError::Malformed { path, reason: error.to_string() })
    }

    /// Replaces the metadata of `recording` atomically (mode 0600).
    ///
    /// # Errors
    /// Any I/O error; the old file is unchanged then.
    pub fn store(&self, recording: &Path) -> io::Result<()> {
        let path = Meta::sidecar_path(recording);
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        nerve_types::files::replace(&path, &text)
    }
}

/// Metadata that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// An I/O error.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is invalid.
    #[error("{} does not describe a session: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}
