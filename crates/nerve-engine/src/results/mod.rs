//! Background executions: each gets an id at once, and its result is stored.

pub(crate) mod record;
mod registry;
mod store;

pub(crate) use registry::{ActiveResult, Results};
