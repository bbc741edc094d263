//! The end of a client, seen where it shows first: in what is read of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A reader that tells when there is no more to read. A call that is given up after that was not cancelled: its client is gone.
#[derive(Debug)]
pub(crate) struct Watched<R> {
    inner: R,
    gone: CancellationToken,
}

impl<R> Watched<R> {
    pub(crate) fn new(inner: R, gone: CancellationToken) -> Watched<R> {
        Watched { inner, gone }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, asked) = (buf.filled().len(), buf.remaining());
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let over = match &polled {
            Poll::Ready(Ok(())) => asked > 0 && buf.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if over {
            self.gone.cancel();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn the_end_is_told_and_not_before() {
        let gone = CancellationToken::new();
        let mut reader = Watched::new(&b"ab"[..], gone.clone());
        let mut text = [0; 2];
        reader.read_exact(&mut text).await.unwrap();
        assert!(!gone.is_cancelled());
        assert_eq!(reader.read(&mut text).await.unwrap(), 0);
        assert!(gone.is_cancelled());
    }
}
