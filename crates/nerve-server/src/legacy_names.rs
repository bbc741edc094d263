//! Names and forms of the first nerve that this server still accepts and sends. The names themselves are in
//! [`nerve_api::legacy_names`].

use std::any::Any;

use nerve_api::reply::NodeHistory;
use nerve_api::{AnyReply, Event, EventMessage, Message};

use crate::line::line_of;

pub(crate) use nerve_api::legacy_names::modernise;

/// Older path of the audit log of a node.
pub(crate) const HISTORY_PATH: &str = "/channels/{node_id}/history";

/// Encodes an event under its older name as a line; `None` if it has no older name.
pub(crate) fn old_event_line(event: &Event) -> Option<Vec<u8>> {
    event.kind.event_type().old_name()?;
    let message = EventMessage::of(event).ok()?;
    Some(line_of(&Message::Event(message.under_old_name()?)))
}

/// Returns true for a path whose replies call the node a channel.
pub(crate) fn is_channel_path(path: &str) -> bool {
    path.starts_with("/channels/")
}

/// Calls the node a channel in the note of a history.
pub(crate) fn call_channel(reply: &mut dyn AnyReply) {
    if let Some(history) = (reply as &mut dyn Any).downcast_mut::<NodeHistory>() {
        history.note = history.note.take().map(|note| note.replace("this node", "this channel"));
    }
}
