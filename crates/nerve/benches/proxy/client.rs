//! A minimal client, so that the measurement is dominated by the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// What is asked for, and where.
pub(crate) struct Target {
    address: String,
    path: &'static str,
}

/// A connection, kept.
pub(crate) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    buffer: Vec<u8>,
}

impl Target {
    /// `url` as whoever listens there has printed it.
    pub(crate) fn new(url: &str, path: &'static str) -> Result<Target> {
        let address = url.trim().strip_prefix("http://").with_context(|| format!("no address: {url:?}"))?;
        Ok(Target { address: address.to_string(), path })
    }

    /// A connection whose requests are for that model and have a prompt of so many bytes.
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
    /// Sends a request and reads its answer to the end. How long the first words took, and how many bytes came.
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

    /// Sends a request and reads until words come. How long that took.
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
