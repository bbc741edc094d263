//! One client: requests run concurrently and are answered as they finish, with events in between.
//!
//! One task reads, answers and writes. Requests that can be answered at once are answered in that task, without waking another thread.
//! All others get a task of their own, which sends the reply back.
//!
//! Bounds: at most [`IN_FLIGHT`] requests are executed or wait to be written; then nothing more is read from this client. At most
//! [`LARGE_IN_FLIGHT`] of them may have replies of megabytes. Events have a bounded queue of their own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::access::Pass;
use crate::answer::Answer;
use crate::convert;
use crate::dispatch::{Call, Dispatcher, ReplySize};
use crate::events::{Filter, Tag};
pub(crate) use crate::link::{HungUp, Link, ReadHalf, WriteHalf, watch_tcp};
use crate::outgoing::{And, Outgoing, Permits, Reply};
use crate::requests::{self, Incoming};
use crate::server::CLOSE_PATIENCE;
use crate::serving::Serving;

/// Requests of one client that are executed or wait to be written.
const IN_FLIGHT: usize = 1024;
/// Requests with large replies among them.
const LARGE_IN_FLIGHT: usize = 8;
/// Replies of other tasks that wait to be taken.
const DONE: usize = 64;
/// Requests that arrived together and are taken before any of their answers is written.
const TOGETHER: usize = 64;
/// Bytes that are still read from a client whose connection closes. A line that was too long is among them.
const LINGER: u64 = 2 * MAX_LINE_BYTES as u64;
/// Silence after which a client is not waited for when the server shuts down.
const QUIET: Duration = Duration::from_millis(50);
/// Time that a client which reads no replies can delay a shutdown.
const SHUTDOWN_REPLY_PATIENCE: Duration = Duration::from_secs(1);

/// Resolves with a reason when the client is to be disconnected.
pub(crate) type SentAway = Pin<Box<dyn Future<Output = String> + Send>>;

/// Resolves when the client's credential is revoked.
pub(crate) fn sent_away(pass: Pass) -> SentAway {
    Box::pin(async move {
        pass.changed().await;
        Pass::CHANGED.to_string()
    })
}

/// Serves one client until it disconnects or the server closes.
pub(crate) async fn serve(link: Link, serving: Arc<Serving>) {
    let nothing = Box::pin(std::future::pending());
    talk(LineReader::new(link.read), link.write, link.hung_up, nothing, serving).await;
}

/// Serves a client whose first line has been read and whose credential may be revoked.
pub(crate) async fn talk(
    mut lines: LineReader<ReadHalf>,
    write: WriteHalf,
    mut hung_up: HungUp,
    mut sent_away: SentAway,
    serving: Arc<Serving>,
) {
    let mut out = Outgoing::new(write, serving.hub.subscribe(Filter::default(), None));
    let (done, mut replies) = mpsc::channel(DONE);
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let gone = CancellationToken::new();
    // Cancelled however this function ends.
    let _guard = gone.clone().drop_guard();
    let large = Arc::new(Semaphore::new(LARGE_IN_FLIGHT));
    let mut spawner = Some(Spawner { done, gone: gone.clone(), large, serving: serving.clone() });
    let closing = serving.closing.cancelled();
    tokio::pin!(closing);
    let (mut is_closing, mut is_sent_away, mut all_answered) = (false, false, false);
    // How long to wait for a client that has not closed its sending side.
    let mut patience = Duration::ZERO;
    loop {
        out.gather();
        let reads = spawner.is_some();
        let may_come = !all_answered || (out.listens() && !is_closing);
        if !reads && !may_come && out.is_idle() && out.waiting() == 0 {
            break;
        }
        // Buffered requests are taken before their answers are written, so that the answers go out in one write.
        let more = reads && lines.has_line() && out.waiting() < TOGETHER && in_flight.available_permits() > 0;
        let events = out.events();
        let (writes, gathers) = (!more && !out.is_idle(), out.has_room());
        tokio::select! {
            biased;
            () = &mut closing, if !is_closing => {
                is_closing = true;
                patience = QUIET;
                spawner = None;
            }
            // The client sends no more. It may still wait for answers, or it has disconnected.
            () = &mut hung_up, if !reads => return,
            // Also for a client that sends no more: it may listen indefinitely. Ready at most once, because this ends the loop.
            reason = &mut sent_away => {
                out.push(Reply { line: convert::error_line(reason), permits: Permits::default(), and: And::Nothing });
                // Unfinished requests are dropped; pending replies are flushed for at most `CLOSE_PATIENCE`.
                (is_sent_away, patience) = (true, CLOSE_PATIENCE);
                let _ = tokio::time::timeout(CLOSE_PATIENCE, out.write_all()).await;
                break;
            }
            written = out.write(), if writes => if written.is_err() {
                return;
            },
            // Before more requests are read: a client that never pauses would otherwise get no replies of other tasks.
            reply = replies.recv(), if !all_answered => match reply {
                Some(reply) => out.push(reply),
                None => all_answered = true,
            },
            (permit, frame) = next(&in_flight, &mut lines), if reads => {
                let permits = Permits { in_flight: permit, large: None };
                match (frame.map(|frame| read(frame, &serving.dispatcher)), &spawner) {
                    (Ok(Some(line)), Some(spawner)) => spawner.take(line, permits, &mut out),
                    _ => (spawner, patience) = (None, Duration::ZERO),
                }
            }
            () = events.filled(), if gathers => {}
        }
    }
    if !out.is_idle() {
        return;
    }
    let last = async {
        if !is_sent_away {
            return out.finish().await.is_ok();
        }
        matches!(tokio::time::timeout(CLOSE_PATIENCE, out.finish()).await, Ok(Ok(())))
    };
    tokio::select! {
        closed = last => if closed && !patience.is_zero() {
            linger(lines.into_inner(), patience).await;
        },
        () = hung_up => {}
    }
}

/// Reads what a client still sends after this side has closed, until it is silent for `silent`. Bounded in bytes and in time.
///
/// A connection closed with unread data is reset, which loses the last reply (RFC 9293 §3.10.4).
pub(crate) async fn linger(read: ReadHalf, silent: Duration) {
    let reading = async {
        let (mut read, mut scrap) = (read.take(LINGER), vec![0; 4096]);
        while let Ok(Ok(1..)) = tokio::time::timeout(silent, read.read(&mut scrap)).await {}
    };
    let _ = tokio::time::timeout(CLOSE_PATIENCE, reading).await;
}

/// Waits for room for an answer, then reads the next frame. Cancel safe.
async fn next(
    in_flight: &Arc<Semaphore>,
    lines: &mut LineReader<ReadHalf>,
) -> (Option<OwnedSemaphorePermit>, io::Result<Frame>) {
    // The semaphore is never closed.
    let permit = in_flight.clone().acquire_owned().await.ok();
    (permit, lines.next().await)
}

/// Reads a frame. The error is the line that answers it. Returns `None` at the end.
fn read(frame: Frame, dispatcher: &Dispatcher) -> Option<Result<Incoming, Vec<u8>>> {
    match frame {
        Frame::Line(line) => Some(requests::read_line(&line, dispatcher)),
        Frame::TooLong { bytes } => Some(Err(requests::too_long(bytes))),
        // The last line may lack its newline. If it lacks more, it is no JSON object.
        Frame::Eof { partial } if !partial.trim_ascii().is_empty() => {
            Some(requests::read_line(&partial, dispatcher))
        }
        Frame::Eof { .. } => None,
    }
}

/// Starts requests. Once it is dropped, only requests that are already executed are answered.
struct Spawner {
    done: mpsc::Sender<Reply>,
    gone: CancellationToken,
    large: Arc<Semaphore>,
    serving: Arc<Serving>,
}

impl Spawner {
    fn take(&self, request: Result<Incoming, Vec<u8>>, permits: Permits, out: &mut Outgoing) {
        let (line, and) = match request {
            Ok(Incoming::Call { call, answer }) => return self.start(call, answer, permits, out),
            Ok(Incoming::Subscribe { filter, since, answer }) => {
                let events = self.serving.hub.subscribe(filter, since);
                (answer.subscribed(self.serving.hub.last_seq(), &self.serving.id), And::Subscribes(events))
            }
            Ok(Incoming::Authenticated { answer }) => (answer.authenticated(), And::Nothing),
            Ok(Incoming::Shutdown { keep_nodes, answer }) => {
                (answer.shutting_down(), And::Tells(self.shut_down(keep_nodes)))
            }
            Err(line) => {
                self.serving.hub.metrics.refused();
                (line, And::Nothing)
            }
        };
        out.push(Reply { line, permits, and });
    }

    /// Shuts the server down once the reply is written, or the client does not read it.
    fn shut_down(&self, keep_nodes: bool) -> oneshot::Sender<()> {
        let (written, is_written) = oneshot::channel();
        let serving = self.serving.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(SHUTDOWN_REPLY_PATIENCE, is_written).await;
            serving.shut_down(keep_nodes);
        });
        written
    }

    /// Executes a request: to its end if that comes at once, else in a task of its own.
    fn start(&self, call: Call, answer: Answer, permits: Permits, out: &mut Outgoing) {
        let (mut and, mut tag) = (And::Nothing, None);
        if let (true, Some(id)) = (call.streams, &answer.request_id) {
            let new: Tag = self.serving.tag();
            out.tag(new, id.clone());
            (and, tag) = (And::Ends(new), Some(new));
        }
        let is_brief = call.is_brief;
        let job = Job {
            gone: self.gone.clone(),
            large: self.large.clone(),
            serving: self.serving.clone(),
            permits,
            and,
            tag,
        };
        if !is_brief {
            tokio::spawn(self.sent_back(job.run(call, answer)));
            return;
        }
        let mut job = Box::pin(job.run(call, answer));
        match (&mut job).now_or_never() {
            Some(reply) => reply.into_iter().for_each(|reply| out.push(reply)),
            None => drop(tokio::spawn(self.sent_back(job))),
        }
    }

    fn sent_back<F: Future<Output = Option<Reply>>>(&self, job: F) -> impl Future<Output = ()> + use<F> {
        let done = self.done.clone();
        async move {
            if let Some(reply) = job.await {
                // Fails if the connection is gone.
                let _ = done.send(reply).await;
            }
        }
    }
}

/// Resources of a request that is executed.
struct Job {
    gone: CancellationToken,
    large: Arc<Semaphore>,
    serving: Arc<Serving>,
    permits: Permits,
    and: And,
    /// Tag of the turn's chunks.
    tag: Option<Tag>,
}

impl Job {
    /// Executes the request and encodes its answer. Returns `None` if the client left first.
    async fn run(self, call: Call, answer: Answer) -> Option<Reply> {
        let Job { gone, large, serving, mut permits, and, tag } = self;
        let last = answer.clone();
        let permit = &mut permits.large;
        let work = async {
            let size = call.size;
            if size == ReplySize::Large {
                *permit = Some(acquire(&large, &gone).await?);
            }
            let outcome = requests::execute(call, &answer, tag, &gone).await?;
            if size == ReplySize::LargeAtEnd {
                *permit = Some(acquire(&large, &gone).await?);
            }
            requests::answered(&answer, &outcome, &serving);
            Some(answer.outcome(outcome))
        };
        let line = requests::guarded(work, |error| last.failed(error)).await?;
        Some(Reply { line, permits, and })
    }
}

/// Waits for a permit. Returns `None` if the client disconnects first.
async fn acquire(permits: &Arc<Semaphore>, gone: &CancellationToken) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        permit = permits.clone().acquire_owned() => permit.ok(),
        () = gone.cancelled() => None,
    }
}

#[cfg(test)]
mod tests {
    use nerve_core::engine::{Engine, EngineConfig};
    use nerve_core::node::factory::FactoryConfig;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};

    use super::*;

    fn engine() -> Engine {
        let nodes = FactoryConfig {
            server: "test".to_string(),
            history_dir: None,
            profile_dir: None,
            hook_relay: None,
            hosting: None,
            panes: Default::default(),
            proxies: Default::default(),
        };
        Engine::new(EngineConfig { nodes, ..EngineConfig::default() })
    }

    #[tokio::test]
    async fn answers_and_events_are_flushed() {
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

    #[tokio::test]
    async fn a_client_that_never_pauses_gets_replies() {
        const PINGS: usize = 50_000;
        let slow =
            r#"{"command_type":"CREATE_NODE","params":{"node_id":"a","backend":"bash"},"request_id":"slow"}"#;
        let pings = "{\"command_type\":\"PING\"}\n".repeat(PINGS);
        let read = std::io::Cursor::new(format!("{slow}\n{pings}").into_bytes());
        // Large enough for all replies: back pressure would delay the requests as well.
        let (write, client) = tokio::io::duplex(256 << 20);
        let hung_up = Box::pin(std::future::pending());
        let link = Link { read: Box::new(read), write: Box::new(write), hung_up };
        tokio::spawn(serve(link, Arc::new(Serving::new(engine()))));
        let (mut lines, mut before) = (BufReader::new(client).lines(), 0);
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("\"slow\"") {
                break;
            }
            before += 1;
        }
        assert!(before < PINGS / 2, "{before} answers came first");
    }
}
