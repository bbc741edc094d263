//! Connections to a host: what each is sent, how far it is behind, and what it orders.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::link::{CHUNK, Frames, Order, Report};
use crate::backend::pty::WRITE_LIMIT;

/// Bytes that may wait for one connection before the terminal is read no further.
const BEHIND: usize = 4 << 20;
/// How long a connection that takes nothing holds up the terminal. Then it is closed: the session goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for a viewer: somebody has stopped it, or its window is gone. It comes again and reads what it missed.
const VIEWERS_PATIENCE: Duration = Duration::from_millis(250);
/// Connections from without at a time.
pub(super) const MAX_LINKS: usize = 64;
/// Viewers among them: whoever drives the terminal, or orders something, always finds room.
pub(super) const MAX_VIEWERS: usize = 60;
/// How long one that is turned away may take to hear why.
const REFUSAL: Duration = Duration::from_secs(2);
/// Bytes typed on all connections that may wait for a program that does not read, before connections that have some waiting are read
/// no further: more than one that types may have on its way.
const MAX_HELD: usize = WRITE_LIMIT + (8 << 20);

/// All connections of a host.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    next: u64,
    orders: mpsc::Sender<(u64, Ordered)>,
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
pub(super) enum Ordered {
    Order(Order),
    /// So much is in the recording's file: the greeting can say it.
    Greet(Option<u64>),
    /// So much is in the recording's file: the answer to somebody who is behind.
    Behind(Option<u64>),
    Gone,
}

#[derive(Debug)]
struct Link {
    id: u64,
    queue: mpsc::UnboundedSender<Piece>,
    waiting: Arc<AtomicUsize>,
    /// Since when it has been too far behind, and how much waited then.
    stuck: Option<(Instant, usize)>,
    /// It is waited for as long as it takes.
    inside: bool,
    /// It only shows what it gets.
    viewer: bool,
    /// It has said from where it wants the output, and has all that was.
    live: bool,
}

enum Piece {
    Bytes(Arc<Vec<u8>>),
    /// The greeting, with the terminal's descriptor.
    Greeting(Vec<u8>, OwnedFd),
}

impl Links {
    /// Orders of all connections come out of the receiver.
    pub(super) fn new() -> (Links, mpsc::Receiver<(u64, Ordered)>) {
        let (orders, received) = mpsc::channel(64);
        (
            Links {
                links: Vec::new(),
                next: 0,
                orders,
                room: Arc::new(Notify::new()),
                takes_input: watch::channel(true).0,
                held: Arc::default(),
                cut: Vec::new(),
            },
            received,
        )
    }

    /// Says whether the program takes input.
    pub(super) fn take_input(&self, takes: bool) {
        self.takes_input.send_if_modified(|taken| std::mem::replace(taken, takes) != takes);
    }

    /// Where orders go.
    pub(super) fn orders(&self) -> mpsc::Sender<(u64, Ordered)> {
        self.orders.clone()
    }

    /// Takes in a connection. It is sent nothing before it is greeted.
    pub(super) fn add(&mut self, stream: UnixStream, inside: bool) -> u64 {
        self.next += 1;
        let id = self.next;
        let (queue, pieces) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (read, write) = stream.into_split();
        tokio::spawn(read_orders(
            id,
            read,
            self.orders.clone(),
            self.takes_input.subscribe(),
            self.held.clone(),
        ));
        let (orders, room) = (self.orders.clone(), self.room.clone());
        let counted = waiting.clone();
        tokio::spawn(async move {
            // A connection that cannot be written to is as gone as one that was closed.
            let _ = write_pieces(write, pieces, &counted, &room).await;
            let _ = orders.send((id, Ordered::Gone)).await;
            room.notify_one();
        });
        self.links.push(Link { id, queue, waiting, stuck: None, inside, viewer: false, live: false });
        id
    }

    /// Nobody else is taken in from without.
    pub(super) fn is_full(&self) -> bool {
        self.links.iter().filter(|link| !link.inside).count() >= MAX_LINKS
    }

    /// There is no room for one viewer more, this connection being none yet.
    pub(super) fn is_full_of_viewers(&self, id: u64) -> bool {
        let is_one = |link: &&Link| link.viewer && !link.inside;
        let known = self.links.iter().any(|link| link.id == id && (link.viewer || link.inside));
        !known && self.links.iter().filter(is_one).count() >= MAX_VIEWERS
    }

    /// Tells a connection why it is not taken in.
    pub(super) fn refuse(mut stream: UnixStream, why: &[u8]) {
        let why = why.to_vec();
        tokio::spawn(async move {
            // One that does not listen is not told.
            let _ = tokio::time::timeout(REFUSAL, stream.write_all(&why)).await;
        });
    }

    /// The connection is a viewer from now on. Gives back whether it comes from within this process; `None` if there is no such
    /// connection.
    pub(super) fn is_viewer(&mut self, id: u64) -> Option<bool> {
        let link = self.link(id)?;
        link.viewer = true;
        Some(link.inside)
    }

    /// Those that were cut off, once.
    pub(super) fn take_cut(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.cut)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.links.retain(|link| link.id != id);
    }

    /// Sends the greeting.
    pub(super) fn greet(&mut self, id: u64, hello: &Report, terminal: OwnedFd) {
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        if let Some(link) = self.link(id) {
            // A closed queue means that it is about to be removed.
            let _ = link.queue.send(Piece::Greeting(bytes, terminal));
        }
    }

    /// Sends frames to one connection.
    pub(super) fn send(&mut self, id: u64, frames: Vec<u8>) {
        if let Some(link) = self.link(id) {
            // In pieces: how far it is behind is counted by what it has taken.
            frames.chunks(CHUNK).for_each(|piece| link.push(&Arc::new(piece.to_vec())));
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

    /// Nobody listens: nothing needs to be put into frames.
    pub(super) fn any_live(&self) -> bool {
        self.links.iter().any(|link| link.live)
    }

    /// Sends frames to everybody who has begun to listen.
    pub(super) fn send_all(&mut self, frames: Vec<u8>) {
        let frames = Arc::new(frames);
        for link in self.links.iter().filter(|link| link.live) {
            link.push(&frames);
        }
    }

    /// Sends frames to everybody who has begun to listen but this one.
    pub(super) fn send_others(&mut self, id: u64, frames: &[u8]) {
        if self.links.iter().any(|link| link.live && link.id != id) {
            let frames = Arc::new(frames.to_vec());
            self.links.iter().filter(|link| link.live && link.id != id).for_each(|link| link.push(&frames));
        }
    }

    /// Whether the terminal may be read: nobody is too far behind, or not for long.
    pub(super) fn keeping_up(&mut self) -> bool {
        let mut all = true;
        let cut = &mut self.cut;
        self.links.retain_mut(|link| {
            if link.inside && !link.live {
                // It is about to say from where it wants the output: from the begin, and not a byte is to be missed.
                all = false;
                return true;
            }
            let waiting = link.waiting.load(Ordering::Acquire);
            if waiting < BEHIND {
                link.stuck = None;
                return true;
            }
            match link.stuck {
                _ if link.inside => {}
                Some((since, then)) if waiting >= then && since.elapsed() >= link.patience() => {
                    cut.push(link.id);
                    return false;
                }
                Some((_, then)) if waiting >= then => {}
                _ => link.stuck = Some((Instant::now(), waiting)),
            }
            all = false;
            true
        });
        all
    }

    /// Waits until somebody has taken something, or the patience with somebody who is stuck is over.
    pub(super) async fn room(&self) {
        let stuck = self.links.iter().filter(|link| link.stuck.is_some());
        let patience = stuck.map(Link::patience).min().unwrap_or(PATIENCE);
        // A timeout is an answer too: whoever is stuck is closed then.
        let _ = tokio::time::timeout(patience, self.room.notified()).await;
    }

    /// Nothing waits for anybody.
    pub(super) fn drained(&self) -> bool {
        self.links.iter().all(|link| link.waiting.load(Ordering::Acquire) == 0)
    }

    fn link(&mut self, id: u64) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.id == id)
    }
}

impl Link {
    /// How long it may take nothing while others wait for it.
    fn patience(&self) -> Duration {
        if self.viewer { VIEWERS_PATIENCE } else { PATIENCE }
    }

    fn push(&self, frames: &Arc<Vec<u8>>) {
        self.waiting.fetch_add(frames.len(), Ordering::AcqRel);
        let _ = self.queue.send(Piece::Bytes(frames.clone()));
    }
}

/// Hands on what a connection orders. Only what is typed waits for a program that does not read; everything else overtakes it, and so
/// does the connection's end. What was typed before the end still comes to the program.
async fn read_orders(
    id: u64,
    read: OwnedReadHalf,
    orders: mpsc::Sender<(u64, Ordered)>,
    mut takes_input: watch::Receiver<bool>,
    held: Arc<AtomicUsize>,
) {
    let (mut frames, mut typed) = (Frames::default(), Typed { orders: VecDeque::new(), held });
    let mut read = Some(read);
    while read.is_some() || !typed.orders.is_empty() {
        tokio::select! {
            biased;
            takes = takes(&mut takes_input), if !typed.orders.is_empty() => {
                let Some(order) = typed.pop().filter(|_| takes) else { return };
                if orders.send((id, Ordered::Order(order))).await.is_err() {
                    return;
                }
            }
            more = read_more(&mut read, &mut frames), if read.is_some() && typed.has_room() => {
                let mut goes_on = more;
                while goes_on {
                    let order = match frames.take() {
                        Ok(None) => break,
                        Ok(Some(body)) => Order::decode(body),
                        Err(error) => Err(error),
                    };
                    match order {
                        Ok(Some(order @ Order::Input { .. }))
                            if !typed.orders.is_empty() || !*takes_input.borrow() =>
                        {
                            typed.push(order);
                        }
                        Ok(Some(order)) => {
                            if orders.send((id, Ordered::Order(order))).await.is_err() {
                                return;
                            }
                        }
                        Ok(None) => {}
                        Err(_) => goes_on = false,
                    }
                }
                if !goes_on {
                    read = None;
                    if orders.send((id, Ordered::Gone)).await.is_err() {
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
async fn read_more(read: &mut Option<OwnedReadHalf>, frames: &mut Frames) -> bool {
    match read {
        Some(read) => matches!(read.read_buf(frames.room()).await, Ok(bytes) if bytes > 0),
        None => std::future::pending().await,
    }
}

/// What was typed on one connection and waits for the program.
struct Typed {
    orders: VecDeque<Order>,
    /// Bytes that wait on all connections.
    held: Arc<AtomicUsize>,
}

impl Typed {
    /// One that holds nothing is always read: it may have something else to say.
    fn has_room(&self) -> bool {
        self.orders.is_empty() || self.held.load(Ordering::Acquire) < MAX_HELD
    }

    fn push(&mut self, order: Order) {
        self.held.fetch_add(cost(&order), Ordering::AcqRel);
        self.orders.push_back(order);
    }

    fn pop(&mut self) -> Option<Order> {
        let order = self.orders.pop_front()?;
        self.held.fetch_sub(cost(&order), Ordering::AcqRel);
        Some(order)
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Memory that an order takes; bytes, nearly.
fn cost(order: &Order) -> usize {
    let typed = if let Order::Input { bytes, .. } = order { bytes.len() } else { 0 };
    typed + size_of::<Order>()
}

async fn write_pieces(
    mut write: tokio::net::unix::OwnedWriteHalf,
    mut pieces: mpsc::UnboundedReceiver<Piece>,
    waiting: &AtomicUsize,
    room: &Notify,
) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Greeting(bytes, terminal) => {
                let sent = send_with_descriptor(write.as_ref(), &bytes, &terminal).await?;
                write.write_all(&bytes[sent..]).await?;
            }
            Piece::Bytes(bytes) => {
                write.write_all(&bytes).await?;
                waiting.fetch_sub(bytes.len(), Ordering::AcqRel);
                room.notify_one();
            }
        }
    }
    Ok(())
}

/// Writes some of `bytes` together with a descriptor (unix(7), `SCM_RIGHTS`).
async fn send_with_descriptor(stream: &UnixStream, bytes: &[u8], terminal: &OwnedFd) -> io::Result<usize> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = [terminal.as_fd()];
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            let bytes = [io::IoSlice::new(bytes)];
            Ok(rustix::net::sendmsg(stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
        })
        .await
}
