//! Executions that nobody waits for: each has an id at once, and what came of it is kept.

mod record;
mod registry;
mod store;

pub use record::{RecordedError, ResultRecord, ResultStatus, WebhookRecord};
pub(crate) use registry::{Live, Results};
