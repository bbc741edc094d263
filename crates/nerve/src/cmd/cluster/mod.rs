//! `nerve cluster`, and the part of a server that makes its machine a member. The feature `cluster` selects the implementation.

#[cfg(feature = "cluster")]
mod commands;
#[cfg(not(feature = "cluster"))]
mod missing_feature;
#[cfg(feature = "cluster")]
mod server_membership;
#[cfg(feature = "cluster")]
mod status;

#[cfg(feature = "cluster")]
pub(crate) use self::{
    commands::{diagnose, run},
    server_membership::ServerMembership,
};
#[cfg(not(feature = "cluster"))]
pub(crate) use missing_feature::{ServerMembership, diagnose, run};
