//! The program or recording that a viewer shows, and what the user may do with it.

use crate::view::effect::Source;

/// The content of the viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A running program.
    Program(InputAccess),
    /// A running tool of an agent.
    Tool(InputAccess),
    /// A recording of either.
    Recording(RecordingState),
}

/// Receipt of typed input by a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputAccess {
    /// The program gets the input.
    Allowed,
    /// The viewer is attached read-only.
    ReadOnly,
}

/// State of a recording's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordingState {
    /// The session has ended.
    Finished,
    /// The file is still being written: branches are possible at snapshots, but not at the end.
    Growing,
}

/// Branches from the shown session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    /// None can be created, for this reason.
    Forbidden(&'static str),
    /// None was created yet.
    None,
    /// One was created from this viewer.
    Created,
}

impl Subject {
    /// Creates the subject with all permissions.
    pub(crate) fn new(source: Source) -> Subject {
        match source {
            Source::Live => Subject::Program(InputAccess::Allowed),
            Source::Recording => Subject::Recording(RecordingState::Finished),
        }
    }

    /// Marks a running program as a tool.
    pub(crate) fn as_tool(self) -> Subject {
        match self {
            Subject::Program(access) => Subject::Tool(access),
            other => other,
        }
    }

    /// Forbids input.
    pub(crate) fn read_only(self) -> Subject {
        match self {
            Subject::Program(_) => Subject::Program(InputAccess::ReadOnly),
            Subject::Tool(_) => Subject::Tool(InputAccess::ReadOnly),
            recording @ Subject::Recording(_) => recording,
        }
    }

    pub(crate) fn source(self) -> Source {
        match self {
            Subject::Program(_) | Subject::Tool(_) => Source::Live,
            Subject::Recording(_) => Source::Recording,
        }
    }

    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Subject::Program(InputAccess::ReadOnly) | Subject::Tool(InputAccess::ReadOnly))
    }

    /// Returns true if the subject has an end from which a branch can be created.
    pub(crate) fn has_end(self) -> bool {
        self == Subject::Recording(RecordingState::Finished)
    }

    /// Returns why no snapshot can be taken.
    pub(crate) fn no_snapshot_reason(self) -> Option<&'static str> {
        match self {
            Subject::Recording(RecordingState::Growing) => {
                Some("recordings take no snapshots: use 'nerve attach' for the running session")
            }
            Subject::Recording(RecordingState::Finished) => Some("no snapshot: the session has ended"),
            Subject::Tool(_) => Some("a tool takes no snapshots: its agent does"),
            Subject::Program(InputAccess::ReadOnly) => {
                Some("attached read-only: 'nerve snapshot --recording' takes one from elsewhere")
            }
            Subject::Program(InputAccess::Allowed) => None,
        }
    }
}

impl Branches {
    /// Forbids branches, unless they are already forbidden for another reason.
    pub(crate) fn forbid(self, reason: &'static str) -> Branches {
        match self {
            Branches::Forbidden(_) => self,
            Branches::None | Branches::Created => Branches::Forbidden(reason),
        }
    }

    /// Records that a branch was created.
    pub(crate) fn record_created(&mut self) {
        if *self == Branches::None {
            *self = Branches::Created;
        }
    }

    /// Returns why no branch can be created.
    pub(crate) fn forbidden_reason(self) -> Option<&'static str> {
        match self {
            Branches::Forbidden(reason) => Some(reason),
            Branches::None | Branches::Created => None,
        }
    }
}
