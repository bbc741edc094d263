//! The two halves of a client's stream, and the detection of a closed peer.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// Both halves of a client's stream, whatever the transport.
pub(crate) struct Link {
    pub(crate) read: ReadHalf,
    pub(crate) write: WriteHalf,
    pub(crate) hung_up: HungUp,
}

pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;
/// Completes when the peer has closed both directions, not when it has only finished sending.
pub(crate) type HungUp = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Link {
    /// Wraps a Unix stream; `watch` is a second handle to it.
    pub(crate) fn unix(stream: UnixStream, watch: UnixStream) -> Link {
        let (read, write) = stream.into_split();
        let hung_up = fuse(Box::pin(async move {
            while let Ok(ready) = watch.ready(Interest::WRITABLE).await {
                if is_hung_up(ready, |look| watch.try_io(Interest::WRITABLE, look)) {
                    return;
                }
            }
        }));
        Link { read: Box::new(read), write: Box::new(write), hung_up }
    }

    /// Wraps a plain TCP stream; `watch` is a second handle to it.
    pub(crate) fn tcp(stream: TcpStream, watch: TcpStream) -> Link {
        let (read, write) = stream.into_split();
        Link { read: Box::new(read), write: Box::new(write), hung_up: tcp_hung_up(watch) }
    }

    /// Wraps a stream that runs over TCP; `watch` is a second handle to the TCP socket.
    pub(crate) fn over_tcp<S>(stream: S, watch: TcpStream) -> Link
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        Link { read: Box::new(read), write: Box::new(write), hung_up: tcp_hung_up(watch) }
    }
}

/// Returns a second handle to a socket, with its own readiness.
pub(crate) fn watch_unix(stream: &UnixStream) -> io::Result<UnixStream> {
    UnixStream::from_std(stream.as_fd().try_clone_to_owned()?.into())
}

/// Returns a second handle to a socket, with its own readiness.
pub(crate) fn watch_tcp(stream: &TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.as_fd().try_clone_to_owned()?.into())
}

fn tcp_hung_up(watch: TcpStream) -> HungUp {
    fuse(Box::pin(async move {
        while let Ok(ready) = watch.ready(Interest::WRITABLE).await {
            if is_hung_up(ready, |look| watch.try_io(Interest::WRITABLE, look)) {
                return;
            }
        }
    }))
}

/// Makes a future stay ready after its first completion.
fn fuse(mut happens: HungUp) -> HungUp {
    let mut has_happened = false;
    Box::pin(poll_fn(move |cx| {
        if !has_happened {
            ready!(happens.as_mut().poll(cx));
            has_happened = true;
        }
        Poll::Ready(())
    }))
}

/// Returns true on EPOLLHUP, which means that both directions are closed (epoll_ctl(2)). A socket is writable
/// most of the time; that readiness is cleared, so that the next wait lasts until epoll reports something
/// new.
fn is_hung_up(ready: Ready, take_back: impl FnOnce(fn() -> io::Result<()>) -> io::Result<()>) -> bool {
    if ready.is_write_closed() {
        return true;
    }
    let _ = take_back(|| Err(io::ErrorKind::WouldBlock.into()));
    false
}
