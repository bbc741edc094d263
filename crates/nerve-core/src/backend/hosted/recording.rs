//! What a host's recording tells of the time before we came, read on a thread of its own.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::Snapshot;
use tokio::sync::mpsc;

use crate::backend::BackendEvent;
use crate::host::connection::Connection;

/// Blocks of a recording that are decompressed ahead of the terminal model.
const MAX_QUEUED: usize = 4;

/// Something out of a recording.
#[derive(Debug)]
pub(super) enum RecordedItem {
    Output { off: u64, bytes: Vec<u8> },
    Event(BackendEvent),
}

/// Reads a recording from an output byte on, up to another (else to its end), on a thread of its own.
pub(super) fn read_recording(path: PathBuf, from: u64, to: Option<u64>) -> mpsc::Receiver<RecordedItem> {
    let (items, receiver) = mpsc::channel(MAX_QUEUED);
    tokio::task::spawn_blocking(move || {
        // A closed channel means that nobody wants it any more.
        let _ = send_recording(&path, from, to, &items);
    });
    receiver
}

/// The next piece of the recording. Orders need not wait until all of it is read.
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
                if lost.output_missing() {
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
                // Of a host that is gone this can be all that tells it.
                Body::Mark(Mark::Exit(exit)) if to.is_none() => {
                    RecordedItem::Event(BackendEvent::Exited(exit))
                }
                _ => continue,
            };
            items.blocking_send(item)?;
        }
    }
}

/// A snapshot as a terminal is told of it.
pub(super) fn snapshot(at: TsNs, id: u64, anchor: u64, label: &str) -> Snapshot {
    let label = Some(label.to_string()).filter(|label| !label.is_empty());
    Snapshot { id, label, at, offset: anchor, ..Snapshot::default() }
}
