//! The files of results: `<folder>/<id>.json`, and an empty `<id>.open` next to each result in progress. All functions block.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_api::reply::ResultInfo;
use nerve_types::activity::TsMs;
use nerve_types::files::{private_folder, read_limited, replace};
use serde_json::{Map, Value};

/// Maximum number of results kept; the newest are kept.
pub(super) const MAX_RESULTS: usize = 1000;
/// Retention time of a result.
pub(super) const MAX_AGE: Duration = Duration::from_secs(7 * 86_400);
/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Number of hexadecimal digits of an id that hold its creation time in milliseconds.
const TIME_DIGITS: usize = 11;

/// Creates an id. Ids sort by time.
pub(super) fn new_id(ms: u64) -> String {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    format!("{ms:0TIME_DIGITS$x}{random:08x}")
}

/// Returns the creation time of an id in milliseconds since the Unix epoch, or `None` if it is not a valid id.
fn creation_time(id: &str) -> Option<u64> {
    let is_id =
        id.len() == TIME_DIGITS + 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(id.get(..TIME_DIGITS).filter(|_| is_id)?, 16).ok()
}

/// The result files of one server.
#[derive(Debug, Clone)]
pub(super) struct ResultStore {
    folder: PathBuf,
}

impl ResultStore {
    pub(super) fn new(folder: PathBuf) -> ResultStore {
        ResultStore { folder }
    }

    /// Writes a new result and marks it as in progress.
    pub(super) fn open(&self, record: &ResultInfo) -> io::Result<()> {
        private_folder(&self.folder)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.mark(&record.result_id))?;
        self.save(record).inspect_err(|_| self.close(&record.result_id))
    }

    pub(super) fn save(&self, record: &ResultInfo) -> io::Result<()> {
        replace(&self.file(&record.result_id), &serde_json::to_vec_pretty(record)?)
    }

    /// Removes the mark of a result in progress.
    pub(super) fn close(&self, id: &str) {
        // A mark that is left over is removed by the next server.
        let _ = fs::remove_file(self.mark(id));
    }

    /// Reads a result; `None` if there is none of that id.
    pub(super) fn get(&self, id: &str) -> io::Result<Option<ResultInfo>> {
        if creation_time(id).is_none() {
            return Ok(None);
        }
        match read_limited(&self.file(id), MAX_FILE) {
            Ok(bytes) => Ok(Some(decode(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the ids of all results, newest first.
    pub(super) fn ids(&self) -> Vec<String> {
        self.with_extension("json")
    }

    /// Returns the results that a previous server left in progress.
    pub(super) fn unfinished(&self) -> Vec<String> {
        self.with_extension("open")
    }

    /// Removes results that are too old or too many, except those in progress.
    pub(super) fn prune(&self, now_ms: u64) {
        let oldest = now_ms.saturating_sub(nerve_types::millis(MAX_AGE));
        for (at, id) in self.ids().into_iter().enumerate() {
            let old = creation_time(&id).is_some_and(|made| made < oldest);
            if (old || at >= MAX_RESULTS) && !self.mark(&id).exists() {
                // On failure it is tried again next time.
                let _ = fs::remove_file(self.file(&id));
            }
        }
    }

    fn with_extension(&self, extension: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let id = |path: PathBuf| {
            let ours = path.extension().is_some_and(|found| found == extension);
            path.file_stem()?.to_str().filter(|id| ours && creation_time(id).is_some()).map(str::to_string)
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

/// Decodes a file. Older files have the error's fields in an object, the turn's number in the response, and times in seconds.
fn decode(bytes: &[u8]) -> serde_json::Result<ResultInfo> {
    let mut record: Map<String, Value> = serde_json::from_slice(bytes)?;
    if let Some(Value::Object(error)) = record.get("error").cloned() {
        record.extend(error);
        record["error"] = record.remove("message").unwrap_or_default();
    }
    if let Some(turn) = record.get("response").and_then(|response| response.get("turn")).cloned() {
        record.insert("turn".to_string(), turn);
    }
    convert_seconds(&mut record, &["created_at", "started_at", "ended_at"]);
    let attempts = record.get_mut("webhook").and_then(|webhook| webhook.get_mut("attempts"));
    for attempt in
        attempts.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
    {
        if let Some(at) = attempt.remove("at") {
            attempt.insert("attempted_at".to_string(), at);
            convert_seconds(attempt, &["attempted_at"]);
        }
    }
    serde_json::from_value(Value::Object(record))
}

/// Replaces seconds since the Unix epoch with times.
fn convert_seconds(fields: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(seconds) = fields.get(*name).and_then(Value::as_f64) {
            let time = TsMs((seconds * 1000.0).round() as u64);
            fields.insert((*name).to_string(), time.iso().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nerve_api::ErrorKind;
    use serde_json::json;

    use super::*;

    fn record(id: String) -> ResultInfo {
        ResultInfo { result_id: id, ..ResultInfo::default() }
    }

    #[test]
    fn ids_sort_by_time_and_reject_other_names() {
        let (one, two) = (new_id(1_800_000_000_000), new_id(1_800_000_000_001));
        assert!(one < two && creation_time(&one) == Some(1_800_000_000_000), "{one}");
        for no in [
            "",
            "../x",
            "..",
            &one[1..],
            &one.to_uppercase().replace(char::is_numeric, "A"),
            "é23456789012345678",
        ] {
            assert_eq!(creation_time(no), None, "{no}");
        }
    }

    #[test]
    fn stored_results_are_private_and_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::new(folder.path().join("a/b"));
        assert!(store.ids().is_empty() && store.get(&new_id(1)).unwrap().is_none());
        let now = 1_800_000_000_000;
        let old = now - u64::try_from(MAX_AGE.as_millis()).unwrap() - 1;
        let (kept, gone, open) = (new_id(now), new_id(old), new_id(old));
        for id in [&kept, &gone, &open] {
            store.open(&record(id.clone())).unwrap();
        }
        assert_eq!(store.unfinished().len(), 3);
        let mode = store.file(&kept).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        store.close(&kept);
        store.close(&gone);
        store.prune(now);
        assert_eq!(store.get(&kept).unwrap(), Some(record(kept.clone())));
        assert_eq!(store.get(&gone).unwrap(), None);
        assert_eq!(store.unfinished(), std::slice::from_ref(&open));
        assert_eq!(store.ids(), [kept, open]);
    }

    #[test]
    fn a_thousand_results_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::new(folder.path().to_path_buf());
        let ids: Vec<String> = (0..MAX_RESULTS as u64 + 3).map(new_id).collect();
        for id in &ids {
            std::fs::write(store.file(id), "{}").unwrap();
        }
        store.prune(5000);
        assert_eq!(store.ids().len(), MAX_RESULTS);
        assert!(!store.file(&ids[2]).exists() && store.file(&ids[3]).exists());
    }

    #[test]
    fn damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::new(folder.path().to_path_buf());
        let id = new_id(1);
        std::fs::write(store.file(&id), "{").unwrap();
        assert!(store.get(&id).is_err());
    }

    #[test]
    fn results_survive_being_stored() {
        let failed = json!({
            "result_id": "x", "state": "failed", "error": "no answer", "error_type": "timeout", "screen": "…",
            "choices": ["Yes"], "delivery": "typed",
        });
        let done = json!({ "state": "done", "turn": 3, "response": { "text": "hello", "success": true } });
        for record in [failed, done] {
            let record: ResultInfo = serde_json::from_value(record).unwrap();
            assert_eq!(decode(&serde_json::to_vec(&record).unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn older_files_are_read() {
        let failed = json!({
            "result_id": "x", "status": "lost", "started_at": null, "response": null, "webhook": null,
            "error": { "message": "the server ended", "error_type": "lost", "hint": "run it again" },
        });
        let failed = decode(failed.to_string().as_bytes()).unwrap();
        assert_eq!(failed.error.as_deref(), Some("the server ended"));
        assert_eq!(
            (failed.error_type, failed.hint.as_deref()),
            (Some(ErrorKind::Lost), Some("run it again"))
        );
        let response = json!({ "text": "hello", "success": true, "node_id": "a", "turn": 3 });
        let done = json!({ "result_id": "x", "status": "done", "response": response, "error": null });
        let done = decode(done.to_string().as_bytes()).unwrap();
        assert_eq!((done.turn, done.error), (Some(3), None));
        assert_eq!(done.response.unwrap().text, "hello");
        let seconds = json!({
            "result_id": "x", "status": "done", "created_at": 1_764_500_000.123, "started_at": 1_764_500_000.2,
            "ended_at": null, "webhook": { "attempts": [{ "at": 1_764_500_004.5, "status": 200 }] },
        });
        let timed = decode(seconds.to_string().as_bytes()).unwrap();
        assert_eq!(timed.created_at, TsMs(1_764_500_000_123));
        assert_eq!((timed.started_at, timed.ended_at), (Some(TsMs(1_764_500_000_200)), None));
        assert_eq!(timed.webhook.unwrap().attempts[0].attempted_at, TsMs(1_764_500_004_500));
    }
}
