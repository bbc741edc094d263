//! Frames: a little-endian u32 length and the body.

use super::SszError;

/// Maximum body of a snapshot request or response: 64 KiB.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Maximum body of an event: 1 MiB. Senders truncate longer tool output.
pub const MAX_EVENT: usize = 1 << 20;

const LENGTH: usize = size_of::<u32>();

/// Encodes a frame.
///
/// # Errors
/// [`SszError::TooLong`] for a body of more than `limit` bytes.
pub fn encode_frame(body: &[u8], limit: usize) -> Result<Vec<u8>, SszError> {
    let too_long = SszError::TooLong { length: body.len(), limit };
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= limit).ok_or(too_long)?;
    let mut frame = Vec::with_capacity(LENGTH + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(body);
    Ok(frame)
}

/// Removes the first frame from the read bytes and returns its body; `None` while it is incomplete.
///
/// The length is checked before any memory is allocated for the body. A caller that stops at the error holds no more than it has read.
///
/// ```
/// use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame};
/// let mut read = vec![2, 0, 0, 0, b'a'];
/// assert_eq!(decode_frame(&mut read, MAX_MESSAGE), Ok(None));
/// read.extend_from_slice(b"bc");
/// assert_eq!(decode_frame(&mut read, MAX_MESSAGE), Ok(Some(b"ab".to_vec())));
/// assert_eq!(read, b"c");
/// ```
///
/// # Errors
/// [`SszError::TooLong`] for a length over `limit`. The stream cannot be read further, because the start of the next frame is unknown.
pub fn decode_frame(read: &mut Vec<u8>, limit: usize) -> Result<Option<Vec<u8>>, SszError> {
    let Some((length, rest)) = read.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let announced = u32::from_le_bytes(*length);
    let length = usize::try_from(announced).unwrap_or(usize::MAX);
    if length > limit {
        return Err(SszError::TooLong { length, limit });
    }
    if rest.len() < length {
        return Ok(None);
    }
    let body = rest[..length].to_vec();
    read.drain(..LENGTH + length);
    Ok(Some(body))
}
