//! The clients connected to a host: admission, delivery and backpressure.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use crate::protocol::{CHUNK, HostEvent};
use crate::reader::{ClientEvent, ClientReader, ViewerPermit, read_requests};
use crate::writer::{Backpressure, MAX_QUEUED, MAX_QUEUED_VIEWER, Writer};

/// A client that reads nothing for this long while others wait for it is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// [`STALL_TIMEOUT`] for a viewer, which reconnects and reads missed output.
const VIEWER_STALL_TIMEOUT: Duration = Duration::from_millis(250);
/// Limit of connections through the control socket.
const MAX_CLIENTS: usize = 64;
/// Limit of viewers among them, so that the client that drives the terminal always finds room.
const MAX_VIEWERS: usize = 60;
/// Time that a rejected client gets to read the reason.
const REJECT_TIMEOUT: Duration = Duration::from_secs(2);

/// All clients of a host.
#[derive(Debug)]
pub(super) struct Clients {
    clients: Vec<Client>,
    next: u64,
    /// Held by each external connection until the peer closes it, even after a disconnect.
    connection_permits: Arc<Semaphore>,
    /// Held by each viewer in addition, so that viewers cannot use up all connections.
    viewer_permits: Arc<Semaphore>,
    events: mpsc::Sender<(u64, ClientEvent)>,
    progress: Arc<Notify>,
    /// True if the program accepts input. Readers with queued input wait for it.
    accepts_input: watch::Sender<bool>,
    /// Bytes of input that wait for the program, over all clients.
    queued_input: Arc<AtomicUsize>,
    /// Clients disconnected since the last [`Clients::take_disconnected`].
    disconnected: Vec<u64>,
}

#[derive(Debug)]
struct Client {
    id: u64,
    writer: Writer,
    /// Connected from within this process: it is never disconnected for being slow.
    is_internal: bool,
    /// Set if the client displays the terminal.
    is_viewer: bool,
    viewer_permit: ViewerPermit,
    /// Set if the client has requested the output and has received everything so far.
    subscribed: bool,
}

impl Clients {
    /// Creates the set, and the receiver of all clients' events.
    pub(super) fn new() -> (Clients, mpsc::Receiver<(u64, ClientEvent)>) {
        let (events, received) = mpsc::channel(64);
        let clients = Clients {
            clients: Vec::new(),
            next: 0,
            connection_permits: Arc::new(Semaphore::new(MAX_CLIENTS)),
            viewer_permits: Arc::new(Semaphore::new(MAX_VIEWERS)),
            events,
            progress: Arc::new(Notify::new()),
            accepts_input: watch::channel(true).0,
            queued_input: Arc::default(),
            disconnected: Vec::new(),
        };
        (clients, received)
    }

    /// Sets whether the program accepts input.
    pub(super) fn set_accepts_input(&self, accepts: bool) {
        self.accepts_input.send_if_modified(|current| std::mem::replace(current, accepts) != accepts);
    }

    /// Returns a sender for the events of clients.
    pub(super) fn event_sender(&self) -> mpsc::Sender<(u64, ClientEvent)> {
        self.events.clone()
    }

    /// Adds a connection; nothing is sent on it before the greeting. If the limit is reached, rejects it with a reason and
    /// returns `None`.
    pub(super) fn add(&mut self, stream: UnixStream, is_internal: bool) -> Option<u64> {
        let permit =
            if is_internal { None } else { Some(self.connection_permits.clone().try_acquire_owned()) };
        let Ok(permit) = permit.transpose() else {
            reject(stream, HostEvent::Fault(too_many(MAX_CLIENTS)).to_bytes());
            return None;
        };
        self.next += 1;
        let id = self.next;
        let (read, write) = stream.into_split();
        let (accepts_input, queued_input) = (self.accepts_input.subscribe(), self.queued_input.clone());
        let viewer_permit = ViewerPermit::default();
        let source = ClientReader { read, _permit: permit, _viewer_permit: viewer_permit.clone() };
        tokio::spawn(read_requests(id, source, self.events.clone(), accepts_input, queued_input));
        let events = self.events.clone();
        let writer = Writer::new(write, self.progress.clone(), async move {
            // Fails only when the host has ended.
            let _ = events.send((id, ClientEvent::Disconnected)).await;
        });
        self.clients.push(Client {
            id,
            writer,
            is_internal,
            is_viewer: false,
            viewer_permit,
            subscribed: false,
        });
        Some(id)
    }

    /// Marks the client as a viewer. Returns false if it is no longer connected.
    ///
    /// # Errors
    /// The limit of viewers is reached; the message for the client.
    pub(super) fn make_viewer(&mut self, id: u64) -> Result<bool, String> {
        let viewer_permits = self.viewer_permits.clone();
        let Some(client) = self.client(id) else { return Ok(false) };
        if !client.is_viewer && !client.is_internal {
            let viewer_permit = viewer_permits.try_acquire_owned().map_err(|_| too_many(MAX_VIEWERS))?;
            // The permit is set only once.
            let _ = client.viewer_permit.set(viewer_permit);
        }
        client.is_viewer = true;
        Ok(true)
    }

    /// Returns true if a person sees the terminal through this client. The recorder's own connection only sets the size.
    pub(super) fn is_viewer(&self, id: u64) -> bool {
        self.clients.iter().any(|client| client.id == id && client.is_viewer && !client.is_internal)
    }

    /// Returns true if the client receives the output.
    pub(super) fn is_subscribed(&self, id: u64) -> bool {
        self.clients.iter().any(|client| client.id == id && client.subscribed)
    }

    /// Returns the clients disconnected since the last call.
    pub(super) fn take_disconnected(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.disconnected)
    }

    /// Closes a connection after its queue is sent.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(at) = self.clients.iter().position(|client| client.id == id) {
            self.clients.remove(at).writer.close_after_flush(STALL_TIMEOUT);
        }
    }

    /// Sends the greeting with the terminal's descriptor.
    pub(super) fn greet(&mut self, id: u64, hello: &HostEvent, terminal: OwnedFd) {
        if let Some(client) = self.client(id) {
            client.writer.greet(hello.to_bytes(), terminal);
        }
    }

    /// Sends frames to one client.
    pub(super) fn send(&mut self, id: u64, frames: &[u8]) {
        if let Some(client) = self.client(id) {
            // In chunks, because backpressure counts the chunks already sent.
            frames.chunks(CHUNK).for_each(|piece| client.writer.push(&Arc::new(piece.to_vec())));
        }
    }

    /// Adds the client to the receivers of the output.
    pub(super) fn subscribe(&mut self, id: u64) {
        if let Some(client) = self.client(id) {
            client.subscribed = true;
        }
    }

    /// Returns true if a client has connected but not subscribed yet.
    pub(super) fn has_connecting(&self) -> bool {
        self.clients.iter().any(|client| !client.subscribed)
    }

    /// Returns true if a client is subscribed.
    pub(super) fn has_subscribed(&self) -> bool {
        self.clients.iter().any(|client| client.subscribed)
    }

    /// Sends an event to all subscribed clients.
    pub(super) fn broadcast(&self, event: &HostEvent) {
        self.broadcast_frames(event.to_bytes());
    }

    /// Sends an event to all subscribed clients except one.
    pub(super) fn broadcast_except(&self, id: u64, event: &HostEvent) {
        self.send_to(event.to_bytes(), |client| client.id != id);
    }

    /// Sends frames to all subscribed clients.
    pub(super) fn broadcast_frames(&self, frames: Vec<u8>) {
        self.send_to(frames, |_| true);
    }

    fn send_to(&self, frames: Vec<u8>, filter: impl Fn(&Client) -> bool) {
        let frames = Arc::new(frames);
        self.clients
            .iter()
            .filter(|client| client.subscribed && filter(client))
            .for_each(|client| client.writer.push(&frames));
    }

    /// Returns true if the terminal may be read, that is, no client is too far behind. Disconnects clients that are stalled.
    pub(super) fn check_backpressure(&mut self) -> bool {
        let mut may_read = true;
        let disconnected = &mut self.disconnected;
        self.clients.retain_mut(|client| {
            if client.is_internal && !client.subscribed {
                // The client is about to subscribe from the beginning and must not miss a byte.
                may_read = false;
                return true;
            }
            match client.writer.backpressure(client.max_queued(), client.stall_timeout()) {
                Backpressure::None => true,
                Backpressure::Behind => {
                    may_read = false;
                    true
                }
                Backpressure::Stalled => {
                    disconnected.push(client.id);
                    false
                }
            }
        });
        may_read
    }

    /// Waits until a client has received something or the stall timeout of a slow client has passed.
    pub(super) async fn wait_for_progress(&self) {
        let behind = self.clients.iter().filter(|client| client.writer.is_behind());
        let timeout = behind.map(Client::stall_timeout).min().unwrap_or(STALL_TIMEOUT).min(STALL_TIMEOUT);
        // A timeout is fine: the caller then disconnects the stalled client.
        let _ = tokio::time::timeout(timeout, self.progress.notified()).await;
    }

    /// Returns true if nothing is queued for any client.
    pub(super) fn is_drained(&self) -> bool {
        self.clients.iter().all(|client| client.writer.is_drained())
    }

    /// Closes each connection only after its queue is sent: a client within this process may read slowly.
    pub(super) fn detach_all(&mut self) {
        self.clients.drain(..).for_each(|client| client.writer.detach());
    }

    fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.id == id)
    }
}

impl Client {
    /// Bytes that may be queued for the client while the terminal is read.
    fn max_queued(&self) -> usize {
        if self.is_viewer && !self.is_internal { MAX_QUEUED_VIEWER } else { MAX_QUEUED }
    }

    /// Time that the client may take nothing while others wait for it.
    fn stall_timeout(&self) -> Duration {
        match (self.is_internal, self.is_viewer) {
            (true, _) => Duration::MAX,
            (false, true) => VIEWER_STALL_TIMEOUT,
            (false, false) => STALL_TIMEOUT,
        }
    }
}

/// Sends the reason for a rejection, then closes the connection.
fn reject(mut stream: UnixStream, reason: Vec<u8>) {
    tokio::spawn(async move {
        // The client may not read it.
        let _ = tokio::time::timeout(REJECT_TIMEOUT, stream.write_all(&reason)).await;
    });
}

fn too_many(others: usize) -> String {
    format!("host is full: {others} clients are connected; end a 'nerve attach' with ctrl+] d")
}
