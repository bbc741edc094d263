//! Reads standard input as bytes.

use std::io::{self, IsTerminal, Read};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::stdin;
use tokio::sync::mpsc;

use super::job_control;

/// Read buffer size in bytes.
const BUFFER_SIZE: usize = 16 * 1024;
/// End-of-file character sent at the end of a file or pipe (termios(3), VEOF).
const END_OF_FILE: u8 = 0x04;

/// Reads standard input on a thread, because a blocking read cannot be cancelled. The end of a file is sent as a
/// typed end of file. A terminal is read only in the foreground.
pub fn read_keys() -> mpsc::Receiver<Vec<u8>> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let is_terminal = input.is_terminal();
        let mut bytes = vec![0; BUFFER_SIZE];
        let mut line_ended = true;
        loop {
            if is_terminal {
                wait_for_foreground_input();
                // The receiver is gone: this input is for the terminal's next user.
                if sender.is_closed() {
                    return;
                }
            }
            let size = match input.read(&mut bytes) {
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if size == 0 {
                // In the middle of a line the first character ends the line, the second one the file.
                let ends = if line_ended { 1 } else { 2 };
                if !is_terminal {
                    let _ = sender.blocking_send(vec![END_OF_FILE; ends]);
                }
                return;
            }
            line_ended = bytes[size - 1] == b'\n';
            if sender.blocking_send(bytes[..size].to_vec()).is_err() {
                return;
            }
        }
    });
    keys
}

/// Waits for input in the foreground. A read in the background would stop this process.
fn wait_for_foreground_input() {
    let stdin = stdin();
    loop {
        // The following read reports errors.
        let _ = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None);
        if job_control::is_foreground() {
            return;
        }
        // No signal announces the return to the foreground, so poll.
        while !job_control::is_foreground() {
            std::thread::sleep(job_control::POLL_INTERVAL);
        }
    }
}
