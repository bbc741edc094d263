//! Imports of asciicasts.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::ahr::{AhrError, Body, Mark, Part, Reader, Record};
use nerve_record::import::{ImportError, ImportSummary, import};
use nerve_record::meta::Meta;
use nerve_types::{ExitStatus, Origin, Size, TsNs};

struct ImportDir {
    dir: tempfile::TempDir,
}

impl ImportDir {
    fn new() -> ImportDir {
        ImportDir { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("imported.ahr")
    }

    fn import(&self, cast: &str) -> Result<ImportSummary, ImportError> {
        import(cast.as_bytes(), &self.path(), TsNs(5_000_000_000))
    }

    /// Imports an invalid cast and returns the error.
    fn import_error(&self, cast: &str) -> ImportError {
        let error = self.import(cast).unwrap_err();
        assert!(!self.path().exists(), "file left after a failed import");
        error
    }
}

/// Returns time in milliseconds and content of each record as text.
fn summarize(path: &Path, start: u64) -> Vec<(u64, String)> {
    let mut reader = Reader::open(path).unwrap();
    let mut all = Vec::new();
    while let Some(part) = reader.next().unwrap() {
        let Part::Block(block) = part else { panic!("{part:?}") };
        all.extend(
            block.records().map(|Record { at, body }| ((at.0 - start) / 1_000_000, summarize_body(body))),
        );
    }
    all
}

fn summarize_body(body: Body<'_>) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match body {
        Body::Data { off, bytes } => format!("{off}: {}", text(bytes)),
        Body::Resize { cols, rows } => format!("{cols}x{rows}"),
        Body::Input { bytes } => format!("< {}", text(bytes)),
        Body::Mark(mark) => format!("{mark:?}"),
        Body::Snapshot { id, anchor, label } => format!("snapshot {id} at {anchor}: {}", text(label)),
    }
}

#[test]
fn version_2_is_imported() {
    let dir = ImportDir::new();
    let summary = dir
        .import(
            r#"{"version": 2, "width": 80, "height": 24, "timestamp": 1504467315, "command": "bash -l", "title": "t", "env": {"TERM": "x"}}
[0.25, "o", "hé\r\n"]
[0.5, "i", "ls"]
[0.25, "o", "times do not go back"]

[1, "m", "chapter"]
[2.0, "r", "90x30"]
[2.5, "z", "unknown kinds are passed over"]
"#,
        )
        .unwrap();
    let expected = ImportSummary {
        version: 2,
        events: 5,
        output: 25,
        snapshots: 1,
        duration: Duration::from_millis(2500),
    };
    assert_eq!(summary, expected);
    let input = format!("{:?}", Mark::Input { origin: Origin::User, redacted: false });
    let events = [
        (0, "80x24".to_string()),
        (250, "0: hé\r\n".into()),
        (500, input),
        (500, "< ls".into()),
        (500, "5: times do not go back".into()),
        (1000, "snapshot 1 at 25: chapter".into()),
        (2000, "90x30".into()),
    ];
    assert_eq!(summarize(&dir.path(), 1_504_467_315_000_000_000), events);
    let meta = Meta::load(&dir.path()).unwrap().unwrap();
    assert_eq!((meta.cols, meta.rows, meta.title.as_deref()), (80, 24, Some("t")));
    assert_eq!(meta.cmd, ["sh", "-c", "bash -l"]);
    assert_eq!(meta.ended_at, Some(TsNs(1_504_467_317_500_000_000)));
}

#[test]
fn version_3_is_imported() {
    let dir = ImportDir::new();
    let cast = r#"{"version": 3, "term": {"cols": 100, "rows": 50, "type": "x"}, "tags": ["a"]}
# a comment
[0.25, "o", "a"]
[0.5, "o", "b"]
[0.0, "x", "3"]
"#;
    assert_eq!(dir.import(cast).unwrap().duration, Duration::from_millis(750));
    let events = [
        (0, "100x50".to_string()),
        (250, "0: a".into()),
        (750, "1: b".into()),
        (750, format!("{:?}", Mark::Exit(ExitStatus::Code(3)))),
    ];
    // Without a timestamp, the caller's start time applies.
    assert_eq!(summarize(&dir.path(), 5_000_000_000), events);
}

#[test]
fn long_output_event_becomes_many_records() {
    let dir = ImportDir::new();
    let long = "x".repeat(1_000_000);
    let cast = format!("{{\"version\":2,\"width\":80,\"height\":24}}\n[0,\"o\",\"{long}\"]\n");
    assert_eq!(dir.import(&cast).unwrap().output, 1_000_000);
    let mut reader = Reader::open(&dir.path()).unwrap();
    let (mut end, mut blocks) = (0, 0);
    while let Some(Part::Block(block)) = reader.next().unwrap() {
        assert_eq!(block.output().start, end);
        (end, blocks) = (block.output().end, blocks + 1);
    }
    assert_eq!((end, blocks > 3), (1_000_000, true));
}

const HEADER: &str = "{\"version\":2,\"width\":80,\"height\":24}\n[0,\"o\",\"fine\"]\n";

#[test]
fn invalid_line_is_reported_with_number() {
    let dir = ImportDir::new();
    let label = "l".repeat(70_000);
    for (lines, expected) in [
        ("[1.0, \"o\"]\n", 3),
        ("\n# no comment in version 2, but harmless\n{}\n", 5),
        ("[-1, \"o\", \"x\"]\n", 3),
        ("[1e300, \"o\", \"x\"]\n", 3),
        ("[1, \"r\", \"80\"]\n", 3),
        ("[1, \"x\", \"well\"]\n", 3),
        (format!("[1, \"m\", \"{label}\"]\n").as_str(), 3),
        ("[1, \"o\", \"cut", 3),
    ] {
        let error = dir.import_error(&format!("{HEADER}{lines}"));
        assert!(matches!(error, ImportError::Line { number, .. } if number == expected), "{error}");
    }
}

#[test]
fn other_formats_are_rejected() {
    let dir = ImportDir::new();
    for text in ["", "hello\n", "{\"version\": 3, \"width\": 80, \"height\": 24}\n"] {
        let error = dir.import_error(text);
        assert!(matches!(error, ImportError::NoCast(_)), "{error}");
    }
    let version_1 = "{\"version\": 1, \"width\": 80, \"height\": 24, \"stdout\": []}\n";
    assert!(matches!(dir.import_error(version_1), ImportError::Version(1)));
}

#[test]
fn import_never_overwrites() {
    let dir = ImportDir::new();
    std::fs::write(dir.path(), "precious").unwrap();
    let error = dir.import(HEADER).unwrap_err();
    assert!(matches!(error, ImportError::Write(AhrError::Exists { .. })), "{error}");
    assert_eq!(std::fs::read(dir.path()).unwrap(), b"precious");
}

#[test]
fn absurd_size_is_clamped() {
    let dir = ImportDir::new();
    dir.import("{\"version\":2,\"width\":0,\"height\":0}\n").unwrap();
    let Size { cols, rows } = Size::new(0, 0);
    assert_eq!(summarize(&dir.path(), 5_000_000_000), [(0, format!("{cols}x{rows}"))]);
}
