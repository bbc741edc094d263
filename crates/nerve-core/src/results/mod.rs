//! Background executions: each gets an id at once, and its result is stored.

mod record;
mod registry;
mod store;

pub use record::{RecordedError, ResultRecord, ResultStatus, WebhookRecord};
pub(crate) use registry::{ActiveResult, Results};
