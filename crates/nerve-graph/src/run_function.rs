//! A function that runs graphs of its own inside a run.

use std::fmt;
use std::future::Future;

use nerve_node::NodeFuture;
use nerve_node::error::EngineError;
use serde_json::Value;

use super::context::RunContext;

type Function = dyn Fn(RunContext) -> NodeFuture<'static> + Send + Sync;

/// A function over the context of its step, so that the graphs it runs belong to the same run. Other functions are a
/// [`FunctionNode`](crate::function::FunctionNode).
pub struct RunFunction {
    id: String,
    function: Box<Function>,
}

impl RunFunction {
    /// Creates it from an asynchronous function. The future is dropped when its step is cancelled or times out.
    pub fn new<F>(
        id: impl Into<String>,
        function: impl Fn(RunContext) -> F + Send + Sync + 'static,
    ) -> RunFunction
    where
        F: Future<Output = Result<Value, EngineError>> + Send + 'static,
    {
        let function = move |context| -> NodeFuture<'static> { Box::pin(function(context)) };
        RunFunction { id: id.into(), function: Box::new(function) }
    }

    /// Returns its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn call(&self, context: RunContext) -> NodeFuture<'static> {
        (self.function)(context)
    }
}

impl fmt::Debug for RunFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunFunction").field("id", &self.id).finish_non_exhaustive()
    }
}
