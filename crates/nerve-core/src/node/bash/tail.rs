//! The end of what a stream said, as much as a response can carry.

use std::borrow::Cow;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::chunks::Chunks;

/// Of each stream this many bytes are kept.
const BYTES: usize = 512 << 10;
/// And of these, as many as JSON writes in this many (1.75 MiB). A response repeats stdout six times (raw, text, output, sections in two
/// places, attributes) and stderr twice, one byte can take six, and all of it has to fit into a line of 16 MiB.
const JSON_BYTES: usize = 7 << 18;

/// The last bytes of a stream; all of them are counted.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: Vec<u8>,
    total: u64,
}

impl Tail {
    /// Reads to the end. What was read so far is there though the future is dropped.
    pub(super) async fn read_to_end(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        self.collect(stream, None::<&mut Chunks<fn(String)>>).await;
    }

    /// The same; `chunks` has it too.
    pub(super) async fn collect<P: FnMut(String)>(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        mut chunks: Option<&mut Chunks<P>>,
    ) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = match &mut chunks {
                None => stream.read(&mut chunk).await,
                Some(chunks) => tokio::select! {
                    biased;
                    read = stream.read(&mut chunk) => read,
                    () = chunks.flush_in_time() => continue,
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
        // Not at every read: moving the bytes costs.
        if self.kept.len() > 2 * BYTES {
            self.kept.drain(..self.kept.len() - BYTES);
        }
    }

    /// How many bytes there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes at the start [`Tail::text`] does not have.
    pub(super) fn left_out(&self) -> u64 {
        self.total - self.end().len() as u64
    }

    /// The end, bytes that are no UTF-8 replaced.
    pub(super) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.end())
    }

    fn end(&self) -> &[u8] {
        let mut room = JSON_BYTES;
        let fits = |byte: &&u8| {
            let left = room.checked_sub(json_bytes(**byte));
            room = left.unwrap_or(room);
            left.is_some()
        };
        let count = self.kept.iter().rev().take(BYTES).take_while(fits).count();
        let end = &self.kept[self.kept.len() - count..];
        if count as u64 == self.total {
            return end;
        }
        // The rest of a character that was cut: at most three bytes.
        let cut = end.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        &end[cut..]
    }
}

/// The most that a byte of a text can take in JSON.
fn json_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        // One that is no UTF-8 becomes U+FFFD.
        0x80.. => 3,
        _ => 1,
    }
}
