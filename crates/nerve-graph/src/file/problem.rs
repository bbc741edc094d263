//! Problems of graph files: message, position and hint.

use std::fmt;

use nerve_node::error::EngineError;

/// Maximum number of reported problems; the others are only counted.
const MAX_REPORTED: usize = 50;

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A problem of a graph file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File name, as given to the loader.
    pub file: String,
    /// Position in the file; `None` for a graph without a source text.
    pub position: Option<Position>,
    /// Path in the graph, for example `steps[3].input`; empty for the whole graph.
    pub path: String,
    /// Description of the problem.
    pub message: String,
    /// Suggested fix.
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

/// An invalid graph file with its problems in file order. Displays one problem per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFileError {
    problems: Vec<Problem>,
    /// Number of problems that were not kept.
    more: usize,
    /// Nodes that the file does not define.
    undefined_nodes: Vec<Problem>,
}

impl GraphFileError {
    /// Returns the nodes that steps use and the file does not define, see
    /// [`GraphFile::undefined_nodes`](super::GraphFile::undefined_nodes).
    pub fn undefined_nodes(&self) -> &[Problem] {
        &self.undefined_nodes
    }

    /// Adds the nodes that the file does not define.
    pub(super) fn with_undefined_nodes(self, undefined_nodes: Vec<Problem>) -> GraphFileError {
        GraphFileError { undefined_nodes, ..self }
    }

    /// Returns the problems in file order; never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the number of further problems, not included in [`GraphFileError::problems`].
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
        EngineError::invalid_request(error.to_string())
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        // Templates and aliases can lead to the same problem twice.
        if self.found.last() == Some(&problem) {
            return;
        }
        if self.found.len() < MAX_REPORTED * 4 {
            self.found.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Returns true if a step has a problem.
    pub(super) fn affect_steps(&self) -> bool {
        self.found.iter().any(|problem| problem.path.contains("steps["))
    }

    /// Adds problems of a graph's meaning to these problems of its structure. Leaves out those that may follow from one of these:
    /// problems of the same path, or of a path inside or around it.
    pub(super) fn append_independent(&mut self, mut others: Problems) {
        others.found.retain(|other| !self.found.iter().any(|found| is_related(found, other)));
        self.append(others);
    }

    /// Adds the problems found elsewhere.
    pub(super) fn append(&mut self, others: Problems) {
        self.more += others.more;
        others.found.into_iter().for_each(|problem| self.push(problem));
    }

    /// Returns `value` if there are no problems.
    ///
    /// # Errors
    /// The problems.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, GraphFileError> {
        if let (true, Some(value)) = (self.found.is_empty(), value) {
            return Ok(value);
        }
        // A stable sort keeps the order of problems at the same position.
        self.found.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
        let more = self.more + self.found.len().saturating_sub(MAX_REPORTED);
        self.found.truncate(MAX_REPORTED);
        Err(GraphFileError { problems: self.found, more, undefined_nodes: Vec::new() })
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems { found: vec![problem], more: 0 }
    }
}

/// Returns true if the paths of the problems are equal, or one contains the other. Problems of whole graphs are related to none.
fn is_related(one: &Problem, other: &Problem) -> bool {
    let (outer, inner) = match one.path.len() <= other.path.len() {
        true => (&one.path, &other.path),
        false => (&other.path, &one.path),
    };
    let rest = inner.strip_prefix(outer.as_str());
    let is_within = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    one.file == other.file && !outer.is_empty() && is_within
}
