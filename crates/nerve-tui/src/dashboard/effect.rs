//! The effects that the dashboard requests from its caller.

use super::row::NodeKey;

/// An action that the caller performs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Stop this process, as Ctrl+Z does.
    Suspend,
    /// Attach the terminal to a node.
    Attach(NodeKey),
    /// Show the recording of a node.
    OpenRecording(NodeKey),
    /// Read the evidence for a node's state and pass it to [`Dashboard::show_text`](super::Dashboard::show_text).
    Explain(NodeKey),
    /// Read the choices of a node's dialog and pass them to [`Dashboard::show_choices`](super::Dashboard::show_choices).
    ReadChoices(NodeKey),
    /// Answer a node's dialog with the choice of this number, from 1.
    Answer(NodeKey, usize),
    /// Send a prompt to a node.
    Send(NodeKey, String),
    /// Create a node with this command on the server of the selected node.
    Create(String),
    /// Start a stopped node again.
    Start(NodeKey),
    /// Stop a node.
    Stop(NodeKey),
    /// Remove a stopped node.
    Remove(NodeKey),
}
