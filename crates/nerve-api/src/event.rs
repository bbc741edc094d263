//! The names of events. A subscriber that asks for aliases also gets each event under its older name.

use std::fmt;

use crate::legacy;

/// Defines the enum and its names.
macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What an event tells of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventType {
            $($(#[$doc])* $variant,)*
        }

        impl EventType {
            /// All events.
            pub const ALL: &'static [EventType] = &[$(EventType::$variant,)*];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(EventType::$variant => $name,)*
                }
            }
        }
    };
}

events! {
    /// A node was made.
    NodeCreated = "NODE_CREATED",
    /// A node waits for a prompt.
    NodeReady = "NODE_READY",
    /// A node works.
    NodeBusy = "NODE_BUSY",
    /// A node asks something.
    NodeBlocked = "NODE_BLOCKED",
    /// A node waits for the end of a usage limit.
    NodeSuspended = "NODE_SUSPENDED",
    /// A node is gone.
    NodeStopped = "NODE_STOPPED",
    /// More of an answer.
    OutputChunk = "OUTPUT_CHUNK",
    /// A turn ended and was parsed.
    OutputParsed = "OUTPUT_PARSED",
    /// A node's agent did something: thought, used a tool, changed a file …
    NodeActivity = "NODE_ACTIVITY",
    /// A graph began to run.
    GraphStarted = "GRAPH_STARTED",
    /// A step of a graph began.
    StepStarted = "STEP_STARTED",
    /// A step of a graph is done.
    StepCompleted = "STEP_COMPLETED",
    /// A step of a graph failed.
    StepFailed = "STEP_FAILED",
    /// A gate of a graph asks a person.
    GateAsked = "GATE_ASKED",
    /// A gate of a graph was answered.
    GateAnswered = "GATE_ANSWERED",
    /// A graph's run ended.
    GraphCompleted = "GRAPH_COMPLETED",
    /// A place in a recording was marked.
    SnapshotTaken = "SNAPSHOT_TAKEN",
    /// An execution that nobody waited for has ended.
    ResultReady = "RESULT_READY",
    /// Something went wrong that no caller was told.
    Error = "ERROR",
    /// The server goes down.
    ServerShutdown = "SERVER_SHUTDOWN",
    /// The subscriber was too slow: `data.dropped` events are missing here.
    EventsDropped = "EVENTS_DROPPED",
}

impl EventType {
    /// Finds an event by its name or its older name.
    pub fn parse(name: &str) -> Option<EventType> {
        let old = || legacy::EVENTS.iter().find(|(alias, _)| *alias == name).map(|(_, event)| *event);
        EventType::ALL.iter().copied().find(|event| event.as_str() == name).or_else(old)
    }

    /// Its name in the first nerve, where that was another one.
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
