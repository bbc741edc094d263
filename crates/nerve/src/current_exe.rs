//! Path of this program, for the processes it starts.

use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_types::os;

use crate::exit::{FAILED, Failure};

/// Returns the path of this program, or of the file that replaced it in an update.
///
/// # Errors
/// The system does not report the path, or nerve cannot identify processes on it.
pub(crate) fn path() -> Result<PathBuf> {
    os::check().map_err(|error| {
        Failure::new(FAILED, format!("cannot start processes: {error}")).hint(os::REQUIREMENT)
    })?;
    let path = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(os::own_program(path))
}
