//! Reads what a connection orders. What is typed waits for a program that does not read; everything else overtakes it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::clients::Heard;
use super::protocol::{Frames, HostRequest};
use crate::backend::pty::WRITE_LIMIT;

/// Bytes typed on all connections that may wait for a program that does not read, before connections that have some waiting are read
/// no further: more than one that types may have on its way.
const MAX_HELD: usize = WRITE_LIMIT + (8 << 20);

/// The reading end of a connection, and its place among those that there may be.
pub(super) struct Source {
    pub(super) read: OwnedReadHalf,
    pub(super) _place: Option<OwnedSemaphorePermit>,
    /// And among the viewers, once it is one.
    pub(super) _seat: Seat,
}

/// The place of a viewer among the viewers. It has that for as long as the connection is open at the other end.
pub(super) type Seat = Arc<OnceLock<OwnedSemaphorePermit>>;

/// Hands on what a connection orders, and gives up its place when it is closed. Only what is typed waits for a program that does not read; everything else overtakes it, and so
/// does the connection's end. What was typed before the end still comes to the program.
pub(super) async fn read_requests(
    id: u64,
    source: Source,
    requests: mpsc::Sender<(u64, Heard)>,
    mut takes_input: watch::Receiver<bool>,
    held: Arc<AtomicUsize>,
) {
    let (mut frames, mut typed) = (Frames::default(), Typed { requests: VecDeque::new(), held });
    let mut source = Some(source);
    while source.is_some() || !typed.requests.is_empty() {
        tokio::select! {
            biased;
            takes = takes(&mut takes_input), if !typed.requests.is_empty() => {
                let Some(request) = typed.pop().filter(|_| takes) else { return };
                if requests.send((id, Heard::HostRequest(request))).await.is_err() {
                    return;
                }
            }
            more = read_more(&mut source, &mut frames), if source.is_some() && typed.has_room() => {
                let mut goes_on = more;
                while goes_on {
                    let request = match frames.take() {
                        Ok(None) => break,
                        Ok(Some(body)) => HostRequest::decode(body),
                        Err(error) => Err(error),
                    };
                    match request {
                        Ok(Some(request @ HostRequest::Input { .. }))
                            if !typed.requests.is_empty() || !*takes_input.borrow() =>
                        {
                            typed.push(request);
                        }
                        Ok(Some(request)) => {
                            if requests.send((id, Heard::HostRequest(request))).await.is_err() {
                                return;
                            }
                        }
                        Ok(None) => {}
                        Err(_) => goes_on = false,
                    }
                }
                if !goes_on {
                    source = None;
                    if requests.send((id, Heard::Gone)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until the program takes input. `false`: the host is over.
async fn takes(takes_input: &mut watch::Receiver<bool>) -> bool {
    takes_input.wait_for(|takes| *takes).await.is_ok()
}

/// `false` at the end.
async fn read_more(source: &mut Option<Source>, frames: &mut Frames) -> bool {
    match source {
        Some(source) => matches!(source.read.read_buf(frames.room()).await, Ok(bytes) if bytes > 0),
        None => std::future::pending().await,
    }
}

/// What was typed on one connection and waits for the program.
struct Typed {
    requests: VecDeque<HostRequest>,
    /// Bytes that wait on all connections.
    held: Arc<AtomicUsize>,
}

impl Typed {
    /// One that holds nothing is always read: it may have something else to say.
    fn has_room(&self) -> bool {
        self.requests.is_empty() || self.held.load(Ordering::Acquire) < MAX_HELD
    }

    fn push(&mut self, request: HostRequest) {
        self.held.fetch_add(cost(&request), Ordering::AcqRel);
        self.requests.push_back(request);
    }

    fn pop(&mut self) -> Option<HostRequest> {
        let request = self.requests.pop_front()?;
        self.held.fetch_sub(cost(&request), Ordering::AcqRel);
        Some(request)
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Memory that an order takes; bytes, nearly.
fn cost(request: &HostRequest) -> usize {
    let typed = if let HostRequest::Input { bytes, .. } = request { bytes.len() } else { 0 };
    typed + size_of::<HostRequest>()
}
