//! The selection of events for a subscriber.

use nerve_api::{Event, EventKind, EventType};

/// Selects the events of a subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only events of this node.
    pub(crate) node: Option<String>,
    /// Only events of this session.
    pub(crate) session: Option<String>,
    /// Only events of this run.
    pub(crate) run: Option<String>,
    /// Only events of these types; all if `None`, none if empty.
    pub(crate) types: Option<Vec<EventType>>,
    /// Also send each event under its deprecated name.
    pub(crate) aliases: bool,
    /// Send no notice about dropped events.
    pub(crate) hides_drops: bool,
}

impl Filter {
    /// Selects the events of a connection that has not subscribed. Clients of the first version of the protocol never subscribe
    /// and fail on events that it did not have.
    pub(crate) fn unsubscribed() -> Filter {
        Filter { types: Some(EventType::ORIGINAL.to_vec()), hides_drops: true, ..Filter::default() }
    }

    pub(super) fn matches(&self, event: &Event) -> bool {
        let admits = |filter: &Option<String>, value: &Option<String>| filter.is_none() || filter == value;
        let run = event.kind.run().map(|run| run.run_id.clone());
        // The end of the server concerns every node, session and run.
        let is_in_scope = matches!(event.kind, EventKind::ServerShutdown { .. })
            || admits(&self.node, &event.node_id)
                && admits(&self.session, &event.session_id)
                && admits(&self.run, &run);
        is_in_scope && self.types.as_ref().is_none_or(|types| types.contains(&event.kind.event_type()))
    }
}
