//! Branches: nodes that continue a recorded session from one of its snapshots.
//!
//! [`plan_branch`] plans without side effects; [`create_branch`] executes the plan on a [`NodeServer`]. The engine, the
//! command line and the viewer share them. The folders of branches are managed by [`BranchFolders`].

mod environment;
mod files;
mod folders;
mod options;
mod origin;
mod plan;
mod restore;
mod run;
mod server;
mod start;

pub use self::environment::{InheritedSettings, NodeOverrides, missing_note};
pub use self::files::{FileSource, TargetFolder};
pub use self::folders::{BranchFolders, PruneOptions};
pub use self::options::BranchOptions;
pub use self::origin::Origin;
pub use self::plan::{BranchPoint, NodeName, Plan, plan_branch};
pub use self::run::{BranchResult, Instruction, Wait, create_branch, preview_branch};
pub use self::server::{CreateFailure, NodeServer};
