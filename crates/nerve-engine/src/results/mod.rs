//! Background executions: each gets an id at once, and its result is stored.

mod record;
mod registry;
mod store;

pub(crate) use record::webhook_status;
pub use record::{RecordedError, ResultRecord, ResultStatus};
pub(crate) use registry::{ActiveResult, Results};
