//! Nodes over real programs: shells, REPLs and the mock agent, through the engine.

mod bash;
mod mock_agent;
mod shell;
mod stage;
