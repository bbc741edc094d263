//! Standard input and output as they are, in front of a program that has them.

use std::io::{self, IsTerminal, Read};

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Keys are read in pieces of this size; a paste is several.
const KEYS: usize = 16 * 1024;
/// End of file, where the keys come from a file or a pipe that has ended (termios(3), VEOF).
const END_OF_FILE: u8 = 0x04;

/// Writes to standard output beside everything else: a reader that takes nothing must not keep a signal or a key from being heard. Ends
/// when the sender is dropped.
pub(crate) fn show() -> (mpsc::Sender<Vec<u8>>, JoinHandle<io::Result<()>>) {
    let (screen, mut pieces) = mpsc::channel::<Vec<u8>>(4);
    let showing = tokio::spawn(async move {
        let mut out = tokio::io::stdout();
        while let Some(bytes) = pieces.recv().await {
            out.write_all(&bytes).await?;
            out.flush().await?;
        }
        Ok(())
    });
    (screen, showing)
}

/// Reads standard input on a thread of its own: such a read cannot be given up. The end of what is no terminal is typed as one types it.
pub(crate) fn read_keys() -> mpsc::Receiver<Vec<u8>> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut bytes = vec![0; KEYS];
        let mut line_ended = true;
        loop {
            let size = match input.read(&mut bytes) {
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if size == 0 {
                // In the middle of a line the first one ends the line, and the second one the file.
                let ends = if line_ended { 1 } else { 2 };
                if !input.is_terminal() {
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
