//! Transports: round trips, throughput, fan-out of events, idle connections.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/blocking_client.rs"]
mod blocking_client;
#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nerve_api::framing::MAX_LINE_BYTES;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use blocking_client::Plain;
use server_process::LiveServer;
use support::{Figure, Goal, Report, Samples, memory_of};

/// Requests of one client whose round trips are timed.
const TIMED: usize = 20_000;
/// Duration of a throughput measurement.
const COUNTED: Duration = Duration::from_secs(3);
/// Requests that a client sends before it reads their answers.
const BATCH: usize = 32;
/// Number of subscribers.
const SUBSCRIBERS: usize = 100;
/// Number of events per subscriber.
const EVENTS: usize = 2000;
/// Number of idle connections.
const IDLE: usize = 500;
/// Clients in the test that checks every answer, and commands of each.
const CHECKED: (usize, usize) = (1000, 100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Unix,
    Tcp,
    Http,
}

impl Transport {
    const ALL: [Transport; 3] = [Transport::Unix, Transport::Tcp, Transport::Http];

    fn name(self) -> &'static str {
        match self {
            Transport::Unix => "Unix socket",
            Transport::Tcp => "TCP",
            Transport::Http => "HTTP",
        }
    }
}

/// A server with its addresses and token.
struct Target {
    server: LiveServer,
    tcp: SocketAddr,
    http: SocketAddr,
    token: String,
}

impl Target {
    fn start() -> Result<Target> {
        let server = LiveServer::start_listening(&["--tcp", "127.0.0.1:0", "--http", "127.0.0.1:0"])?;
        let status: Value = serde_json::from_slice(&server.run(&["server", "status", "--json"])?.stdout)?;
        let address =
            |key: &str| Ok::<_, anyhow::Error>(status[key].as_str().context("no address")?.parse()?);
        let token = String::from_utf8(server.run(&["token", "show"])?.stdout)?.trim().to_string();
        Ok(Target { tcp: address("tcp")?, http: address("http")?, token, server })
    }

    async fn connect(&self, transport: Transport) -> Result<Client> {
        let stream: Box<dyn Stream> = match transport {
            Transport::Unix => Box::new(UnixStream::connect(self.server.socket()).await?),
            Transport::Tcp => tcp(self.tcp).await?,
            Transport::Http => tcp(self.http).await?,
        };
        let head = self.head();
        let mut client = Client { stream: BufReader::new(stream), transport, head, line: Vec::new() };
        for line in self.greeting(transport) {
            client.send(line.as_bytes()).await?;
            client.answer().await?;
        }
        Ok(client)
    }

    /// Returns a blocking client and its request.
    fn plain(&self, transport: Transport) -> Result<(Plain, Vec<u8>)> {
        let tcp = |address| -> Result<Box<dyn blocking_client::Stream>> {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        };
        let stream: Box<dyn blocking_client::Stream> = match transport {
            Transport::Unix => Box::new(std::os::unix::net::UnixStream::connect(self.server.socket())?),
            Transport::Tcp => tcp(self.tcp)?,
            Transport::Http => tcp(self.http)?,
        };
        let mut client = Plain::new(stream, transport == Transport::Http);
        for line in self.greeting(transport) {
            client.ask(format!("{line}\n").as_bytes())?;
        }
        let mut request = Vec::new();
        frame(transport, &self.head(), ping("1").as_bytes(), &mut request);
        Ok((client, request))
    }

    /// Returns the head of each HTTP request.
    fn head(&self) -> String {
        let (host, token) = (self.http, &self.token);
        format!(
            "POST /api/command HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
        )
    }

    /// Returns a client's first lines; each is answered.
    fn greeting(&self, transport: Transport) -> Vec<String> {
        let token = &self.token;
        let hello =
            format!(r#"{{"command_type":"AUTHENTICATE","params":{{"token":"{token}"}},"request_id":"0"}}"#);
        let no_events = r#"{"command_type":"SUBSCRIBE","params":{"types":[]},"request_id":"0"}"#.to_string();
        match transport {
            Transport::Unix => vec![no_events],
            Transport::Tcp => vec![hello, no_events],
            Transport::Http => Vec::new(),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn tcp(address: SocketAddr) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// A minimal client, so that the figures are the server's.
struct Client {
    stream: BufReader<Box<dyn Stream>>,
    transport: Transport,
    head: String,
    line: Vec<u8>,
}

impl Client {
    fn frame(&self, request: &[u8], out: &mut Vec<u8>) {
        frame(self.transport, &self.head, request, out);
    }

    async fn send(&mut self, request: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(512);
        self.frame(request, &mut bytes);
        Ok(self.stream.write_all(&bytes).await?)
    }

    async fn ping(&mut self, id: &str) -> Result<()> {
        self.send(ping(id).as_bytes()).await
    }

    /// Returns the next answer's bytes.
    async fn answer(&mut self) -> Result<&[u8]> {
        let mut length = None;
        loop {
            self.line.clear();
            ensure!(self.stream.read_until(b'\n', &mut self.line).await? > 0, "the server closed");
            if self.transport != Transport::Http {
                return Ok(&self.line);
            }
            let line = self.line.trim_ascii();
            if line.is_empty() {
                break;
            }
            let name = b"content-length:";
            if line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name) {
                length = Some(std::str::from_utf8(line[name.len()..].trim_ascii())?.parse::<usize>()?);
            }
        }
        let length = length.context("an answer without a length")?;
        ensure!(length <= MAX_LINE_BYTES, "an answer of {length} bytes");
        self.line.resize(length, 0);
        self.stream.read_exact(&mut self.line).await?;
        Ok(&self.line)
    }
}

fn frame(transport: Transport, head: &str, request: &[u8], out: &mut Vec<u8>) {
    if transport == Transport::Http {
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(format!("{}\r\n\r\n", request.len()).as_bytes());
        out.extend_from_slice(request);
    } else {
        out.extend_from_slice(request);
        out.push(b'\n');
    }
}

fn ping(id: &str) -> String {
    format!(r#"{{"command_type":"PING","request_id":"{id}"}}"#)
}

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Wire",
        "`PING` over each transport, by minimal clients, on the same two cores as the server. *round trip*: one \
         client, one request at a time, its thread blocks while it waits. *echo*: a thread returns 80 bytes over a Unix socket, \
         in the same run: the cost of waking two idle cores on this machine. *tokio echo*: a task of a tokio runtime returns them. *on one core*: client and server \
         are pinned to the first core, so that none has to be woken. *at a time*: each client waits for an answer before the next request; *in batches*: it sends 32 \
         requests, then reads their answers (over HTTP: pipelined). A value of throughput is of one run of 3 s.",
    );
    let target = Target::start()?;
    let raw = blocking_client::echo(TIMED, false)?;
    report.row("echo: round trip", &raw.median("µs"));
    let peer = blocking_client::tokio_echo(TIMED).await?;
    report.row("tokio echo: round trip", &peer.median("µs"));
    for transport in Transport::ALL {
        eprintln!("wire: {}", transport.name());
        round_trips(&target, transport, &peer, &mut report)?;
        for clients in [1, 10, 50] {
            let rate = throughput(&target, transport, clients, 1).await?;
            let what = format!("{}, {clients} clients, one at a time", transport.name());
            report.row(&what, &Figure::one(rate, "/s"));
        }
        let rate = throughput(&target, transport, 50, BATCH).await?;
        let what = format!("{}, 50 clients, in batches", transport.name());
        match transport {
            Transport::Unix => report.goal(&what, &Figure::one(rate, "/s"), Goal::AtLeast(200_000.0)),
            Transport::Tcp | Transport::Http => report.row(&what, &Figure::one(rate, "/s")),
        }
    }
    drop(target);
    on_one_core(&mut report)?;
    fan_out(&mut report).await?;
    for transport in Transport::ALL {
        idle(transport, &mut report).await?;
    }
    checked(&mut report).await?;
    report.note("`cargo bench -p nerve --bench wire`");
    report.print();
    Ok(())
}

fn round_trips(target: &Target, transport: Transport, peer: &Samples, report: &mut Report) -> Result<()> {
    let (mut client, request) = target.plain(transport)?;
    let times = client.round_trips(&request, TIMED)?;
    let what = format!("{}: round trip", transport.name());
    report.row(&what, &times.median("µs"));
    report.row(&format!("{}: round trip, p99", transport.name()), &Figure::one(times.quantile(0.99), "µs"));
    let ratio = Figure::one(times.quantile(0.5) / peer.quantile(0.5), "");
    let what = format!("{}: round trip, × tokio echo", transport.name());
    match transport {
        Transport::Unix => report.goal(&what, &ratio, Goal::AtMost(1.2)),
        Transport::Tcp | Transport::Http => report.row(&what, &ratio),
    }
    Ok(())
}

/// Measures round trips that wake no core.
fn on_one_core(report: &mut Report) -> Result<()> {
    let raw = blocking_client::echo(TIMED, true)?;
    report.row("on one core: echo: round trip", &raw.median("µs"));
    let target = Target::start()?;
    blocking_client::pin_process(target.server.process.id())?;
    for transport in Transport::ALL {
        let (mut client, request) = target.plain(transport)?;
        let asking = std::thread::spawn(move || {
            blocking_client::pin_this_thread()?;
            client.round_trips(&request, TIMED)
        });
        let times = asking.join().expect("the client panicked")?;
        report.row(&format!("on one core: {}: round trip", transport.name()), &times.median("µs"));
    }
    Ok(())
}

/// Returns answers per second of all clients together.
async fn throughput(target: &Target, transport: Transport, clients: usize, batch: usize) -> Result<f64> {
    let mut all = JoinSet::new();
    let mut ready = Vec::new();
    for _ in 0..clients {
        ready.push(target.connect(transport).await?);
    }
    let start = Instant::now();
    for mut client in ready {
        all.spawn(async move {
            let mut requests = Vec::new();
            for _ in 0..batch {
                client.frame(ping("1").as_bytes(), &mut requests);
            }
            let mut answers = 0;
            while start.elapsed() < COUNTED {
                client.stream.write_all(&requests).await?;
                for _ in 0..batch {
                    client.answer().await?;
                }
                answers += batch;
            }
            anyhow::Ok(answers)
        });
    }
    let mut answers = 0;
    while let Some(result) = all.join_next().await {
        answers += result??;
    }
    Ok(answers as f64 / start.elapsed().as_secs_f64())
}

/// Measures events to many subscribers. Each receives all in order.
async fn fan_out(report: &mut Report) -> Result<()> {
    eprintln!("wire: fan-out");
    let target = Target::start()?;
    let mut subscribers = Vec::new();
    for _ in 0..SUBSCRIBERS {
        let mut client = target.connect(Transport::Unix).await?;
        client
            .send(br#"{"command_type":"SUBSCRIBE","params":{"types":["NODE_CREATED"]},"request_id":"1"}"#)
            .await?;
        client.answer().await?;
        subscribers.push(client);
    }
    let start = Instant::now();
    let mut all = JoinSet::new();
    for mut client in subscribers {
        all.spawn(async move {
            for _ in 0..EVENTS {
                let event: Value = serde_json::from_slice(client.answer().await?)?;
                ensure!(event["event_type"] == "NODE_CREATED", "not the event: {event}");
            }
            anyhow::Ok(())
        });
    }
    let mut maker = target.connect(Transport::Unix).await?;
    for number in 0..EVENTS {
        let create = format!(
            r#"{{"command_type":"CREATE_NODE","params":{{"node_id":"n{number}","backend":"bash"}},"request_id":"{number}"}}"#
        );
        maker.send(create.as_bytes()).await?;
        let answer: Value = serde_json::from_slice(maker.answer().await?)?;
        ensure!(answer["success"] == true, "{answer}");
    }
    while let Some(result) = all.join_next().await {
        result??;
    }
    let events = (SUBSCRIBERS * EVENTS) as f64;
    let what = format!("events delivered to {SUBSCRIBERS} subscribers, each caused by a CREATE_NODE");
    report.row(&what, &Figure::one(events / start.elapsed().as_secs_f64(), "/s"));
    Ok(())
}

/// Measures the server's memory per idle connection.
async fn idle(transport: Transport, report: &mut Report) -> Result<()> {
    eprintln!("wire: idle over {}", transport.name());
    let target = Target::start()?;
    let pid = target.server.process.id().to_string();
    let mut open = Vec::new();
    // One-time costs of the server do not count.
    for _ in 0..10 {
        open.push(target.connect(transport).await?);
    }
    let before = memory_of(&pid, "VmRSS")?;
    for _ in 0..IDLE {
        let mut client = target.connect(transport).await?;
        client.ping("1").await?;
        client.answer().await?;
        open.push(client);
    }
    let each = (memory_of(&pid, "VmRSS")? - before) * 1024.0 / IDLE as f64;
    let what = format!("memory of an idle connection over {}", transport.name());
    report.goal(&what, &Figure::one(each, "KiB"), Goal::AtMost(20.0));
    Ok(())
}

/// Checks each answer of many concurrent clients.
async fn checked(report: &mut Report) -> Result<()> {
    eprintln!("wire: every answer checked");
    let target = Target::start()?;
    let (clients, commands) = CHECKED;
    let mut ready = Vec::new();
    for _ in 0..clients {
        ready.push(target.connect(Transport::Unix).await?);
    }
    let start = Instant::now();
    let mut all = JoinSet::new();
    for (number, mut client) in ready.into_iter().enumerate() {
        all.spawn(async move {
            for command in 0..commands {
                let id = format!("{number}-{command}");
                client.ping(&id).await?;
                let answer: Value = serde_json::from_slice(client.answer().await?)?;
                if answer["request_id"] != id.as_str() || answer["data"]["pong"] != true {
                    bail!("not the answer to {id}: {answer}");
                }
            }
            anyhow::Ok(())
        });
    }
    let mut wrong = 0;
    while let Some(result) = all.join_next().await {
        if let Err(error) = result? {
            eprintln!("{error:#}");
            wrong += 1;
        }
    }
    let rate = (clients * commands) as f64 / start.elapsed().as_secs_f64();
    let what = format!(
        "{clients} clients with {commands} commands each, every answer checked: clients with a wrong answer"
    );
    report.goal(&what, &Figure::one(f64::from(wrong), ""), Goal::AtMost(0.0));
    report.row("that is", &Figure::one(rate, "/s"));
    Ok(())
}
