//! The stack of running graphs, from the innermost to the outermost.

use std::any::Any;
use std::ptr::addr_eq;
use std::sync::Arc;

/// A running graph and the graph it runs in.
#[derive(Debug)]
pub(crate) struct GraphStack {
    /// Identifies the graph by its address; ids are not unique.
    graph: Arc<dyn Any + Send + Sync>,
    id: String,
    depth: usize,
    outer: Option<Arc<GraphStack>>,
}

impl GraphStack {
    /// Creates the stack of a graph that runs in `outer`. `graph` is any part that belongs to this graph alone.
    pub(crate) fn new(
        id: &str,
        graph: Arc<dyn Any + Send + Sync>,
        outer: Option<Arc<GraphStack>>,
    ) -> GraphStack {
        let depth = outer.as_ref().map_or(0, |outer| outer.depth + 1);
        GraphStack { graph, id: id.to_string(), depth, outer }
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
            if addr_eq(Arc::as_ptr(&at.graph), Arc::as_ptr(&self.graph)) {
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
