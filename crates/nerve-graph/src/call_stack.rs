//! The stack of running graphs, from the innermost to the outermost.

use std::sync::Arc;

use super::step::Step;

/// A running graph and the graph it runs in.
#[derive(Debug)]
pub(crate) struct GraphStack {
    /// Identifies the graph; ids are not unique.
    steps: Arc<Vec<Step>>,
    id: String,
    depth: usize,
    outer: Option<Arc<GraphStack>>,
}

impl GraphStack {
    pub(crate) fn new(id: &str, steps: &Arc<Vec<Step>>, outer: Option<Arc<GraphStack>>) -> GraphStack {
        let depth = outer.as_ref().map_or(0, |outer| outer.depth + 1);
        GraphStack { steps: Arc::clone(steps), id: id.to_string(), depth, outer }
    }

    /// Returns the number of enclosing graphs.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the chain of ids from outside in, if the graph is running inside itself.
    pub(crate) fn recursion_path(&self) -> Option<String> {
        let mut ids = vec![self.id.as_str()];
        let mut outer = self.outer.as_deref();
        while let Some(at) = outer {
            ids.push(&at.id);
            if Arc::ptr_eq(&at.steps, &self.steps) {
                ids.reverse();
                return Some(ids.join(" → "));
            }
            outer = at.outer.as_deref();
        }
        None
    }
}

impl Drop for GraphStack {
    /// Drops the enclosing graphs iteratively: recursion could overflow the stack.
    fn drop(&mut self) {
        let mut outer = self.outer.take();
        while let Some(mut stack) = outer.and_then(Arc::into_inner) {
            outer = stack.outer.take();
        }
    }
}
