//! What a feed reports: replies to write and notices of what happened.

use super::LineIndex;

/// Notices one feed may cause; later ones are dropped.
const LIMIT: usize = 4096;

/// The effects of one feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Bytes to write to the child: answers to its queries, at most 64 KiB a feed.
    pub replies: Vec<u8>,
    /// What happened, in order, at most 4096 a feed; bells in a row are one.
    pub notices: Vec<Notice>,
}

impl Changes {
    pub(super) fn notices_of(&mut self, notice: Option<Notice>) {
        notice.into_iter().for_each(|notice| self.notice(notice));
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        let again = notice == Notice::Bell && self.notices.last() == Some(&Notice::Bell);
        if !again && self.notices.len() < LIMIT {
            self.notices.push(notice);
        }
    }
}

/// Something worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The window title was set (OSC 0 and 2, or popped from the title stack).
    Title(String),
    /// BEL.
    Bell,
    /// Shell integration (OSC 133).
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
    /// A text for the clipboard (OSC 52).
    Clipboard(Clipboard),
    /// The alternate screen was entered or left.
    Alternate(bool),
    /// A synchronized update was finished by the program.
    FrameDone,
    /// The program erased the scrollback (ED 3 or RIS): stored rows are gone.
    ScrollbackErased,
    /// The model failed and was made anew: the screen is blank, stored rows are kept.
    Rebuilt {
        /// What failed.
        reason: String,
    },
}

/// A desktop notification in the form that the program has used. Without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A text (OSC 9, iTerm2's).
    Text(String),
    /// A title and a text, which may be empty (OSC 777, rxvt's).
    Titled {
        /// Without semicolons.
        title: String,
        /// What else there is to say.
        body: String,
    },
    /// A piece of one (OSC 99, kitty's): it is shown when its last piece has come.
    Piece {
        /// `key=value`, joined by colons: only keys that nothing is answered to.
        metadata: String,
        /// What `p` in the metadata says; text, or Base64 where `e` is 1.
        payload: String,
    },
}

/// A text for the clipboard (OSC 52). What asks for the clipboard's text is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clipboard {
    /// Where it is to go.
    pub to: Selections,
    /// Base64 (RFC 4648 §4), at most 1 MiB; empty to clear it.
    pub base64: String,
}

/// Which of a terminal's selections; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selections {
    /// The clipboard.
    Clipboard,
    /// The primary selection, which the middle button pastes.
    Primary,
    /// Both.
    Both,
}

/// A shell integration mark and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Which.
    pub kind: MarkKind,
    /// Line of the cursor.
    pub line: LineIndex,
    /// Column behind the last character written, 0-based; the number of columns when the row is full.
    pub col: u16,
    /// Output bytes up to and with the mark.
    pub offset: u64,
}

/// Kinds of marks (FinalTerm's OSC 133).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// `A`: a prompt starts.
    PromptStart,
    /// `B`: the prompt ends, what the user types starts.
    CommandStart,
    /// `P;k=s` and `P;k=c`: a secondary prompt, the command is not complete.
    Continuation,
    /// `C`: the command's output starts.
    OutputStart,
    /// `D`: the command ended, with its exit code if told.
    CommandEnd(Option<i32>),
}
