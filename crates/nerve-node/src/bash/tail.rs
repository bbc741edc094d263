//! The end of a command's output, limited to what a response can carry.

use std::borrow::Cow;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::chunks::ChunkPublisher;

/// Maximum number of bytes kept per stream.
const MAX_BYTES: usize = 512 << 10;
/// Maximum size of the kept bytes as JSON (1.75 MiB). A response repeats stdout six times (raw, text, output, sections in two
/// places, attributes) and stderr twice. One byte can take six as JSON, and the whole response has to fit into a line of 16 MiB.
const MAX_JSON_BYTES: usize = 7 << 18;

/// Keeps the last bytes of a stream and counts all of them.
#[derive(Debug, Default)]
pub(super) struct OutputTail {
    kept: Vec<u8>,
    total: u64,
}

impl OutputTail {
    /// Reads the stream to its end. What was read so far is kept if the future is dropped.
    pub(super) async fn read_to_end(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        self.collect(stream, None::<&mut ChunkPublisher<fn(String)>>).await;
    }

    /// Like [`OutputTail::read_to_end`], and passes the output on to `chunks`.
    pub(super) async fn collect<P: FnMut(String)>(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        mut chunks: Option<&mut ChunkPublisher<P>>,
    ) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = match &mut chunks {
                None => stream.read(&mut chunk).await,
                Some(chunks) => tokio::select! {
                    biased;
                    read = stream.read(&mut chunk) => read,
                    () = chunks.flush_when_due() => continue,
                },
            };
            let Ok(read @ 1..) = read else { return };
            self.push(&chunk[..read]);
            if let Some(chunks) = &mut chunks {
                chunks.push(&chunk[..read]);
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend_from_slice(bytes);
        // Moving the bytes is expensive, so it is not done at every read.
        if self.kept.len() > 2 * MAX_BYTES {
            self.kept.drain(..self.kept.len() - MAX_BYTES);
        }
    }

    /// Returns the total number of bytes read.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes at the start that [`OutputTail::text`] omits.
    pub(super) fn omitted(&self) -> u64 {
        self.total - self.end().len() as u64
    }

    /// Returns the end of the stream as text, with invalid UTF-8 replaced.
    pub(super) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.end())
    }

    fn end(&self) -> &[u8] {
        let mut room = MAX_JSON_BYTES;
        let fits = |byte: &&u8| {
            let remaining = room.checked_sub(json_bytes(**byte));
            room = remaining.unwrap_or(room);
            remaining.is_some()
        };
        let count = self.kept.iter().rev().take(MAX_BYTES).take_while(fits).count();
        let end = &self.kept[self.kept.len() - count..];
        if count as u64 == self.total {
            return end;
        }
        // Skip the rest of a character that was cut: at most three bytes.
        let cut = end.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        &end[cut..]
    }
}

/// Returns the maximum number of bytes that this byte of a text takes as JSON.
fn json_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        // A byte that is not valid UTF-8 becomes U+FFFD.
        0x80.. => 3,
        _ => 1,
    }
}
