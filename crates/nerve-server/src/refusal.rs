//! Refuses connections with an error, even when no file descriptor is left.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The error message for clients when no file descriptor is left.
pub(crate) const NO_DESCRIPTOR: &str = "too many connections: the server has no file descriptor left";
/// Pause after a failed accept. Without file descriptors it fails until a connection closes, and retrying at
/// once would burn a core.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// File descriptors that new connections leave free.
const RESERVED: u64 = 8;
/// Bytes read from a client that is refused.
const LINGER_BYTES: u64 = 64 * 1024;

/// Returns true if few descriptors are left, which requests of the connected clients may need. The system assigns
/// the lowest free number (open(2)), so this one counts those in use.
pub(crate) fn is_scarce(newest: impl AsFd) -> bool {
    let number = u64::try_from(newest.as_fd().as_raw_fd()).unwrap_or(0);
    getrlimit(Resource::Nofile).current.is_some_and(|limit| number + RESERVED >= limit)
}

/// Sends an error and closes the connection after at most `limit`. Discards what the client sends meanwhile: closing with
/// unread data would reset the connection and lose the error (RFC 9293 §3.10.4).
pub(crate) async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin, error: &[u8], limit: Duration) {
    let refusing = async {
        stream.write_all(error).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    // The client may be gone.
    let _ = timeout(limit, refusing).await;
}

/// A file descriptor that is kept free for the refusal of a connection when no other is left.
pub(crate) struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    pub(crate) fn open() -> SpareDescriptor {
        SpareDescriptor(File::open("/dev/null").ok())
    }

    /// Handles a failed `accept`: refuses the connection that `accept` returns if only a descriptor is missing, otherwise pauses.
    pub(crate) async fn recover<S>(
        &mut self,
        failure: &io::Error,
        accept: impl Future<Output = io::Result<S>>,
        error: &[u8],
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        tracing::warn!(error = %failure, "cannot accept a connection");
        if !(is_out_of_descriptors(failure) && self.refuse_next(accept, error).await) {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Returns false if no connection is waiting or another thread has taken the descriptor.
    async fn refuse_next<S>(&mut self, accept: impl Future<Output = io::Result<S>>, error: &[u8]) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let is_free = self.0.take().is_some();
        let is_refused = match timeout(ACCEPT_PAUSE, accept).await {
            Ok(Ok(stream)) if is_free => {
                refuse(stream, error, ACCEPT_PAUSE).await;
                true
            }
            _ => false,
        };
        *self = SpareDescriptor::open();
        is_refused
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use tokio::net::{UnixListener, UnixStream};

    use super::*;

    #[tokio::test]
    async fn connection_is_refused_with_the_spare_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let accept = async || listener.accept().await.map(|(stream, _)| stream);
        let mut spare = SpareDescriptor::open();
        for _ in 0..3 {
            let mut client = UnixStream::connect(&path).await.unwrap();
            // Unread input does not cost the client the error.
            client.write_all(b"input").await.unwrap();
            assert!(spare.refuse_next(accept(), b"busy\n").await);
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "busy\n");
        }
        assert!(!spare.refuse_next(accept(), b"busy\n").await, "no connection is waiting");
    }

    #[test]
    fn only_missing_descriptors_are_recognised() {
        assert!(is_out_of_descriptors(&Errno::MFILE.into()));
        assert!(!is_out_of_descriptors(&Errno::CONNABORTED.into()));
    }
}
