//! Dialogs that block the agent until they are answered.

use super::keys::Key;
use super::line::{Line, Style, wrap};

/// The content of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Theme,
    Login,
    /// Trust this folder?
    Trust {
        folder: String,
    },
    /// Run this shell command in this folder?
    Permission {
        command: String,
        folder: String,
    },
}

/// The result of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// An option, counted from 0.
    Option(usize),
    /// Esc.
    Cancel,
}

/// A dialog with its selection.
#[derive(Debug, Clone)]
pub(super) struct Dialog {
    pub(super) question: Question,
    selected: usize,
}

impl Dialog {
    pub(super) fn new(question: Question) -> Dialog {
        Dialog { question, selected: 0 }
    }

    /// Handles a key; returns the choice if it ends the dialog.
    pub(super) fn key(&mut self, key: &Key) -> Option<Choice> {
        let count = self.question.options().len();
        match key {
            Key::Up => self.selected = (self.selected + count - 1) % count,
            Key::Down => self.selected = (self.selected + 1) % count,
            Key::Enter => return Some(Choice::Option(self.selected)),
            Key::Escape | Key::Interrupt => return Some(Choice::Cancel),
            Key::Text(text) if self.question.is_numbered() => {
                let digit = text.chars().next().and_then(|c| c.to_digit(10))? as usize;
                return (1..=count).contains(&digit).then(|| Choice::Option(digit - 1));
            }
            _ => {}
        }
        None
    }

    /// Renders the dialog for `cols` columns.
    pub(super) fn lines(&self, cols: usize) -> Vec<Line> {
        let mut lines = vec![Line::blank(), Line::rule('─', cols)];
        lines.extend(self.question.heading(cols));
        for (at, option) in self.question.options().iter().enumerate() {
            lines.push(self.option(at, option));
        }
        lines.push(Line::blank());
        lines.push(Line::grey(self.question.footer()));
        lines
    }

    fn option(&self, at: usize, text: &str) -> Line {
        let (marker, style) =
            if at == self.selected { (" ❯ ", Style::Accent) } else { ("   ", Style::Plain) };
        let line = Line::default().put(style, marker);
        let line =
            if self.question.is_numbered() { line.put(Style::Grey, &format!("{}. ", at + 1)) } else { line };
        line.put(style, text)
    }
}

impl Question {
    fn is_numbered(&self) -> bool {
        !matches!(self, Question::Trust { .. })
    }

    fn options(&self) -> Vec<String> {
        match self {
            Question::Theme => {
                vec!["Dark mode ✔".into(), "Light mode".into(), "Dark mode (ANSI colors only)".into()]
            }
            Question::Login => vec![
                "Account with subscription · Pro, Max, Team, or Enterprise".into(),
                "Console account · API usage billing".into(),
                "3rd-party platform".into(),
            ],
            Question::Trust { .. } => vec!["No, exit".into(), "Yes, I trust this folder".into()],
            Question::Permission { folder, .. } => vec![
                "Yes".into(),
                format!("Yes, and always allow access to {folder} from this project"),
                "Yes, and switch to auto mode · auto mode handles these prompts for you".into(),
                "No".into(),
            ],
        }
    }

    fn footer(&self) -> &'static str {
        match self {
            Question::Permission { .. } => " Esc to cancel · Tab to amend",
            _ => " Enter to confirm · Esc to cancel",
        }
    }

    fn heading(&self, cols: usize) -> Vec<Line> {
        match self {
            Question::Theme => paragraphs(
                cols,
                "Let's get started.\n\nChoose the text style that looks best with your terminal\nTo change this later, run /theme\n",
            ),
            Question::Login => paragraphs(
                cols,
                "Mock Agent can be used with a subscription or billed by API usage. (Nothing leaves this machine.)\n\n\
                 Select login method:\n",
            ),
            Question::Trust { folder } => paragraphs(
                cols,
                &format!(
                    "Accessing workspace:\n\n{folder}\n\nQuick safety check: Is this a project you created or one you trust? \
                     If not, take a moment to review what's in this folder first.\n\n\
                     Mock Agent'll be able to read, edit, and execute files here.\n\nSecurity guide\n"
                ),
            ),
            Question::Permission { command, .. } => permission(command, cols),
        }
    }
}

fn paragraphs(cols: usize, text: &str) -> Vec<Line> {
    wrap(text, cols.saturating_sub(2)).iter().map(|row| Line::plain(" ").put(Style::Plain, row)).collect()
}

fn permission(command: &str, cols: usize) -> Vec<Line> {
    let tip = "Tip: auto mode handles these prompts for you — choose \"switch to auto mode\" below";
    let mut lines = vec![Line::plain(" ").put(Style::Bold, "Bash command")];
    lines.extend(paragraphs(cols, tip));
    lines.push(Line::grey(" Run the scripted command"));
    lines.push(Line::rule('╌', cols));
    lines.extend(paragraphs(cols, command));
    lines.push(Line::rule('╌', cols));
    lines.push(Line::plain(" Do you want to proceed?"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission() -> Dialog {
        Dialog::new(Question::Permission { command: "ls".into(), folder: "/x".into() })
    }

    #[test]
    fn arrows_move_and_enter_takes() {
        let mut dialog = permission();
        assert_eq!(dialog.key(&Key::Down), None);
        assert_eq!(dialog.key(&Key::Enter), Some(Choice::Option(1)));
        assert_eq!(dialog.key(&Key::Up), None);
        assert_eq!(dialog.key(&Key::Up), None);
        assert_eq!(dialog.key(&Key::Enter), Some(Choice::Option(3)));
    }

    #[test]
    fn a_digit_takes_at_once_and_a_letter_does_nothing() {
        assert_eq!(permission().key(&Key::Text("4".into())), Some(Choice::Option(3)));
        assert_eq!(permission().key(&Key::Text("5".into())), None);
        assert_eq!(permission().key(&Key::Text("y".into())), None);
    }

    #[test]
    fn the_trust_dialog_defaults_to_no_and_knows_no_digits() {
        let mut dialog = Dialog::new(Question::Trust { folder: "/x".into() });
        assert_eq!(dialog.key(&Key::Text("2".into())), None);
        assert_eq!(dialog.key(&Key::Enter), Some(Choice::Option(0)));
        assert_eq!(dialog.question.options()[0], "No, exit");
    }
}
