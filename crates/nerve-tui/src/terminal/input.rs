//! Converts crossterm events into input events.

use nerve_vt::keys::{Button, Code, Input, Key, Mouse, MouseAction, Wheel};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Converts an event. Returns `None` for releases and for keys that have no encoding.
pub(super) fn of(event: Event, has_kitty_keyboard: bool) -> Option<Input> {
    match event {
        Event::Key(event) if event.kind != KeyEventKind::Release => {
            key(event, has_kitty_keyboard).map(Input::Key)
        }
        Event::Key(_) | Event::Resize(..) => None,
        Event::Paste(text) => Some(Input::Paste(text)),
        Event::Mouse(event) => Some(Input::Mouse(mouse(event))),
        Event::FocusGained => Some(Input::Focus(true)),
        Event::FocusLost => Some(Input::Focus(false)),
    }
}

fn key(event: KeyEvent, has_kitty_keyboard: bool) -> Option<Key> {
    let has = |modifier| event.modifiers.intersects(modifier);
    // Super and Hyper belong to the window system.
    if has(KeyModifiers::SUPER | KeyModifiers::HYPER) {
        return None;
    }
    let (ctrl, alt) = (has(KeyModifiers::CONTROL), has(KeyModifiers::ALT | KeyModifiers::META));
    let mut shift = has(KeyModifiers::SHIFT);
    let code = match event.code {
        KeyCode::Char(char) => {
            let char = match char {
                // Without the protocol, 0x1c to 0x1f are reported as these; they are Control with `\ ] ^ _`
                // (ECMA-48, table 1).
                '4'..='7' if ctrl && !has_kitty_keyboard => {
                    ['\\', ']', '^', '_'][usize::from(char as u8 - b'4')]
                }
                _ if ctrl => char.to_ascii_lowercase(),
                _ if shift && char.is_lowercase() => char.to_uppercase().next().unwrap_or(char),
                _ => char,
            };
            // Letters include Shift, except with Control.
            shift &= ctrl || (alt && !char.is_alphabetic());
            Code::Char(char)
        }
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Backspace => Code::Backspace,
        KeyCode::Tab => Code::Tab,
        KeyCode::BackTab => {
            shift = true;
            Code::Tab
        }
        KeyCode::Delete => Code::Delete,
        KeyCode::Insert => Code::Insert,
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        KeyCode::F(number) => Code::F(number),
        _ => return None,
    };
    Some(Key { code, ctrl, alt, shift })
}

fn mouse(event: MouseEvent) -> Mouse {
    let action = match event.kind {
        MouseEventKind::Down(of) => MouseAction::Press(button(of)),
        MouseEventKind::Up(of) => MouseAction::Release(button(of)),
        MouseEventKind::Drag(of) => MouseAction::Move(Some(button(of))),
        MouseEventKind::Moved => MouseAction::Move(None),
        MouseEventKind::ScrollUp => MouseAction::Wheel(Wheel::Up),
        MouseEventKind::ScrollDown => MouseAction::Wheel(Wheel::Down),
        MouseEventKind::ScrollLeft => MouseAction::Wheel(Wheel::Left),
        MouseEventKind::ScrollRight => MouseAction::Wheel(Wheel::Right),
    };
    let has = |modifier| event.modifiers.contains(modifier);
    Mouse {
        action,
        col: event.column,
        row: event.row,
        ctrl: has(KeyModifiers::CONTROL),
        alt: has(KeyModifiers::ALT),
        shift: has(KeyModifiers::SHIFT),
    }
}

fn button(button: MouseButton) -> Button {
    match button {
        MouseButton::Left => Button::Left,
        MouseButton::Middle => Button::Middle,
        MouseButton::Right => Button::Right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(code: KeyCode, modifiers: KeyModifiers, kitty: bool) -> String {
        match of(Event::Key(KeyEvent::new(code, modifiers)), kitty) {
            Some(Input::Key(key)) => key.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn keys_are_normalized() {
        const CTRL: KeyModifiers = KeyModifiers::CONTROL;
        const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
        const ALT: KeyModifiers = KeyModifiers::ALT;
        let char = KeyCode::Char;
        let cases = [
            (char('a'), KeyModifiers::NONE, "a"),
            (char('A'), SHIFT, "A"),
            (char('?'), SHIFT, "?"),
            (char('t'), CTRL | SHIFT, "ctrl+shift+t"),
            (char('T'), CTRL | SHIFT, "ctrl+shift+t"),
            (char('x'), ALT | SHIFT, "alt+X"),
            (char('X'), ALT | SHIFT, "alt+X"),
            (char(' '), CTRL, "ctrl+space"),
            (KeyCode::Up, CTRL | SHIFT, "ctrl+shift+up"),
            (KeyCode::BackTab, SHIFT, "shift+tab"),
            (KeyCode::Enter, SHIFT, "shift+enter"),
            (KeyCode::F(5), CTRL, "ctrl+f5"),
            (char('v'), KeyModifiers::META, "alt+v"),
        ];
        for (code, modifiers, name) in cases {
            for kitty in [false, true] {
                assert_eq!(named(code, modifiers, kitty), name, "{code:?} {modifiers:?}");
            }
        }
        // Terminals without the protocol send this for the prefix.
        assert_eq!(named(char('5'), CTRL, false), "ctrl+]");
        assert_eq!(named(char('5'), CTRL, true), "ctrl+5");
        assert_eq!(named(char('4'), CTRL, false), "ctrl+\\");
        assert_eq!(named(char('7'), CTRL, false), "ctrl+_");
        assert_eq!(named(char('c'), KeyModifiers::SUPER, true), "None");
    }

    #[test]
    fn key_releases_are_ignored() {
        let release = KeyEvent::new_with_kind(KeyCode::Enter, KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(of(Event::Key(release), true), None);
        let again = KeyEvent::new_with_kind(KeyCode::Enter, KeyModifiers::NONE, KeyEventKind::Repeat);
        assert_eq!(of(Event::Key(again), true), Some(Input::Key(Key::plain(Code::Enter))));
    }

    #[test]
    fn mouse_events_keep_their_position() {
        let event = MouseEvent {
            kind: MouseEventKind::Drag(MouseButton::Right),
            column: 300,
            row: 2,
            modifiers: KeyModifiers::CONTROL,
        };
        let action = MouseAction::Move(Some(Button::Right));
        let expected = Mouse { action, col: 300, row: 2, ctrl: true, alt: false, shift: false };
        assert_eq!(of(Event::Mouse(event), false), Some(Input::Mouse(expected)));
        assert_eq!(of(Event::Paste("a\nb".to_string()), false), Some(Input::Paste("a\nb".to_string())));
        assert_eq!(of(Event::FocusLost, false), Some(Input::Focus(false)));
    }
}
