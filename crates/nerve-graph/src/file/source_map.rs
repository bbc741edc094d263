//! Maps paths in a graph to positions in its source text, and collects the problems found there.

use std::fmt;
use std::sync::Arc;

use super::problem::{Position, Problem, Problems};
use super::tree::{Kind, Span, Tree};
use crate::compat::spellings;

/// The source text of a graph. All source maps compare equal, so that graphs are compared by content.
#[derive(Clone, Default)]
pub(super) struct SourceMap {
    source: Option<Arc<Source>>,
    /// Path of this graph in the source; not the root if it is nested.
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

/// A part of a text in a graph file, to which a problem refers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextPart<'a> {
    /// The whole text: a template or an expression.
    pub(super) text: &'a str,
    /// Offset of the part in bytes.
    pub(super) offset: usize,
    /// The part.
    pub(super) snippet: &'a str,
}

/// A path in a graph.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    /// The whole graph.
    Root,
    /// Value of a field.
    Key(&'a Path<'a>, &'a str),
    /// Name of a field.
    Name(&'a Path<'a>, &'a str),
    /// Item of a list.
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

impl SourceMap {
    pub(super) fn new(file: impl Into<String>, text: impl Into<String>, tree: Tree) -> SourceMap {
        let source = Source { file: file.into(), text: text.into(), tree };
        SourceMap { source: Some(Arc::new(source)), prefix: Vec::new() }
    }

    /// Returns the source map of a nested graph in the same text.
    pub(super) fn nested(&self, at: Path<'_>) -> SourceMap {
        SourceMap { source: self.source.clone(), prefix: self.segments(at) }
    }

    /// Returns true if the source text is known.
    pub(super) fn is_known(&self) -> bool {
        self.source.is_some()
    }

    /// Returns the file name for messages.
    pub(super) fn file(&self) -> &str {
        self.source.as_deref().map_or("graph", |source| &source.file)
    }

    /// Returns the parsed text.
    pub(super) fn tree(&self) -> Option<&Tree> {
        Some(&self.source.as_deref()?.tree)
    }

    /// Creates a problem with its position in the text.
    pub(super) fn problem(&self, at: Path<'_>, message: String, hint: Option<String>) -> Problem {
        let segments = self.segments(at);
        let position = self.span(&segments).and_then(Span::position);
        Problem { file: self.file().to_string(), position, path: spell(&segments), message, hint }
    }

    /// Creates a problem with the position of a part of a text. Falls back to the start of the text if the file spells it
    /// differently.
    pub(super) fn problem_within(
        &self,
        at: Path<'_>,
        TextPart { text, offset, snippet }: TextPart<'_>,
        message: String,
        hint: Option<String>,
    ) -> Problem {
        let mut problem = self.problem(at, message, hint);
        let within = || {
            let source = self.source.as_deref()?;
            let (start, written) = self.span(&self.segments(at))?.slice(&source.text)?;
            let nth = text.get(..offset)?.matches(snippet).count();
            let found = written.match_indices(snippet).nth(nth)?.0;
            Some(locate_byte(&source.text, start + found))
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

    /// Returns the span of the deepest existing segment.
    fn span(&self, segments: &[Segment]) -> Option<Span> {
        let mut tree = self.tree()?;
        for segment in segments {
            let next = match (segment, &tree.kind) {
                (Segment::Index(index), Kind::List(items)) => items.get(*index),
                // A list with one item may be written as that item.
                (Segment::Index(0), Kind::Text(_)) => Some(tree),
                (Segment::Key(key), _) => {
                    spellings(key).iter().find_map(|key| tree.get(key)).or_else(|| tree.get(key))
                }
                (Segment::Name(name), Kind::Map(entries)) => {
                    return entries.iter().find(|(key, _)| key.name == *name).map(|(key, _)| key.span);
                }
                _ => None,
            };
            match next {
                Some(next) => tree = next,
                None => break,
            }
        }
        Some(tree.span)
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

fn locate_byte(text: &str, byte: usize) -> Position {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Position {
        line: number(before.matches('\n').count() + 1),
        column: number(before[line_start..].chars().count() + 1),
    }
}

impl PartialEq for SourceMap {
    fn eq(&self, _: &SourceMap) -> bool {
        true
    }
}

impl fmt::Debug for SourceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceMap").field("file", &self.file()).field("at", &spell(&self.prefix)).finish()
    }
}

/// Collects the problems of one graph.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) source_map: &'a SourceMap,
    pub(super) problems: Problems,
    /// True if steps have problems of structure, so that their dependencies may be incomplete.
    pub(super) has_broken_steps: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(source_map: &'a SourceMap) -> Report<'a> {
        Report { source_map, problems: Problems::default(), has_broken_steps: false }
    }

    pub(super) fn error(&mut self, at: Path<'_>, message: impl Into<String>) {
        self.problems.push(self.source_map.problem(at, message.into(), None));
    }

    pub(super) fn error_with_hint(
        &mut self,
        at: Path<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problems.push(self.source_map.problem(at, message.into(), Some(hint.into())));
    }

    /// Reports a problem with a part of a text; see [`SourceMap::problem_within`].
    pub(super) fn error_within(
        &mut self,
        at: Path<'_>,
        part: TextPart<'_>,
        message: String,
        hint: Option<String>,
    ) {
        self.problems.push(self.source_map.problem_within(at, part, message, hint));
    }
}
