//! One client: its requests run side by side and are answered as they finish; its events come in between.
//!
//! What bounds it: at most [`IN_FLIGHT`] requests are worked on or wait to be written (then nothing more is read, which holds up this
//! client only), of those at most [`LARGE_IN_FLIGHT`] that may have megabytes to answer; events have their own bounded queue.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nerve_core::command::Command;
use nerve_proto::framing::{Frame, LineReader};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::convert::{self, Answer, Request};
use crate::events::{Filter, Queue};
use crate::requests;
use crate::serving::Serving;

/// Requests of one client that are worked on or wait to be written.
const IN_FLIGHT: usize = 1024;
/// Of those, how many may be of the kind whose answers are large.
const LARGE_IN_FLIGHT: usize = 8;
/// Replies that wait for the writer.
const OUTBOX: usize = 64;
/// A client that takes no replies cannot hold up a shutdown for longer.
const SHUTDOWN_REPLY_PATIENCE: Duration = Duration::from_secs(1);

/// The two ends of one client's stream, whatever it came over.
pub(crate) struct Link {
    pub(crate) read: ReadHalf,
    pub(crate) write: WriteHalf,
    pub(crate) hung_up: HungUp,
}

pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;
/// Ends when the other side has closed both directions; not when it only sends no more.
pub(crate) type HungUp = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Link {
    pub(crate) fn unix(stream: UnixStream) -> io::Result<Link> {
        let watch = UnixStream::from_std(stream.as_fd().try_clone_to_owned()?.into())?;
        let (read, write) = stream.into_split();
        let hung_up = Box::pin(async move {
            while let Ok(ready) = watch.ready(Interest::WRITABLE).await {
                if is_hung_up(ready, |look| watch.try_io(Interest::WRITABLE, look)) {
                    return;
                }
            }
        });
        Ok(Link { read: Box::new(read), write: Box::new(write), hung_up })
    }

    /// Bytes over TCP, in the clear.
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Link> {
        let watch = watch_tcp(&stream)?;
        let (read, write) = stream.into_split();
        Ok(Link { read: Box::new(read), write: Box::new(write), hung_up: tcp_hung_up(watch) })
    }

    /// Bytes over anything that runs over the TCP connection of which `watch` is a second handle.
    pub(crate) fn over<S>(stream: S, watch: TcpStream) -> Link
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        Link { read: Box::new(read), write: Box::new(write), hung_up: tcp_hung_up(watch) }
    }
}

/// A second handle to a socket, with readiness of its own.
pub(crate) fn watch_tcp(stream: &TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.as_fd().try_clone_to_owned()?.into())
}

fn tcp_hung_up(watch: TcpStream) -> HungUp {
    Box::pin(async move {
        while let Ok(ready) = watch.ready(Interest::WRITABLE).await {
            if is_hung_up(ready, |look| watch.try_io(Interest::WRITABLE, look)) {
                return;
            }
        }
    })
}

/// EPOLLHUP: both directions are closed (epoll_ctl(2)). Writable is what a socket mostly is; that is taken back, so that the next look
/// waits until epoll has something new to tell.
fn is_hung_up(ready: Ready, take_back: impl FnOnce(fn() -> io::Result<()>) -> io::Result<()>) -> bool {
    if ready.is_write_closed() {
        return true;
    }
    let _ = take_back(|| Err(io::ErrorKind::WouldBlock.into()));
    false
}

/// Serves one client until it is gone, or until the server closes.
pub(crate) async fn serve(link: Link, serving: Arc<Serving>) {
    talk(LineReader::new(link.read), link.write, link.hung_up, serving).await;
}

/// The same for one whose first line has been read.
pub(crate) async fn talk(
    lines: LineReader<ReadHalf>,
    write: WriteHalf,
    hung_up: HungUp,
    serving: Arc<Serving>,
) {
    let (outbox, waiting) = mpsc::channel(OUTBOX);
    let gone = CancellationToken::new();
    let events = serving.hub.subscribe(Filter::default(), None);
    let closing = serving.closing.clone();
    let writing = Writer { write, waiting, events, listens: false, closing }.run();
    let reader = Reader {
        outbox,
        gone: gone.clone(),
        serving,
        in_flight: Arc::new(Semaphore::new(IN_FLIGHT)),
        large: Arc::new(Semaphore::new(LARGE_IN_FLIGHT)),
    };
    tokio::pin!(writing);
    let left = tokio::select! {
        written = &mut writing => Some(written),
        () = reader.run(lines) => None,
    };
    if left.is_none() {
        // The client sends no more. It may still wait for answers, or it is gone for good.
        tokio::select! {
            _ = writing => {}
            () = hung_up => {}
        }
    }
    gone.cancel();
}

/// What goes to the client, in this order.
enum Outgoing {
    /// A reply. The permits are given back when it is written.
    Reply { line: Vec<u8>, _permits: Permits, written: Option<oneshot::Sender<()>> },
    /// A reply, and from then on other events.
    Subscribed { line: Vec<u8>, events: Arc<Queue> },
}

#[derive(Default)]
struct Permits {
    _in_flight: Option<OwnedSemaphorePermit>,
    _large: Option<OwnedSemaphorePermit>,
}

struct Reader {
    outbox: mpsc::Sender<Outgoing>,
    gone: CancellationToken,
    serving: Arc<Serving>,
    in_flight: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Reader {
    /// Takes requests until there are no more.
    async fn run(self, lines: LineReader<ReadHalf>) {
        let closing = self.serving.closing.clone();
        tokio::select! {
            () = closing.cancelled() => {}
            () = self.take_requests(lines) => {}
        }
    }

    async fn take_requests(&self, mut lines: LineReader<ReadHalf>) {
        loop {
            let Ok(permit) = self.in_flight.clone().acquire_owned().await else { return };
            let permits = Permits { _in_flight: Some(permit), _large: None };
            let request = match lines.next().await {
                Ok(Frame::Line(line)) => convert::request(&line),
                Ok(Frame::TooLong { bytes }) => Err(convert::too_long(bytes)),
                // A last line may lack its end. If it lacks more, it is no JSON object.
                Ok(Frame::Eof { partial }) if !partial.trim_ascii().is_empty() => convert::request(&partial),
                Ok(Frame::Eof { .. }) | Err(_) => return,
            };
            match request {
                Ok(request) => self.take(request, permits).await,
                Err(line) => self.reply(line, permits).await,
            }
        }
    }

    async fn take(&self, request: Request, permits: Permits) {
        match request {
            Request::Command { command, answer } => self.start(command, answer, permits),
            Request::Subscribe { filter, since, answer } => {
                let events = self.serving.hub.subscribe(filter, since);
                let line = answer.subscribed(self.serving.hub.last_seq());
                // Nobody is there to be told if the writer is gone.
                let _ = self.outbox.send(Outgoing::Subscribed { line, events }).await;
            }
            Request::Authenticated { answer } => self.reply(answer.authenticated(), permits).await,
            Request::Shutdown { keep_nodes, answer } => {
                let (written, is_written) = oneshot::channel();
                let line = answer.shutting_down();
                let reply = Outgoing::Reply { line, _permits: permits, written: Some(written) };
                let sent = async {
                    let _ = self.outbox.send(reply).await;
                    let _ = is_written.await;
                };
                let _ = tokio::time::timeout(SHUTDOWN_REPLY_PATIENCE, sent).await;
                self.serving.shut_down(keep_nodes);
            }
        }
    }

    async fn reply(&self, line: Vec<u8>, permits: Permits) {
        let _ = self.outbox.send(Outgoing::Reply { line, _permits: permits, written: None }).await;
    }

    /// Works on a request beside the others.
    fn start(&self, command: Command, answer: Answer, mut permits: Permits) {
        let outbox = self.outbox.clone();
        let gone = self.gone.clone();
        let serving = self.serving.clone();
        let large = self.large.clone();
        let (at_once, in_the_end) =
            (convert::may_answer_much(&command), convert::may_end_with_much(&command));
        tokio::spawn(async move {
            if at_once {
                let Some(permit) = one_of(&large, &gone).await else { return };
                permits._large = Some(permit);
            }
            let Some(outcome) = requests::work(command, &serving, &gone).await else { return };
            if in_the_end {
                let Some(permit) = one_of(&large, &gone).await else { return };
                permits._large = Some(permit);
            }
            // Events that led to this answer go before it.
            serving.hub.forward();
            let line = answer.outcome(outcome);
            let _ = outbox.send(Outgoing::Reply { line, _permits: permits, written: None }).await;
        });
    }
}

/// A permit, as soon as there is one; none for a client that is gone.
async fn one_of(permits: &Arc<Semaphore>, gone: &CancellationToken) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        permit = permits.clone().acquire_owned() => permit.ok(),
        () = gone.cancelled() => None,
    }
}

struct Writer {
    write: WriteHalf,
    waiting: mpsc::Receiver<Outgoing>,
    events: Arc<Queue>,
    /// The client asked for events; it may want them even when it sends no more.
    listens: bool,
    closing: CancellationToken,
}

impl Writer {
    /// Writes replies and events until no reply can come any more.
    async fn run(mut self) -> io::Result<()> {
        loop {
            let events = self.events.clone();
            tokio::select! {
                biased;
                outgoing = self.waiting.recv() => match outgoing {
                    Some(outgoing) => self.write(outgoing).await?,
                    None => break,
                },
                lines = events.next() => self.send(&lines).await?,
            }
        }
        while self.listens && !self.closing.is_cancelled() {
            let events = self.events.clone();
            tokio::select! {
                lines = events.next() => self.send(&lines).await?,
                () = self.closing.cancelled() => break,
            }
        }
        self.write_events().await?;
        self.write.shutdown().await
    }

    async fn write(&mut self, outgoing: Outgoing) -> io::Result<()> {
        self.write_events().await?;
        match outgoing {
            Outgoing::Reply { line, written, .. } => {
                self.send(&line).await?;
                if let Some(written) = written {
                    let _ = written.send(());
                }
            }
            Outgoing::Subscribed { line, events } => {
                self.send(&line).await?;
                self.events = events;
                self.listens = true;
            }
        }
        Ok(())
    }

    /// Writes the events that wait now: bounded, whatever comes in meanwhile.
    async fn write_events(&mut self) -> io::Result<()> {
        for _ in 0..self.events.len() {
            let Some(lines) = self.events.try_next() else { break };
            self.send(&lines).await?;
        }
        Ok(())
    }

    /// TLS may keep the end of what is written for itself until it is told to hand it on.
    async fn send(&mut self, lines: &[u8]) -> io::Result<()> {
        self.write.write_all(lines).await?;
        self.write.flush().await
    }
}

#[cfg(test)]
mod tests {
    use nerve_core::engine::{Engine, EngineConfig};
    use nerve_core::node::factory::FactoryConfig;
    use tokio::io::{AsyncBufReadExt, BufReader, BufWriter};

    use super::*;

    fn engine() -> Engine {
        let nodes = FactoryConfig {
            server: "test".to_string(),
            history_dir: None,
            profile_dir: None,
            hook_relay: None,
            hosting: None,
            panes: Default::default(),
        };
        Engine::new(EngineConfig { nodes, ..EngineConfig::default() })
    }

    #[tokio::test]
    async fn answers_and_events_do_not_stay_in_a_stream_that_keeps_what_it_is_not_told_to_hand_on() {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(server);
        let (read, write) = (Box::new(read), Box::new(BufWriter::new(write)));
        let link = Link { read, write, hung_up: Box::pin(std::future::pending()) };
        let serving = Arc::new(Serving::new(engine()));
        let served = tokio::spawn(serve(link, serving.clone()));
        let (read, mut write) = tokio::io::split(client);
        let mut lines = BufReader::new(read).lines();
        let mut ask = async |line: &str, wanted: &str| {
            write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
            let line = line.expect("it stayed in the stream").unwrap().unwrap();
            assert!(line.contains(wanted), "{line}");
        };
        ask(r#"{"command_type":"PING"}"#, "pong").await;
        ask(r#"{"command_type":"SUBSCRIBE","params":{"types":["NODE_CREATED"]}}"#, "subscribed").await;
        let create = r#"{"command_type":"CREATE_NODE","params":{"node_id":"a","backend":"bash"}}"#;
        ask(create, "NODE_CREATED").await;
        ask("", "node_id").await;
        serving.closing.cancel();
        drop((lines, write));
        served.await.unwrap();
    }
}
