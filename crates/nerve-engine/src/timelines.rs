//! Timelines of recordings, and recorded terminals at any position. All functions block and need no server.
//!
//! The work of a call is limited. The scan of a long recording and the making of its index continue with the next call.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nerve_api::reply::{
    RecordedChunk, RecordedOutput, RecordedTerminal, RecordingDamage, RecordingTimeline, TimelineDialog,
    TimelineSize, TimelineSnapshot, TimelineTurn, Transcript,
};
use nerve_api::request::ReadRecording;
use nerve_node::error::EngineError;
use nerve_record::ahr::{AhrError, DamagedRange};
use nerve_record::index::{Index, Position};
use nerve_record::library::is_recorded_now;
use nerve_record::meta::Meta;
use nerve_record::output_page::{ChunkContent, OutputChunk};
use nerve_record::playback::Playback;
use nerve_record::recording_files::RecordingFiles;
use nerve_record::store::id_of;
use nerve_record::timeline::{TimelineScan, start_of};
use nerve_types::activity::TsMs;
use nerve_types::{TsNs, millis};
use parking_lot::Mutex;

use crate::data_dirs::DataDirs;
use crate::recorded_source::RecordedSource;
use crate::recordings::{self, unreadable_error};
use crate::snapshots::read_lines;
use crate::transcripts::{NodeAddress, TurnReader, read_recorded_node};

/// Bytes of records that a call scans: a second of work at most.
const SCAN_BYTES: u64 = 128 << 20;
/// Bytes of output that a call indexes: about a second of work.
const INDEX_BYTES: u64 = 32 << 20;
/// Maximum number of scans that are kept, each with an open file.
const MAX_SCANS: usize = 8;
/// Maximum number of turns, snapshots or dialogs in a reply: the newest ones.
const MAX_MARKERS: usize = 2000;
/// Time from the beginning of a millisecond to its end.
const MILLISECOND_END: Duration = Duration::from_nanos(999_999);
/// Characters of a prompt in a reply.
const PROMPT_CHARS: usize = 200;

/// Scans of recordings by their paths, the last used first.
#[derive(Debug, Default)]
pub(crate) struct TimelineCache(Mutex<VecDeque<(PathBuf, SharedScan)>>);

type SharedScan = Arc<Mutex<TimelineScan>>;

impl TimelineCache {
    /// Returns the scan of a recording; a new one unless it is known and the file is the same.
    fn scan(&self, path: &Path) -> Result<SharedScan, AhrError> {
        let known = self.known(path);
        if let Some(scan) = known.as_ref().filter(|scan| scan.lock().is_current()) {
            return Ok(scan.clone());
        }
        let new_scan = Arc::new(Mutex::new(TimelineScan::open(path)?));
        let mut scans = self.0.lock();
        let position = scans.iter().position(|(known, _)| known == path);
        // Another request may have replaced the scan meanwhile.
        let is_known = |scan: &SharedScan| known.as_ref().is_some_and(|known| Arc::ptr_eq(known, scan));
        let scan = match position.and_then(|position| scans.remove(position)) {
            Some((_, scan)) if !is_known(&scan) => scan,
            _ => new_scan,
        };
        scans.truncate(MAX_SCANS - 1);
        scans.push_front((path.into(), scan.clone()));
        Ok(scan)
    }

    /// Returns the scan of a path, which is then the last used one.
    fn known(&self, path: &Path) -> Option<SharedScan> {
        let mut scans = self.0.lock();
        let position = scans.iter().position(|(known, _)| known == path)?;
        let entry = scans.remove(position)?;
        let scan = entry.1.clone();
        scans.push_front(entry);
        Some(scan)
    }
}

/// A timeline of a recording.
pub(crate) struct FoundTimeline {
    pub(crate) timeline: RecordingTimeline,
    /// The state of the files before they were read.
    pub(crate) files: RecordingFiles,
}

/// Reads the timeline of a recording. A recording that is damaged, or takes too much work, is shown as far as it can be read.
pub(crate) fn read_timeline(
    source: &RecordedSource,
    server: &str,
    cache: &TimelineCache,
    dirs: &DataDirs,
) -> Result<FoundTimeline, EngineError> {
    let (path, transcript) = match source {
        RecordedSource::Node { node, session } => {
            read_recorded_node(NodeAddress { node, session: session.as_deref(), server }, dirs)?
        }
        RecordedSource::Recording(name) => {
            let path = recordings::find(dirs, name)?;
            let meta = Meta::load(&path).ok().flatten().unwrap_or_default();
            let logged = TurnReader::new(dirs).read(&path, &meta, "")?;
            (path, logged.transcript)
        }
    };
    let files = RecordingFiles::of(&path);
    let live = is_recorded_now(&path);
    let scan = cache.scan(&path).map_err(unreadable_error)?;
    let mut scan = scan.lock();
    let mut notes = transcript.notes.clone();
    let is_complete = scan.advance(SCAN_BYTES).unwrap_or_else(|error| {
        notes.push(error.to_string());
        true
    });
    let mut timeline = RecordingTimeline {
        recording_id: recording_id(&path),
        node_id: transcript.node_id.clone(),
        session_id: transcript.session_id.clone(),
        is_complete,
        notes,
        ..describe(&mut scan, live)
    };
    let start = scan.start().map(TsMs::from);
    drop(scan);
    if let Some(start) = start {
        add_markers(&mut timeline, &path, &transcript, start)?;
    }
    timeline.version = version(&timeline);
    Ok(FoundTimeline { timeline, files })
}

/// Returns a hash of everything in a timeline.
fn version(timeline: &RecordingTimeline) -> String {
    let mut hasher = DefaultHasher::new();
    // Texts, numbers and lists: the encoding cannot fail.
    serde_json::to_vec(timeline).unwrap_or_default().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn recording_id(path: &Path) -> String {
    id_of(path).map_or_else(|| path.display().to_string(), str::to_string)
}

fn describe(scan: &mut TimelineScan, live: bool) -> RecordingTimeline {
    let (read_bytes, file_bytes) = scan.progress();
    let activity = scan.activity().clone();
    RecordingTimeline {
        started_at: scan.start().map(|start| TsMs::from(start).iso()),
        duration_ms: millis(scan.duration()),
        end_offset: scan.end_offset(),
        live,
        read_bytes,
        file_bytes,
        slice_ms: activity.slice_ms,
        activity: activity.bytes,
        sizes: scan
            .sizes()
            .iter()
            .map(|(at, size)| TimelineSize { at_ms: millis(*at), cols: size.cols, rows: size.rows })
            .collect(),
        damage: scan.lost(live).map(|(at, lost)| damage(lost, Some(millis(at)))).collect(),
        ..RecordingTimeline::default()
    }
}

/// Adds the turns, dialogs and snapshots of a recording that began at `start`.
fn add_markers(
    timeline: &mut RecordingTimeline,
    path: &Path,
    transcript: &Transcript,
    start: TsMs,
) -> Result<(), EngineError> {
    // The part of the recording that is not scanned yet has markers, too.
    let end = match timeline.live || !timeline.is_complete {
        true => u64::MAX,
        false => timeline.duration_ms,
    };
    // A turn of an earlier recording of the conversation has no place here.
    let place = |at: TsMs| at.0.checked_sub(start.0).map(|at_ms| at_ms.min(end));
    let time = |text: &Option<String>| TsMs::try_from(text.clone()?).ok().and_then(place);
    for turn in &transcript.turns {
        if let Some(at_ms) = time(&turn.started_at) {
            let prompt = turn.prompt.chars().take(PROMPT_CHARS).collect();
            timeline.turns.push(TimelineTurn { turn: turn.turn, at_ms, prompt });
        }
        timeline.dialogs.extend(turn.dialogs.iter().filter_map(|dialog| {
            let at_ms = time(&dialog.answered_at)?;
            Some(TimelineDialog { at_ms, dialog: dialog.dialog.clone(), choice: dialog.choice.clone() })
        }));
    }
    timeline.snapshots.extend(read_lines(path)?.into_iter().map(|line| TimelineSnapshot {
        snapshot_id: line.id,
        at_ms: place(TsMs::from(TsNs(line.ts_ns))).unwrap_or_default(),
        anchor_byte: line.anchor_byte,
        label: line.label,
        has_files: line.files.is_some(),
    }));
    keep_newest(&mut timeline.turns);
    keep_newest(&mut timeline.dialogs);
    keep_newest(&mut timeline.snapshots);
    Ok(())
}

fn keep_newest<T>(markers: &mut Vec<T>) {
    markers.drain(..markers.len().saturating_sub(MAX_MARKERS));
}

/// Reads the terminal at the position of a request, and at most `limit` bytes of the output that follows.
pub(crate) fn read_output(
    request: &ReadRecording,
    limit: usize,
    dirs: &DataDirs,
) -> Result<RecordedOutput, EngineError> {
    let path = recordings::find(dirs, &request.recording)?;
    let start = start_of(&path).map_err(unreadable_error)?.unwrap_or_default();
    let to = match request.at {
        // Replies round times down to milliseconds, so the whole millisecond is included.
        Some(at) => Position::Time(start + at.duration() + MILLISECOND_END),
        None => Position::Offset(request.offset.unwrap_or_default()),
    };
    let since_start = |at: TsNs| millis(at.since(start));
    let reply = RecordedOutput { recording_id: recording_id(&path), ..RecordedOutput::default() };
    // A recording that exceeds the work limit is not indexed; the replay below reports the error. The pages of one that is
    // played follow each other, so one step for each page keeps the index near.
    let is_covered = Index::extend(&path, to, INDEX_BYTES).unwrap_or(true);
    let is_indexed = is_covered || request.output_only;
    let index = Index::open(&path);
    if !is_indexed {
        let len = std::fs::metadata(&path).map_or(0, |file| file.len());
        let covered = index.map_or(0, |index| index.covered());
        return Ok(RecordedOutput { indexed: Some(covered as f64 / len.max(1) as f64), ..reply });
    }
    let size = Meta::load(&path).ok().flatten().unwrap_or_default().initial_size();
    let mut play = Playback::open(&path, size).map_err(unreadable_error)?;
    let mut terminal = None;
    let page = if let (Position::Offset(offset), true) = (to, request.output_only) {
        play.page_at(index.as_ref(), offset, limit)
    } else {
        play.seek_with(index.as_ref(), to).map_err(unreadable_error)?;
        let replay = play.replay();
        let size = replay.terminal.size();
        terminal = Some(RecordedTerminal {
            offset: replay.terminal.offset(),
            at_ms: since_start(replay.clock()),
            cols: size.cols,
            rows: size.rows,
            dump: BASE64_STANDARD.encode(play.dump()),
        });
        play.into_page(limit)
    };
    let page = page.map_err(unreadable_error)?;
    let live = page.is_end && is_recorded_now(&path);
    let lost = page.lost.iter().filter(|lost| !(live && lost.tail));
    Ok(RecordedOutput {
        is_ready: true,
        terminal,
        damage: lost.map(|lost| damage(lost, None)).collect(),
        next_offset: page.next_offset,
        is_end: page.is_end,
        chunks: page.chunks.into_iter().map(|chunk| chunk_reply(chunk, &since_start)).collect(),
        ..reply
    })
}

fn chunk_reply(chunk: OutputChunk, since_start: &impl Fn(TsNs) -> u64) -> RecordedChunk {
    let OutputChunk { at, offset, content } = chunk;
    let reply = RecordedChunk { at_ms: since_start(at), offset, ..RecordedChunk::default() };
    match content {
        ChunkContent::Output(bytes) => RecordedChunk { data: Some(BASE64_STANDARD.encode(bytes)), ..reply },
        ChunkContent::Resize(size) => RecordedChunk { cols: Some(size.cols), rows: Some(size.rows), ..reply },
    }
}

fn damage(lost: &DamagedRange, at_ms: Option<u64>) -> RecordingDamage {
    RecordingDamage {
        at_ms,
        offset: lost.after,
        missing: lost.output.as_ref().map(|output| output.end - output.start),
        reason: lost.to_string(),
    }
}
