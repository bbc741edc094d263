//! Handles keys and pastes: first by what is pending, then by context.

mod dispatch;
mod prefix;
mod scroll;
