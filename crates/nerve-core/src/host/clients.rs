//! All connections of a host: who is let in, who is sent what, and whether the terminal may be read.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::protocol::{CHUNK, HostEvent, HostRequest};
use super::reader::{ClientReader, ViewerPermit, read_requests};
use super::writer::{Backpressure, MAX_QUEUED, MAX_QUEUED_VIEWER, Writer};

/// How long a connection that takes nothing holds up the terminal. Then it is closed: the session goes on.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a viewer: somebody has stopped it, or its window is gone. It comes again and reads what it missed.
const VIEWER_STALL_TIMEOUT: Duration = Duration::from_millis(250);
/// Connections from without at a time.
const MAX_CLIENTS: usize = 64;
/// Viewers among them: whoever drives the terminal, or orders something, always finds room.
const MAX_VIEWERS: usize = 60;
/// How long one that is turned away may take to hear why.
const REJECT_TIMEOUT: Duration = Duration::from_secs(2);

/// All connections of a host.
#[derive(Debug)]
pub(super) struct Clients {
    clients: Vec<Client>,
    next: u64,
    /// A connection from without has one for as long as it is open at the other end, cut off or not.
    connection_permits: Arc<Semaphore>,
    /// Viewers have one of these too: those that were cut off must not take the connection_permits of who drives the terminal.
    viewer_permits: Arc<Semaphore>,
    events: mpsc::Sender<(u64, ClientEvent)>,
    progress: Arc<Notify>,
    /// The program takes input; connections that send some wait for it.
    accepts_input: watch::Sender<bool>,
    /// Bytes that wait for that.
    queued_input: Arc<AtomicUsize>,
    /// Those that were cut off since somebody asked.
    disconnected: Vec<u64>,
}

/// What comes from a connection.
#[derive(Debug)]
pub(super) enum ClientEvent {
    Request(HostRequest),
    /// So much is in the recording's file: the greeting can say it.
    Greet(Option<u64>),
    /// So much is in the recording's file: the answer to somebody who is behind.
    Behind(Option<u64>),
    Disconnected,
}

#[derive(Debug)]
struct Client {
    id: u64,
    writer: Writer,
    /// It is waited for as long as it takes.
    is_internal: bool,
    /// It only shows what it gets.
    is_viewer: bool,
    viewer_permit: ViewerPermit,
    /// It has said from where it wants the output, and has all that was.
    subscribed: bool,
}

impl Clients {
    /// What all connections say comes out of the receiver.
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

    /// Says whether the program takes input.
    pub(super) fn set_accepts_input(&self, takes: bool) {
        self.accepts_input.send_if_modified(|current| std::mem::replace(current, takes) != takes);
    }

    /// Where what is heard goes.
    pub(super) fn event_sender(&self) -> mpsc::Sender<(u64, ClientEvent)> {
        self.events.clone()
    }

    /// Takes in a connection; nothing is sent on it before it is greeted. `None` if there are as many as there may be: it is told so.
    pub(super) fn add(&mut self, stream: UnixStream, is_internal: bool) -> Option<u64> {
        let permit =
            if is_internal { None } else { Some(self.connection_permits.clone().try_acquire_owned()) };
        let Ok(permit) = permit.transpose() else {
            reject(stream, HostEvent::Fault(too_many(MAX_CLIENTS)).encoded());
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
            // A host that is over needs not know.
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

    /// The connection is a viewer from now on. False if there is no such connection any more.
    ///
    /// # Errors
    /// There are as many viewers as there may be; in words.
    pub(super) fn make_viewer(&mut self, id: u64) -> Result<bool, String> {
        let viewer_permits = self.viewer_permits.clone();
        let Some(client) = self.client(id) else { return Ok(false) };
        if !client.is_viewer && !client.is_internal {
            let viewer_permit = viewer_permits.try_acquire_owned().map_err(|_| too_many(MAX_VIEWERS))?;
            // It has none yet.
            let _ = client.viewer_permit.set(viewer_permit);
        }
        client.is_viewer = true;
        Ok(true)
    }

    /// Somebody sees by it what there is to be seen. The recorder's own connection only says the size.
    pub(super) fn is_viewer(&self, id: u64) -> bool {
        self.clients.iter().any(|client| client.id == id && client.is_viewer && !client.is_internal)
    }

    /// It gets what all get.
    pub(super) fn is_subscribed(&self, id: u64) -> bool {
        self.clients.iter().any(|client| client.id == id && client.subscribed)
    }

    /// Those that were cut off, once.
    pub(super) fn take_disconnected(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.disconnected)
    }

    /// Ends a connection, when it has been told all that it was to be told.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(at) = self.clients.iter().position(|client| client.id == id) {
            self.clients.remove(at).writer.close_after_flush(STALL_TIMEOUT);
        }
    }

    /// Sends the greeting.
    pub(super) fn greet(&mut self, id: u64, hello: &HostEvent, terminal: OwnedFd) {
        if let Some(client) = self.client(id) {
            client.writer.greet(hello.encoded(), terminal);
        }
    }

    /// Sends frames to one connection.
    pub(super) fn send(&mut self, id: u64, frames: &[u8]) {
        if let Some(client) = self.client(id) {
            // In pieces: how far it is behind is counted by what it has current.
            frames.chunks(CHUNK).for_each(|piece| client.writer.push(&Arc::new(piece.to_vec())));
        }
    }

    /// From now on the connection gets what all get.
    pub(super) fn subscribe(&mut self, id: u64) {
        if let Some(client) = self.client(id) {
            client.subscribed = true;
        }
    }

    /// Somebody has connected and not said yet from where it wants the output.
    pub(super) fn any_connecting(&self) -> bool {
        self.clients.iter().any(|client| !client.subscribed)
    }

    /// Somebody listens. Else nothing needs to be put into frames.
    pub(super) fn any_subscribed(&self) -> bool {
        self.clients.iter().any(|client| client.subscribed)
    }

    /// Tells everybody who has initial to listen.
    pub(super) fn broadcast(&self, event: &HostEvent) {
        self.broadcast_frames(event.encoded());
    }

    /// Tells everybody who has initial to listen but this one.
    pub(super) fn broadcast_except(&self, id: u64, event: &HostEvent) {
        self.send_to(event.encoded(), |client| client.id != id);
    }

    /// Sends frames to everybody who has initial to listen.
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

    /// Whether the terminal may be read: nobody is too far behind, or not for long. Who was for too long is cut off.
    pub(super) fn check_backpressure(&mut self) -> bool {
        let mut all = true;
        let disconnected = &mut self.disconnected;
        self.clients.retain_mut(|client| {
            if client.is_internal && !client.subscribed {
                // It is about to say from where it wants the output: from the begin, and not a byte is to be missed.
                all = false;
                return true;
            }
            match client.writer.backpressure(client.max_queued(), client.stall_timeout()) {
                Backpressure::None => true,
                Backpressure::Behind => {
                    all = false;
                    true
                }
                Backpressure::Stalled => {
                    disconnected.push(client.id);
                    false
                }
            }
        });
        all
    }

    /// Waits until somebody has current something, or the patience with somebody who is behind is over.
    pub(super) async fn wait_for_progress(&self) {
        let behind = self.clients.iter().filter(|client| client.writer.is_behind());
        let timeout = behind.map(Client::stall_timeout).min().unwrap_or(STALL_TIMEOUT).min(STALL_TIMEOUT);
        // A timeout is an answer too: whoever is stuck is closed then.
        let _ = tokio::time::timeout(timeout, self.progress.notified()).await;
    }

    /// Nothing waits for anybody.
    pub(super) fn is_drained(&self) -> bool {
        self.clients.iter().all(|client| client.writer.is_drained())
    }

    /// The host is over. What still waits for a connection goes out for as long as this process lives: a reader in it may be slow.
    pub(super) fn detach_all(&mut self) {
        self.clients.drain(..).for_each(|client| client.writer.detach());
    }

    fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.id == id)
    }
}

impl Client {
    /// Bytes that may wait for it while the terminal is read.
    fn max_queued(&self) -> usize {
        if self.is_viewer && !self.is_internal { MAX_QUEUED_VIEWER } else { MAX_QUEUED }
    }

    /// How long it may take nothing while others wait for it.
    fn stall_timeout(&self) -> Duration {
        match (self.is_internal, self.is_viewer) {
            (true, _) => Duration::MAX,
            (false, true) => VIEWER_STALL_TIMEOUT,
            (false, false) => STALL_TIMEOUT,
        }
    }
}

/// Tells a connection why it is not current in.
fn reject(mut stream: UnixStream, why: Vec<u8>) {
    tokio::spawn(async move {
        // One that does not listen is not told.
        let _ = tokio::time::timeout(REJECT_TIMEOUT, stream.write_all(&why)).await;
    });
}

fn too_many(others: usize) -> String {
    format!(
        "{others} others are connected to this host already, and it takes no more; 'nerve attach' ends with ctrl+] d"
    )
}
