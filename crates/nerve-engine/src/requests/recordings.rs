//! LIST_RECORDINGS, PRUNE_RECORDINGS and GET_RECORDING_FILE: the recordings on this machine.

use nerve_api::reply::{RecordingFile, RecordingList, RecordingsPruned};
use nerve_api::request::{GetRecordingFile, ListRecordings, PruneRecordings};
use nerve_node::error::EngineError;

use super::context::RequestContext;
use crate::engine::Engine;
use crate::page::paginate;
use crate::recordings::library::{list_recordings, prune_recordings};
use crate::recordings::read_range;

impl Engine {
    /// Lists the recordings, last written first.
    ///
    /// # Errors
    /// InvalidRequest (no recordings here, page).
    pub async fn list_recordings(
        &self,
        request: ListRecordings,
        _: RequestContext,
    ) -> Result<RecordingList, EngineError> {
        let recordings = self.file_job(move |dirs| Ok(list_recordings(request.last, dirs))).await?;
        paginate(&request.page, RecordingList { recordings, next: None })
    }

    /// Returns a range of a recording's file.
    ///
    /// # Errors
    /// NotFound (no recording), InvalidRequest (a limit out of range), Process (unreadable files).
    pub async fn get_recording_file(
        &self,
        request: GetRecordingFile,
        _: RequestContext,
    ) -> Result<RecordingFile, EngineError> {
        self.file_job(move |dirs| read_range(&request, dirs)).await
    }

    /// Removes old recordings and unneeded folders of branches. The removal is completed even if the future is dropped.
    ///
    /// # Errors
    /// InvalidRequest (no rule, or no recordings here), Process.
    pub async fn prune_recordings(
        &self,
        request: PruneRecordings,
        context: RequestContext,
    ) -> Result<RecordingsPruned, EngineError> {
        let warnings = context.warnings.clone();
        self.file_job(move |dirs| prune_recordings(&request, dirs, &mut |warning| warnings.add(warning)))
            .await
    }
}
