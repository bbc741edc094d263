//! How much memory all bodies may take together, whoever sends them.
//!
//! A body is paid for before it is kept: the first [`SMALL`] bytes from what is there for small ones, a longer one as a whole. So what is
//! long never waits for more while it holds something, and what is short never waits for what is long.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use nerve_api::framing::MAX_LINE_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::problem::Problem;

/// A body of so many bytes is a small one.
pub(super) const SMALL: usize = 64 * KIB;
/// Bytes of all longer bodies at a time.
const LARGE_BODIES: usize = 64 * MIB;
/// Bytes of all small ones.
const SMALL_BODIES: usize = 16 * MIB;
/// Bytes of all answers that are long: those of histories, buffers and lists.
const ANSWERS: usize = 128 * MIB;
/// How long somebody waits for memory; it is shorter than a body may pause.
const PATIENCE: Duration = Duration::from_secs(5);
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The memory for bodies, counted in KiB.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

/// Memory that is somebody's until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share {
    permits: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        let of = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Budget { small: of(SMALL_BODIES), large: of(LARGE_BODIES), answers: of(ANSWERS) }
    }

    /// Memory for a body of so many bytes. Beyond [`SMALL`] it is asked for once, for all of a body.
    ///
    /// # Errors
    /// Others have it, and give nothing back in time.
    pub(super) async fn body(&self, bytes: usize) -> Result<Share, Problem> {
        let from = if bytes <= SMALL { &self.small } else { &self.large };
        take(from, bytes).await
    }

    /// Memory for an answer, however long it will be.
    ///
    /// # Errors
    /// As for a body.
    pub(super) async fn answer(&self) -> Result<Share, Problem> {
        take(&self.answers, MAX_LINE_BYTES).await
    }

    /// The same for what has been done: to ask for it again would do it again, so this waits for as long as somebody wants the answer. `None`:
    /// nobody does any more.
    pub(super) async fn answer_of_what_is_done(&self, gone: &CancellationToken) -> Option<Share> {
        let memory = self.answers.clone().acquire_many_owned(kib(MAX_LINE_BYTES)?);
        let permit = gone.run_until_cancelled(memory).await?;
        // It is never closed.
        permit.ok().map(|permit| Share { permits: vec![permit] })
    }

    #[cfg(test)]
    pub(super) fn taken_for_answers(&self) -> usize {
        ANSWERS - self.answers.available_permits() * KIB
    }
}

fn kib(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(KIB)).ok()
}

async fn take(from: &Arc<Semaphore>, bytes: usize) -> Result<Share, Problem> {
    let busy = || {
        let detail = "the server has no memory left for this: others send or take as much as it holds";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).hint("try again in some seconds")
    };
    let count = kib(bytes).ok_or_else(busy)?;
    let permit = tokio::time::timeout(PATIENCE, from.clone().acquire_many_owned(count)).await;
    // It is never closed.
    let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
    Ok(Share { permits: vec![permit] })
}

impl Share {
    /// Takes over what another one holds.
    pub(super) fn join(&mut self, other: Share) {
        self.permits.extend(other.permits);
    }

    /// Keeps so many bytes at most and gives back the rest.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let mut left = bytes.div_ceil(KIB);
        for permit in &mut self.permits {
            let kept = left.min(permit.num_permits());
            drop(permit.split(permit.num_permits() - kept));
            left -= kept;
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
    async fn who_finds_no_memory_waits_for_a_while_and_small_bodies_do_not_wait_for_large_ones() {
        let budget = Budget::new();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(budget.body(16 * MIB).await.unwrap());
        }
        let started = Instant::now();
        assert!(budget.body(SMALL + 1).await.unwrap_err().detail.contains("memory"));
        assert_eq!(started.elapsed(), PATIENCE);
        assert_eq!(budget.body(SMALL).await.unwrap().bytes(), SMALL);
        assert_eq!(started.elapsed(), PATIENCE);
        // What is given back goes to who waits.
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.body(10 * MIB).await.map(|share| share.bytes()) }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert_eq!(waiting.await.unwrap().unwrap(), 10 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_been_done_waits_for_memory_as_long_as_somebody_waits_for_it() {
        let (budget, gone) = (Budget::new(), CancellationToken::new());
        let mut held = Vec::new();
        for _ in 0..ANSWERS / MAX_LINE_BYTES {
            held.push(budget.answer().await.unwrap());
        }
        assert!(budget.answer().await.is_err());
        let waiting = budget.answer_of_what_is_done(&gone);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(PATIENCE * 10, waiting.as_mut()).await.is_err());
        held.pop();
        assert_eq!(waiting.await.unwrap().bytes(), MAX_LINE_BYTES);
        held.push(budget.answer().await.unwrap());
        gone.cancel();
        assert!(budget.answer_of_what_is_done(&gone).await.is_none());
    }

    #[tokio::test]
    async fn what_is_not_needed_is_given_back() {
        let budget = Budget::new();
        let mut share = budget.body(SMALL).await.unwrap();
        share.join(budget.body(MIB).await.unwrap());
        share.shrink(SMALL + 10);
        assert_eq!(share.bytes(), SMALL + KIB);
        share.shrink(10);
        assert_eq!(share.bytes(), KIB);
        drop(share);
        assert_eq!(budget.small.available_permits(), SMALL_BODIES / KIB);
        assert_eq!(budget.large.available_permits(), LARGE_BODIES / KIB);
    }
}
