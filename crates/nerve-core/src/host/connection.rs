//! A connection to a host's control socket.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::protocol::{Frames, Hello, HostEvent, HostRequest};

/// A connection to a host that has greeted.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    frames: Frames,
    /// The host takes nothing any more. What it has sent is still to be read, to the end.
    write_closed: bool,
    /// What the host said of itself.
    pub hello: Hello,
    /// The terminal, until somebody takes it.
    pub terminal: Option<OwnedFd>,
}

impl Connection {
    /// Connects to a host's control socket and hears its greeting.
    ///
    /// # Errors
    /// Nobody listens there, or it is no host; [`io::ErrorKind::QuotaExceeded`] if too many are connected to it.
    pub async fn open(control: &Path) -> io::Result<Connection> {
        Connection::greeted(UnixStream::connect(control).await?).await
    }

    /// Hears the greeting on a connection that is open already.
    ///
    /// # Errors
    /// The other side is no host, or goes away.
    pub async fn greeted(stream: UnixStream) -> io::Result<Connection> {
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
                _ => Err(bad("it does not greet as a host does".to_string())),
            };
        }
    }

    /// Sends an order.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn send(&mut self, request: &HostRequest) -> io::Result<()> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        tokio::io::AsyncWriteExt::write_all(&mut self.stream, &bytes).await
    }

    /// The next report; `None` when the host is gone. May be dropped and called again.
    ///
    /// # Errors
    /// What comes makes no sense, or reading fails.
    pub async fn next(&mut self) -> io::Result<Option<HostEvent>> {
        loop {
            if let Some(event) = self.decoded()? {
                return Ok(Some(event));
            }
            if !self.exchange(&mut VecDeque::new()).await? {
                return Ok(None);
            }
        }
    }

    /// Waits until bytes came, which are taken in, or some of `orders` could be sent, which are taken out. `false` when the host
    /// is gone. May be dropped and called again.
    pub async fn exchange(&mut self, requests: &mut VecDeque<u8>) -> io::Result<bool> {
        tokio::select! {
            // A host that sends no more may still listen: what it is ordered comes first.
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

    /// Waits until some of `orders` could be sent, which are taken out; for ever if none can be. Nothing is taken in. May be dropped and
    /// called again.
    pub(crate) async fn send_waiting(&mut self, requests: &mut VecDeque<u8>) {
        if requests.is_empty() || self.write_closed {
            return std::future::pending().await;
        }
        self.write_closed = send_some(&self.stream, requests).await.is_err();
    }

    /// The next report of what was taken in.
    pub fn decoded(&mut self) -> io::Result<Option<HostEvent>> {
        let bad = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(body) = self.frames.take().map_err(bad)? {
            if let Some(event) = HostEvent::decode(body).map_err(bad)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

/// Reads bytes and, with the first of them, the terminal's descriptor (unix(7), `SCM_RIGHTS`).
fn receive(stream: &UnixStream, frames: &mut Frames, terminal: &mut Option<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; 4096];
    let size = {
        let mut into = [io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            *terminal = descriptors.last().or(terminal.take());
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

fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(size) => Ok(Some(size)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
