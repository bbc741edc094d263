//! `nerve connect`: the standard streams of this process as a connection to a server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

/// Size of the buffer of each direction, in bytes.
const BUFFER: usize = 64 << 10;

/// Copies standard input to the server and its output to standard output, until the server closes the connection or the reader of
/// standard output is gone. The end of standard input closes only that half: pending replies still arrive.
///
/// Uses threads, because a runtime cannot end while it reads standard input.
///
/// # Errors
/// A descriptor cannot be duplicated, no thread can be started, or the connection breaks.
pub fn bridge(server: UnixStream) -> io::Result<()> {
    let (mut input, mut output) = (duplicate(io::stdin().as_fd())?, duplicate(io::stdout().as_fd())?);
    let (mut requests, hang_up) = (server.try_clone()?, server.try_clone()?);
    let watched = output.try_clone()?;
    start("input", move || {
        // If the server is gone, the copy of its output ends, too.
        let _ = copy(&mut input, &mut requests);
        let _ = requests.shutdown(Shutdown::Write);
    })?;
    start("hang-up", move || {
        wait_for_hang_up(watched.as_fd());
        let _ = hang_up.shutdown(Shutdown::Both);
    })?;
    match copy(&mut &server, &mut output) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Copies until the end of the input. [`io::copy`] would use splice(2), which waits for a socket while it holds the lock of the pipe: its
/// reader could not take what is in it.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&buffer[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn duplicate(stream: BorrowedFd<'_>) -> io::Result<File> {
    Ok(File::from(stream.try_clone_to_owned()?))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_string()).spawn(work).map(drop)
}

/// Waits until the reader of a pipe or socket is gone. Never returns for a file or an open terminal.
fn wait_for_hang_up(output: BorrowedFd<'_>) {
    // Without requested events, poll(2) reports only errors and hang-ups.
    while matches!(
        poll(&mut [PollFd::new(&output, PollFlags::empty())], None),
        Ok(0) | Err(rustix::io::Errno::INTR)
    ) {}
}
