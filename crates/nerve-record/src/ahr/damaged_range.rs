//! A damaged stretch of a recording.

use std::fmt;
use std::ops::Range;

/// A stretch of the file without readable records, and its effect on the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRange {
    /// Range of file offsets.
    pub file: Range<u64>,
    /// Range of missing output offsets, computed from the intact neighbours; empty if the stretch held no output.
    /// `None` if a neighbour is missing: at the end of the file, and after a seek into its middle.
    pub output: Option<Range<u64>>,
    /// The last known output offset before the stretch.
    pub after: Option<u64>,
    /// The stretch ends the file and begins like an incomplete block: a recorder is writing it, or was killed while
    /// writing. A later read continues here.
    pub tail: bool,
    /// The kind of damage.
    pub reason: String,
}

impl DamagedRange {
    /// Returns true if output is or may be missing.
    pub fn is_output_missing(&self) -> bool {
        self.output.as_ref().is_none_or(|output| !output.is_empty())
    }
}

impl fmt::Display for DamagedRange {
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
