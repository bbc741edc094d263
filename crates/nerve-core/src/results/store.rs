//! The files of results: `<folder>/<id>.json`, and an empty `<id>.open` beside each that something is still done for. All of this blocks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::ResultRecord;
use crate::files::{private_folder, replace};

/// Results kept; of more, the newest.
pub(super) const KEPT: usize = 1000;
/// How long a result is kept.
pub(super) const AGE: Duration = Duration::from_secs(7 * 86_400);
/// Bytes a result's file may have.
const MAX_FILE: u64 = 64 << 20;
/// Digits of an id that say when it was made, in milliseconds.
const TIME_DIGITS: usize = 11;

/// An id: its order is that of time.
pub(super) fn new_id(ms: u64) -> String {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    format!("{ms:0TIME_DIGITS$x}{random:08x}")
}

/// When the result of that id was asked for, in milliseconds since the Unix epoch; `None` for what is no id.
fn time_of(id: &str) -> Option<u64> {
    let is_id =
        id.len() == TIME_DIGITS + 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(id.get(..TIME_DIGITS).filter(|_| is_id)?, 16).ok()
}

/// The results of one server.
#[derive(Debug, Clone)]
pub(super) struct ResultStore {
    folder: PathBuf,
}

impl ResultStore {
    pub(super) fn new(folder: PathBuf) -> ResultStore {
        ResultStore { folder }
    }

    /// Writes a result that something is still done for, the first time.
    pub(super) fn open(&self, record: &ResultRecord) -> io::Result<()> {
        private_folder(&self.folder)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.mark(&record.result_id))?;
        self.save(record).inspect_err(|_| self.close(&record.result_id))
    }

    pub(super) fn save(&self, record: &ResultRecord) -> io::Result<()> {
        replace(&self.file(&record.result_id), &serde_json::to_vec_pretty(record)?)
    }

    /// Nothing is done for it any more.
    pub(super) fn close(&self, id: &str) {
        // The next server finds the mark, and that nothing is left to do.
        let _ = fs::remove_file(self.mark(id));
    }

    /// A result; `None` if there is no such one.
    pub(super) fn get(&self, id: &str) -> io::Result<Option<ResultRecord>> {
        if time_of(id).is_none() {
            return Ok(None);
        }
        let file = match File::open(self.file(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    /// Ids of all results, newest first.
    pub(super) fn ids(&self) -> Vec<String> {
        self.with_extension("json")
    }

    /// Those that a server that is gone still had something to do for.
    pub(super) fn left_open(&self) -> Vec<String> {
        self.with_extension("open")
    }

    /// Removes what is too old or too many; not what something is still done for.
    pub(super) fn prune(&self, now_ms: u64) {
        let oldest = now_ms.saturating_sub(u64::try_from(AGE.as_millis()).unwrap_or(u64::MAX));
        for (at, id) in self.ids().into_iter().enumerate() {
            let old = time_of(&id).is_some_and(|made| made < oldest);
            if (old || at >= KEPT) && !self.mark(&id).exists() {
                // It is tried again the next time.
                let _ = fs::remove_file(self.file(&id));
            }
        }
    }

    fn with_extension(&self, extension: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let id = |path: PathBuf| {
            let ours = path.extension().is_some_and(|found| found == extension);
            path.file_stem()?.to_str().filter(|id| ours && time_of(id).is_some()).map(str::to_string)
        };
        let mut ids: Vec<String> = entries.flatten().filter_map(|entry| id(entry.path())).collect();
        ids.sort_unstable_by(|one, other| other.cmp(one));
        ids
    }

    fn file(&self, id: &str) -> PathBuf {
        Path::new(&self.folder).join(format!("{id}.json"))
    }

    fn mark(&self, id: &str) -> PathBuf {
        Path::new(&self.folder).join(format!("{id}.open"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn record(id: String) -> ResultRecord {
        ResultRecord { result_id: id, ..ResultRecord::default() }
    }

    #[test]
    fn ids_are_in_the_order_of_time_and_nothing_else_is_one() {
        let (one, two) = (new_id(1_800_000_000_000), new_id(1_800_000_000_001));
        assert!(one < two && time_of(&one) == Some(1_800_000_000_000), "{one}");
        for no in [
            "",
            "../x",
            "..",
            &one[1..],
            &one.to_uppercase().replace(char::is_numeric, "A"),
            "é23456789012345678",
        ] {
            assert_eq!(time_of(no), None, "{no}");
        }
    }

    #[test]
    fn what_is_written_is_found_private_and_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::new(folder.path().join("a/b"));
        assert!(store.ids().is_empty() && store.get(&new_id(1)).unwrap().is_none());
        let now = 1_800_000_000_000;
        let old = now - u64::try_from(AGE.as_millis()).unwrap() - 1;
        let (kept, gone, open) = (new_id(now), new_id(old), new_id(old));
        for id in [&kept, &gone, &open] {
            store.open(&record(id.clone())).unwrap();
        }
        assert_eq!(store.left_open().len(), 3);
        let mode = store.file(&kept).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        store.close(&kept);
        store.close(&gone);
        store.prune(now);
        assert_eq!(store.get(&kept).unwrap(), Some(record(kept.clone())));
        assert_eq!(store.get(&gone).unwrap(), None);
        assert_eq!(store.left_open(), std::slice::from_ref(&open));
        assert_eq!(store.ids(), [kept, open]);
    }

    #[test]
    fn a_thousand_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::new(folder.path().to_path_buf());
        let ids: Vec<String> = (0..KEPT as u64 + 3).map(new_id).collect();
        for id in &ids {
            std::fs::write(store.file(id), "{}").unwrap();
        }
        store.prune(5000);
        assert_eq!(store.ids().len(), KEPT);
        assert!(!store.file(&ids[2]).exists() && store.file(&ids[3]).exists());
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::new(folder.path().to_path_buf());
        let id = new_id(1);
        std::fs::write(store.file(&id), "{").unwrap();
        assert!(store.get(&id).is_err());
    }
}
