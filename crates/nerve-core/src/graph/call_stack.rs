//! Where in other graphs a graph runs.

use std::sync::Arc;

use super::step::Step;

/// A graph that runs, and the one it runs in.
#[derive(Debug)]
pub(crate) struct Nest {
    /// Which graph: two of one id can be different ones.
    steps: Arc<Vec<Step>>,
    id: String,
    depth: usize,
    outer: Option<Arc<Nest>>,
}

impl Nest {
    pub(crate) fn new(id: &str, steps: &Arc<Vec<Step>>, outer: Option<Arc<Nest>>) -> Nest {
        let depth = outer.as_ref().map_or(0, |outer| outer.depth + 1);
        Nest { steps: Arc::clone(steps), id: id.to_string(), depth, outer }
    }

    /// How many graphs are around it.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The graph runs in itself: the way there, from outside in.
    pub(crate) fn way_to_itself(&self) -> Option<String> {
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

impl Drop for Nest {
    /// One after the other: a thousand of them must not need a stack of a thousand.
    fn drop(&mut self) {
        let mut outer = self.outer.take();
        while let Some(mut nest) = outer.and_then(Arc::into_inner) {
            outer = nest.outer.take();
        }
    }
}
