//! The two halves of a client's stream, and the detection of a closed peer.

use std::future::{Future, pending, poll_fn};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Poll, ready};

use nerve_types::os;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::refusal::is_scarce;

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
    pub(crate) fn unix(stream: UnixStream, watch: OwnedFd) -> Link {
        let (read, write) = stream.into_split();
        Link { read: Box::new(read), write: Box::new(write), hung_up: hung_up(watch) }
    }

    /// Wraps a plain TCP stream; `watch` is a second handle to it.
    pub(crate) fn tcp(stream: TcpStream, watch: OwnedFd) -> Link {
        let (read, write) = stream.into_split();
        Link { read: Box::new(read), write: Box::new(write), hung_up: hung_up(watch) }
    }

    /// Wraps a stream that runs over TCP; `watch` is a second handle to the TCP socket.
    pub(crate) fn over_tcp<S>(stream: S, watch: OwnedFd) -> Link
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        Link { read: Box::new(read), write: Box::new(write), hung_up: hung_up(watch) }
    }
}

/// Returns a second handle to a socket, whose readiness is independent of the first one's. `None` if hardly any file descriptor is
/// left: the client has to be refused.
pub(crate) fn watch(stream: impl AsFd) -> Option<OwnedFd> {
    let watch = stream.as_fd().try_clone_to_owned().ok().filter(|watch| !is_scarce(watch));
    if watch.is_none() {
        tracing::warn!("no file descriptor left: client refused");
    }
    watch
}

/// Completes on EPOLLHUP, which means that both directions are closed (epoll_ctl(2)), and stays ready.
///
/// The handle is registered at the first poll. From then on each write that the peer takes wakes the runtime once more, which would
/// cost a client that sends one request at a time more than the request.
fn hung_up(watch: OwnedFd) -> HungUp {
    let mut closed: HungUp = Box::pin(async move {
        // Without memory for the registration, the closed peer is noticed when something is written to it.
        let Ok(watch) = os::watch(watch) else { return pending().await };
        while let Ok(mut guard) = watch.writable().await {
            if guard.ready().is_write_closed() {
                return;
            }
            // A socket is writable most of the time: wait until epoll reports something new.
            guard.clear_ready();
        }
    });
    let mut is_closed = false;
    Box::pin(poll_fn(move |cx| {
        if !is_closed {
            ready!(closed.as_mut().poll(cx));
            is_closed = true;
        }
        Poll::Ready(())
    }))
}
