//! One task for several agents, each in its own git worktree.
//!
//! The nodes belong to a server, and the work is a run of a graph there. Worktrees, branches and the state files are on the user's
//! machine.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | names of a fan-out, its nodes and branches; no I/O |
//! | [`fan_out`] | a fan-out, its attempts and their outcomes; no I/O |
//! | [`select`] | finds fan-outs and attempts by the names that users type; no I/O |
//! | [`store`] | the state files |
//! | [`start`] | creates the worktrees and nodes, and starts the run |
//! | [`graph`] | the graph of the run |
//! | [`mod@include`] | ignored files that each worktree needs |
//! | [`outcomes`] | the outcomes of attempts, from the steps of the run |
//! | [`changes`], [`merge`] | counts the changes of an attempt, and merges them |
//! | [`removal`] | removes nodes, worktrees and branches |
//! | [`git`], `submodules` | git, through its command line; the submodules of a worktree |
#![warn(missing_docs)]

pub mod changes;
pub mod fan_out;
pub mod git;
pub mod graph;
pub mod include;
pub mod merge;
pub mod outcomes;
pub mod plan;
pub mod removal;
pub mod select;
pub mod start;
pub mod store;
mod submodules;
