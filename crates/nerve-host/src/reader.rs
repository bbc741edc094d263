//! Reads the requests of a client. Input waits while the program does not read; all other requests overtake it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::backend::pty::WRITE_LIMIT;
use crate::protocol::{Frames, HostRequest};

/// Bytes of input queued over all clients, above which clients with queued input are no longer read. Exceeds what a single
/// client may have in flight.
const MAX_QUEUED_INPUT: usize = WRITE_LIMIT + (8 << 20);

/// The read half of a connection, with its permits.
pub(super) struct ClientReader {
    pub(super) read: OwnedReadHalf,
    pub(super) _permit: Option<OwnedSemaphorePermit>,
    /// Set once the client is a viewer.
    pub(super) _viewer_permit: ViewerPermit,
}

/// An event from a client's connection.
#[derive(Debug)]
pub(super) enum ClientEvent {
    Request(HostRequest),
    /// The greeting can be sent; contains the output bytes in the recording's file.
    Greet(Option<u64>),
    /// The client requested output that is no longer in memory; contains the output bytes in the recording's file.
    Behind(Option<u64>),
    /// The recording could not be restored; not of a client.
    NotRestored(String),
    Disconnected,
}

/// The permit of a viewer, held until the peer closes the connection.
pub(super) type ViewerPermit = Arc<OnceLock<OwnedSemaphorePermit>>;

/// Forwards the requests of a client and releases its permits when the peer closes. Input waits for the program; other requests
/// and the end of the connection overtake it. Input sent before the end still reaches the program.
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

/// Waits until the program accepts input. Returns false if the host has ended.
async fn wait_until_accepted(accepts_input: &mut watch::Receiver<bool>) -> bool {
    accepts_input.wait_for(|accepts| *accepts).await.is_ok()
}

/// Returns false at the end of the stream.
async fn read_more(source: &mut Option<ClientReader>, frames: &mut Frames) -> bool {
    match source {
        Some(source) => matches!(source.read.read_buf(frames.read_buffer()).await, Ok(bytes) if bytes > 0),
        None => std::future::pending().await,
    }
}

/// Input of one client that waits for the program.
struct InputQueue {
    requests: VecDeque<HostRequest>,
    /// Bytes queued over all clients.
    queued_input: Arc<AtomicUsize>,
}

impl InputQueue {
    /// Returns true if the client may be read. A client without queued input always is.
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

/// Approximate memory of a request in bytes.
fn cost(request: &HostRequest) -> usize {
    let input_len = if let HostRequest::Input { bytes, .. } = request { bytes.len() } else { 0 };
    input_len + size_of::<HostRequest>()
}
