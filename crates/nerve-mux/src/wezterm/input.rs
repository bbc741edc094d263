//! Splits input for a pane into calls of the command line.

use std::collections::VecDeque;

use nerve_vt::keys::split_paste;

use super::args::Keys;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputCall {
    /// A paste. WezTerm brackets it if the program enabled that.
    Paste(Vec<u8>),
    /// A few exact bytes.
    Keys(Keys),
}

impl InputCall {
    pub(super) fn size(&self) -> usize {
        match self {
            InputCall::Paste(text) => text.len(),
            InputCall::Keys(keys) => keys.len(),
        }
    }
}

/// Splits bytes: bracketed pastes without their markers and long text become pastes, everything else short exact bytes. `None`
/// for invalid UTF-8, which WezTerm rejects.
pub(super) fn input_calls(bytes: &[u8]) -> Option<VecDeque<InputCall>> {
    let mut calls = VecDeque::new();
    let mut rest = bytes;
    while let Some((plain, pasted, remainder)) = split_paste(rest) {
        add_plain(str::from_utf8(plain).ok()?, &mut calls);
        str::from_utf8(pasted).ok()?;
        if !pasted.is_empty() {
            calls.push_back(InputCall::Paste(pasted.to_vec()));
        }
        rest = remainder;
    }
    add_plain(str::from_utf8(rest).ok()?, &mut calls);
    Some(calls)
}

/// Adds calls for plain text. Long runs without control characters are pasted; control characters would mean something else in
/// a paste.
fn add_plain(text: &str, calls: &mut VecDeque<InputCall>) {
    if text.len() <= Keys::MAX {
        calls.extend(Keys::new(text.as_bytes()).filter(|keys| keys.len() > 0).map(InputCall::Keys));
        return;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(char::is_control).unwrap_or(rest.len());
        if end > Keys::MAX {
            calls.push_back(InputCall::Paste(rest.as_bytes()[..end].to_vec()));
            rest = &rest[end..];
            continue;
        }
        // The keys end at the next run that is long enough to be pasted.
        let mut len = 0;
        for (at, c) in rest.char_indices() {
            let next = at + c.len_utf8();
            if next > Keys::MAX || (c.is_control() && len > 0 && begins_long(&rest[next..])) {
                break;
            }
            len = next;
        }
        let len = len.max(rest.chars().next().map_or(0, char::len_utf8));
        calls.extend(Keys::new(&rest.as_bytes()[..len]).map(InputCall::Keys));
        rest = &rest[len..];
    }
}

fn begins_long(text: &str) -> bool {
    text.find(char::is_control).unwrap_or(text.len()) > Keys::MAX
}

#[cfg(test)]
mod tests {
    use nerve_vt::keys::paste;
    use nerve_vt::screen::Modes;
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> InputCall {
        InputCall::Keys(Keys::new(text.as_bytes()).unwrap())
    }

    #[test]
    fn paste_loses_markers_and_enter_is_separate() {
        let modes = Modes { bracketed_paste: true, ..Modes::default() };
        let mut bytes = paste("two\nlines", modes);
        bytes.push(b'\r');
        assert_eq!(input_calls(&bytes).unwrap(), [InputCall::Paste(b"two\nlines".to_vec()), keys("\r")]);
        assert_eq!(input_calls(b"ls -l\r").unwrap(), [keys("ls -l\r")]);
        assert_eq!(input_calls(b"").unwrap(), []);
        assert_eq!(input_calls(b"\x1b[200~\x1b[201~").unwrap(), []);
        assert_eq!(input_calls(b"\x1b[200~open").unwrap(), [keys("\x1b[200~open")]);
        assert_eq!(input_calls(b"\xff"), None);
    }

    #[test]
    fn long_line_is_pasted_without_its_enter() {
        let line = "x".repeat(300);
        let bytes = format!("{line}\r");
        assert_eq!(input_calls(bytes.as_bytes()).unwrap(), [InputCall::Paste(line.into_bytes()), keys("\r")]);
    }

    proptest! {
        #[test]
        fn no_input_is_lost(text in "([a-z]{0,100}[\\r\\t\\x1bé]{0,40}){0,5}") {
            let input_calls = input_calls(text.as_bytes()).unwrap();
            let typed: Vec<u8> = input_calls
                .iter()
                .flat_map(|call| match call {
                    InputCall::Paste(text) => text.clone(),
                    InputCall::Keys(keys) => keys.as_bytes().to_vec(),
                })
                .collect();
            prop_assert_eq!(typed, text.into_bytes());
            for call in &input_calls {
                if let InputCall::Paste(text) = call {
                    prop_assert!(!std::str::from_utf8(text).unwrap().contains(char::is_control));
                }
            }
        }
    }
}
