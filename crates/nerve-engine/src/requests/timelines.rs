//! GET_TIMELINE and READ_RECORDING: a timeline of a recording, and its terminal at any position.

use std::io;
use std::time::Duration;

use nerve_api::Event;
use nerve_api::reply::{RecordedOutput, RecordingTimeline};
use nerve_api::request::{GetTimeline, ReadRecording, Seconds};
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::error::EngineError;
use nerve_record::recording_files::RecordingFiles;
use nerve_types::os::FolderWatcher;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::context::RequestContext;
use crate::engine::Engine;
use crate::page::check_limit;
use crate::recorded_source::RecordedSource;
use crate::timelines::{FoundTimeline, read_output, read_timeline};

/// Maximum bytes of output of a reply.
const MAX_LIMIT: usize = 1 << 20;
/// Default of `limit`.
const DEFAULT_LIMIT: usize = 256 << 10;
/// Default time limit of a wait for a change of a timeline.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Time before a request that waits reads the timeline: a client that repeats it gets one a second.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Time in which further changes follow the first one: an event may precede the files.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// Time before a timeline is read again, as a multiple of the time that reading it took.
const READ_PAUSE: u32 = 4;

impl Engine {
    /// Returns a timeline of a recording. A long one is read in several requests. With `since`, waits for a change.
    ///
    /// # Errors
    /// NotFound (no recording), InvalidRequest, Process (unreadable files).
    pub async fn get_timeline(
        &self,
        request: GetTimeline,
        _: RequestContext,
    ) -> Result<RecordingTimeline, EngineError> {
        let Some(since) = request.since.clone() else {
            return Ok(self.find_timeline(request).await?.timeline);
        };
        let timeout = request.timeout.map_or(DEFAULT_WAIT, Seconds::duration).min(MAX_TIMEOUT);
        let deadline = Instant::now() + timeout;
        let unwatchable = |error| EngineError::process(format!("the recording cannot be watched: {error}"));
        // The watcher and the events report changes that happen while the timeline is read.
        let folder = FolderWatcher::new().map_err(unwatchable)?;
        let mut events = self.subscribe();
        let mut next_read = Instant::now() + READ_INTERVAL;
        loop {
            sleep_until(next_read.min(deadline)).await;
            let begun = Instant::now();
            // The timeline includes the changes that earlier events announced.
            events = events.resubscribe();
            let FoundTimeline { timeline, files } = self.find_timeline(request.clone()).await?;
            if timeline.version != since || begun >= deadline {
                return Ok(timeline);
            }
            next_read = Instant::now() + begun.elapsed() * READ_PAUSE;
            folder.watch_folder(files.folder()).map_err(unwatchable)?;
            let change = wait_for_change(&files, &folder, &mut events, timeline.node_id.as_deref());
            let Ok(changed) = timeout_at(deadline, change).await else { return Ok(timeline) };
            changed.map_err(unwatchable)?;
            next_read = next_read.max(Instant::now() + SETTLE_TIME);
        }
    }

    async fn find_timeline(&self, request: GetTimeline) -> Result<FoundTimeline, EngineError> {
        let GetTimeline { node_id, session_id, recording, .. } = request;
        let source = RecordedSource::parse(node_id, session_id, recording)?;
        let engine = self.clone();
        self.file_job(move |dirs| {
            let server = engine.inner.factory.server_name();
            read_timeline(&source, server, &engine.inner.timelines, dirs)
        })
        .await
    }

    /// Returns the terminal of a recording at a position, and the output that follows. A long recording is indexed first, in
    /// several requests.
    ///
    /// # Errors
    /// NotFound (no recording), InvalidRequest (two positions, a limit out of range), Process (unreadable files).
    pub async fn read_recording(
        &self,
        request: ReadRecording,
        _: RequestContext,
    ) -> Result<RecordedOutput, EngineError> {
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
        check_limit(limit, 1..=MAX_LIMIT)?;
        if request.at.is_some() && request.offset.is_some() {
            return Err(EngineError::invalid_request("at and offset: only one of them can be given"));
        }
        if request.output_only && request.at.is_some() {
            return Err(EngineError::invalid_request("output_only needs a position by offset"));
        }
        self.file_job(move |dirs| read_output(&request, limit, dirs)).await
    }
}

/// Waits until files change, or the engine reports an event of the node: a turn or a dialog may be in files of the agent.
async fn wait_for_change(
    files: &RecordingFiles,
    folder: &FolderWatcher,
    events: &mut broadcast::Receiver<Event>,
    node: Option<&str>,
) -> io::Result<()> {
    while !files.has_changed() {
        tokio::select! {
            changed = folder.changed() => changed?,
            event = events.recv() => match event {
                Ok(event) if event.node_id.is_none() || event.node_id.as_deref() != node => {}
                // Lost events may have been of this node.
                _ => return Ok(()),
            },
        }
    }
    Ok(())
}
