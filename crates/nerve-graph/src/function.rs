//! Functions as the work of steps. They keep no state, so they can run many times at once.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use nerve_node::context::TurnContext;
use nerve_node::error::EngineError;
use nerve_node::{Node, NodeFuture};
use serde_json::Value;

use crate::context::RunContext;

type SyncFn = dyn Fn(&TurnContext) -> Result<Value, EngineError> + Send + Sync;
type AsyncFn = dyn Fn(TurnContext) -> NodeFuture<'static> + Send + Sync;
type StepFn = dyn Fn(RunContext) -> NodeFuture<'static> + Send + Sync;

/// A node that calls a function.
pub struct FunctionNode {
    id: String,
    function: Function,
}

enum Function {
    Sync(Box<SyncFn>),
    Async(Box<AsyncFn>),
}

impl FunctionNode {
    /// Creates a node from a function that returns at once. The function must not block, because nothing else of its graph runs
    /// meanwhile; see [`FunctionNode::blocking`].
    ///
    /// ```
    /// use nerve_graph::function::FunctionNode;
    /// use serde_json::json;
    /// let upper = FunctionNode::new("upper", |context| {
    ///     Ok(json!(context.input.as_str().unwrap_or_default().to_uppercase()))
    /// });
    /// ```
    pub fn new(
        id: impl Into<String>,
        function: impl Fn(&TurnContext) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> FunctionNode {
        FunctionNode { id: id.into(), function: Function::Sync(Box::new(function)) }
    }

    /// Creates a node from an asynchronous function. The future is dropped when its step is cancelled or times out.
    pub fn asynchronous<F>(
        id: impl Into<String>,
        function: impl Fn(TurnContext) -> F + Send + Sync + 'static,
    ) -> FunctionNode
    where
        F: Future<Output = Result<Value, EngineError>> + Send + 'static,
    {
        let function = move |context| -> NodeFuture<'static> { Box::pin(function(context)) };
        FunctionNode { id: id.into(), function: Function::Async(Box::new(function)) }
    }

    /// Creates a node from a function that blocks its thread. Each call runs on a thread of its own and cannot be stopped, only
    /// abandoned.
    pub fn blocking(
        id: impl Into<String>,
        function: impl Fn(&TurnContext) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> FunctionNode {
        let function = Arc::new(function);
        FunctionNode::asynchronous(id, move |context| {
            let function = Arc::clone(&function);
            async move {
                tokio::task::spawn_blocking(move || function(&context)).await.unwrap_or_else(|error| {
                    Err(EngineError::internal(format!("the function did not finish: {error}")))
                })
            }
        })
    }
}

impl Node for FunctionNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> &'static str {
        "function"
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        match &self.function {
            Function::Sync(function) => Box::pin(async move { function(context) }),
            Function::Async(function) => function(context.clone()),
        }
    }
}

impl fmt::Debug for FunctionNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionNode").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A function over the context of its step, so that the graphs it runs belong to the same run.
pub struct StepFunction {
    id: String,
    function: Box<StepFn>,
}

impl StepFunction {
    /// Creates a step function from an asynchronous function. The future is dropped when its step is cancelled or times out.
    pub fn new<F>(
        id: impl Into<String>,
        function: impl Fn(RunContext) -> F + Send + Sync + 'static,
    ) -> StepFunction
    where
        F: Future<Output = Result<Value, EngineError>> + Send + 'static,
    {
        let function = move |context| -> NodeFuture<'static> { Box::pin(function(context)) };
        StepFunction { id: id.into(), function: Box::new(function) }
    }

    /// Returns the function's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn call(&self, context: RunContext) -> NodeFuture<'static> {
        (self.function)(context)
    }
}

impl fmt::Debug for StepFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepFunction").field("id", &self.id).finish_non_exhaustive()
    }
}
