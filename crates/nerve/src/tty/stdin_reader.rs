//! Standard input as it is, in front of a program that has it.

use std::io::{self, IsTerminal, Read};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::stdin;
use tokio::sync::mpsc;

use super::job_control;

/// Keys are read in pieces of this size; a paste is several.
const BUFFER_SIZE: usize = 16 * 1024;
/// End of file, where the keys come from a file or a pipe that has ended (termios(3), VEOF).
const END_OF_FILE: u8 = 0x04;

/// Reads standard input on a thread of its own: such a read cannot be given up. The end of what is no terminal is typed as one types it.
/// Of a terminal only what is typed in the foreground.
pub(crate) fn read_keys() -> mpsc::Receiver<Vec<u8>> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let is_terminal = input.is_terminal();
        let mut bytes = vec![0; BUFFER_SIZE];
        let mut line_ended = true;
        loop {
            if is_terminal {
                wait_for_foreground_input();
                // It was given back: what is typed now is for who comes next.
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
                // In the middle of a line the first one ends the line, and the second one the file.
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

/// Waits until there is something to be read from the terminal, and it is ours. In a read itself a job that comes into the background would
/// be stopped.
fn wait_for_foreground_input() {
    let stdin = stdin();
    loop {
        // What goes wrong here the read meets too.
        let _ = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None);
        if job_control::is_foreground() {
            return;
        }
        // What is there is for whoever has the terminal. Nobody tells when it is given to us.
        while !job_control::is_foreground() {
            std::thread::sleep(job_control::POLL_INTERVAL);
        }
    }
}
