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
    /// Passes the following parts to `process` until it returns false. A second thread reads ahead, because decompression takes
    /// about as long as a terminal model. Further calls return the blocks that were read but not processed.
    ///
    /// # Errors
    /// As [`Reader::next`], and those of `process`.
    pub fn read_ahead(
        &mut self,
        mut process: impl FnMut(Part) -> Result<bool, AhrError>,
    ) -> Result<(), AhrError> {
        while let Some(part) = self.next()? {
            // Callers that need few parts start no thread.
            if !process(part)? || self.ahead.is_empty() && !self.read_blocks_ahead(&mut process)? {
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
        let mut contradictions = std::mem::take(&mut self.contradictions);
        let (result, unprocessed) = thread::scope(|scope| {
            // Belongs to this closure, so that a panic in `process` drops it and thus ends the thread.
            let (sender, receiver) = sync_channel::<Block>(MAX_WAITING);
            let send = || send_blocks(self, sender, &is_stopped);
            if let Err(error) = thread::Builder::new().name("read-ahead".into()).spawn_scoped(scope, send) {
                // The sender is gone, so no block arrives and the caller reads them.
                tracing::debug!(%error, "no thread reads ahead");
            }
            let mut process = |block: Block| {
                add_contradictions(&mut contradictions, &block);
                process(Part::Block(block))
            };
            let result = loop {
                let Ok(block) = receiver.recv() else { break Ok(true) };
                match process(block) {
                    Ok(true) => {}
                    stopped => break stopped,
                }
            };
            is_stopped.store(true, Ordering::Relaxed);
            (result, receiver.iter().collect::<VecDeque<Block>>())
        });
        self.contradictions = contradictions;
        self.ahead = unprocessed;
        result
    }
}

/// Sends blocks until there is no intact one, or a request to stop.
fn send_blocks<R: Read + Seek>(reader: &mut Reader<R>, sender: SyncSender<Block>, is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Relaxed)
        && let Ok(Some(block)) = reader.next_intact()
        && sender.send(block).is_ok()
    {}
}
