//! Tests of the history through its public interface, with real files.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod full_disk;
mod reader;
mod round_trip;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};

use nerve_record::history::{HistoryReader, HistoryWriter, Operation};
use nerve_types::TsNs;
use tempfile::TempDir;

/// 2025-12-22T10:30:00Z, the time of the documented examples.
const START: u64 = 1_766_399_400;

/// Returns the time `millis` milliseconds after [`START`].
fn at(millis: u64) -> TsNs {
    TsNs(START * 1_000_000_000 + millis * 1_000_000)
}

/// A base folder with the history of node `node` on server `server`.
struct Fixture {
    base: TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { base: tempfile::tempdir().unwrap() }
    }

    /// Creates the history file with this content.
    fn with(content: impl AsRef<[u8]>) -> Fixture {
        let fixture = Fixture::new();
        fixture.put("server/node.jsonl", content);
        fixture
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.base.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn base(&self) -> &Path {
        self.base.path()
    }

    fn file(&self) -> PathBuf {
        self.base().join("server/node.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn writer(&self) -> HistoryWriter {
        HistoryWriter::create(self.base(), "server", "node").unwrap()
    }

    fn reader(&self) -> HistoryReader {
        HistoryReader::open(self.base(), "server", "node").unwrap()
    }

    /// Returns the sequence number of the next entry.
    fn next_seq(&self) -> u64 {
        self.writer().log(&Operation::Run { ts: at(0), input: "next" })
    }
}
