//! The barrier: the last input whose effect must be seen before the agent counts as ready.

use nerve_types::TsNs;

/// Position of the last input. Only evidence beyond it counts as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Barrier {
    /// No input yet: the program's start.
    Start { at: TsNs },
    /// An input at this time, number of output bytes and absolute cursor line.
    Input { at: TsNs, offset: u64, line: u64 },
}

impl Barrier {
    /// Returns the time of the input, or of the start.
    pub(super) fn at(self) -> TsNs {
        match self {
            Barrier::Start { at } | Barrier::Input { at, .. } => at,
        }
    }

    /// Returns the output bytes before the input.
    pub(super) fn offset(self) -> u64 {
        match self {
            Barrier::Start { .. } => 0,
            Barrier::Input { offset, .. } => offset,
        }
    }

    /// Returns true after an input.
    pub(super) fn is_input(self) -> bool {
        matches!(self, Barrier::Input { .. })
    }

    /// Returns true if the position is beyond the input.
    pub(super) fn is_passed(self, offset: u64, line: u64) -> bool {
        match self {
            Barrier::Start { .. } => true,
            Barrier::Input { offset: input_offset, line: input_line, .. } => {
                offset > input_offset && line > input_line
            }
        }
    }
}
