//! Graph files: YAML or JSON, by the same types.
//!
//! A file becomes a `tree` of values that know their places, the tree becomes a [`GraphFile`] (`read`), which is checked
//! (`check`) and compiled into a graph (`compile`). Each says all that is wrong, with line and column.

mod check;
mod compiler;
mod inputs;
mod loader;
mod source_map;
mod problem;
mod proxy;
mod decoder;
mod schema;
mod secrets;
mod fields;
mod suggestion;
pub(crate) mod templates;
mod tree;
mod types;

pub use compiler::Compiled;
pub use loader::Format;
pub use problem::{GraphFileError, Position, Problem};
pub use schema::json_schema;
pub(crate) use secrets::without_secrets;
pub use types::{
    BashDefinition, BudgetDefinition, ChatDefinition, CommandDefinition, GateDefinition, GraphFile,
    InputDefinition, NestedDefinition, NodeDefinition, OnErrorName, OnFailure, OnRestart, OnResume,
    ParserName, PolicyDefinition, ProviderName, StepDefinition, TemplateDefinition, TerminalDefinition,
    UntilDefinition,
};
