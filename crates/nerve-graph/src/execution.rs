//! The execution of what a step refers to.

use nerve_node::NodeFuture;
use serde_json::Value;

use super::context::RunContext;
use super::executable::Executable;

impl Executable {
    /// Executes once: a turn of a node, a run of a graph, a question of a gate, or a call of a function.
    ///
    /// # Errors
    /// Returns why the execution failed. The error of a graph contains the results of its completed steps.
    pub fn execute<'a>(&'a self, context: &'a RunContext) -> NodeFuture<'a> {
        match self {
            Executable::Node(node) => node.execute(&context.turn),
            Executable::Graph(graph) => {
                Box::pin(async { Ok(Value::Object(graph.run(context).await.into_result()?)) })
            }
            Executable::Gate(gate) => Box::pin(gate.ask(context)),
            Executable::Function(function) => function.call(context.clone()),
        }
    }
}
