//! The panel above the list of nodes: an entry, a question or a text.

use super::row::NodeKey;
use crate::view::line_edit::LineEdit;

/// An entry, a question or a text. Keys go to it while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Panel {
    /// An entry of one line.
    Entry(Entry, LineEdit),
    /// The choices of a node's dialog, and the selected one.
    Choices { key: NodeKey, choices: Vec<String>, selected: usize },
    /// A question before a node is stopped.
    ConfirmStop(NodeKey),
    /// A text and the number of rows scrolled.
    Text { title: String, text: String, scrolled: usize },
}

/// The purpose of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A prompt for a node.
    Prompt(NodeKey),
    /// The command of a new node.
    Command,
    /// The filter of the list.
    Filter,
}

impl Entry {
    pub(super) fn label(&self) -> String {
        match self {
            Entry::Prompt(key) => format!("prompt for {}: ", key.node),
            Entry::Command => "command of the new node: ".to_string(),
            Entry::Filter => "/".to_string(),
        }
    }
}
