//! One object a line, each at most [`MAX_LINE_BYTES`] long in both directions.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;

use serde::Serialize;
use tokio::io::{AsyncRead, ReadBuf};

/// The longest line, its newline not counted: 16 MiB.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Read at once.
const READ_BYTES: usize = 16 << 10;

/// A line buffer that grew beyond this is handed out with its line; smaller ones would be too, but cost nothing.
const FIRST_LINE_BYTES: usize = 256;

/// What [`LineReader::next`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line without its newline. Blank lines are not given out.
    Line(Vec<u8>),
    /// A line that was longer than allowed. It is passed over: the next call goes on after it.
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// The peer will send no more.
    Eof {
        /// What came after the last newline; empty if the peer ended properly.
        partial: Vec<u8>,
    },
}

/// Lines from a peer, in bounded memory: next to none while nothing comes.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    limit: usize,
    /// What was read behind the last line that was given out: `unread[at..]` is still to be looked at.
    unread: Vec<u8>,
    at: usize,
    line: Vec<u8>,
    /// Length of the line so far, once it is too long to be kept.
    passed_over: Option<u64>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Lines of at most [`MAX_LINE_BYTES`].
    pub fn new(input: R) -> LineReader<R> {
        LineReader::with_limit(input, MAX_LINE_BYTES)
    }

    /// Lines of at most `limit` bytes.
    pub fn with_limit(input: R, limit: usize) -> LineReader<R> {
        LineReader { input, limit, unread: Vec::new(), at: 0, line: Vec::new(), passed_over: None }
    }

    /// Lines of at most `limit` bytes from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// What it reads from. What was read already and not given out is gone.
    pub fn into_inner(self) -> R {
        self.input
    }

    /// Whether the end of a line has been read that was not given out yet: [`LineReader::next`] need not wait for the peer then, unless
    /// the line is blank.
    pub fn has_line(&self) -> bool {
        self.unread[self.at..].contains(&b'\n')
    }

    /// The next line. Nothing is lost when the future is dropped before it is done.
    ///
    /// # Errors
    /// What reading gives; the reader is of no more use then.
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
                Read::Nothing => {}
                Read::End => return Ok(self.at_end()),
            }
        }
    }

    /// Reads once. What is read lies on the stack, so that a peer who says nothing costs no buffer; what is left behind a line is kept.
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
            std::task::Poll::Ready(Ok(frame.map_or(Read::Nothing, Read::Some)))
        })
        .await
    }

    /// Takes the next line of what was read, blank ones left out; or all that there is of it. Says how much that was.
    fn take(&mut self, read: &[u8]) -> (Option<Frame>, usize) {
        let mut used = 0;
        while used < read.len() {
            let rest = &read[used..];
            let newline = rest.iter().position(|&byte| byte == b'\n');
            let content = &rest[..newline.unwrap_or(rest.len())];
            used += content.len() + usize::from(newline.is_some());
            match &mut self.passed_over {
                Some(bytes) => *bytes += content.len() as u64,
                None if self.line.len() + content.len() > self.limit => {
                    self.passed_over = Some((self.line.len() + content.len()) as u64);
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

    /// Puts back what was taken from `unread`, of which `used` more bytes are done with; nothing where all are.
    fn keep(&mut self, read: Vec<u8>, used: usize) {
        self.at += used;
        if self.at < read.len() {
            self.unread = read;
        } else {
            self.at = 0;
        }
    }

    fn at_newline(&mut self) -> Option<Frame> {
        if let Some(bytes) = self.passed_over.take() {
            return Some(Frame::TooLong { bytes });
        }
        if self.line.trim_ascii().is_empty() {
            self.line = Vec::new();
            return None;
        }
        Some(Frame::Line(std::mem::take(&mut self.line)))
    }

    fn at_end(&mut self) -> Frame {
        match self.passed_over.take() {
            Some(bytes) => Frame::TooLong { bytes },
            None => Frame::Eof { partial: std::mem::take(&mut self.line) },
        }
    }
}

/// What came of reading once.
enum Read {
    Some(Frame),
    Nothing,
    End,
}

/// A message that no peer would read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message of {bytes} bytes not sent: a line holds at most {MAX_LINE_BYTES}")]
pub struct TooLarge {
    /// How long the line would be.
    pub bytes: u64,
}

/// The line of a message or a request, newline included.
///
/// # Errors
/// [`TooLarge`] when it would be longer than [`MAX_LINE_BYTES`]; no more memory than that is used to find out.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, TooLarge> {
    let mut line = Capped { kept: Vec::with_capacity(FIRST_LINE_BYTES), bytes: 0 };
    // Neither the types of this crate nor `Capped` have a way to fail.
    let complete = serde_json::to_writer(&mut line, message).is_ok();
    if !complete || line.bytes > MAX_LINE_BYTES as u64 {
        return Err(TooLarge { bytes: line.bytes });
    }
    line.kept.push(b'\n');
    Ok(line.kept)
}

/// Keeps what fits into a line and counts the rest.
struct Capped {
    kept: Vec<u8>,
    bytes: u64,
}

impl io::Write for Capped {
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
