//! Executions that nobody waits for: each has an id at once, and what came of it is kept.

mod live;
mod record;
mod store;

pub(crate) use live::{Live, Results};
pub use record::{RecordedError, ResultRecord, ResultStatus, WebhookRecord};
