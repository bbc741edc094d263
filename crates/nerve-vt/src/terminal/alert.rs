//! The results of a feed: replies to the child process and alerts.

use super::line::LineIndex;

/// Maximum alerts of one feed; later ones are dropped.
const MAX_ALERTS: usize = 4096;

/// The results of one feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedResult {
    /// Replies to the child process's queries, at most 64 KiB a feed.
    pub replies: Vec<u8>,
    /// Alerts in order, at most 4096 a feed; consecutive bells, and consecutive redraws, count as one.
    pub alerts: Vec<Alert>,
}

impl FeedResult {
    pub(super) fn push_alerts(&mut self, alert: Option<Alert>) {
        alert.into_iter().for_each(|alert| self.push_alert(alert));
    }

    pub(super) fn push_alert(&mut self, alert: Alert) {
        if let (Alert::Redraw { line }, Some(Alert::Redraw { line: first })) =
            (&alert, self.alerts.last_mut())
        {
            *first = (*first).min(*line);
            return;
        }
        let is_repeated_bell = alert == Alert::Bell && self.alerts.last() == Some(&Alert::Bell);
        if !is_repeated_bell && self.alerts.len() < MAX_ALERTS {
            self.alerts.push(alert);
        }
    }
}

/// An effect of output that the screen does not show, for the terminal's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alert {
    /// The window title was set (OSC 0 and 2, or popped from the title stack).
    Title(String),
    /// The bell rang.
    Bell,
    /// A shell integration mark (OSC 133).
    Mark(Mark),
    /// Progress (OSC 9;4).
    Progress {
        /// 0 none, 1 normal, 2 error, 3 indeterminate, 4 paused.
        state: u8,
        /// Percent, 0–100.
        value: u8,
    },
    /// Working directory (OSC 7, OSC 9;9, OSC 1337 CurrentDir), percent-decoded.
    Cwd(String),
    /// A desktop notification (OSC 9, 777 and 99).
    Notify(Notification),
    /// A text was sent to the clipboard (OSC 52).
    Clipboard(Clipboard),
    /// The alternate screen was entered or left.
    Alternate(bool),
    /// The program closed a synchronized update.
    FrameDone,
    /// The program moved the cursor to the first cell of the main screen and erased all below (CUP, ED 0), as `clear` does on many
    /// terminals. The rows are blank and keep their numbers.
    ScreenErased {
        /// First line of the screen.
        line: LineIndex,
        /// Line after the last one that showed text.
        end: LineIndex,
    },
    /// The program moved the cursor up on the main screen and wrote text there.
    Redraw {
        /// Topmost line of the text.
        line: LineIndex,
    },
    /// The program erased the scrollback (ED 3 or RIS): stored rows are removed.
    ScrollbackErased,
    /// The model failed and was rebuilt: the screen is blank, stored rows are kept.
    Rebuilt {
        /// The panic message.
        reason: String,
    },
}

/// A desktop notification in the protocol that the program used. Contains no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A text (OSC 9, iTerm2).
    Text(String),
    /// A title and an optional text (OSC 777, rxvt).
    Titled {
        /// The title, without semicolons.
        title: String,
        /// The text, possibly empty.
        body: String,
    },
    /// A part of a notification (OSC 99, kitty), which is shown once its last part has arrived.
    Piece {
        /// `key=value` pairs joined by colons; keys that request a reply are removed.
        metadata: String,
        /// The payload of the type `p` in the metadata: text, or Base64 if `e` is 1.
        payload: String,
    },
}

/// A text for the clipboard (OSC 52). Requests to read the clipboard are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clipboard {
    /// The target selections.
    pub to: Selections,
    /// Base64 (RFC 4648 §4), at most 1 MiB; empty to clear it.
    pub base64: String,
}

/// Target selections of a clipboard text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selections {
    /// The clipboard.
    Clipboard,
    /// The primary selection, pasted by the middle button.
    Primary,
    /// Both.
    Both,
}

/// A shell integration mark and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Kind of mark.
    pub kind: MarkKind,
    /// Line of the cursor.
    pub line: LineIndex,
    /// Column behind the last written character, 0-based; the number of columns if the row is full.
    pub col: u16,
    /// The row shows text from that column on.
    pub has_text_after: bool,
    /// Output bytes up to and including the mark.
    pub offset: u64,
}

/// Kinds of marks (FinalTerm's OSC 133).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// `A`: a prompt starts.
    PromptStart,
    /// `B`: the prompt ends, what the user types starts.
    CommandStart,
    /// `P;k=s` and `P;k=c`: a secondary prompt; the command is incomplete.
    Continuation,
    /// `C`: the command's output starts.
    OutputStart,
    /// `D`: the command ended, with its exit code if reported.
    CommandEnd(Option<i32>),
}
