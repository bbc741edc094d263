//! The facts of a session beside its recording: `<stem>.meta.json` (seed agent-record §5.3).

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use nerve_term::event::{ExitStatus, TsNs};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::store;

/// Longer files are not read.
const MAX_BYTES: u64 = 1 << 20;

/// What is known of a recorded session. Everything may be missing in a file made elsewhere; what a newer version adds is
/// passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Version of this file's format; 1.
    pub version: u32,
    /// When the session began; nanoseconds since the Unix epoch.
    #[serde(rename = "startedAtNs", with = "nanoseconds")]
    pub started_at: TsNs,
    /// Program and arguments.
    pub cmd: Vec<String>,
    /// Columns at the beginning; 0 if unknown.
    pub cols: u16,
    /// Rows at the beginning; 0 if unknown.
    pub rows: u16,
    /// Brotli quality, 0–11.
    pub brotli_q: u8,
    /// The machine.
    pub host: Host,
    /// The recording's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where the program was started.
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
    /// Program and arguments as they were asked for, where more was put into them (`cmd` has all).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// `HOME` of the program, where it was given another than its starter's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// Names of the variables that it was given on top of its starter's. Never a value: those may be secret.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Kind of the proxy between it and the API of its model, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Id of the agent's own conversation, as last told while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    /// The agent's own record of that conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    /// The terminal's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When the session ended; nanoseconds since the Unix epoch.
    #[serde(rename = "endedAtNs", with = "optional_nanoseconds", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<TsNs>,
    /// How the program ended: `{"code": 0}`, `{"signal": 9}` or `{}`.
    #[serde(with = "exit_status", skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Why the snapshot at the end has no files, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_note: Option<String>,
    /// The output was recorded as states of a screen, not as the bytes of the child.
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
    /// The machine this program was built for.
    pub fn this() -> Host {
        Host { os: std::env::consts::OS.into(), arch: std::env::consts::ARCH.into() }
    }
}

impl Default for Host {
    /// Unknown: empty names.
    fn default() -> Host {
        Host { os: String::new(), arch: String::new() }
    }
}

impl Default for Meta {
    /// Nothing known but the version.
    fn default() -> Meta {
        Meta {
            version: Meta::VERSION,
            started_at: TsNs(0),
            cmd: Vec::new(),
            cols: 0,
            rows: 0,
            brotli_q: crate::ahr::DEFAULT_QUALITY,
            host: Host::default(),
            id: None,
            cwd: None,
            node: None,
            session: None,
            server: None,
            profile: None,
            asked: Vec::new(),
            home: None,
            env: Vec::new(),
            proxy: None,
            agent_session: None,
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
    /// The version written here.
    pub const VERSION: u32 = 1;

    /// The file beside `recording`.
    pub fn path_of(recording: &Path) -> PathBuf {
        store::sidecar_path(recording, "meta.json")
    }

    /// Reads the file beside `recording`; `None` when there is none.
    ///
    /// # Errors
    /// [`MetaError::Io`] when it cannot be read, [`MetaError::Malformed`] when it is something else.
    pub fn load(recording: &Path) -> Result<Option<Meta>, MetaError> {
        let path = Meta::path_of(recording);
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

    /// Writes the file beside `recording` (mode 0600), in place of an older one: readers see the old or the new one whole.
    ///
    /// # Errors
    /// What the operating system says; the older file is as before.
    pub fn store(&self, recording: &Path) -> io::Result<()> {
        let path = Meta::path_of(recording);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let mut file = NamedTempFile::with_prefix_in(".meta-", folder)?;
        file.write_all(&text)?;
        // Without it, a power failure could leave the new name with nothing in it.
        file.as_file().sync_data()?;
        file.persist(path)?;
        Ok(())
    }
}

/// Session facts that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// The operating system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} does not describe a session: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

mod nanoseconds {
    use nerve_term::event::TsNs;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &TsNs, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TsNs, D::Error> {
        u64::deserialize(from).map(TsNs)
    }
}

mod optional_nanoseconds {
    use nerve_term::event::TsNs;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<TsNs>, to: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TsNs>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(TsNs))
    }
}

mod exit_status {
    use nerve_term::event::ExitStatus;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Exit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    }

    pub(super) fn serialize<S: Serializer>(status: &Option<ExitStatus>, to: S) -> Result<S::Ok, S::Error> {
        let exit = status.map(|status| match status {
            ExitStatus::Code(code) => Exit { code: Some(code), signal: None },
            ExitStatus::Signal(signal) => Exit { code: None, signal: Some(signal) },
            ExitStatus::Unknown => Exit { code: None, signal: None },
        });
        exit.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ExitStatus>, D::Error> {
        let exit = Option::<Exit>::deserialize(from)?;
        Ok(exit.map(|exit| match (exit.code, exit.signal) {
            (Some(code), _) => ExitStatus::Code(code),
            (None, Some(signal)) => ExitStatus::Signal(signal),
            (None, None) => ExitStatus::Unknown,
        }))
    }
}
