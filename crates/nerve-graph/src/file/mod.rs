//! Graph files in YAML or JSON.
//!
//! A file is parsed into a `tree` of values with source positions, decoded into a [`GraphFile`] (`decoder`), checked (`check`) and
//! compiled into a graph (`compiler`). Each stage reports all problems, with line and column.

mod check;
mod compiler;
mod decoder;
mod fields;
mod inputs;
mod loader;
mod node_spec;
mod placed_steps;
mod placement;
mod problem;
mod proxy;
mod schema;
mod secrets;
mod source_map;
pub(crate) mod templates;
mod tree;
mod types;

pub use crate::policy::{OnDialog, OnError, OnFailure, OnHostLost, OnLimit, OnResume};
pub use compiler::CompiledGraph;
pub use loader::Format;
pub use placement::Placement;
pub use problem::{GraphFileError, Position, Problem};
pub use schema::json_schema;
pub use secrets::without_secrets;
pub use types::{
    AcpDefinition, BashDefinition, BudgetDefinition, ChatDefinition, GateDefinition, GraphFile,
    InputDefinition, NestedDefinition, NodeDefinition, OnRestart, PolicyDefinition, StepDefinition,
    TemplateDefinition, TerminalDefinition, UntilDefinition,
};
