//! Encodes clipboard texts, notifications and progress as OSC sequences. Control characters are removed.

use nerve_vt::terminal::{Clipboard, Notification, Selections};

/// Clears the progress (ConEmu, OSC 9;4).
pub(super) const NO_PROGRESS: &[u8] = b"\x1b]9;4;0\x1b\\";

/// Sets the clipboard (OSC 52). tmux passes it on if configured.
pub(super) fn clipboard(clipboard: &Clipboard) -> Vec<u8> {
    let to = match clipboard.to {
        Selections::Clipboard => "c",
        Selections::Primary => "p",
        Selections::Both => "pc",
    };
    sequence(&["52", to, &clipboard.base64])
}

/// Shows a notification in the program's own form. `in_tmux` wraps it for the outer terminal (`allow-passthrough`),
/// because tmux has no notifications.
pub(super) fn notification(notification: &Notification, in_tmux: bool) -> Vec<u8> {
    let bytes = match notification {
        Notification::Text(text) => sequence(&["9", text]),
        Notification::Titled { title, body } => sequence(&["777", "notify", title, body]),
        Notification::Piece { metadata, payload } => sequence(&["99", metadata, payload]),
    };
    if in_tmux { tmux_passthrough(&bytes) } else { bytes }
}

/// Shows progress: state 0 to 4, where 0 clears it, and percent.
pub(super) fn progress(state: u8, value: u8) -> Vec<u8> {
    match state {
        0 => NO_PROGRESS.to_vec(),
        _ => sequence(&["9", "4", &state.to_string(), &value.to_string()]),
    }
}

/// Joins the parts of an OSC sequence. Only the last one may contain semicolons.
fn sequence(parts: &[&str]) -> Vec<u8> {
    let text: String = parts.join(";").chars().filter(|c| !c.is_control()).collect();
    format!("\x1b]{text}\x1b\\").into_bytes()
}

/// Wraps a sequence for the terminal around tmux (tmux(1), `allow-passthrough`), doubling each ESC.
fn tmux_passthrough(bytes: &[u8]) -> Vec<u8> {
    let mut wrapped = b"\x1bPtmux;".to_vec();
    for byte in bytes {
        wrapped.extend_from_slice(if *byte == 0x1b { b"\x1b\x1b" } else { std::slice::from_ref(byte) });
    }
    wrapped.extend_from_slice(b"\x1b\\");
    wrapped
}

#[cfg(test)]
mod tests {
    use nerve_types::{Size, TsNs};
    use nerve_vt::terminal::{Alert, TerminalState};

    use super::*;

    #[test]
    fn sequences_round_trip_through_a_terminal() {
        let output = "\x1b]52;c;aGk=\x07\x1b]52;ps;\x07\x1b]9;All done; really\x07\x1b]777;notify;T;a;b\x07\x1b]99;i=1:d=0;T\x07";
        let alerts_of =
            |bytes: &[u8]| TerminalState::new(Size::default()).process_data(TsNs(0), bytes).alerts;
        let alerts = alerts_of(output.as_bytes());
        assert_eq!(alerts.len(), 5);
        let passed = alerts.iter().map(|alert| match alert {
            Alert::Clipboard(text) => clipboard(text),
            Alert::Notify(text) => notification(text, false),
            other => panic!("{other:?}"),
        });
        let passed: Vec<u8> = passed.collect::<Vec<_>>().concat();
        assert_eq!(alerts_of(&passed), alerts, "{:?}", String::from_utf8_lossy(&passed));
        assert_eq!(alerts_of(&progress(1, 42)), [Alert::Progress { state: 1, value: 42 }]);
        assert_eq!(alerts_of(&progress(0, 42)), [Alert::Progress { state: 0, value: 0 }]);
    }

    #[test]
    fn control_characters_are_removed() {
        let text = Notification::Text("a\x1b\\\x07b\u{9c}c".to_string());
        assert_eq!(notification(&text, false), b"\x1b]9;a\\bc\x1b\\");
        // Removing control characters must not turn a text into a ConEmu command.
        for program in
            ["\x1b]9;4\u{80};1;50\x07", "\x1b]9;\u{9c}4;1;50\x07", "\x1b]9;1\u{85}2\x07", "\x1b]9;\u{80}\x07"]
        {
            let changes = TerminalState::new(Size::default()).process_data(TsNs(0), program.as_bytes());
            assert_eq!(changes.alerts, [], "{program:?}");
        }
    }

    #[test]
    fn tmux_notifications_are_wrapped() {
        let text = Notification::Text("done".to_string());
        assert_eq!(notification(&text, true), b"\x1bPtmux;\x1b\x1b]9;done\x1b\x1b\\\x1b\\");
    }
}
