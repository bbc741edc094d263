//! What is wrong with a graph file, where, and what to do about it.

use std::fmt;

use crate::error::{EngineError, ErrorKind};

/// Reported one by one; of more only the number is told.
const MAX_REPORTED: usize = 50;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Character in the line, from 1.
    pub column: u32,
}

/// One thing that is wrong with a graph file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as its reader called it.
    pub file: String,
    /// Where in the file; `None` where there is no text (a graph that came as a value).
    pub position: Option<Position>,
    /// Where in the graph: `steps[3].input`. Empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.position {
            Some(at) => write!(f, ":{}:{}: ", at.line, at.column)?,
            None if self.path.is_empty() => f.write_str(": ")?,
            None => write!(f, ": {}: ", self.path)?,
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A graph file that cannot be used: all that was found wrong with it, in the order of the file. Shows as a line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFileError {
    problems: Vec<Problem>,
    /// Found, but not kept.
    more: usize,
}

impl GraphFileError {
    /// What is wrong, in the order of the file; never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How many problems there are beyond [`GraphFileError::problems`].
    pub fn more(&self) -> usize {
        self.more
    }
}

impl std::error::Error for GraphFileError {}

impl fmt::Display for GraphFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

impl From<GraphFileError> for EngineError {
    fn from(error: GraphFileError) -> EngineError {
        EngineError::new(ErrorKind::InvalidRequest, error.to_string())
    }
}

/// What has been found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        // Templates and aliases can lead to the same place twice; once is enough to say it.
        if self.found.last() == Some(&problem) {
            return;
        }
        if self.found.len() < MAX_REPORTED * 4 {
            self.found.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Takes over what was found elsewhere.
    pub(super) fn append(&mut self, others: Problems) {
        self.more += others.more;
        others.found.into_iter().for_each(|problem| self.push(problem));
    }

    /// `value`, if nothing was found.
    ///
    /// # Errors
    /// What was found.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, GraphFileError> {
        if let (true, Some(value)) = (self.found.is_empty(), value) {
            return Ok(value);
        }
        // Stable: those of one place stay in the order in which they were found.
        self.found.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
        let more = self.more + self.found.len().saturating_sub(MAX_REPORTED);
        self.found.truncate(MAX_REPORTED);
        Err(GraphFileError { problems: self.found, more })
    }
}

impl From<GraphFileError> for Problems {
    fn from(error: GraphFileError) -> Problems {
        Problems { found: error.problems, more: error.more }
    }
}

impl From<Problem> for GraphFileError {
    fn from(problem: Problem) -> GraphFileError {
        GraphFileError { problems: vec![problem], more: 0 }
    }
}
