//! Framing: one JSON object per line, at most [`MAX_LINE_BYTES`] long in both directions.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;

use serde::Serialize;
use tokio::io::{AsyncRead, ReadBuf};

/// Maximum length of a line without its newline: 16 MiB.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Maximum number of bytes per read.
const READ_BYTES: usize = 16 << 10;

/// Initial capacity of a line's buffer, in bytes.
const FIRST_LINE_BYTES: usize = 256;

/// Result of [`LineReader::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line without its newline. Blank lines are skipped.
    Line(Vec<u8>),
    /// A line that exceeds the limit. It is skipped; the next call continues after it.
    TooLong {
        /// Length of the line in bytes.
        bytes: u64,
    },
    /// End of the input.
    Eof {
        /// Bytes after the last newline; empty if the peer ended the stream properly.
        partial: Vec<u8>,
    },
}

/// Reads lines from a peer. Memory is bounded, and almost none is used while the peer is idle.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    limit: usize,
    /// Bytes after the last returned line; `unread[at..]` is not processed yet.
    unread: Vec<u8>,
    at: usize,
    line: Vec<u8>,
    /// Length so far of a line that exceeds the limit and is skipped.
    skipped: Option<u64>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader for lines of at most [`MAX_LINE_BYTES`].
    pub fn new(input: R) -> LineReader<R> {
        LineReader::with_limit(input, MAX_LINE_BYTES)
    }

    /// Creates a reader for lines of at most `limit` bytes.
    pub fn with_limit(input: R, limit: usize) -> LineReader<R> {
        LineReader { input, limit, unread: Vec::new(), at: 0, line: Vec::new(), skipped: None }
    }

    /// Returns the input. Bytes that were read but not returned are lost.
    pub fn into_inner(self) -> R {
        self.input
    }

    /// Returns true if a complete line is buffered. Unless it is blank, [`LineReader::next`] then returns without waiting for the peer.
    pub fn has_line(&self) -> bool {
        self.unread[self.at..].contains(&b'\n')
    }

    /// Returns the next line. Cancel-safe.
    ///
    /// # Errors
    /// Returns the I/O error of the input; the reader cannot be used afterwards.
    pub async fn next(&mut self) -> Result<Frame, io::Error> {
        loop {
            let read = std::mem::take(&mut self.unread);
            let (frame, used) = self.take(&read[self.at..]);
            self.keep(read, used);
            if let Some(frame) = frame {
                return Ok(frame);
            }
            match self.read().await? {
                Read::Some(frame) => return Ok(frame),
                Read::Incomplete => {}
                Read::End => return Ok(self.at_end()),
            }
        }
    }

    /// Reads once. The buffer is on the stack, so that an idle peer occupies none; bytes after the returned line are kept.
    async fn read(&mut self) -> io::Result<Read> {
        poll_fn(|cx| {
            let mut room = [const { MaybeUninit::<u8>::uninit() }; READ_BYTES];
            let mut room = ReadBuf::uninit(&mut room);
            std::task::ready!(Pin::new(&mut self.input).poll_read(cx, &mut room))?;
            let read = room.filled();
            if read.is_empty() {
                return std::task::Poll::Ready(Ok(Read::End));
            }
            let (frame, used) = self.take(read);
            self.unread.extend_from_slice(&read[used..]);
            std::task::Poll::Ready(Ok(frame.map_or(Read::Incomplete, Read::Some)))
        })
        .await
    }

    /// Takes the next line that is not blank from `read`, or buffers all of it. Also returns the number of bytes used.
    fn take(&mut self, read: &[u8]) -> (Option<Frame>, usize) {
        let mut used = 0;
        while used < read.len() {
            let rest = &read[used..];
            let newline = rest.iter().position(|&byte| byte == b'\n');
            let content = &rest[..newline.unwrap_or(rest.len())];
            used += content.len() + usize::from(newline.is_some());
            match &mut self.skipped {
                Some(bytes) => *bytes += content.len() as u64,
                None if self.line.len() + content.len() > self.limit => {
                    self.skipped = Some((self.line.len() + content.len()) as u64);
                    self.line = Vec::new();
                }
                None => {
                    if self.line.capacity() == 0 {
                        self.line.reserve(content.len().max(FIRST_LINE_BYTES));
                    }
                    self.line.extend_from_slice(content);
                }
            }
            if newline.is_some()
                && let Some(frame) = self.at_newline()
            {
                return (Some(frame), used);
            }
        }
        (None, used)
    }

    /// Puts the bytes taken from `unread` back, unless all of them are used. `used`: bytes used in addition to `at`.
    fn keep(&mut self, read: Vec<u8>, used: usize) {
        self.at += used;
        if self.at < read.len() {
            self.unread = read;
        } else {
            self.at = 0;
        }
    }

    fn at_newline(&mut self) -> Option<Frame> {
        if let Some(bytes) = self.skipped.take() {
            return Some(Frame::TooLong { bytes });
        }
        if self.line.trim_ascii().is_empty() {
            self.line = Vec::new();
            return None;
        }
        Some(Frame::Line(std::mem::take(&mut self.line)))
    }

    fn at_end(&mut self) -> Frame {
        match self.skipped.take() {
            Some(bytes) => Frame::TooLong { bytes },
            None => Frame::Eof { partial: std::mem::take(&mut self.line) },
        }
    }
}

/// Result of one read.
enum Read {
    Some(Frame),
    Incomplete,
    End,
}

/// A message that exceeds the maximum length of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message of {bytes} bytes not sent: a line holds at most {MAX_LINE_BYTES}")]
pub struct TooLarge {
    /// Length of the line in bytes.
    pub bytes: u64,
}

/// Encodes a message or a request as a line, with its newline.
///
/// # Errors
/// [`TooLarge`] if the line would exceed [`MAX_LINE_BYTES`]; no more memory than that is allocated.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, TooLarge> {
    let mut line = LimitedBuffer { kept: Vec::with_capacity(FIRST_LINE_BYTES), bytes: 0 };
    // Cannot fail: neither the types of this crate nor `LimitedBuffer` return errors.
    let complete = serde_json::to_writer(&mut line, message).is_ok();
    if !complete || line.bytes > MAX_LINE_BYTES as u64 {
        return Err(TooLarge { bytes: line.bytes });
    }
    line.kept.push(b'\n');
    Ok(line.kept)
}

/// Keeps the bytes that fit into a line and counts the rest.
struct LimitedBuffer {
    kept: Vec<u8>,
    bytes: u64,
}

impl io::Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        if self.bytes <= MAX_LINE_BYTES as u64 {
            self.kept.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
