//! A stretch of a recording that could not be read.

use std::fmt;
use std::ops::Range;

/// A stretch of the file that gave no records, and what that means for the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// File offsets.
    pub file: Range<u64>,
    /// Output offsets that are missing, from the intact neighbours; empty when the stretch held no output. `None` when
    /// one neighbour is missing: at the end of the file, and after a jump into its middle.
    pub output: Option<Range<u64>>,
    /// The output offset known last before the stretch, if any.
    pub after: Option<u64>,
    /// The stretch ends the file and begins like a block that is not all there: a recorder may be at work on it, or was
    /// killed at it. Reading again later goes on here.
    pub tail: bool,
    /// What is wrong with it.
    pub reason: String,
}

impl Lost {
    /// Whether output is missing, or may be.
    pub fn output_missing(&self) -> bool {
        self.output.as_ref().is_none_or(|output| !output.is_empty())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file bytes {}..{} are lost ({}): ", self.file.start, self.file.end, self.reason)?;
        match (&self.output, self.after) {
            (Some(output), _) if output.is_empty() => write!(f, "no output is missing"),
            (Some(output), _) => write!(f, "output bytes {}..{} are missing", output.start, output.end),
            (None, Some(after)) => write!(f, "output from byte {after} on may be missing"),
            (None, None) => write!(f, "output may be missing"),
        }
    }
}
