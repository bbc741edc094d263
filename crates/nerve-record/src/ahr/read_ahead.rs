//! Reads blocks in a second thread while the caller processes the ones before.

use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::error::AhrError;
use super::reader::{Part, Reader};

/// Maximum number of parts that wait for the caller.
const MAX_WAITING: usize = 2;

impl<R: Read + Seek + Send> Reader<R> {
    /// Passes the following parts to `process` until it returns false. A second thread reads ahead, because decompression takes
    /// about as long as a terminal model. Further calls return the parts that were read but not processed.
    ///
    /// # Errors
    /// As [`Reader::next`], and those of `process`.
    pub fn read_ahead(
        &mut self,
        mut process: impl FnMut(Part) -> Result<bool, AhrError>,
    ) -> Result<(), AhrError> {
        // Callers that need few parts start no thread.
        loop {
            let Some(part) = self.next()? else { return Ok(()) };
            if !process(part)? {
                return Ok(());
            }
            if self.ahead.is_empty() {
                break;
            }
        }
        let is_stopped = AtomicBool::new(false);
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let (result, unprocessed) = thread::scope(|scope| {
            scope.spawn(|| send_parts(self, sender, &is_stopped));
            let result = loop {
                let Ok(part) = receiver.recv() else { break Ok(()) };
                match part.and_then(&mut process) {
                    Ok(true) => {}
                    Ok(false) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            is_stopped.store(true, Ordering::Relaxed);
            // A later call finds an error again.
            (result, receiver.iter().flatten().collect::<VecDeque<Part>>())
        });
        self.ahead = unprocessed;
        result
    }
}

/// Sends parts until the end, an error, or a request to stop.
fn send_parts<R: Read + Seek>(
    reader: &mut Reader<R>,
    sender: SyncSender<Result<Part, AhrError>>,
    is_stopped: &AtomicBool,
) {
    while !is_stopped.load(Ordering::Relaxed)
        && let Some(part) = reader.next().transpose()
    {
        let is_error = part.is_err();
        if sender.send(part).is_err() || is_error {
            break;
        }
    }
}
