//! Files with secrets, which only this user can read.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nerve_types::regular_file::{Links, OpenError, open_regular};
use serde::de::DeserializeOwned;

use crate::error::MemberError;

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Reads a TOML file; `None` if it does not exist.
///
/// # Errors
/// Other users can read or replace it, it cannot be read, or its content is invalid.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, MemberError> {
    let file = match open_regular(path, OpenOptions::new().read(true), Links::Follow) {
        Ok(file) => file,
        Err(OpenError::Io(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(MemberError::read(path, &error.into())),
    };
    check(path, &file)?;
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| MemberError::read(path, &error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(MemberError::invalid(path.display(), format!("longer than {MAX_FILE} bytes")));
    }
    match toml::from_str(&text) {
        Ok(content) => Ok(Some(content)),
        // The whole error quotes the line, which may have a password.
        Err(error) => Err(MemberError::invalid(path.display(), error.message())),
    }
}

fn check(path: &Path, file: &File) -> Result<(), MemberError> {
    let meta = file.metadata().map_err(|error| MemberError::read(path, &error))?;
    let not_private = |problem: String| Err(MemberError::NotPrivate { path: path.to_path_buf(), problem });
    let uid = rustix::process::getuid().as_raw();
    if meta.uid() != uid {
        return not_private(format!("it belongs to uid {}, not to {uid}", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return not_private(format!("its mode {:04o} lets others in", meta.mode() & 0o7777));
    }
    Ok(())
}
