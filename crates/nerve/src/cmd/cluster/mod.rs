//! `nerve cluster`, and the part of a server that makes its machine a member. The feature `cluster` selects the implementation.

#[cfg(not(feature = "cluster"))]
mod missing_feature;

#[cfg(not(feature = "cluster"))]
pub(crate) use missing_feature::{ServerMembership, diagnose, drain, run, run_graph, undrain};
#[cfg(feature = "cluster")]
pub(crate) use nerve_cluster_cli::{ServerMembership, diagnose, drain, run, run_graph, undrain};
