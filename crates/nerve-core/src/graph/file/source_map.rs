//! Where a graph was read: finds the place in the text for a place in the graph.

use std::fmt;
use std::sync::Arc;

use super::problem::{Position, Problem, Problems};
use super::tree::{Kind, Place, Tree};

/// The text a graph was read from. All origins are equal: two files that say the same are the same graph.
#[derive(Clone, Default)]
pub(super) struct Origin {
    source: Option<Arc<Source>>,
    /// Where in it this graph begins: not at its root if it is a node of another one.
    prefix: Vec<Segment>,
}

struct Source {
    file: String,
    text: String,
    tree: Tree,
}

#[derive(Debug, Clone)]
enum Segment {
    Key(String),
    Name(String),
    Index(usize),
}

/// A place in a graph.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    /// The whole.
    Root,
    /// The value of a field.
    Key(&'a Path<'a>, &'a str),
    /// The name of a field, rather than its value.
    Name(&'a Path<'a>, &'a str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(super) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    pub(super) fn name(&'a self, key: &'a str) -> Path<'a> {
        Path::Name(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    fn collect(&self, into: &mut Vec<Segment>) {
        let (before, segment) = match self {
            Path::Root => return,
            Path::Key(before, key) => (before, Segment::Key((*key).to_string())),
            Path::Name(before, key) => (before, Segment::Name((*key).to_string())),
            Path::Index(before, index) => (before, Segment::Index(*index)),
        };
        before.collect(into);
        into.push(segment);
    }
}

impl Origin {
    pub(super) fn new(file: impl Into<String>, text: impl Into<String>, tree: Tree) -> Origin {
        let source = Source { file: file.into(), text: text.into(), tree };
        Origin { source: Some(Arc::new(source)), prefix: Vec::new() }
    }

    /// The same text, for a graph inside this one.
    pub(super) fn inside(&self, at: Path<'_>) -> Origin {
        Origin { source: self.source.clone(), prefix: self.segments(at) }
    }

    /// Was it read from anywhere?
    pub(super) fn is_known(&self) -> bool {
        self.source.is_some()
    }

    /// The file's name, for messages.
    pub(super) fn file(&self) -> &str {
        self.source.as_deref().map_or("graph", |source| &source.file)
    }

    /// The values of the text.
    pub(super) fn tree(&self) -> Option<&Tree> {
        Some(&self.source.as_deref()?.tree)
    }

    /// Puts a message to its place in the text.
    pub(super) fn problem(&self, at: Path<'_>, message: String, hint: Option<String>) -> Problem {
        let segments = self.segments(at);
        let position = self.place(&segments).and_then(Place::position);
        Problem { file: self.file().to_string(), position, path: spell(&segments), message, hint }
    }

    /// As [`Origin::problem`] for something in a text: `snippet`, the one that begins at byte `offset` of `value`. As near as it can be
    /// told: where the file writes the text in another way, at its beginning.
    pub(super) fn problem_within(
        &self,
        at: Path<'_>,
        (value, offset, snippet): (&str, usize, &str),
        message: String,
        hint: Option<String>,
    ) -> Problem {
        let mut problem = self.problem(at, message, hint);
        let within = || {
            let source = self.source.as_deref()?;
            let (start, written) = self.place(&self.segments(at))?.slice(&source.text)?;
            let nth = value.get(..offset)?.matches(snippet).count();
            let found = written.match_indices(snippet).nth(nth)?.0;
            Some(position_of(&source.text, start + found))
        };
        if let Some(position) = Some(snippet).filter(|snippet| !snippet.is_empty()).and_then(|_| within()) {
            problem.position = Some(position);
        }
        problem
    }

    fn segments(&self, at: Path<'_>) -> Vec<Segment> {
        let mut segments = self.prefix.clone();
        at.collect(&mut segments);
        segments
    }

    /// The place of the last of `segments` that is there.
    fn place(&self, segments: &[Segment]) -> Option<Place> {
        let mut tree = self.tree()?;
        for segment in segments {
            let next = match (segment, &tree.kind) {
                (Segment::Index(index), Kind::List(items)) => items.get(*index),
                // A list of one may be written as its item.
                (Segment::Index(0), Kind::Text(_)) => Some(tree),
                (Segment::Key(key), _) => {
                    spellings(key).iter().find_map(|key| tree.get(key)).or_else(|| tree.get(key))
                }
                (Segment::Name(name), Kind::Map(entries)) => {
                    return entries.iter().find(|(key, _)| key.name == *name).map(|(key, _)| key.place);
                }
                _ => None,
            };
            match next {
                Some(next) => tree = next,
                None => break,
            }
        }
        Some(tree.place)
    }
}

/// Fields that may be written in two ways, as the wire has them.
pub(super) fn spellings(field: &str) -> &'static [&'static str] {
    match field {
        "graph" => &["graph", "graph_id", "id", "dag_id"],
        "steps" => &["steps", "tasks"],
        "id" => &["id", "step_id", "task_id"],
        "node" => &["node", "node_id", "channel_id"],
        "input" => &["input", "text"],
        _ => &[],
    }
}

fn spell(segments: &[Segment]) -> String {
    let mut path = String::new();
    for segment in segments {
        match segment {
            Segment::Index(index) => path.push_str(&format!("[{index}]")),
            Segment::Key(key) | Segment::Name(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
        }
    }
    path
}

fn position_of(text: &str, byte: usize) -> Position {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Position {
        line: number(before.matches('\n').count() + 1),
        column: number(before[line_start..].chars().count() + 1),
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("file", &self.file()).field("at", &spell(&self.prefix)).finish()
    }
}

/// Collects what is wrong with one graph.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) origin: &'a Origin,
    pub(super) problems: Problems,
}

impl<'a> Report<'a> {
    pub(super) fn new(origin: &'a Origin) -> Report<'a> {
        Report { origin, problems: Problems::default() }
    }

    pub(super) fn say(&mut self, at: Path<'_>, message: impl Into<String>) {
        self.problems.push(self.origin.problem(at, message.into(), None));
    }

    pub(super) fn advise(&mut self, at: Path<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(self.origin.problem(at, message.into(), Some(hint.into())));
    }

    /// About a part of a text; see [`Origin::problem_within`].
    pub(super) fn within(
        &mut self,
        at: Path<'_>,
        part: (&str, usize, &str),
        message: String,
        hint: Option<String>,
    ) {
        self.problems.push(self.origin.problem_within(at, part, message, hint));
    }
}
