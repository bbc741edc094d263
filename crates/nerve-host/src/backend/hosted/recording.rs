//! Reads the earlier output of a host from its recording, on a separate thread.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::Snapshot;
use tokio::sync::mpsc;

use crate::backend::BackendEvent;
use crate::connection::Connection;

/// Items that are decoded ahead of the terminal model.
const MAX_QUEUED: usize = 4;

/// An item of a recording.
#[derive(Debug)]
pub(super) enum RecordedItem {
    Output { off: u64, bytes: Vec<u8> },
    Event(BackendEvent),
}

/// Reads a recording from output byte `from` up to `to`, or to its end, on a separate thread.
pub(super) fn read_recording(path: PathBuf, from: u64, to: Option<u64>) -> mpsc::Receiver<RecordedItem> {
    let (items, receiver) = mpsc::channel(MAX_QUEUED);
    tokio::task::spawn_blocking(move || {
        // Fails when the receiver is closed.
        let _ = send_recording(&path, from, to, &items);
    });
    receiver
}

/// Returns the next item. Sends waiting requests meanwhile.
pub(super) async fn next(
    items: &mut mpsc::Receiver<RecordedItem>,
    connection: Option<&mut Connection>,
    requests: &mut VecDeque<u8>,
) -> Option<RecordedItem> {
    let Some(connection) = connection else { return items.recv().await };
    loop {
        tokio::select! {
            biased;
            () = connection.send_waiting(requests) => {}
            item = items.recv() => return item,
        }
    }
}

fn send_recording(
    path: &Path,
    from: u64,
    to: Option<u64>,
    items: &mpsc::Sender<RecordedItem>,
) -> Result<(), mpsc::error::SendError<RecordedItem>> {
    let fault = |message: String| RecordedItem::Event(BackendEvent::Fault(message));
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return items.blocking_send(fault(error.to_string())),
    };
    loop {
        let block = match reader.next() {
            Ok(Some(Part::Block(block))) => block,
            Ok(Some(Part::Lost(lost))) => {
                if lost.is_output_missing() {
                    items.blocking_send(fault(lost.to_string()))?;
                }
                continue;
            }
            Ok(None) => return Ok(()),
            Err(error) => return items.blocking_send(fault(error.to_string())),
        };
        for record in block.records() {
            let item = match record.body {
                Body::Data { off, .. } if to.is_some_and(|to| off >= to) => return Ok(()),
                Body::Data { off, bytes } => RecordedItem::Output { off, bytes: bytes.to_vec() },
                Body::Resize { cols, rows } if block.output().end >= from => {
                    RecordedItem::Event(BackendEvent::Resized(Size::new(cols, rows)))
                }
                Body::Snapshot { id, anchor, label } if anchor >= from => {
                    let label = String::from_utf8_lossy(label);
                    RecordedItem::Event(BackendEvent::Snapshot(snapshot(record.at, id, anchor, &label)))
                }
                // May be the only trace of the exit status if the host is gone.
                Body::Mark(Mark::Exit(exit)) if to.is_none() => {
                    RecordedItem::Event(BackendEvent::Exited(exit))
                }
                _ => continue,
            };
            items.blocking_send(item)?;
        }
    }
}

/// Converts a snapshot for the terminal model.
pub(super) fn snapshot(at: TsNs, id: u64, anchor: u64, label: &str) -> Snapshot {
    let label = Some(label.to_string()).filter(|label| !label.is_empty());
    Snapshot { id, label, at, offset: anchor, ..Snapshot::default() }
}
