//! `nerve cluster`, and the part of a server that makes its machine a member. The feature `cluster` selects the implementation.

#[cfg(feature = "cluster")]
mod server_membership;
#[cfg(feature = "cluster")]
mod status;
#[cfg(feature = "cluster")]
mod supported;
#[cfg(not(feature = "cluster"))]
mod unsupported;

#[cfg(feature = "cluster")]
pub(crate) use self::{
    server_membership::ServerMembership,
    supported::{diagnose, run},
};
#[cfg(not(feature = "cluster"))]
pub(crate) use unsupported::{ServerMembership, diagnose, run};
