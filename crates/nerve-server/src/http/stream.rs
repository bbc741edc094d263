//! A client's byte stream: detects the HTTP version, and drains input after the last response.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::link::{ReadHalf, WriteHalf};

/// The connection preface of HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of further requests that are kept while the end of the input is awaited.
const MAX_EARLY_BYTES: usize = 64 * 1024;
/// Bytes that are still read after the last response, so that the client receives it. They may belong to a
/// message that was too long.
const LINGER_BYTES: u64 = 32 * 1024 * 1024;
/// Time limit for reading them.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Both directions of a connection. The server and the code that lingers have a handle each, and use them one after the other.
#[derive(Clone)]
pub(super) struct Stream(Arc<Mutex<Halves>>);

struct Halves {
    /// Bytes that were read to detect the version and are not consumed yet.
    buffered: Vec<u8>,
    read: ReadHalf,
    write: WriteHalf,
}

/// HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

impl Stream {
    pub(super) fn new(read: ReadHalf, write: WriteHalf) -> Stream {
        Stream(Arc::new(Mutex::new(Halves { buffered: Vec::new(), read, write })))
    }

    /// Detects the version from the first bytes, which remain readable. Returns `None` if the client left.
    pub(super) async fn detect_version(&mut self) -> io::Result<Option<Version>> {
        let mut first = Vec::with_capacity(PREFACE.len());
        let version = loop {
            let missing = PREFACE.len() - first.len();
            if missing == 0 {
                break Some(Version::Http2);
            }
            if self.take(missing as u64).read_buf(&mut first).await? == 0 {
                // An incomplete preface: hyper reports the error.
                break (!first.is_empty()).then_some(Version::Http1);
            }
            if !PREFACE.starts_with(&first) {
                break Some(Version::Http1);
            }
        };
        self.0.lock().buffered = first;
        Ok(version)
    }

    /// Waits for the end of the client's input. A client of HTTP/1.1 that ends it while it waits for a response has left; the
    /// system reports that it has closed the other direction too only when something is written. Further requests remain
    /// readable; if there are many, this never completes.
    pub(super) async fn input_ended(&self) {
        poll_fn(|cx| {
            let mut halves = self.0.lock();
            while halves.buffered.len() < MAX_EARLY_BYTES {
                let mut bytes = [0; 1024];
                let mut buffer = ReadBuf::new(&mut bytes);
                let read = std::task::ready!(Pin::new(&mut halves.read).poll_read(cx, &mut buffer));
                if read.is_err() || buffer.filled().is_empty() {
                    return Poll::Ready(());
                }
                halves.buffered.extend_from_slice(buffer.filled());
            }
            Poll::Pending
        })
        .await;
    }

    /// Shuts down the write half and reads what the client still sends, within limits: closing a socket with
    /// unread data resets it, and the last response would be lost. Does nothing if the stream has another
    /// owner, such as a WebSocket.
    pub(super) async fn linger(mut self) {
        if Arc::strong_count(&self.0) > 1 {
            return;
        }
        let closing = async {
            self.shutdown().await?;
            tokio::io::copy(&mut self.take(LINGER_BYTES), &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(LINGER_TIMEOUT, closing).await;
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut halves = self.0.lock();
        if !halves.buffered.is_empty() {
            let count = halves.buffered.len().min(buffer.remaining());
            buffer.put_slice(&halves.buffered[..count]);
            halves.buffered.drain(..count);
            if halves.buffered.is_empty() {
                halves.buffered = Vec::new();
            }
            // Fill the rest of the buffer: hyper would enlarge it for a second read, and keep it so.
            if buffer.remaining() > 0
                && let read @ Poll::Ready(Err(_)) = Pin::new(&mut halves.read).poll_read(cx, buffer)
            {
                return read;
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut halves.read).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().write).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().write).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().write.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().write).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().write).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &'static [u8]) -> Stream {
        Stream::new(Box::new(bytes), Box::new(tokio::io::sink()))
    }

    #[tokio::test]
    async fn version_is_detected_and_bytes_are_kept() {
        for (bytes, detect_version) in [
            (PREFACE, Some(Version::Http2)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more", Some(Version::Http2)),
            (b"POST / HTTP/1.1\r\n", Some(Version::Http1)),
            (b"PRI * HTTP/2.0\r\n\r\nXX", Some(Version::Http1)),
            (b"PRI", Some(Version::Http1)),
            (b"G", Some(Version::Http1)),
            (b"", None),
        ] {
            let mut stream = stream(bytes);
            assert_eq!(
                stream.detect_version().await.unwrap(),
                detect_version,
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
            let mut all = Vec::with_capacity(100);
            // A single read returns the bytes with what followed them.
            stream.read_buf(&mut all).await.unwrap();
            assert_eq!(all, bytes);
        }
    }

    #[tokio::test]
    async fn end_of_input_is_noticed_and_bytes_are_kept() {
        let (client, server) = tokio::io::duplex(1024);
        let mut stream = Stream::new(Box::new(server), Box::new(tokio::io::sink()));
        let watched = stream.clone();
        let ended = watched.input_ended();
        tokio::pin!(ended);
        let mut client = client;
        client.write_all(b"next request").await.unwrap();
        assert!(futures_util::FutureExt::now_or_never(ended.as_mut()).is_none());
        drop(client);
        ended.await;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"next request");
    }

    #[tokio::test]
    async fn shared_stream_is_not_drained() {
        let stream = stream(b"left");
        let mut other = stream.clone();
        stream.linger().await;
        let mut all = Vec::new();
        other.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"left");
    }
}
