//! Decodes output as UTF-8 across record boundaries.

/// A streaming decoder. Invalid bytes become U+FFFD, as in a terminal.
#[derive(Debug, Clone, Default)]
pub(super) struct Utf8Decoder {
    /// The incomplete character at the end, at most three bytes.
    held: Vec<u8>,
}

impl Utf8Decoder {
    /// Decodes `bytes` after the held bytes, and holds back an incomplete character at the end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        if self.held.is_empty() {
            return self.decode(bytes);
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(bytes);
        self.decode(&joined)
    }

    /// Ends the stream. An incomplete character becomes U+FFFD.
    pub(super) fn finish(&mut self) -> String {
        let unfinished = !std::mem::take(&mut self.held).is_empty();
        if unfinished { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }

    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        let mut left = bytes.len();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            left -= chunk.valid().len() + chunk.invalid().len();
            match std::str::from_utf8(chunk.invalid()) {
                // The trailing bytes may be the start of a character.
                Err(error) if left == 0 && error.error_len().is_none() => {
                    self.held = chunk.invalid().to_vec()
                }
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                Ok(_) => {}
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8], step: usize) -> String {
        let mut decoder = Utf8Decoder::default();
        let mut text: String = bytes.chunks(step).map(|piece| decoder.push(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn split_character_is_joined() {
        let mut decoder = Utf8Decoder::default();
        assert_eq!(decoder.push(b"a\xf0\x9f"), "a");
        assert_eq!(decoder.push(b"\x98"), "");
        assert_eq!(decoder.push(b"\x80b"), "😀b");
        assert_eq!(decoder.finish(), "");
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(decoded(b"a\xffb\xe2\x82", 1), "a\u{fffd}b\u{fffd}");
        assert_eq!(decoded(b"\xf0\x9fX", 2), "\u{fffd}X");
    }

    proptest! {
        #[test]
        fn any_split_decodes_like_the_whole(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xe2), Just(0x82), Just(0xac)], 0..60),
            step in 1usize..9,
        ) {
            prop_assert_eq!(decoded(&bytes, step), String::from_utf8_lossy(&bytes));
        }
    }
}
