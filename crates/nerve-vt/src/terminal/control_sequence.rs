//! Parses complete control sequences (ECMA-48 §5.4). The engine's parser, which takes bytes one by one, handles all others.

use alacritty_terminal::vte;

/// Maximum number of parameters, subparameters included.
const MAX_VALUES: usize = 32;

/// The parameters of a control sequence.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    values: [u16; MAX_VALUES],
    len: usize,
    /// Bit `n`: value `n + 1` is a subparameter of the same parameter.
    continues: u32,
}

impl Params {
    /// Adds a value; `None` if there is no room.
    fn push(&mut self, value: u16, continues: bool) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.continues |= u32::from(continues) << self.len;
        self.len += 1;
        Some(())
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns parameter `nth`, or `default` if it is missing or 0.
    pub(super) fn get(&self, nth: usize, default: u16) -> u16 {
        let value = match self.continues {
            0 => self.values[..self.len].get(nth).copied(),
            _ => self.iter().nth(nth).map(|param| param[0]),
        };
        value.filter(|value| *value != 0).unwrap_or(default)
    }

    /// Returns each parameter with its subparameters.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u16]> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = self.values[..self.len].get(at..).filter(|rest| !rest.is_empty())?;
            let len = ((self.continues >> at).trailing_ones() as usize + 1).min(rest.len());
            at += len;
            Some(&rest[..len])
        })
    }
}

impl From<&vte::Params> for Params {
    fn from(parsed: &vte::Params) -> Params {
        let mut params = Params::default();
        for param in parsed {
            for (nth, value) in param.iter().enumerate() {
                // The parser has the same limit.
                let _ = params.push(*value, nth + 1 < param.len());
            }
        }
        params
    }
}

/// A control sequence without intermediate bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ControlSequence {
    /// One of `<=>?`.
    pub(super) marker: Option<u8>,
    pub(super) params: Params,
    pub(super) action: char,
    /// Length in bytes.
    pub(super) len: usize,
}

impl ControlSequence {
    /// Parses the sequence at the beginning of `bytes`. Returns `None` for other sequences, for one that is incomplete, and
    /// for one with controls, intermediate bytes or too many parameters.
    pub(super) fn parse(bytes: &[u8]) -> Option<ControlSequence> {
        let body = bytes.strip_prefix(b"\x1b[")?;
        let marker = body.first().copied().filter(|byte| matches!(byte, b'<'..=b'?'));
        let (mut params, mut value) = (Params::default(), 0u16);
        let start = bytes.len() - body.len() + usize::from(marker.is_some());
        for (at, byte) in bytes.iter().enumerate().skip(start) {
            match byte {
                b'0'..=b'9' => value = value.saturating_mul(10).saturating_add(u16::from(byte - b'0')),
                b';' | b':' => {
                    params.push(value, *byte == b':')?;
                    value = 0;
                }
                b'@'..=b'~' => {
                    params.push(value, false)?;
                    return Some(ControlSequence { marker, params, action: char::from(*byte), len: at + 1 });
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the sequences that the engine's parser reports.
    #[derive(Default)]
    struct Reported(Vec<(Option<u8>, Params, char)>);

    impl vte::Perform for Reported {
        fn csi_dispatch(&mut self, params: &vte::Params, intermediates: &[u8], ignore: bool, action: char) {
            assert!(!ignore && intermediates.len() <= 1);
            self.0.push((intermediates.first().copied(), params.into(), action));
        }
    }

    proptest::proptest! {
        #[test]
        fn sequences_are_parsed_as_by_engine(text in "\x1b\\[[<=>?]?([0-9]{0,6}[;:]?){0,40}[@-~]x?") {
            if let Some(own) = ControlSequence::parse(text.as_bytes()) {
                let mut reported = Reported::default();
                vte::Parser::new().advance(&mut reported, &text.as_bytes()[..own.len]);
                proptest::prop_assert_eq!(reported.0, [(own.marker, own.params, own.action)]);
            } else {
                let values = 1 + text.bytes().filter(|byte| matches!(byte, b';' | b':')).count();
                proptest::prop_assert!(values > MAX_VALUES, "{:?} is not parsed", text);
            }
        }
    }

    #[test]
    fn unusual_sequences_are_left_to_parser() {
        for text in
            ["", "\x1b", "\x1b[", "\x1b[1;", "\x1b[1 q", "\x1b[?1$p", "\x1b[1\n2m", "\x1b[1?m", "\x1b]0;"]
        {
            assert_eq!(ControlSequence::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
