//! Reads what a connection orders. What is typed waits for a program that does not read; everything else overtakes it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::clients::ClientEvent;
use super::protocol::{Frames, HostRequest};
use crate::backend::pty::WRITE_LIMIT;

/// Bytes typed on all connections that may wait for a program that does not read, before connections that have some waiting are read
/// no further: more than one that types may have on its way.
const MAX_QUEUED_INPUT: usize = WRITE_LIMIT + (8 << 20);

/// The reading end of a connection, and its place among those that there may be.
pub(super) struct ClientReader {
    pub(super) read: OwnedReadHalf,
    pub(super) _permit: Option<OwnedSemaphorePermit>,
    /// And among the viewers, once it is one.
    pub(super) _viewer_permit: ViewerPermit,
}

/// The place of a viewer among the viewers. It has that for as long as the connection is open at the other end.
pub(super) type ViewerPermit = Arc<OnceLock<OwnedSemaphorePermit>>;

/// Hands on what a connection orders, and gives up its place when it is closed. Only what is typed waits for a program that does not read; everything else overtakes it, and so
/// does the connection's end. What was typed before the end still comes to the program.
pub(super) async fn read_requests(
    id: u64,
    source: ClientReader,
    events: mpsc::Sender<(u64, ClientEvent)>,
    mut accepts_input: watch::Receiver<bool>,
    queued_input: Arc<AtomicUsize>,
) {
    let (mut frames, mut queue) = (Frames::default(), InputQueue { requests: VecDeque::new(), queued_input });
    let mut source = Some(source);
    while source.is_some() || !queue.requests.is_empty() {
        tokio::select! {
            biased;
            accepted = wait_until_accepted(&mut accepts_input), if !queue.requests.is_empty() => {
                let Some(request) = queue.pop().filter(|_| accepted) else { return };
                if events.send((id, ClientEvent::Request(request))).await.is_err() {
                    return;
                }
            }
            more = read_more(&mut source, &mut frames), if source.is_some() && queue.has_room() => {
                let mut is_open = more;
                while is_open {
                    let request = match frames.take() {
                        Ok(None) => break,
                        Ok(Some(body)) => HostRequest::decode(body),
                        Err(error) => Err(error),
                    };
                    match request {
                        Ok(Some(request @ HostRequest::Input { .. }))
                            if !queue.requests.is_empty() || !*accepts_input.borrow() =>
                        {
                            queue.push(request);
                        }
                        Ok(Some(request)) => {
                            if events.send((id, ClientEvent::Request(request))).await.is_err() {
                                return;
                            }
                        }
                        Ok(None) => {}
                        Err(_) => is_open = false,
                    }
                }
                if !is_open {
                    source = None;
                    if events.send((id, ClientEvent::Disconnected)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until the program takes input. `false`: the host is over.
async fn wait_until_accepted(accepts_input: &mut watch::Receiver<bool>) -> bool {
    accepts_input.wait_for(|accepts| *accepts).await.is_ok()
}

/// `false` at the end.
async fn read_more(source: &mut Option<ClientReader>, frames: &mut Frames) -> bool {
    match source {
        Some(source) => matches!(source.read.read_buf(frames.read_buffer()).await, Ok(bytes) if bytes > 0),
        None => std::future::pending().await,
    }
}

/// What was typed on one connection and waits for the program.
struct InputQueue {
    requests: VecDeque<HostRequest>,
    /// Bytes that wait on all connections.
    queued_input: Arc<AtomicUsize>,
}

impl InputQueue {
    /// One that holds nothing is always read: it may have something else to say.
    fn has_room(&self) -> bool {
        self.requests.is_empty() || self.queued_input.load(Ordering::Acquire) < MAX_QUEUED_INPUT
    }

    fn push(&mut self, request: HostRequest) {
        self.queued_input.fetch_add(cost(&request), Ordering::AcqRel);
        self.requests.push_back(request);
    }

    fn pop(&mut self) -> Option<HostRequest> {
        let request = self.requests.pop_front()?;
        self.queued_input.fetch_sub(cost(&request), Ordering::AcqRel);
        Some(request)
    }
}

impl Drop for InputQueue {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Memory that an order takes; bytes, nearly.
fn cost(request: &HostRequest) -> usize {
    let typed = if let HostRequest::Input { bytes, .. } = request { bytes.len() } else { 0 };
    typed + size_of::<HostRequest>()
}
