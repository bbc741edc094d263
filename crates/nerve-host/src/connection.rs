//! The client side of a host's control socket.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use nerve_types::os;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::protocol::{Frames, Hello, HostEvent, HostRequest};

/// A connection to a host, after its greeting.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    frames: Frames,
    /// The host no longer reads. What it has sent can still be read.
    write_closed: bool,
    /// The host's greeting.
    pub hello: Hello,
    /// The terminal's descriptor, until it is taken.
    pub terminal: Option<OwnedFd>,
}

impl Connection {
    /// Connects to a control socket and reads the greeting.
    ///
    /// # Errors
    /// No host listens there; [`io::ErrorKind::QuotaExceeded`] if it has too many clients.
    pub async fn open(control: &Path) -> io::Result<Connection> {
        Connection::handshake(UnixStream::connect(control).await?).await
    }

    /// Reads the greeting on an open connection.
    ///
    /// # Errors
    /// The peer is not a host, or closes the connection.
    pub async fn handshake(stream: UnixStream) -> io::Result<Connection> {
        let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let (mut frames, mut terminal) = (Frames::default(), None);
        loop {
            let size = stream.async_io(Interest::READABLE, || receive(&stream, &mut frames, &mut terminal));
            if size.await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let event = match frames.take().map_err(|error| bad(error.to_string()))? {
                Some(body) => HostEvent::decode(body).map_err(|error| bad(error.to_string()))?,
                None => continue,
            };
            return match event {
                Some(HostEvent::Hello(hello)) => {
                    Ok(Connection { stream, frames, write_closed: false, hello: *hello, terminal })
                }
                Some(HostEvent::Fault(why)) => Err(io::Error::new(io::ErrorKind::QuotaExceeded, why)),
                _ => Err(bad("the peer did not send a host's greeting".to_string())),
            };
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn send(&mut self, request: &HostRequest) -> io::Result<()> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        tokio::io::AsyncWriteExt::write_all(&mut self.stream, &bytes).await
    }

    /// Returns the next event, or `None` when the host is gone. Cancel-safe.
    ///
    /// # Errors
    /// The host sent an invalid frame, or reading fails.
    pub async fn next(&mut self) -> io::Result<Option<HostEvent>> {
        loop {
            if let Some(event) = self.next_buffered()? {
                return Ok(Some(event));
            }
            if !self.exchange(&mut VecDeque::new()).await? {
                return Ok(None);
            }
        }
    }

    /// Waits until bytes arrived or some of `requests` were sent and removed. Returns false when the host is gone. Cancel-safe.
    pub async fn exchange(&mut self, requests: &mut VecDeque<u8>) -> io::Result<bool> {
        tokio::select! {
            // Writes first: a host that sends nothing more may still read.
            biased;
            sent = send_some(&self.stream, requests), if !requests.is_empty() && !self.write_closed => {
                self.write_closed = sent.is_err();
                Ok(true)
            }
            ready = self.stream.readable() => {
                ready?;
                let read = unless_blocked(self.stream.try_read_buf(self.frames.read_buffer()))?;
                Ok(read != Some(0))
            }
        }
    }

    /// Sends and removes what the socket takes of `requests` at once.
    pub(crate) fn try_send(&mut self, requests: &mut VecDeque<u8>) {
        // [`Connection::exchange`] notices a closed connection.
        if !self.write_closed
            && let Ok(sent) = self.stream.try_write(requests.as_slices().0)
        {
            requests.drain(..sent);
        }
    }

    /// Waits until some of `requests` were sent and removed; forever if none can be. Reads nothing. Cancel-safe.
    pub(crate) async fn send_waiting(&mut self, requests: &mut VecDeque<u8>) {
        if requests.is_empty() || self.write_closed {
            return std::future::pending().await;
        }
        self.write_closed = send_some(&self.stream, requests).await.is_err();
    }

    /// Returns the next event among the bytes already read.
    pub fn next_buffered(&mut self) -> io::Result<Option<HostEvent>> {
        let bad = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(body) = self.frames.take().map_err(bad)? {
            if let Some(event) = HostEvent::decode(body).map_err(bad)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

/// Reads bytes and the terminal's descriptor, which comes with the first of them (unix(7), `SCM_RIGHTS`).
fn receive(stream: &UnixStream, frames: &mut Frames, terminal: &mut Option<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; 4096];
    let size = {
        let mut into = [io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(stream, &mut into, &mut ancillary, os::RECEIVE_FLAGS)?.bytes
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            *terminal = descriptors.last().or(terminal.take());
            // Not every system can set this flag while receiving.
            terminal.iter().try_for_each(|terminal| fcntl_setfd(terminal, FdFlags::CLOEXEC))?;
        }
    }
    frames.read_buffer().extend_from_slice(&bytes[..size]);
    Ok(size)
}

async fn send_some(stream: &UnixStream, requests: &mut VecDeque<u8>) -> io::Result<()> {
    stream.writable().await?;
    let sent = unless_blocked(stream.try_write(requests.as_slices().0))?;
    requests.drain(..sent.unwrap_or(0));
    Ok(())
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(size) => Ok(Some(size)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
