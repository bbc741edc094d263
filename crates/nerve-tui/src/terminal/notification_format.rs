//! The sequences by which terminals show notifications.

use nerve_vt::terminal::Notification;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Maximum number of bytes of a text: kitty refuses longer payloads of OSC 99 in one sequence.
const MAX_TEXT: usize = 2048;
/// Title where a notification has one.
const TITLE: &str = "nerve";

/// A sequence that shows a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum NotificationFormat {
    /// `OSC 9 ; TEXT`: iTerm2, Ghostty, Windows Terminal and others.
    #[default]
    Osc9,
    /// `OSC 99 ; METADATA ; TEXT`: kitty.
    Osc99,
    /// `OSC 777 ; notify ; TITLE ; TEXT`: urxvt, foot, WezTerm.
    Osc777,
}

impl NotificationFormat {
    /// Returns the format that the terminal understands, according to its environment variables. Within tmux they may be those
    /// of the terminal that started the tmux server.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> NotificationFormat {
        let is = |name: &str, start: &str| variable(name).is_some_and(|value| value.starts_with(start));
        if variable("KITTY_WINDOW_ID").is_some() || is("TERM", "xterm-kitty") {
            NotificationFormat::Osc99
        } else if is("TERM", "rxvt")
            || is("TERM", "foot")
            || is("TERM_PROGRAM", "WezTerm")
            || is("TERM", "wezterm")
        {
            NotificationFormat::Osc777
        } else {
            NotificationFormat::Osc9
        }
    }

    /// Returns a notification in this format. The encoder removes control characters.
    pub(super) fn notification(self, text: &str) -> Notification {
        let text = &text[..text.floor_char_boundary(MAX_TEXT)];
        match self {
            // A number before the first semicolon is a command of ConEmu, such as its progress.
            NotificationFormat::Osc9 if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Notification::Text(format!("{TITLE}: {text}"))
            }
            NotificationFormat::Osc9 => Notification::Text(text.to_string()),
            NotificationFormat::Osc99 => {
                Notification::Piece { metadata: String::new(), payload: text.to_string() }
            }
            // WezTerm ends the text at a semicolon, which cannot be escaped.
            NotificationFormat::Osc777 => {
                Notification::Titled { title: TITLE.to_string(), body: text.replace(';', ",") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::osc;
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> NotificationFormat {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        NotificationFormat::detect(|name| find(name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn format_follows_the_terminal() {
        assert_eq!(
            detect(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")]),
            NotificationFormat::Osc9
        );
        assert_eq!(detect(&[("TERM", "xterm-kitty")]), NotificationFormat::Osc99);
        assert_eq!(detect(&[("TERM", "tmux-256color"), ("KITTY_WINDOW_ID", "1")]), NotificationFormat::Osc99);
        for term in ["rxvt-unicode-256color", "foot", "foot-extra"] {
            assert_eq!(detect(&[("TERM", term)]), NotificationFormat::Osc777);
        }
        assert_eq!(detect(&[("TERM_PROGRAM", "WezTerm")]), NotificationFormat::Osc777);
    }

    #[test]
    fn texts_cannot_end_or_change_the_sequence() {
        let bytes = |format: NotificationFormat, text: &str| {
            String::from_utf8(osc::notification(&format.notification(text), false)).unwrap()
        };
        let text = "4;1;50\x1b\\a\u{9c}b";
        assert_eq!(bytes(NotificationFormat::Osc9, text), "\x1b]9;nerve: 4;1;50\\ab\x1b\\");
        assert_eq!(bytes(NotificationFormat::Osc99, text), "\x1b]99;;4;1;50\\ab\x1b\\");
        assert_eq!(bytes(NotificationFormat::Osc777, text), "\x1b]777;notify;nerve;4,1,50\\ab\x1b\\");
        let long = "ä".repeat(MAX_TEXT);
        assert!(bytes(NotificationFormat::Osc99, &long).len() <= MAX_TEXT + 8);
    }
}
