//! A minimal client, so that the measurement is dominated by the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Address and path of a server.
pub(crate) struct Target {
    address: String,
    path: &'static str,
}

/// A persistent connection.
pub(crate) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    buffer: Vec<u8>,
}

impl Target {
    /// Creates a target from the URL that the server printed.
    pub(crate) fn new(url: &str, path: &'static str) -> Result<Target> {
        let address = url.trim().strip_prefix("http://").with_context(|| format!("no address: {url:?}"))?;
        Ok(Target { address: address.to_string(), path })
    }

    /// Connects for requests to `model` with a prompt of `prompt` bytes.
    pub(crate) fn connect(&self, model: &str, prompt: usize) -> Result<Client> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let prompt = "word ".repeat(prompt / 5);
        let body = format!(
            r#"{{"model":"{model}","max_tokens":100,"stream":true,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
        );
        let (path, host, length) = (self.path, &self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nx-api-key: none\r\nContent-Length: {length}\r\n\r\n"
        );
        let request = (head + &body).into_bytes();
        Ok(Client { stream, request, answer: Vec::new(), buffer: vec![0; 64 << 10] })
    }
}

impl Client {
    /// Sends a request and reads the whole answer. Returns the time to the first words, and the answer's length in bytes.
    pub(crate) fn ask(&mut self) -> Result<(Duration, usize)> {
        let first = self.begin()?;
        while !self.answer.ends_with(b"\r\n0\r\n\r\n") {
            self.more()?;
        }
        let tail = &self.answer[self.answer.len().saturating_sub(100)..];
        let is_whole = [&b"message_stop"[..], b"[DONE]"].iter().any(|last| has(tail, last));
        ensure!(is_whole, "not a whole answer: {}", String::from_utf8_lossy(tail));
        Ok((first, self.answer.len()))
    }

    /// Sends a request and reads until the first words arrive. Returns the time to them.
    pub(crate) fn begin(&mut self) -> Result<Duration> {
        self.answer.clear();
        let start = Instant::now();
        self.stream.write_all(&self.request)?;
        while !has(&self.answer, b"word word") {
            self.more()?;
        }
        Ok(start.elapsed())
    }

    fn more(&mut self) -> Result<()> {
        let read = self.stream.read(&mut self.buffer)?;
        ensure!(read > 0, "closed after: {}", String::from_utf8_lossy(&self.answer));
        self.answer.extend_from_slice(&self.buffer[..read]);
        Ok(())
    }
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
