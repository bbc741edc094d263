//! Detects Esc pressed twice. Without the kitty keyboard protocol that is `ESC ESC`, and crossterm reports both as
//! one key if they arrive in one read. The number of bytes read tells them apart.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

/// Bytes of the current read that its events do not account for; `None` if unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EscapeCounter {
    left: Option<usize>,
}

impl EscapeCounter {
    /// Records the size of a read.
    pub(super) fn read(&mut self, bytes: usize) {
        self.left = Some(bytes);
    }

    /// Returns the number of key presses that the next event stands for.
    pub(super) fn presses(&mut self, event: &Event) -> usize {
        let presses = match (event, self.left) {
            (Event::Key(key), Some(left)) if is_plain_esc(*key) && left >= 2 => 2,
            _ => 1,
        };
        let bytes = bytes(event).map(|bytes| bytes * presses);
        self.left = self.left.zip(bytes).map(|(left, bytes)| left.saturating_sub(bytes));
        presses
    }
}

fn is_plain_esc(key: KeyEvent) -> bool {
    key.code == KeyCode::Esc && key.modifiers.is_empty()
}

/// Returns the encoded size of an event if its encoding is unique: characters and control characters.
fn bytes(event: &Event) -> Option<usize> {
    let Event::Key(KeyEvent { code, modifiers, .. }) = event else { return None };
    let bytes = match code {
        KeyCode::Char(_) if modifiers.contains(KeyModifiers::CONTROL) => 1,
        KeyCode::Char(char) => char.len_utf8(),
        KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace | KeyCode::Esc => 1,
        _ => return None,
    };
    Some(bytes + usize::from(modifiers.contains(KeyModifiers::ALT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the presses for the events of a read.
    fn presses(read: &str, events: &[(KeyCode, KeyModifiers)]) -> Vec<usize> {
        let mut escapes = EscapeCounter::default();
        escapes.read(read.len());
        let press = |(code, modifiers): &(KeyCode, KeyModifiers)| {
            escapes.presses(&Event::Key(KeyEvent::new(*code, *modifiers)))
        };
        events.iter().map(press).collect()
    }

    #[test]
    fn counts_presses_of_esc() {
        const NONE: KeyModifiers = KeyModifiers::NONE;
        let (esc, char) = ((KeyCode::Esc, NONE), |char| (KeyCode::Char(char), NONE));
        assert_eq!(presses("\x1b", &[esc]), [1]);
        assert_eq!(presses("\x1b\x1b", &[esc]), [2]);
        assert_eq!(presses("\x1b\x1b\x1b", &[esc, esc]), [2, 1]);
        assert_eq!(presses("\x1b\x1b\x1b\x1b", &[esc, esc]), [2, 2]);
        assert_eq!(presses("j\x1b", &[char('j'), esc]), [1, 1]);
        assert_eq!(presses("é\x1b\x1b", &[char('é'), esc]), [1, 2]);
        assert_eq!(presses("\x1b\x1bj", &[esc, char('j')]), [2, 1]);
        let (ctrl, alt) = (KeyModifiers::CONTROL, KeyModifiers::ALT);
        let both = [(KeyCode::Char('c'), ctrl), (KeyCode::Char('v'), alt), (KeyCode::Enter, NONE), esc];
        assert_eq!(presses("\x03\x1bv\r\x1b", &both), [1, 1, 1, 1]);
        // Cursor keys have several encodings.
        assert_eq!(presses("\x1b[A\x1b\x1b", &[(KeyCode::Up, NONE), esc]), [1, 1]);
        assert_eq!(EscapeCounter::default().presses(&Event::Key(KeyCode::Esc.into())), 1);
    }
}
