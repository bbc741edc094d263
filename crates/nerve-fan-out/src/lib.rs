//! One task for several agents, each in its own git worktree.
//!
//! The nodes belong to a server, and the work is a run of a graph there. Worktrees, branches and the state files are on the user's
//! machine.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | names of a fan-out, its nodes and branches; no I/O |
//! | [`select`] | finds fan-outs and attempts by the names that users type; no I/O |
//! | [`graph`] | the graph of a fan-out |
//! | [`store`] | the state files |
//! | [`include`] | ignored files that each worktree needs |
//! | [`removal`] | the removal of nodes, worktrees and branches |
//! | [`git`], [`submodules`] | git, through its command line; the submodules of a worktree |
#![warn(missing_docs)]

pub mod git;
pub mod graph;
pub mod include;
pub mod plan;
pub mod removal;
pub mod select;
pub mod store;
pub mod submodules;
