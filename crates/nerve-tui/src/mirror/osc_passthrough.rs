//! Clipboard texts, notifications and progress from the program, collected until the next frame. Bounded.

use std::collections::VecDeque;

use nerve_vt::terminal::{Alert, Clipboard, Notification, Selections};

/// Longest clipboard text to pass on, in bytes of Base64 (75 kB of text), as in other terminal programs.
pub(crate) const MAX_CLIPBOARD: usize = 100_000;
/// Maximum number of notifications per frame.
const MAX_NOTIFICATIONS: usize = 16;

/// OSC sequences to pass on to the user's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OscPassthrough {
    /// Clipboard texts, at most one per selection.
    pub(crate) clipboard: VecDeque<Clipboard>,
    /// Size of the last text in bytes, if it was too long.
    pub(crate) too_long: Option<usize>,
    pub(crate) notifications: Vec<Notification>,
    /// State and percent, if changed.
    pub(crate) progress: Option<(u8, u8)>,
}

impl OscPassthrough {
    /// Collects alerts. While older output is read (`is_past`), only progress counts.
    pub(super) fn add(&mut self, alerts: &[Alert], is_past: bool) {
        for alert in alerts {
            match alert {
                Alert::Progress { state, value } => self.progress = Some((*state, *value)),
                _ if is_past => {}
                Alert::Clipboard(text) => self.set_clipboard(text),
                Alert::Notify(notification) if self.notifications.len() < MAX_NOTIFICATIONS => {
                    self.notifications.push(notification.clone());
                }
                _ => {}
            }
        }
    }

    /// Replaces the text of a selection.
    fn set_clipboard(&mut self, text: &Clipboard) {
        self.clipboard.retain(|earlier| text.to != Selections::Both && earlier.to != text.to);
        self.too_long = (text.base64.len() > MAX_CLIPBOARD).then_some(text.base64.len() / 4 * 3);
        if self.too_long.is_none() {
            self.clipboard.push_back(text.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(to: Selections, base64: &str) -> Alert {
        Alert::Clipboard(Clipboard { to, base64: base64.to_string() })
    }

    fn texts(passthrough: &OscPassthrough) -> Vec<&str> {
        passthrough.clipboard.iter().map(|text| text.base64.as_str()).collect()
    }

    #[test]
    fn last_text_of_a_selection_wins() {
        let mut passthrough = OscPassthrough::default();
        passthrough.add(&[copied(Selections::Clipboard, "a"), copied(Selections::Primary, "b")], false);
        passthrough.add(&[copied(Selections::Clipboard, "c")], false);
        assert_eq!(texts(&passthrough), ["b", "c"]);
        passthrough.add(&[copied(Selections::Both, "d"), copied(Selections::Primary, "e")], false);
        assert_eq!(texts(&passthrough), ["d", "e"]);
        for _ in 0..1000 {
            passthrough.add(&[copied(Selections::Both, "d"), copied(Selections::Primary, "e")], false);
        }
        assert_eq!(passthrough.clipboard.len(), 2);
    }

    #[test]
    fn oversized_clipboard_text_is_dropped() {
        let mut passthrough = OscPassthrough::default();
        passthrough.add(
            &[
                copied(Selections::Clipboard, "a"),
                copied(Selections::Clipboard, &"x".repeat(MAX_CLIPBOARD + 4)),
            ],
            false,
        );
        assert_eq!((texts(&passthrough).len(), passthrough.too_long), (0, Some(75_003)));
        passthrough.add(&[copied(Selections::Clipboard, &"x".repeat(MAX_CLIPBOARD))], false);
        assert_eq!((texts(&passthrough).len(), passthrough.too_long), (1, None));
    }

    #[test]
    fn only_progress_counts_from_older_output() {
        let notification = Alert::Notify(Notification::Text("done".to_string()));
        let all =
            [copied(Selections::Both, "a"), notification.clone(), Alert::Progress { state: 1, value: 7 }];
        let mut passthrough = OscPassthrough::default();
        passthrough.add(&all, true);
        assert_eq!(passthrough, OscPassthrough { progress: Some((1, 7)), ..OscPassthrough::default() });
        passthrough.add(&vec![notification; 1000], false);
        assert_eq!(passthrough.notifications.len(), MAX_NOTIFICATIONS);
    }
}
