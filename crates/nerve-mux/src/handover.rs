//! Takes over a pane and its recording from a server that is ending.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_host::backend::SpawnError;
use nerve_host::manager::QUALITY;
use nerve_host::pump::Pump;
use nerve_host::recorder::{Flusher, Recorder};
use nerve_record::ahr::AhrError;

use crate::pane::Claim;

/// Time that an ending server gets to release its panes and recordings.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Resources that a server holds for a pane.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) claim: Claim,
    pub(crate) pump: Pump,
    /// Flushes the recording, if there is one.
    pub(crate) flusher: Option<Flusher>,
    /// Non-fatal failures.
    pub(crate) faults: Vec<String>,
}

/// Claims a pane and continues its recording. Retries both for 3 seconds.
///
/// # Errors
/// [`SpawnError`]: another process keeps the claim. A recording that cannot be continued is a fault.
pub(crate) async fn take_over(
    mut claim: impl FnMut() -> Result<Claim, SpawnError>,
    recording: Option<PathBuf>,
) -> Result<Resources, SpawnError> {
    let deadline = tokio::time::Instant::now() + HANDOVER_TIMEOUT;
    let claim = loop {
        match claim() {
            Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(POLL_INTERVAL).await,
            claimed => break claimed?,
        }
    };
    let mut resources = Resources { claim, pump: Pump::default(), flusher: None, faults: Vec::new() };
    if let Some(path) = recording {
        let resuming = tokio::task::spawn_blocking(move || resume(&path));
        match resuming.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok((recorder, offset)) => {
                resources.flusher = Some(recorder.flusher());
                resources.pump = Pump::resume(vec![Box::new(recorder)], offset);
            }
            Err(error) => resources.faults.push(format!("cannot continue the recording: {error}")),
        }
    }
    Ok(resources)
}

/// Continues a recording. Blocks, because it waits for the previous writer and reads the end of the file.
fn resume(path: &Path) -> Result<(Recorder, u64), String> {
    let deadline = std::time::Instant::now() + HANDOVER_TIMEOUT;
    loop {
        match Recorder::resume(path, QUALITY) {
            Err(AhrError::Busy { .. }) if std::time::Instant::now() < deadline => {
                std::thread::sleep(POLL_INTERVAL);
            }
            resumed => return resumed.map_err(|error| error.to_string()),
        }
    }
}
