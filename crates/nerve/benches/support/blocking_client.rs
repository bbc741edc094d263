//! A blocking client, and an echo server as a baseline: the cost of a round trip without any work.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::support::Samples;

/// Warm-up round trips.
const WARM_UP: usize = 500;
/// About as long as a PING and a little less than its answer.
const ECHOED: &[u8; 80] =
    b"{-----------------------------------------------------------------------------}\n";

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection on which one request is made at a time.
pub(crate) struct Plain {
    stream: BufReader<Box<dyn Stream>>,
    is_http: bool,
    line: Vec<u8>,
}

impl Plain {
    pub(crate) fn new(stream: Box<dyn Stream>, is_http: bool) -> Plain {
        Plain { stream: BufReader::new(stream), is_http, line: Vec::new() }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(request)?;
        let mut length = 0;
        loop {
            self.line.clear();
            ensure!(self.stream.read_until(b'\n', &mut self.line)? > 0, "the server closed");
            let line = self.line.trim_ascii();
            if !self.is_http || line.is_empty() {
                break;
            }
            let name = b"content-length:";
            if line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name) {
                length = std::str::from_utf8(line[name.len()..].trim_ascii())?.parse()?;
            }
        }
        self.line.resize(length, 0);
        Ok(self.stream.read_exact(&mut self.line)?)
    }

    /// Sends a request `count` times. Returns the round-trip times in µs.
    pub(crate) fn round_trips(&mut self, request: &[u8], count: usize) -> Result<Samples> {
        for _ in 0..WARM_UP {
            self.ask(request)?;
        }
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.ask(request)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(Samples::new(times))
    }
}

/// Measures round trips to a thread that echoes each line, as a baseline without nerve. `pinned`: both threads on one core.
pub(crate) fn echo(count: usize, pinned: bool) -> Result<Samples> {
    let (ours, mut theirs) = UnixStream::pair()?;
    let echoing = std::thread::spawn(move || {
        if pinned {
            pin_this_thread()?;
        }
        let mut line = [0; ECHOED.len()];
        while theirs.read_exact(&mut line).is_ok() {
            theirs.write_all(&line)?;
        }
        anyhow::Ok(())
    });
    let asking = std::thread::spawn(move || {
        if pinned {
            pin_this_thread()?;
        }
        Plain::new(Box::new(ours), false).round_trips(ECHOED, count)
    });
    let times = asking.join().expect("the client panicked");
    echoing.join().expect("the echo panicked")?;
    times
}

/// Measures round trips to a task that echoes each line, on this tokio runtime: a server without any work of its own.
pub(crate) async fn tokio_echo(count: usize) -> Result<Samples> {
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let (read, mut write) = tokio::net::UnixStream::from_std(theirs)?.into_split();
    let echoing = tokio::spawn(async move {
        let (mut read, mut line) = (tokio::io::BufReader::new(read), Vec::new());
        while read.read_until(b'\n', &mut line).await? > 0 {
            write.write_all(&line).await?;
            line.clear();
        }
        anyhow::Ok(())
    });
    let asking = move || Plain::new(Box::new(ours), false).round_trips(ECHOED, count);
    let times = tokio::task::spawn_blocking(asking).await?;
    echoing.await??;
    times
}

/// Pins the calling thread, and threads it starts, to the first core.
pub(crate) fn pin_this_thread() -> Result<()> {
    let this = std::fs::read_link("/proc/thread-self")?;
    let id = this.file_name().context("no thread")?;
    pin(&[], Path::new(id))
}

/// Pins all threads of a process to the first core.
pub(crate) fn pin_process(pid: u32) -> Result<()> {
    pin(&["-a"], Path::new(&pid.to_string()))
}

fn pin(options: &[&str], id: &Path) -> Result<()> {
    let mut taskset = Command::new("taskset");
    taskset.args(options).args(["-c", "-p", "0"]).arg(id).stdout(Stdio::null());
    ensure!(taskset.status().context("taskset (util-linux) is missing")?.success(), "taskset failed");
    Ok(())
}
