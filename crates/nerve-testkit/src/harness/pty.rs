//! Pseudo-terminals.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nerve_types::Size;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a pseudo-terminal; returns its master and its slave. Both are closed in other child processes.
///
/// # Errors
/// The system has no free terminal.
pub fn open_pty(size: Size) -> io::Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::options().read(true).write(true).open(name.to_string_lossy().as_ref())?;
    resize(&master, size)?;
    Ok((master.into(), slave))
}

/// Changes the size of a terminal.
///
/// # Errors
/// The file is no terminal.
pub fn resize(terminal: impl AsFd, size: Size) -> io::Result<()> {
    tcsetwinsize(terminal, Winsize { ws_col: size.cols, ws_row: size.rows, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok(())
}
