//! Limits the memory of all request and response bodies together.
//!
//! Memory is reserved before a body is read: up to [`SMALL`] bytes from a pool for small bodies, more as one
//! reservation from another pool. A large body therefore never waits for more memory while it holds some, and
//! small bodies never wait for large ones.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use nerve_api::ErrorKind;
use nerve_api::framing::MAX_LINE_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::problem::Problem;

/// Maximum size of a small body in bytes.
pub(super) const SMALL: usize = 64 * KIB;
/// Size of the pool for large request bodies in bytes.
const LARGE_REQUESTS: usize = 64 * MIB;
/// Size of the pool for small request bodies in bytes.
const SMALL_REQUESTS: usize = 16 * MIB;
/// Size of the pool for large responses in bytes: histories, buffers and lists.
const RESPONSES: usize = 128 * MIB;
/// Time to wait for memory; shorter than the allowed pause of a body.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The memory pools, counted in KiB.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    responses: Arc<Semaphore>,
}

/// Reserved memory. Dropping it releases the reservation.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation {
    permits: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Budget { small: pool(SMALL_REQUESTS), large: pool(LARGE_REQUESTS), responses: pool(RESPONSES) }
    }

    /// Reserves memory for a request body. More than [`SMALL`] bytes are reserved at once, for the whole
    /// body.
    ///
    /// # Errors
    /// Returns a `busy` problem if not enough memory is released in time.
    pub(super) async fn reserve_request(&self, bytes: usize) -> Result<MemoryReservation, Problem> {
        let pool = if bytes <= SMALL { &self.small } else { &self.large };
        reserve(pool, bytes).await
    }

    /// Reserves memory for a response of unknown length.
    ///
    /// # Errors
    /// As for [`Budget::reserve_request`].
    pub(super) async fn reserve_response(&self) -> Result<MemoryReservation, Problem> {
        reserve(&self.responses, MAX_LINE_BYTES).await
    }

    /// Reserves memory for the response to a command that has already been executed. Rejecting it would make the
    /// client retry and execute the command twice. Waits until `disconnected` is cancelled, and then returns
    /// `None`.
    pub(super) async fn reserve_completed_response(
        &self,
        disconnected: &CancellationToken,
    ) -> Option<MemoryReservation> {
        let memory = self.responses.clone().acquire_many_owned(kib(MAX_LINE_BYTES)?);
        let permit = disconnected.run_until_cancelled(memory).await?;
        // The semaphore is never closed.
        permit.ok().map(|permit| MemoryReservation { permits: vec![permit] })
    }

    #[cfg(test)]
    pub(super) fn response_bytes_in_use(&self) -> usize {
        RESPONSES - self.responses.available_permits() * KIB
    }
}

fn kib(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(KIB)).ok()
}

async fn reserve(pool: &Arc<Semaphore>, bytes: usize) -> Result<MemoryReservation, Problem> {
    let busy = || {
        let detail = "server busy: no memory left for request and response bodies";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy, detail).hint("retry in a few seconds")
    };
    let count = kib(bytes).ok_or_else(busy)?;
    let permit = tokio::time::timeout(MEMORY_TIMEOUT, pool.clone().acquire_many_owned(count)).await;
    // The semaphore is never closed.
    let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
    Ok(MemoryReservation { permits: vec![permit] })
}

impl MemoryReservation {
    /// Takes over another reservation.
    pub(super) fn merge(&mut self, other: MemoryReservation) {
        self.permits.extend(other.permits);
    }

    /// Keeps at most `bytes` bytes and releases the rest.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let mut remaining = bytes.div_ceil(KIB);
        for permit in &mut self.permits {
            let kept = remaining.min(permit.num_permits());
            drop(permit.split(permit.num_permits() - kept));
            remaining -= kept;
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.permits.iter().map(|permit| permit.num_permits() * KIB).sum()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_for_memory_but_small_does_not_wait_for_large() {
        let budget = Budget::new();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(budget.reserve_request(16 * MIB).await.unwrap());
        }
        let started = Instant::now();
        assert!(budget.reserve_request(SMALL + 1).await.unwrap_err().detail.contains("memory"));
        assert_eq!(started.elapsed(), MEMORY_TIMEOUT);
        assert_eq!(budget.reserve_request(SMALL).await.unwrap().bytes(), SMALL);
        assert_eq!(started.elapsed(), MEMORY_TIMEOUT);
        // Released memory goes to the next waiter.
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve_request(10 * MIB).await.map(|memory| memory.bytes()) }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert_eq!(waiting.await.unwrap().unwrap(), 10 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn completed_command_waits_for_memory_until_client_leaves() {
        let (budget, gone) = (Budget::new(), CancellationToken::new());
        let mut held = Vec::new();
        for _ in 0..RESPONSES / MAX_LINE_BYTES {
            held.push(budget.reserve_response().await.unwrap());
        }
        assert!(budget.reserve_response().await.is_err());
        let waiting = budget.reserve_completed_response(&gone);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(MEMORY_TIMEOUT * 10, waiting.as_mut()).await.is_err());
        held.pop();
        assert_eq!(waiting.await.unwrap().bytes(), MAX_LINE_BYTES);
        held.push(budget.reserve_response().await.unwrap());
        gone.cancel();
        assert!(budget.reserve_completed_response(&gone).await.is_none());
    }

    #[tokio::test]
    async fn shrink_releases_unused_memory() {
        let budget = Budget::new();
        let mut memory = budget.reserve_request(SMALL).await.unwrap();
        memory.merge(budget.reserve_request(MIB).await.unwrap());
        memory.shrink(SMALL + 10);
        assert_eq!(memory.bytes(), SMALL + KIB);
        memory.shrink(10);
        assert_eq!(memory.bytes(), KIB);
        drop(memory);
        assert_eq!(budget.small.available_permits(), SMALL_REQUESTS / KIB);
        assert_eq!(budget.large.available_permits(), LARGE_REQUESTS / KIB);
    }
}
