//! The settings of `nerve notify`.

use nerve_api::value::Occasion;

use crate::terminal::NotificationFormat;

/// Settings of `nerve notify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    /// Occasions of notifications.
    pub on: Vec<Occasion>,
    /// Seconds that a turn must take for its end to be an occasion.
    pub min_turn: u64,
    /// Notifies through the terminal of `nerve notify`.
    pub terminal: bool,
    /// Sequence for that terminal. `None`: the one that it understands according to its environment.
    pub terminal_format: Option<NotificationFormat>,
    /// Notifies through `notify-send`.
    pub desktop: bool,
    /// Shell command that is run.
    pub command: Option<String>,
    /// URL that receives a POST request with JSON.
    pub webhook: Option<String>,
    /// URL of an ntfy topic.
    pub ntfy: Option<String>,
}

impl Default for NotifySettings {
    fn default() -> NotifySettings {
        NotifySettings {
            on: vec![Occasion::Blocked, Occasion::Done, Occasion::Failed, Occasion::Suspended],
            min_turn: 30,
            terminal: true,
            terminal_format: None,
            desktop: false,
            command: None,
            webhook: None,
            ntfy: None,
        }
    }
}
