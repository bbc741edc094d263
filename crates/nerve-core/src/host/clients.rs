//! All connections of a host: who is let in, who is sent what, and whether the terminal may be read.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::protocol::{CHUNK, HostEvent, HostRequest};
use super::reader::{Seat, Source, read_requests};
use super::writer::{BEHIND, Pace, VIEWER_BEHIND, Writer};

/// How long a connection that takes nothing holds up the terminal. Then it is closed: the session goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for a viewer: somebody has stopped it, or its window is gone. It comes again and reads what it missed.
const VIEWERS_PATIENCE: Duration = Duration::from_millis(250);
/// Connections from without at a time.
const MAX_LINKS: usize = 64;
/// Viewers among them: whoever drives the terminal, or orders something, always finds room.
const MAX_VIEWERS: usize = 60;
/// How long one that is turned away may take to hear why.
const REFUSAL: Duration = Duration::from_secs(2);

/// All connections of a host.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    next: u64,
    /// A connection from without has one for as long as it is open at the other end, cut off or not.
    places: Arc<Semaphore>,
    /// Viewers have one of these too: those that were cut off must not take the places of who drives the terminal.
    seats: Arc<Semaphore>,
    heard: mpsc::Sender<(u64, Heard)>,
    room: Arc<Notify>,
    /// The program takes input; connections that send some wait for it.
    takes_input: watch::Sender<bool>,
    /// Bytes that wait for that.
    held: Arc<AtomicUsize>,
    /// Those that were cut off since somebody asked.
    cut: Vec<u64>,
}

/// What comes from a connection.
#[derive(Debug)]
pub(super) enum Heard {
    HostRequest(HostRequest),
    /// So much is in the recording's file: the greeting can say it.
    Greet(Option<u64>),
    /// So much is in the recording's file: the answer to somebody who is behind.
    Behind(Option<u64>),
    Gone,
}

#[derive(Debug)]
struct Link {
    id: u64,
    writer: Writer,
    /// It is waited for as long as it takes.
    inside: bool,
    /// It only shows what it gets.
    viewer: bool,
    seat: Seat,
    /// It has said from where it wants the output, and has all that was.
    live: bool,
}

impl Links {
    /// What all connections say comes out of the receiver.
    pub(super) fn new() -> (Links, mpsc::Receiver<(u64, Heard)>) {
        let (heard, received) = mpsc::channel(64);
        let links = Links {
            links: Vec::new(),
            next: 0,
            places: Arc::new(Semaphore::new(MAX_LINKS)),
            seats: Arc::new(Semaphore::new(MAX_VIEWERS)),
            heard,
            room: Arc::new(Notify::new()),
            takes_input: watch::channel(true).0,
            held: Arc::default(),
            cut: Vec::new(),
        };
        (links, received)
    }

    /// Says whether the program takes input.
    pub(super) fn take_input(&self, takes: bool) {
        self.takes_input.send_if_modified(|taken| std::mem::replace(taken, takes) != takes);
    }

    /// Where what is heard goes.
    pub(super) fn heard(&self) -> mpsc::Sender<(u64, Heard)> {
        self.heard.clone()
    }

    /// Takes in a connection; nothing is sent on it before it is greeted. `None` if there are as many as there may be: it is told so.
    pub(super) fn add(&mut self, stream: UnixStream, inside: bool) -> Option<u64> {
        let place = if inside { None } else { Some(self.places.clone().try_acquire_owned()) };
        let Ok(place) = place.transpose() else {
            refuse(stream, HostEvent::Fault(full(MAX_LINKS)).encoded());
            return None;
        };
        self.next += 1;
        let id = self.next;
        let (read, write) = stream.into_split();
        let (takes_input, held) = (self.takes_input.subscribe(), self.held.clone());
        let seat = Seat::default();
        let source = Source { read, _place: place, _seat: seat.clone() };
        tokio::spawn(read_requests(id, source, self.heard.clone(), takes_input, held));
        let heard = self.heard.clone();
        let writer = Writer::new(write, self.room.clone(), async move {
            // A host that is over needs not know.
            let _ = heard.send((id, Heard::Gone)).await;
        });
        self.links.push(Link { id, writer, inside, viewer: false, seat, live: false });
        Some(id)
    }

    /// The connection is a viewer from now on. False if there is no such connection any more.
    ///
    /// # Errors
    /// There are as many viewers as there may be; in words.
    pub(super) fn make_viewer(&mut self, id: u64) -> Result<bool, String> {
        let seats = self.seats.clone();
        let Some(link) = self.link(id) else { return Ok(false) };
        if !link.viewer && !link.inside {
            let seat = seats.try_acquire_owned().map_err(|_| full(MAX_VIEWERS))?;
            // It has none yet.
            let _ = link.seat.set(seat);
        }
        link.viewer = true;
        Ok(true)
    }

    /// Somebody sees by it what there is to be seen. The recorder's own connection only says the size.
    pub(super) fn is_viewer(&self, id: u64) -> bool {
        self.links.iter().any(|link| link.id == id && link.viewer && !link.inside)
    }

    /// It gets what all get.
    pub(super) fn is_live(&self, id: u64) -> bool {
        self.links.iter().any(|link| link.id == id && link.live)
    }

    /// Those that were cut off, once.
    pub(super) fn take_cut(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.cut)
    }

    /// Ends a connection, when it has been told all that it was to be told.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(at) = self.links.iter().position(|link| link.id == id) {
            self.links.remove(at).writer.part(PATIENCE);
        }
    }

    /// Sends the greeting.
    pub(super) fn greet(&mut self, id: u64, hello: &HostEvent, terminal: OwnedFd) {
        if let Some(link) = self.link(id) {
            link.writer.greet(hello.encoded(), terminal);
        }
    }

    /// Sends frames to one connection.
    pub(super) fn send(&mut self, id: u64, frames: &[u8]) {
        if let Some(link) = self.link(id) {
            // In pieces: how far it is behind is counted by what it has taken.
            frames.chunks(CHUNK).for_each(|piece| link.writer.push(&Arc::new(piece.to_vec())));
        }
    }

    /// From now on the connection gets what all get.
    pub(super) fn make_live(&mut self, id: u64) {
        if let Some(link) = self.link(id) {
            link.live = true;
        }
    }

    /// Somebody has connected and not said yet from where it wants the output.
    pub(super) fn any_pending(&self) -> bool {
        self.links.iter().any(|link| !link.live)
    }

    /// Somebody listens. Else nothing needs to be put into frames.
    pub(super) fn any_live(&self) -> bool {
        self.links.iter().any(|link| link.live)
    }

    /// Tells everybody who has begun to listen.
    pub(super) fn tell(&self, event: &HostEvent) {
        self.send_all(event.encoded());
    }

    /// Tells everybody who has begun to listen but this one.
    pub(super) fn tell_others(&self, id: u64, event: &HostEvent) {
        self.send_to(event.encoded(), |link| link.id != id);
    }

    /// Sends frames to everybody who has begun to listen.
    pub(super) fn send_all(&self, frames: Vec<u8>) {
        self.send_to(frames, |_| true);
    }

    fn send_to(&self, frames: Vec<u8>, whom: impl Fn(&Link) -> bool) {
        let frames = Arc::new(frames);
        self.links.iter().filter(|link| link.live && whom(link)).for_each(|link| link.writer.push(&frames));
    }

    /// Whether the terminal may be read: nobody is too far behind, or not for long. Who was for too long is cut off.
    pub(super) fn keeping_up(&mut self) -> bool {
        let mut all = true;
        let cut = &mut self.cut;
        self.links.retain_mut(|link| {
            if link.inside && !link.live {
                // It is about to say from where it wants the output: from the begin, and not a byte is to be missed.
                all = false;
                return true;
            }
            match link.writer.pace(link.most(), link.patience()) {
                Pace::KeepsUp => true,
                Pace::Behind => {
                    all = false;
                    true
                }
                Pace::Stuck => {
                    cut.push(link.id);
                    false
                }
            }
        });
        all
    }

    /// Waits until somebody has taken something, or the patience with somebody who is behind is over.
    pub(super) async fn room(&self) {
        let behind = self.links.iter().filter(|link| link.writer.is_behind());
        let patience = behind.map(Link::patience).min().unwrap_or(PATIENCE).min(PATIENCE);
        // A timeout is an answer too: whoever is stuck is closed then.
        let _ = tokio::time::timeout(patience, self.room.notified()).await;
    }

    /// Nothing waits for anybody.
    pub(super) fn drained(&self) -> bool {
        self.links.iter().all(|link| link.writer.is_drained())
    }

    /// The host is over. What still waits for a connection goes out for as long as this process lives: a reader in it may be slow.
    pub(super) fn let_go(&mut self) {
        self.links.drain(..).for_each(|link| link.writer.let_go());
    }

    fn link(&mut self, id: u64) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.id == id)
    }
}

impl Link {
    /// Bytes that may wait for it while the terminal is read.
    fn most(&self) -> usize {
        if self.viewer && !self.inside { VIEWER_BEHIND } else { BEHIND }
    }

    /// How long it may take nothing while others wait for it.
    fn patience(&self) -> Duration {
        match (self.inside, self.viewer) {
            (true, _) => Duration::MAX,
            (false, true) => VIEWERS_PATIENCE,
            (false, false) => PATIENCE,
        }
    }
}

/// Tells a connection why it is not taken in.
fn refuse(mut stream: UnixStream, why: Vec<u8>) {
    tokio::spawn(async move {
        // One that does not listen is not told.
        let _ = tokio::time::timeout(REFUSAL, stream.write_all(&why)).await;
    });
}

fn full(others: usize) -> String {
    format!(
        "{others} others are connected to this host already, and it takes no more; 'nerve attach' ends with ctrl+] d"
    )
}
