//! A terminal in a host process: bytes come over its control socket, and from its recording what came before.
//!
//! A host outlives us. Taking one over means reading its recording from the start and going on with the connection at that byte;
//! a connection that breaks while the host lives is made again the same way.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{Body, Mark, Part, Reader};
use nerve_term::driver::Foreground;
use nerve_term::event::{Origin, Size, TsNs};
use nerve_term::terminal::Snapshot;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pty::{Control, ESCALATION, WRITE_LIMIT};
use super::{Backend, Happened, Lease, Memory};
use crate::host::connection::Connection;
use crate::host::link::{CHUNK, Order, Report, Window};
use crate::host::registry::{self, Entry};

/// A host has a limit of its own for output after the end, and then writes the rest of its recording: this one is for a disk that
/// hangs.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a host may take to greet before that is told.
const GREETING: Duration = Duration::from_secs(5);
/// How often a host that does not answer is asked again, and a program that is to end is looked for: it is nobody's child any more,
/// so nobody is told.
const LOOK: Duration = Duration::from_millis(20);
/// How long a host that takes no more connections is left alone before it is asked again.
const FULL: Duration = Duration::from_secs(1);
/// Who has typed within this time is at it.
const PAUSE: Duration = Duration::from_secs(2);
/// Since this version a host tells sizes and snapshots of the past too.
const TELLS_MARKS: u32 = 2;
/// Blocks of a recording that are decompressed ahead of the terminal model.
const AHEAD: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct Hosted {
    entry: Entry,
    registry: PathBuf,
    stage: Stage,
    terminal: Option<Control>,
    /// Orders on their way.
    orders: VecDeque<u8>,
    /// Output bytes handed out so far.
    off: u64,
    /// What came before we did is over at this byte; not known before the host has greeted.
    caught_up_at: Option<u64>,
    catching_up: bool,
    output: Vec<u8>,
    told: VecDeque<Happened>,
    exited: bool,
    closed: bool,
    /// Why there is no connection.
    why: String,
    /// It was told that a living host does not answer.
    complained: bool,
    /// The recording does not have what is missing.
    unrecorded: bool,
    /// How many of the host's faults were told.
    faults: usize,
    /// When the last snapshot that was told was taken: what comes twice is told once.
    last_snapshot: TsNs,
    role: Role,
    /// When somebody else has typed last, and who.
    typed: Option<(Instant, Origin)>,
}

/// What the host is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Ours: we see its program's end, and clear away what is left of it.
    Drives,
    /// Somebody else's, which we look at through a window and type into.
    Views(Window),
}

#[derive(Debug)]
enum Stage {
    Connecting(AbortOnDropHandle<io::Result<Connection>>),
    /// The recording is read, from an output byte on; then the connection goes on, if there is one.
    Reading(mpsc::Receiver<Piece>, u64, Option<Connection>),
    Live(Connection),
    Over,
}

/// Something out of a recording.
#[derive(Debug)]
enum Piece {
    Output { off: u64, bytes: Vec<u8> },
    Other(Happened),
}

impl Hosted {
    /// Drives a host that was just started.
    pub fn fresh(entry: Entry, registry: PathBuf) -> Hosted {
        Hosted::new(entry, registry, false, Role::Drives)
    }

    /// Takes over a host that somebody else has driven before, or what one that is gone has left. Everything up to now comes
    /// first, and then [`Happened::CaughtUp`].
    pub fn adopt(entry: Entry, registry: PathBuf) -> Hosted {
        Hosted::new(entry, registry, true, Role::Drives)
    }

    /// Looks at a host that somebody else drives, beside others who do. Everything up to now comes first, and then
    /// [`Happened::CaughtUp`].
    pub fn view(entry: Entry, registry: PathBuf, window: Window) -> Hosted {
        Hosted::new(entry, registry, true, Role::Views(window))
    }

    /// Another window for a host that is looked at.
    pub fn set_window(&mut self, window: Window) {
        if self.role != Role::Views(window) && !matches!(self.stage, Stage::Over) {
            self.role = Role::Views(window);
            // Said with the next greeting otherwise.
            if matches!(self.stage, Stage::Live(_)) {
                Order::View(window).extend(&mut self.orders);
            }
        }
    }

    /// Asks for the end of the program and of the host.
    pub fn stop(&mut self) {
        Order::Stop.extend(&mut self.orders);
    }

    fn new(entry: Entry, registry: PathBuf, catching_up: bool, role: Role) -> Hosted {
        Hosted {
            stage: Stage::connecting(&entry, Duration::ZERO),
            entry,
            registry,
            terminal: None,
            orders: VecDeque::new(),
            off: 0,
            caught_up_at: None,
            catching_up,
            output: Vec::new(),
            told: VecDeque::new(),
            exited: false,
            closed: false,
            why: String::new(),
            complained: false,
            unrecorded: false,
            faults: 0,
            last_snapshot: TsNs(0),
            role,
            typed: None,
        }
    }

    /// What is left of the host is ours to clear away.
    fn forget(&self) {
        if self.role == Role::Drives {
            self.entry.forget(&self.registry);
        }
    }

    fn connected(&mut self, mut connection: Connection) {
        let terminal = connection.terminal.take();
        self.terminal =
            terminal.and_then(|terminal| Control::of_other(terminal, connection.hello.child).ok());
        let hello = &connection.hello;
        self.told.extend(hello.faults.iter().skip(self.faults).cloned().map(Happened::Fault));
        self.faults = hello.faults.len();
        self.complained = false;
        self.caught_up_at = Some(hello.off);
        // A recording has sizes and snapshots too; what an older host keeps in memory is output alone.
        let in_memory = self.role != Role::Drives && hello.version >= TELLS_MARKS;
        let past = self.catching_up && self.off == 0 && hello.off > 0 && !in_memory;
        if (past || hello.oldest > self.off) && hello.recording.is_some() {
            let (path, to) = (hello.recording.clone().unwrap_or_default(), hello.recorded);
            self.stage = Stage::Reading(read_recording(path, self.off, to), self.off, Some(connection));
        } else {
            self.go_live(connection);
        }
    }

    fn go_live(&mut self, connection: Connection) {
        let whatever = connection.hello.recording.is_none() || self.unrecorded;
        if let Role::Views(window) = self.role {
            Order::View(window).extend(&mut self.orders);
        }
        Order::From { off: self.off, whatever }.extend(&mut self.orders);
        self.stage = Stage::Live(connection);
        self.check_caught_up();
    }

    /// Nobody answers. A host that lives is waited for; of one that is gone, the recording tells what it could not.
    fn not_connected(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::QuotaExceeded && self.role != Role::Drives {
            self.stage = Stage::Over;
            self.told.push_back(Happened::Lost(error.to_string()));
            return;
        }
        if self.entry.is_alive() {
            if !std::mem::replace(&mut self.complained, true) {
                let (id, pid) = (&self.entry.id, self.entry.pid);
                self.told.push_back(Happened::Fault(format!(
                    "its host (pid {pid}) lives but does not answer: {error}; 'nerve host stop {id}' ends it"
                )));
            }
            let full = error.kind() == io::ErrorKind::QuotaExceeded;
            self.stage = Stage::connecting(&self.entry, if full { FULL } else { Duration::ZERO });
            return;
        }
        if let Some(entry) = registry::entry(&self.registry, &self.entry.id) {
            // It may say by now how the program ended.
            self.entry = entry;
        }
        self.why = error.to_string();
        match &self.entry.recording {
            Some(path) => {
                self.stage = Stage::Reading(read_recording(path.clone(), self.off, None), self.off, None);
            }
            None => self.over(),
        }
    }

    /// There is no host any more.
    fn over(&mut self) {
        self.stage = Stage::Over;
        if std::mem::take(&mut self.catching_up) {
            self.told.push_back(Happened::CaughtUp);
        }
        // With our descriptor gone, the program's terminal is.
        self.terminal = None;
        if let (Some(exit), false) = (self.entry.exit, self.exited) {
            self.told.extend([Happened::Exited(exit.into()), Happened::Closed]);
        } else if !self.exited {
            let pid = self.entry.pid;
            let message = format!("its host (pid {pid}) is gone, and its program with it: {}", self.why);
            self.told.push_back(Happened::Lost(message));
            if self.role == Role::Drives {
                tokio::spawn(end_program(self.entry.clone()));
            }
        } else if !self.closed {
            self.told.push_back(Happened::Closed);
        }
        self.forget();
    }

    /// The connection broke.
    fn disconnected(&mut self, why: &str) {
        if self.exited && self.closed {
            self.stage = Stage::Over;
            self.forget();
            return;
        }
        if !self.orders.is_empty() {
            let message = format!("{} bytes of orders to the host may be lost: {why}", self.orders.len());
            self.told.push_back(Happened::Fault(message));
            // What was sent of them is not known; half a frame must not be followed by another.
            self.orders.clear();
        }
        self.stage = Stage::connecting(&self.entry, Duration::ZERO);
    }

    fn output_at(&mut self, off: u64, mut bytes: Vec<u8>) -> Option<Happened> {
        if off > self.off {
            let message = match self.role {
                Role::Drives => format!("output bytes {}..{off} are lost", self.off),
                Role::Views(_) if self.off == 0 => format!(
                    "nothing was recorded: the first {off} bytes of output are not known any more, and what follows is shown"
                ),
                Role::Views(_) => format!("output bytes {}..{off} came too fast and are not shown", self.off),
            };
            self.told.extend([Happened::Fault(message), Happened::Skipped(off)]);
            self.off = off;
            let then = self.told.len();
            if let Some(output) = self.output_at(off, bytes) {
                // Before what it brings about.
                self.told.insert(then, output);
            }
            return None;
        }
        let known = usize::try_from(self.off - off).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..known);
        if bytes.is_empty() {
            return None;
        }
        self.off += bytes.len() as u64;
        self.output = bytes;
        self.check_caught_up();
        Some(Happened::Output)
    }

    fn check_caught_up(&mut self) {
        if self.catching_up && self.caught_up_at.is_some_and(|at| self.off >= at) {
            self.catching_up = false;
            self.told.push_back(Happened::CaughtUp);
        }
    }

    fn reported(&mut self, report: Report) -> Option<Happened> {
        match report {
            Report::Output { off, bytes, .. } => self.output_at(off, bytes),
            Report::Resized(size) => Some(Happened::Resized(size)),
            Report::Snapshot { at, id, anchor, label } => self.snapshot(snapshot(at, id, anchor, &label)),
            Report::Fault(message) => {
                self.faults += 1;
                Some(Happened::Fault(message))
            }
            Report::Behind { recorded } => {
                self.behind(recorded);
                None
            }
            Report::Exited(exit) => {
                self.exited = true;
                if self.role == Role::Drives {
                    Order::Seen.extend(&mut self.orders);
                }
                Some(Happened::Exited(exit))
            }
            Report::Closed => {
                self.closed = true;
                Some(Happened::Closed)
            }
            Report::Typed { origin } => {
                self.typed = Some((Instant::now(), origin));
                None
            }
            Report::Full(why) => {
                self.stage = Stage::Over;
                Some(Happened::Lost(why))
            }
            Report::Hello(_) => None,
        }
    }

    /// Told once, however often it comes.
    fn snapshot(&mut self, snapshot: Snapshot) -> Option<Happened> {
        let new = snapshot.at > self.last_snapshot;
        self.last_snapshot = self.last_snapshot.max(snapshot.at);
        new.then_some(Happened::Snapshot(snapshot))
    }

    /// Meanwhile more was written than the host keeps: the file has it.
    fn behind(&mut self, recorded: Option<u64>) {
        let Stage::Live(connection) = std::mem::replace(&mut self.stage, Stage::Over) else { return };
        match (&connection.hello.recording, recorded) {
            (Some(path), Some(to)) if to > self.off => {
                let pieces = read_recording(path.clone(), self.off, Some(to));
                self.stage = Stage::Reading(pieces, self.off, Some(connection));
            }
            _ => {
                Order::From { off: self.off, whatever: true }.extend(&mut self.orders);
                self.stage = Stage::Live(connection);
            }
        }
    }
}

impl Stage {
    /// Begins after a pause.
    fn connecting(entry: &Entry, pause: Duration) -> Stage {
        let control = entry.runtime.join(crate::host::CONTROL);
        let entry = entry.clone();
        Stage::Connecting(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let deadline = Instant::now() + GREETING;
            loop {
                let opened = tokio::time::timeout_at(deadline, Connection::open(&control)).await;
                match opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    // Out of descriptors, or about to end: it is tried again for a while.
                    Err(error)
                        if error.kind() != io::ErrorKind::QuotaExceeded
                            && entry.is_alive()
                            && Instant::now() < deadline =>
                    {
                        tokio::time::sleep(LOOK).await;
                    }
                    connected => return connected,
                }
            }
        })))
    }
}

impl Order {
    fn extend(&self, orders: &mut VecDeque<u8>) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        orders.extend(bytes);
    }
}

impl Backend for Hosted {
    async fn next(&mut self) -> Happened {
        loop {
            if let Some(happened) = self.told.pop_front() {
                return happened;
            }
            match &mut self.stage {
                Stage::Connecting(connecting) => match connecting.await {
                    Ok(Ok(connection)) => self.connected(connection),
                    Ok(Err(error)) => self.not_connected(&error),
                    Err(error) => self.not_connected(&io::Error::other(error)),
                },
                Stage::Reading(pieces, from, connection) => match pieces.recv().await {
                    Some(Piece::Output { off, bytes }) => {
                        if let Some(happened) = self.output_at(off, bytes) {
                            return happened;
                        }
                    }
                    Some(Piece::Other(Happened::Snapshot(snapshot))) => {
                        if let Some(happened) = self.snapshot(snapshot) {
                            return happened;
                        }
                    }
                    Some(Piece::Other(Happened::Exited(exit))) => {
                        // Told when all of it is read.
                        self.entry.exit.get_or_insert(exit.into());
                    }
                    Some(Piece::Other(happened)) => return happened,
                    None => match connection.take() {
                        Some(connection) => {
                            self.unrecorded = *from == self.off;
                            self.go_live(connection);
                        }
                        None => self.over(),
                    },
                },
                Stage::Live(connection) => {
                    let report = match connection.decoded() {
                        Ok(report) => report,
                        Err(error) => {
                            self.disconnected(&error.to_string());
                            continue;
                        }
                    };
                    if let Some(report) = report {
                        if let Some(happened) = self.reported(report) {
                            return happened;
                        }
                        continue;
                    }
                    match connection.exchange(&mut self.orders).await {
                        Ok(true) => {}
                        Ok(false) => self.disconnected("it closed the connection"),
                        Err(error) => self.disconnected(&error.to_string()),
                    }
                }
                Stage::Over => std::future::pending().await,
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn write(&mut self, _now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        if matches!(self.stage, Stage::Over) || self.orders.len() + bytes.len() > WRITE_LIMIT {
            return false;
        }
        for chunk in bytes.chunks(CHUNK) {
            Order::Input { origin, bytes: chunk.to_vec() }.extend(&mut self.orders);
        }
        true
    }

    fn waiting(&self) -> usize {
        self.orders.len()
    }

    fn resize(&mut self, _now: TsNs, size: Size) -> io::Result<()> {
        if matches!(self.stage, Stage::Over) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Order::Resize(size).extend(&mut self.orders);
        Ok(())
    }

    fn others_size(&self) -> Option<&'static str> {
        Some(
            "the windows of those who look at it set its size; it can be changed when they have left, or by 'nerve attach --size mine'",
        )
    }

    fn signal(&self, signal: Signal) {
        match &self.terminal {
            Some(terminal) => terminal.signal(signal),
            None => {
                self.entry.signal_child(signal);
                // It stands still, and ends its program and itself when it goes on.
                let _ = self.entry.signal(Signal::TERM);
            }
        }
    }

    fn foreground(&self, closely: bool, kin: &[String]) -> Foreground {
        self.terminal.as_ref().map_or(Foreground::Unknown, |terminal| terminal.foreground(closely, kin))
    }

    fn drain_time(&self) -> Duration {
        DRAIN
    }

    fn pid(&self) -> Option<i32> {
        Some(self.entry.child)
    }

    fn hides_input(&self) -> bool {
        self.terminal.as_ref().is_some_and(Control::hides_input)
    }

    fn remember(&mut self, memory: &Memory) {
        // Plain fields: it cannot fail.
        Order::Remember(serde_json::to_value(memory).unwrap_or_default()).extend(&mut self.orders);
    }

    fn release(&mut self) -> bool {
        true
    }

    fn lease(&mut self, now: TsNs) -> Lease {
        let Some((at, origin)) = self.typed else { return Lease::Free };
        match PAUSE.checked_sub(at.elapsed()) {
            Some(left) if !left.is_zero() => {
                let by = match origin {
                    Origin::Injected => "somebody with 'nerve host write'",
                    Origin::User | Origin::Api | Origin::Terminal => "somebody in front of it",
                };
                Lease::Held { by: by.to_string(), until: now + left }
            }
            Some(_) | None => {
                self.typed = None;
                Lease::Free
            }
        }
    }
}

/// The host is gone and its program may not be: it lost its terminal, and may not care.
async fn end_program(entry: Entry) {
    for (signal, pause) in ESCALATION {
        entry.signal_child(signal);
        let deadline = Instant::now() + pause;
        while entry.has_child() && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn snapshot(at: TsNs, id: u64, anchor: u64, label: &str) -> Snapshot {
    let label = Some(label.to_string()).filter(|label| !label.is_empty());
    Snapshot { id, label, at, offset: anchor, ..Snapshot::default() }
}

/// Reads a recording from an output byte on, up to another (else to its end), on a thread of its own.
fn read_recording(path: PathBuf, from: u64, to: Option<u64>) -> mpsc::Receiver<Piece> {
    let (pieces, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        // A closed channel means that nobody wants it any more.
        let _ = send_recording(&path, from, to, &pieces);
    });
    receiver
}

fn send_recording(
    path: &Path,
    from: u64,
    to: Option<u64>,
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), mpsc::error::SendError<Piece>> {
    let fault = |message: String| Piece::Other(Happened::Fault(message));
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return pieces.blocking_send(fault(error.to_string())),
    };
    loop {
        let block = match reader.next() {
            Ok(Some(Part::Block(block))) => block,
            Ok(Some(Part::Lost(lost))) => {
                if lost.output_missing() {
                    pieces.blocking_send(fault(lost.to_string()))?;
                }
                continue;
            }
            Ok(None) => return Ok(()),
            Err(error) => return pieces.blocking_send(fault(error.to_string())),
        };
        for record in block.records() {
            let piece = match record.body {
                Body::Data { off, .. } if to.is_some_and(|to| off >= to) => return Ok(()),
                Body::Data { off, bytes } => Piece::Output { off, bytes: bytes.to_vec() },
                Body::Resize { cols, rows } if block.output().end >= from => {
                    Piece::Other(Happened::Resized(Size::new(cols, rows)))
                }
                Body::Snapshot { id, anchor, label } if anchor >= from => {
                    let label = String::from_utf8_lossy(label);
                    Piece::Other(Happened::Snapshot(snapshot(record.at, id, anchor, &label)))
                }
                // Of a host that is gone this can be all that tells it.
                Body::Mark(Mark::Exit(exit)) if to.is_none() => Piece::Other(Happened::Exited(exit)),
                _ => continue,
            };
            pieces.blocking_send(piece)?;
        }
    }
}
