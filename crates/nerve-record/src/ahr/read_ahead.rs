//! Reads blocks in a second thread while the caller processes the ones before.

use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::block::Block;
use super::error::AhrError;
use super::reader::{Part, Reader, add_contradictions};

/// Maximum number of blocks that wait for the caller.
const MAX_WAITING: usize = 2;

impl<R: Read + Seek + Send> Reader<R> {
    /// Passes the following parts to `process` until it returns false. A second thread reads ahead, because decompressing a block
    /// takes about as long as processing it with a terminal model. Blocks that were read but not processed come first in later
    /// calls, also of [`Reader::next`].
    ///
    /// # Errors
    /// As [`Reader::next`], and those of `process`.
    pub fn read_ahead(
        &mut self,
        mut process: impl FnMut(Part) -> Result<bool, AhrError>,
    ) -> Result<(), AhrError> {
        while let Some(part) = self.next()? {
            // Before the thread starts: a caller that stops at this part needs none.
            if !process(part)? {
                break;
            }
            // Blocks that an earlier call left come first, from `next`.
            if self.ahead.is_empty() && !self.read_blocks_ahead(&mut process)? {
                break;
            }
        }
        Ok(())
    }

    /// Passes intact blocks to `process` up to damage, an error or the end, all of which the caller finds
    /// again. Returns false if `process` did.
    fn read_blocks_ahead(
        &mut self,
        process: &mut impl FnMut(Part) -> Result<bool, AhrError>,
    ) -> Result<bool, AhrError> {
        let is_stopped = AtomicBool::new(false);
        // The thread borrows the reader. A block's contradictions count when it is processed, not when it is read.
        let mut contradictions = std::mem::take(&mut self.contradictions);
        let (result, unprocessed) = thread::scope(|scope| {
            // If `process` panics, the receiver is dropped with this closure: `send` fails, and the thread ends.
            let (sender, receiver) = sync_channel::<Block>(MAX_WAITING);
            let send = || send_blocks(self, sender, &is_stopped);
            if let Err(error) = thread::Builder::new().name("read-ahead".into()).spawn_scoped(scope, send) {
                // The sender is gone, so no block arrives and the caller reads them.
                tracing::debug!(%error, "no thread reads ahead");
            }
            let result = loop {
                // Without a sender, the thread has ended: the caller continues from there.
                let Ok(block) = receiver.recv() else { break Ok(true) };
                add_contradictions(&mut contradictions, &block);
                match process(Part::Block(block)) {
                    Ok(true) => {}
                    stop_or_error => break stop_or_error,
                }
            };
            is_stopped.store(true, Ordering::Relaxed);
            // Ends when the thread drops its sender. The reader is past these blocks.
            (result, receiver.iter().collect::<VecDeque<Block>>())
        });
        self.contradictions = contradictions;
        self.ahead = unprocessed;
        result
    }
}

/// Sends blocks until there is no intact one, a stop is requested or the receiver is gone. Then drops the sender.
fn send_blocks<R: Read + Seek>(reader: &mut Reader<R>, sender: SyncSender<Block>, is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Relaxed) {
        let Ok(Some(block)) = reader.next_intact() else { return };
        if sender.send(block).is_err() {
            return;
        }
    }
}
