//! GET_TIMELINE and READ_RECORDING of recordings that have ended, are damaged, empty or still written.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nerve_api::reply::{RecordedOutput, RecordingTimeline};
use nerve_api::request::{GetRecordingFile, GetTimeline, ReadRecording, Seconds};
use nerve_engine::data_dirs::DataDirs;
use nerve_engine::{Engine, EngineConfig, RequestContext};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_record::ahr::{Body, Record, Segment, Writer};
use nerve_record::meta::Meta;
use nerve_record::snapshots::{SnapshotLine, append};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

const START: u64 = 1_710_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// Maximum bytes of a range of a file.
const MAX_RANGE: u64 = 1 << 20;

/// A home with one recording of a program that prints a numbered line each second.
struct Recorded {
    home: tempfile::TempDir,
    engine: Engine,
    writer: Option<Writer>,
    offset: u64,
}

impl Recorded {
    fn new() -> Recorded {
        let home = tempfile::tempdir().unwrap();
        let recordings = home.path().join("recordings");
        let dirs = DataDirs {
            recordings: recordings.clone(),
            hosts: home.path().join("hosts"),
            history: home.path().join("history"),
            ..DataDirs::default()
        };
        let engine = Engine::new(EngineConfig { data_dirs: Some(dirs), ..EngineConfig::default() });
        fs::create_dir_all(recordings.join("2026/11")).unwrap();
        let writer = Some(Writer::create(&recordings.join("2026/11/one.ahr")).unwrap());
        Recorded { home, engine, writer, offset: 0 }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("recordings/2026/11/one.ahr")
    }

    /// Records the lines of these seconds, each second in a block of its own.
    fn record(&mut self, seconds: std::ops::Range<u64>) {
        for second in seconds {
            let mut segment = Segment::new(self.offset);
            let at = TsNs(START + second * SECOND + if second > 0 { 345 } else { 0 });
            let size = Size::new(20, 5);
            if second == 0 {
                let body = Body::Resize { cols: size.cols, rows: size.rows };
                segment.push(&Record { at, body }).unwrap();
            }
            let line = format!("line {second}\r\n");
            let body = Body::Data { off: self.offset, bytes: line.as_bytes() };
            segment.push(&Record { at, body }).unwrap();
            self.offset = segment.end();
            self.writer.as_mut().unwrap().append(&segment.seal(1, false)).unwrap();
        }
    }

    /// Ends the recording. Its lock is released.
    fn end(&mut self) {
        self.writer = None;
        Meta { started_at: TsNs(START), ..Meta::default() }.store(&self.path()).unwrap();
    }

    async fn timeline(&self) -> RecordingTimeline {
        timeline(&self.engine, None, None).await
    }

    async fn timeline_since(&self, version: &str, timeout: Option<Seconds>) -> RecordingTimeline {
        timeline(&self.engine, Some(version.into()), timeout).await
    }

    async fn read(&self, request: ReadRecording) -> Result<RecordedOutput, EngineError> {
        let request = ReadRecording { recording: "one".into(), ..request };
        self.engine.read_recording(request, RequestContext::default()).await
    }
}

#[tokio::test]
async fn file_is_read_by_ranges() {
    let mut recorded = Recorded::new();
    recorded.record(0..3);
    let read = async |offset, limit| {
        let request = GetRecordingFile { recording: "one".into(), offset, limit };
        recorded.engine.get_recording_file(request, RequestContext::default()).await
    };
    let whole = fs::read(recorded.path()).unwrap();
    let first = read(0, Some(50)).await.unwrap();
    assert_eq!((first.recording_id.as_str(), first.file_bytes), ("one", whole.len() as u64));
    assert_eq!((decode(&first.data), first.live), (whole[..50].to_vec(), true));
    assert_eq!(decode(&read(50, None).await.unwrap().data), whole[50..]);
    for limit in [0, MAX_RANGE + 1] {
        assert_eq!(read(0, Some(limit)).await.unwrap_err().kind, ErrorKind::InvalidRequest, "{limit}");
    }
    recorded.end();
    let request = GetRecordingFile { recording: "one".into(), offset: 1 << 40, limit: None };
    let end = recorded.engine.get_recording_file(request, RequestContext::default()).await.unwrap();
    assert!(end.data.is_empty() && end.metadata.is_some() && !end.live);
}

async fn timeline(engine: &Engine, since: Option<String>, timeout: Option<Seconds>) -> RecordingTimeline {
    let request = GetTimeline { recording: Some("one".into()), since, timeout, ..GetTimeline::default() };
    engine.get_timeline(request, RequestContext::default()).await.unwrap()
}

fn at(seconds: f64) -> ReadRecording {
    ReadRecording { at: Seconds::new(seconds), ..ReadRecording::default() }
}

fn decode(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap()
}

/// Returns the screen that a reply's dump shows.
fn screen(reply: &RecordedOutput) -> String {
    let recorded = reply.terminal.as_ref().unwrap();
    let mut terminal = TerminalState::new(Size::new(recorded.cols, recorded.rows));
    terminal.process_data(TsNs(0), &decode(&recorded.dump));
    terminal.screen().text()
}

fn output(reply: &RecordedOutput) -> String {
    let data = reply.chunks.iter().filter_map(|chunk| chunk.data.as_deref());
    String::from_utf8(data.flat_map(decode).collect()).unwrap()
}

#[tokio::test]
async fn ended_recording_is_shown_at_any_time() {
    let mut recorded = Recorded::new();
    recorded.record(0..60);
    recorded.end();
    let (id, kind) = (7, "manual".to_string());
    let snapshot = SnapshotLine {
        id,
        ts_ns: START + 30 * SECOND,
        label: Some("half".into()),
        kind,
        anchor_byte: 250,
        files: None,
    };
    append(&recorded.path(), &snapshot).unwrap();
    let timeline = recorded.timeline().await;
    assert_eq!((timeline.duration_ms, timeline.end_offset), (59_000, recorded.offset));
    assert!(timeline.is_complete && !timeline.live && timeline.damage.is_empty(), "{timeline:?}");
    assert_eq!(timeline.activity.iter().sum::<u64>(), recorded.offset);
    assert_eq!(timeline.started_at.as_deref(), Some("2024-03-09T16:00:00.000Z"));
    assert_eq!((timeline.sizes[0].cols, timeline.sizes[0].rows), (20, 5));
    let marker = &timeline.snapshots[0];
    assert_eq!(
        (marker.snapshot_id, marker.at_ms, marker.anchor_byte, marker.has_files),
        (7, 30_000, 250, false)
    );

    let reply = recorded.read(at(30.5)).await.unwrap();
    assert_eq!(screen(&reply), "line 27\nline 28\nline 29\nline 30");
    assert_eq!(reply.terminal.as_ref().unwrap().at_ms, 30_000);
    assert!(output(&reply).starts_with("line 31\r\n") && reply.is_end);
    assert_eq!((reply.chunks[0].at_ms, reply.next_offset), (31_000, recorded.offset));
    // A time of a reply includes what has this time.
    let reply = recorded.read(at(31.0)).await.unwrap();
    assert!(screen(&reply).ends_with("line 31") && output(&reply).starts_with("line 32"));
    // A time after the end is the end, and a position before the first output is blank.
    assert!(screen(&recorded.read(at(500.0)).await.unwrap()).ends_with("line 59"));
    assert_eq!(screen(&recorded.read(ReadRecording::default()).await.unwrap()), "");
}

#[tokio::test]
async fn pages_of_output_join_at_their_offsets() {
    let mut recorded = Recorded::new();
    recorded.record(0..60);
    recorded.end();
    let limit = Some(100);
    let within = ReadRecording { offset: Some(10), limit, ..ReadRecording::default() };
    let mut reply = recorded.read(within).await.unwrap();
    assert_eq!(screen(&reply), "line 0\nli");
    let mut text = output(&reply);
    while !reply.is_end {
        assert_eq!(reply.next_offset, 10 + text.len() as u64);
        let next = ReadRecording {
            offset: Some(reply.next_offset),
            limit,
            output_only: true,
            ..ReadRecording::default()
        };
        reply = recorded.read(next).await.unwrap();
        assert!(reply.terminal.is_none() && !reply.chunks.is_empty());
        text += &output(&reply);
    }
    let all: String = (0..60).map(|second| format!("line {second}\r\n")).collect();
    assert_eq!(text, all[10..]);
}

#[tokio::test]
async fn live_recording_grows() {
    let mut recorded = Recorded::new();
    recorded.record(0..10);
    let first = recorded.timeline().await;
    assert_eq!((first.live, first.duration_ms), (true, 9_000));
    let reply = recorded.read(at(9.0)).await.unwrap();
    assert!(reply.is_end && reply.chunks.is_empty(), "{reply:?}");
    recorded.record(10..12);
    let grown = recorded.timeline().await;
    assert_eq!((grown.live, grown.duration_ms, grown.damage.len()), (true, 11_000, 0));
    let next =
        ReadRecording { offset: Some(reply.next_offset), output_only: true, ..ReadRecording::default() };
    assert_eq!(output(&recorded.read(next).await.unwrap()), "line 10\r\nline 11\r\n");
    recorded.end();
    assert!(!recorded.timeline().await.live);
}

#[tokio::test]
async fn waiting_request_is_answered_when_the_recording_changes() {
    let mut recorded = Recorded::new();
    recorded.record(0..2);
    let mut last = recorded.timeline().await;
    let unchanged = recorded.timeline_since(&last.version, Seconds::new(0.0)).await;
    assert_eq!(unchanged, last);
    let changes: [fn(&mut Recorded); 3] = [
        |recorded| recorded.record(2..4),
        |recorded| {
            let line = SnapshotLine {
                id: 1,
                ts_ns: START + SECOND,
                label: None,
                kind: "manual".into(),
                anchor_byte: 10,
                files: None,
            };
            append(&recorded.path(), &line).unwrap();
        },
        Recorded::end,
    ];
    for change in changes {
        let (engine, since) = (recorded.engine.clone(), last.version.clone());
        let waiting = tokio::spawn(async move { timeline(&engine, Some(since), None).await });
        change(&mut recorded);
        let next = tokio::time::timeout(nerve_testkit::DEADLINE, waiting).await.unwrap().unwrap();
        assert_ne!(next.version, last.version);
        last = next;
    }
    assert_eq!((last.duration_ms, last.snapshots.len(), last.live), (3_000, 1, false));
}

#[tokio::test]
async fn damaged_recording_is_shown_with_what_is_missing() {
    let mut recorded = Recorded::new();
    recorded.record(0..30);
    recorded.end();
    let mut bytes = fs::read(recorded.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].fill(0xff);
    bytes.truncate(bytes.len() - 3);
    fs::write(recorded.path(), &bytes).unwrap();
    let timeline = recorded.timeline().await;
    assert_eq!((timeline.damage.len(), timeline.is_complete), (2, true), "{timeline:?}");
    assert!(timeline.damage[0].missing.is_some_and(|missing| missing > 0), "{timeline:?}");
    assert!(timeline.damage[0].reason.contains("are missing"), "{timeline:?}");
    let reply = recorded.read(ReadRecording::default()).await.unwrap();
    let text = output(&reply);
    assert!(text.starts_with("line 0\r\n") && text.ends_with("line 28\r\n") && reply.is_end, "{text}");
    assert_eq!(reply.damage.len(), 2);
}

#[tokio::test]
async fn empty_recording_has_no_start() {
    let recorded = Recorded::new();
    let timeline = recorded.timeline().await;
    assert_eq!((timeline.started_at, timeline.duration_ms, timeline.live), (None, 0, false));
    let reply = recorded.read(at(3.0)).await.unwrap();
    assert_eq!((screen(&reply).as_str(), reply.is_end, reply.next_offset), ("", true, 0));
}

#[tokio::test]
async fn invalid_positions_and_unknown_recordings_are_refused() {
    let mut recorded = Recorded::new();
    recorded.record(0..1);
    let both = ReadRecording { offset: Some(1), ..at(1.0) };
    let too_much = ReadRecording { limit: Some(2 << 20), ..ReadRecording::default() };
    let by_time = ReadRecording { output_only: true, ..at(1.0) };
    for request in [both, too_much, by_time] {
        let error = recorded.read(request.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{request:?}");
    }
    let request = GetTimeline { node_id: Some("none".into()), ..GetTimeline::default() };
    let error = recorded.engine.get_timeline(request, RequestContext::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let request = GetTimeline::default();
    let error = recorded.engine.get_timeline(request, RequestContext::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
}
