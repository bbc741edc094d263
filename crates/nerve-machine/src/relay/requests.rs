//! Limits of the requests to one machine, by how long they may take.

use std::time::Duration;

use nerve_api::{ErrorKind, RequestName};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::MachineError;

/// Maximum number of concurrent requests of each class to one machine. All together stay below the limit of a server for one connection.
const MAX_REQUESTS: usize = 64;
/// Maximum number of concurrent requests to one machine whose replies may have up to 16 MiB.
const MAX_LARGE: usize = 16;
/// Time for which a request waits until others have ended.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Class of a request, by the time that it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestClass {
    /// A request with an immediate reply.
    Brief,
    /// A request with an immediate reply of up to 16 MiB.
    Large,
    /// A request that runs an agent. The machine completes it even if the caller has gone.
    Turn,
    /// A request that waits for an event. The machine cancels it if the caller has gone.
    Wait,
}

impl RequestClass {
    /// Returns the class of a request with these parameters.
    pub(super) fn of(name: RequestName, params: &Value) -> RequestClass {
        match name {
            RequestName::WaitNode | RequestName::Search | RequestName::GetUsage => RequestClass::Wait,
            RequestName::GetResult if params["wait"] == true => RequestClass::Wait,
            RequestName::GetTimeline if !params["since"].is_null() => RequestClass::Wait,
            RequestName::ExecuteInput
            | RequestName::ExecuteGraph
            | RequestName::RunGraph
            | RequestName::ResumeRun
            | RequestName::CreateNode
            | RequestName::StartNode
            | RequestName::ForkNode
            | RequestName::StartSession
            | RequestName::RestoreNodes
            | RequestName::CreateBranch
            | RequestName::TakeSnapshot => RequestClass::Turn,
            RequestName::GetBuffer
            | RequestName::GetHistory
            | RequestName::GetTranscript
            | RequestName::GetTimeline
            | RequestName::GetResult
            | RequestName::GetRun
            | RequestName::ReadRecording
            | RequestName::GetRecordingFile => RequestClass::Large,
            _ => RequestClass::Brief,
        }
    }
}

/// Limits the concurrent requests to one machine. Each class has its own limit, so that slow requests do not delay brief ones.
#[derive(Debug)]
pub(super) struct RequestLimit {
    brief: Semaphore,
    large: Semaphore,
    turns: Semaphore,
    waits: Semaphore,
}

impl RequestLimit {
    pub(super) fn new() -> RequestLimit {
        let pool = || Semaphore::new(MAX_REQUESTS);
        RequestLimit { brief: pool(), large: Semaphore::new(MAX_LARGE), turns: pool(), waits: pool() }
    }

    /// Returns the permit for a request, which lasts until it is dropped.
    ///
    /// # Errors
    /// `busy` if none is released in time.
    pub(super) async fn acquire(&self, class: RequestClass) -> Result<SemaphorePermit<'_>, MachineError> {
        let pool = match class {
            RequestClass::Brief => &self.brief,
            RequestClass::Large => &self.large,
            RequestClass::Turn => &self.turns,
            RequestClass::Wait => &self.waits,
        };
        match timeout(PERMIT_TIMEOUT, pool.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => {
                let message = "too many requests of this kind to it are in progress";
                Err(MachineError::new(ErrorKind::Busy, message).hint("retry when some of them have ended"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_requests_do_not_block_brief_ones() {
        let limit = RequestLimit::new();
        let mut waits = Vec::new();
        for _ in 0..MAX_REQUESTS {
            waits.push(limit.acquire(RequestClass::Wait).await.unwrap());
        }
        assert_eq!(limit.acquire(RequestClass::Wait).await.unwrap_err().kind, ErrorKind::Busy);
        let _turn = limit.acquire(RequestClass::Turn).await.unwrap();
        let _large = limit.acquire(RequestClass::Large).await.unwrap();
        let _brief = limit.acquire(RequestClass::Brief).await.unwrap();
        waits.pop();
        let _wait = limit.acquire(RequestClass::Wait).await.unwrap();
    }

    #[test]
    fn only_requests_that_wait_are_waits() {
        let class = |name, params| RequestClass::of(name, &params);
        assert_eq!(
            class(RequestName::GetResult, json!({ "result_id": "r", "wait": true })),
            RequestClass::Wait
        );
        assert_eq!(class(RequestName::GetResult, json!({ "result_id": "r" })), RequestClass::Large);
        assert_eq!(class(RequestName::GetTimeline, json!({ "since": "1" })), RequestClass::Wait);
        assert_eq!(class(RequestName::GetTimeline, json!({})), RequestClass::Large);
        assert_eq!(class(RequestName::ExecuteInput, json!({})), RequestClass::Turn);
    }
}
