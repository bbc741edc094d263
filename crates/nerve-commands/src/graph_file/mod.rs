//! A graph file on its way to a server: its input, its definition, and the nodes that it needs.

mod definition;
pub mod input;
pub mod missing_nodes;

pub use self::definition::definition;
