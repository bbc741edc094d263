//! Detects that a client has disconnected.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A reader that cancels a token at the end of input. Calls that end afterwards were not cancelled by the
/// client.
#[derive(Debug)]
pub(crate) struct DisconnectDetector<R> {
    inner: R,
    disconnected: CancellationToken,
}

impl<R> DisconnectDetector<R> {
    pub(crate) fn new(inner: R, disconnected: CancellationToken) -> DisconnectDetector<R> {
        DisconnectDetector { inner, disconnected }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for DisconnectDetector<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, capacity) = (buf.filled().len(), buf.remaining());
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let has_ended = match &polled {
            Poll::Ready(Ok(())) => capacity > 0 && buf.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if has_ended {
            self.disconnected.cancel();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn token_is_cancelled_at_end_of_input() {
        let disconnected = CancellationToken::new();
        let mut reader = DisconnectDetector::new(&b"ab"[..], disconnected.clone());
        let mut text = [0; 2];
        reader.read_exact(&mut text).await.unwrap();
        assert!(!disconnected.is_cancelled());
        assert_eq!(reader.read(&mut text).await.unwrap(), 0);
        assert!(disconnected.is_cancelled());
    }
}
