//! Names of events. A subscriber with `aliases` also receives each event under its older name.

use std::fmt;

use crate::legacy;

/// Defines the enum and its names.
macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Type of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventType {
            $($(#[$doc])* $variant,)*
        }

        impl EventType {
            /// All events.
            pub const ALL: &'static [EventType] = &[$(EventType::$variant,)*];

            /// Returns the name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(EventType::$variant => $name,)*
                }
            }
        }
    };
}

events! {
    /// A node was created.
    NodeCreated = "NODE_CREATED",
    /// A node is ready for a prompt.
    NodeReady = "NODE_READY",
    /// A node is working.
    NodeBusy = "NODE_BUSY",
    /// A node shows a dialog and waits for its answer.
    NodeBlocked = "NODE_BLOCKED",
    /// A node waits until a usage limit is reset.
    NodeSuspended = "NODE_SUSPENDED",
    /// A node has stopped.
    NodeStopped = "NODE_STOPPED",
    /// A further part of an answer.
    OutputChunk = "OUTPUT_CHUNK",
    /// A turn has ended and was parsed.
    OutputParsed = "OUTPUT_PARSED",
    /// Activity of a node's agent, for example a tool call or a changed file.
    NodeActivity = "NODE_ACTIVITY",
    /// A run of a graph has started.
    GraphStarted = "GRAPH_STARTED",
    /// A step has started.
    StepStarted = "STEP_STARTED",
    /// A step has completed.
    StepCompleted = "STEP_COMPLETED",
    /// A step has failed.
    StepFailed = "STEP_FAILED",
    /// A gate waits for a person's answer.
    GateAsked = "GATE_ASKED",
    /// A gate was answered.
    GateAnswered = "GATE_ANSWERED",
    /// A run of a graph has ended.
    GraphCompleted = "GRAPH_COMPLETED",
    /// A snapshot was taken: a bookmark in a recording.
    SnapshotTaken = "SNAPSHOT_TAKEN",
    /// An asynchronous execution has ended.
    ResultReady = "RESULT_READY",
    /// An error that could not be reported to any caller.
    Error = "ERROR",
    /// The server is shutting down.
    ServerShutdown = "SERVER_SHUTDOWN",
    /// `data.dropped` events were lost here because the subscriber was too slow.
    EventsDropped = "EVENTS_DROPPED",
}

impl EventType {
    /// Finds an event by its current or older name.
    pub fn parse(name: &str) -> Option<EventType> {
        let old = || legacy::EVENTS.iter().find(|(alias, _)| *alias == name).map(|(_, event)| *event);
        EventType::ALL.iter().copied().find(|event| event.as_str() == name).or_else(old)
    }

    /// Returns the older name of the event, if it has one.
    pub fn old_name(self) -> Option<&'static str> {
        legacy::EVENTS.iter().find(|(_, event)| *event == self).map(|(alias, _)| *alias)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::EventType;

    #[test]
    fn every_event_is_found_by_both_names() {
        for &event in EventType::ALL {
            assert_eq!(EventType::parse(event.as_str()), Some(event));
            if let Some(old) = event.old_name() {
                assert_ne!(old, event.as_str());
                assert_eq!(EventType::parse(old), Some(event));
            }
        }
        assert_eq!(EventType::parse("NODE_EXPLODED"), None);
        assert_eq!(EventType::NodeStopped.old_name(), Some("CHANNEL_CLOSED"));
    }
}
