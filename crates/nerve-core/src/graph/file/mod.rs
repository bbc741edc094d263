//! Graph files: YAML or JSON, by the same types.
//!
//! A file becomes a `tree` of values that know their places, the tree becomes a [`GraphFile`] (`read`), which is checked
//! (`check`) and compiled into a graph (`compile`). Each says all that is wrong, with line and column.

mod check;
mod compile;
mod inputs;
mod load;
mod origin;
mod problem;
mod proxy;
mod read;
mod schema;
mod secrets;
mod shape;
mod suggest;
pub(crate) mod templates;
mod tree;
mod types;

pub use compile::Compiled;
pub use load::Format;
pub use problem::{GraphFileError, Position, Problem};
pub use schema::json_schema;
pub(crate) use secrets::without_secrets;
pub use types::{
    BashDefinition, BudgetDefinition, ChatDefinition, CommandDefinition, GateDefinition, GraphFile,
    InputDefinition, NestedDefinition, NodeDefinition, OnErrorName, OnFailure, OnRestart, OnResume,
    ParserName, PolicyDefinition, ProviderName, StepDefinition, TemplateDefinition, TerminalDefinition,
    UntilDefinition,
};
