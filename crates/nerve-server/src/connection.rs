//! One client: its requests run side by side and are answered as they finish; its events come in between.
//!
//! One task reads, answers and writes. What can be answered at once is answered there: no other thread has to wake for it. Everything else gets
//! a task of its own, and comes back with its reply.
//!
//! What bounds it: at most [`IN_FLIGHT`] requests are worked on or wait to be written (then nothing more is read, which holds up this
//! client only), of those at most [`LARGE_IN_FLIGHT`] that may have megabytes to answer; events have their own bounded queue.

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

/// Requests of one client that are worked on or wait to be written.
const IN_FLIGHT: usize = 1024;
/// Of those, how many may be of the kind whose answers are large.
const LARGE_IN_FLIGHT: usize = 8;
/// Replies of other tasks that wait for this one.
const DONE: usize = 64;
/// Requests that came together are taken together, so many at most, before their answers are written.
const TOGETHER: usize = 64;
/// Bytes that are still read of a client that is sent away: a line that was too long is among them.
const LINGER: u64 = 2 * MAX_LINE_BYTES as u64;
/// One that has sent nothing for so long when the server goes down is not waited for.
const QUIET: Duration = Duration::from_millis(50);
/// A client that takes no replies cannot hold up a shutdown for longer.
const SHUTDOWN_REPLY_PATIENCE: Duration = Duration::from_secs(1);

/// Ends, with the reason, when the client is to be sent away.
pub(crate) type SentAway = Pin<Box<dyn Future<Output = String> + Send>>;

/// That of a client who came in with this.
pub(crate) fn sent_away(pass: Pass) -> SentAway {
    Box::pin(async move {
        pass.changed().await;
        Pass::CHANGED.to_string()
    })
}

/// Serves one client until it is gone, or until the server closes.
pub(crate) async fn serve(link: Link, serving: Arc<Serving>) {
    let nothing = Box::pin(std::future::pending());
    talk(LineReader::new(link.read), link.write, link.hung_up, nothing, serving).await;
}

/// The same for one whose first line has been read, and who may be `sent_away`.
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
    // However this ends.
    let _guard = gone.clone().drop_guard();
    let large = Arc::new(Semaphore::new(LARGE_IN_FLIGHT));
    let mut desk = Some(Desk { done, gone: gone.clone(), large, serving: serving.clone() });
    let closing = serving.closing.cancelled();
    tokio::pin!(closing);
    let (mut is_closing, mut is_sent_away, mut all_answered) = (false, false, false);
    // How long the client is waited for that has not said that it sends no more.
    let mut patience = Duration::ZERO;
    loop {
        out.gather();
        let reads = desk.is_some();
        let may_come = !all_answered || (out.listens() && !is_closing);
        if !reads && !may_come && out.is_idle() && out.waiting() == 0 {
            break;
        }
        // Requests that are here already are taken before their answers are written: in one go.
        let more = reads && lines.has_line() && out.waiting() < TOGETHER && in_flight.available_permits() > 0;
        let events = out.events();
        let (writes, gathers) = (!more && !out.is_idle(), out.has_room());
        tokio::select! {
            biased;
            () = &mut closing, if !is_closing => {
                is_closing = true;
                patience = QUIET;
                desk = None;
            }
            // It sends no more. It may still wait for answers, or it is gone for good.
            () = &mut hung_up, if !reads => return,
            // Also one that sends no more: it may listen for as long as it likes. Polled once when it is ready, for it ends this.
            reason = &mut sent_away => {
                out.push(Reply { line: convert::error_line(reason), permits: Permits::default(), and: And::Nothing });
                // What is not done by now has no answer, and what is not taken soon is not waited for.
                (is_sent_away, patience) = (true, CLOSE_PATIENCE);
                let _ = tokio::time::timeout(CLOSE_PATIENCE, out.write_all()).await;
                break;
            }
            written = out.write(), if writes => if written.is_err() {
                return;
            },
            // Before more is taken: who sends without a pause would never be told what others have worked out.
            reply = replies.recv(), if !all_answered => match reply {
                Some(reply) => out.push(reply),
                None => all_answered = true,
            },
            (permit, frame) = next(&in_flight, &mut lines), if reads => {
                let permits = Permits { in_flight: permit, large: None };
                match (frame.map(|frame| read(frame, &serving.dispatcher)), &desk) {
                    (Ok(Some(line)), Some(desk)) => desk.take(line, permits, &mut out),
                    _ => (desk, patience) = (None, Duration::ZERO),
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

/// Reads what the client of a connection that is closed on this side still sends, until it is silent for so long: a connection that is
/// left with something unread in it is reset, and what was said last is lost (RFC 9293 §3.10.4). Bounded in bytes and in time.
pub(crate) async fn linger(read: ReadHalf, silent: Duration) {
    let reading = async {
        let (mut read, mut scrap) = (read.take(LINGER), vec![0; 4096]);
        while let Ok(Ok(1..)) = tokio::time::timeout(silent, read.read(&mut scrap)).await {}
    };
    let _ = tokio::time::timeout(CLOSE_PATIENCE, reading).await;
}

/// The next frame, as soon as there is room for its answer. Nothing is lost when this is dropped.
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

/// Where requests are taken. Once it is dropped, no more are, and replies come only of those that are worked on.
struct Desk {
    done: mpsc::Sender<Reply>,
    gone: CancellationToken,
    large: Arc<Semaphore>,
    serving: Arc<Serving>,
}

impl Desk {
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

    /// Asks the server to go down once the reply is written, or not taken.
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
            tokio::spawn(self.handed_in(job.run(call, answer)));
            return;
        }
        let mut job = Box::pin(job.run(call, answer));
        match (&mut job).now_or_never() {
            Some(reply) => reply.into_iter().for_each(|reply| out.push(reply)),
            None => drop(tokio::spawn(self.handed_in(job))),
        }
    }

    fn handed_in<F: Future<Output = Option<Reply>>>(&self, job: F) -> impl Future<Output = ()> + use<F> {
        let done = self.done.clone();
        async move {
            if let Some(reply) = job.await {
                // Nobody is there to be told if the connection is gone.
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
                *permit = Some(one_of(&large, &gone).await?);
            }
            let outcome = requests::execute(call, &answer, tag, &gone).await?;
            if size == ReplySize::LargeAtEnd {
                *permit = Some(one_of(&large, &gone).await?);
            }
            requests::answered(&answer, &outcome, &serving);
            Some(answer.outcome(outcome))
        };
        let line = requests::guarded(work, |error| last.failed(error)).await?;
        Some(Reply { line, permits, and })
    }
}

/// A permit, as soon as there is one; none for a client that is gone.
async fn one_of(permits: &Arc<Semaphore>, gone: &CancellationToken) -> Option<OwnedSemaphorePermit> {
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

    #[tokio::test]
    async fn who_sends_without_a_pause_is_told_what_is_done_meanwhile() {
        const PINGS: usize = 50_000;
        let slow =
            r#"{"command_type":"CREATE_NODE","params":{"node_id":"a","backend":"bash"},"request_id":"slow"}"#;
        let pings = "{\"command_type\":\"PING\"}\n".repeat(PINGS);
        let read = std::io::Cursor::new(format!("{slow}\n{pings}").into_bytes());
        // It takes all: what waits for it would hold up the requests as well.
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
        assert!(before < PINGS / 2, "{before} answers came before it");
    }
}
