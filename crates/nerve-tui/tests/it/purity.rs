//! The wall around the pure viewer.

use std::fs;
use std::path::{Path, PathBuf};

/// Whatever would give the viewer a clock, I/O, or the rest of its crate.
const FORBIDDEN: [&str; 13] = [
    "crate::live",
    "crate::recording",
    "crate::terminal",
    "crate::tool_view",
    "crate::viewer_session",
    "crossterm",
    "nerve_host",
    "nerve_record",
    "rustix",
    "std::fs",
    "Instant",
    "SystemTime",
    "tokio",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn view_does_no_io_and_reads_no_clock() {
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/view"));
    assert!(files.len() > 40, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let found = FORBIDDEN.iter().find(|word| text.contains(*word));
        assert_eq!(found, None, "{}", file.display());
    }
}
