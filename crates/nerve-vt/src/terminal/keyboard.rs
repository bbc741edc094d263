//! The kitty keyboard protocol's flag stacks, one for each screen
//! (<https://sw.kovidgoyal.net/kitty/keyboard-protocol/#progressive-enhancement>).

use std::collections::VecDeque;

/// Entries a stack holds; a push onto a full one drops the oldest.
const MAX_DEPTH: usize = 64;
/// All flags of the protocol.
const FLAGS: u8 = 0b1_1111;

/// The current flags and the stack of earlier ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keyboard {
    flags: u8,
    stack: VecDeque<u8>,
}

impl Keyboard {
    /// Returns the current flags, 0–31.
    pub(super) fn flags(&self) -> u8 {
        self.flags
    }

    /// Pushes flags (`CSI > flags u`).
    pub(super) fn push(&mut self, flags: u16) {
        if self.stack.len() == MAX_DEPTH {
            self.stack.pop_front();
        }
        self.stack.push_back(self.flags);
        self.flags = flags as u8 & FLAGS;
    }

    /// Pops `count` entries (`CSI < count u`). Popping more than there are resets all flags.
    pub(super) fn pop(&mut self, count: u16) {
        for _ in 0..count {
            match self.stack.pop_back() {
                Some(flags) => self.flags = flags,
                None => {
                    self.flags = 0;
                    break;
                }
            }
        }
    }

    /// Changes the flags (`CSI = flags ; mode u`): 1 replaces, 2 adds, 3 removes.
    pub(super) fn set(&mut self, flags: u16, mode: u16) {
        let flags = flags as u8 & FLAGS;
        self.flags = match mode {
            2 => self.flags | flags,
            3 => self.flags & !flags,
            _ => flags,
        };
    }

    /// Returns the flags to set first and then to push, oldest first, to recreate this state.
    pub(super) fn history(&self) -> impl Iterator<Item = u8> {
        self.stack.iter().copied().chain([self.flags])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pop_restores_flags_down_to_none() {
        let mut keyboard = Keyboard::default();
        keyboard.push(1);
        keyboard.push(31);
        keyboard.set(8, 3);
        assert_eq!(keyboard.flags(), 23);
        keyboard.pop(1);
        assert_eq!(keyboard.flags(), 1);
        keyboard.pop(9);
        assert_eq!(keyboard, Keyboard::default());
    }

    #[test]
    fn push_flood_drops_oldest_entries() {
        let mut keyboard = Keyboard::default();
        for n in 0..10_000u16 {
            keyboard.push(n % 32);
        }
        assert_eq!(keyboard.stack.len(), MAX_DEPTH);
        keyboard.pop(64);
        assert_eq!(keyboard.flags(), ((10_000 - 65) % 32) as u8);
    }
}
