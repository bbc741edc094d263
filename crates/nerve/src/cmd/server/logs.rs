//! `nerve server logs`: prints the log of a server in the background.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use nerve_server::paths::ServerPaths;
use nerve_types::os::FolderWatcher;
use serde_json::json;

use crate::exit::{Failure, NOT_FOUND};
use crate::out;
use nerve_cli::server::{LogsArgs, or_default_name};

/// Prints the log, and with `--follow` what is appended to it.
pub(crate) async fn run(args: &LogsArgs) -> Result<()> {
    let name = or_default_name(args.name.as_deref());
    let path = ServerPaths::from_env().log(&name)?;
    let folder = path.parent().unwrap_or(&path);
    // Watched before the log is read, so that no change is missed.
    let watcher = if args.follow { Some(FolderWatcher::new()?) } else { None };
    if let Some(watcher) = &watcher {
        watcher.watch_folder(folder)?;
    }
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::new(NOT_FOUND, format!("server '{name}' has no log"))
                .hint("list the running servers with 'nerve server list'")
                .into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
    };
    let text = read_rest(&mut file)?;
    let text = last_lines(&text, args.lines);
    if args.json {
        let text = String::from_utf8_lossy(text);
        let lines: Vec<&str> = text.lines().collect();
        return out::json(&json!({ "server_name": name, "path": path, "lines": lines }));
    }
    out::bytes(text)?;
    let Some(watcher) = watcher else { return Ok(()) };
    loop {
        watcher.changed().await?;
        out::bytes(&read_rest(&mut file)?)?;
        if let Some(next) = successor(&file, &path)? {
            file = next;
            out::bytes(&read_rest(&mut file)?)?;
        }
    }
}

/// Returns the file that has replaced an open log.
fn successor(open: &File, path: &Path) -> io::Result<Option<File>> {
    let (open, now) = match (open.metadata()?, fs::metadata(path)) {
        (open, Ok(now)) => (open, now),
        (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        (_, Err(error)) => return Err(error),
    };
    if open.ino() == now.ino() && open.dev() == now.dev() {
        return Ok(None);
    }
    File::open(path).map(Some)
}

/// Reads from the position of the file to its end. Starts again if the file has become shorter.
fn read_rest(file: &mut File) -> io::Result<Vec<u8>> {
    if file.stream_position()? > file.metadata()?.len() {
        file.seek(SeekFrom::Start(0))?;
    }
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    Ok(rest)
}

/// Returns the last `count` lines, or all.
fn last_lines(text: &[u8], count: Option<usize>) -> &[u8] {
    let Some(count) = count else { return text };
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    if count == 0 {
        return &[];
    }
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let start = ends.map(|(at, _)| at + 1).nth(count - 1).unwrap_or_default();
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_count_from_the_end() {
        let text = b"a\nb\nc\n";
        let last = |count| last_lines(text, count);
        assert_eq!(last(None), text);
        assert_eq!(last(Some(0)), b"");
        assert_eq!(last(Some(1)), b"c\n");
        assert_eq!(last(Some(2)), b"b\nc\n");
        assert_eq!(last(Some(9)), text);
        assert_eq!(last_lines(b"a\nb", Some(1)), b"b");
    }

    #[test]
    fn replaced_log_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        fs::write(&path, "old\n").unwrap();
        let mut file = File::open(&path).unwrap();
        assert_eq!(read_rest(&mut file).unwrap(), b"old\n");
        assert!(successor(&file, &path).unwrap().is_none());
        fs::rename(&path, dir.path().join("x.log.old")).unwrap();
        assert!(successor(&file, &path).unwrap().is_none());
        fs::write(&path, "new\n").unwrap();
        let mut next = successor(&file, &path).unwrap().unwrap();
        assert_eq!(read_rest(&mut next).unwrap(), b"new\n");
    }
}
