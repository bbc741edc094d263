//! Sessions: their end, their limits, and damaged files.

use std::fs;

use super::*;
use crate::access::token::TokenFile;

fn store() -> (tempfile::TempDir, SessionStore, TokenFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("token"));
    file.obtain().unwrap();
    let store = SessionStore::for_test(folder.path());
    (folder, store, file)
}

#[test]
fn session_is_found_by_its_cookie_until_it_ends() {
    let (_folder, store, file) = store();
    let token = file.read().unwrap();
    let cookie = store.begin(Role::View, None, "Firefox\u{1b}[31m\u{202e}/1", &token).unwrap();
    assert_eq!(cookie.len(), 64);
    assert_eq!(store.find(&cookie, &token).unwrap().unwrap().role, Role::View);
    assert!(store.find(&cookie[1..], &token).unwrap().is_none() && store.find("", &token).unwrap().is_none());
    let listed = store.list();
    assert_eq!(listed.len(), 1);
    let document = serde_json::json!({ "sessions": listed });
    assert_eq!(nerve_testkit::json_style::style_violations(&document), Default::default());
    assert_eq!((listed[0].user_agent.as_str(), listed[0].web_session_id.len()), ("Firefox[31m/1", 12));
    assert!(!format!("{listed:?}").contains(&cookie[..12]));
    // Another server process sees the same sessions.
    let other = SessionStore::new(store.records.folder().to_path_buf(), store.shares.clone());
    assert!(other.find(&cookie, &token).unwrap().is_some());
    other.end_by_id(&listed[0].web_session_id).unwrap();
    assert!(store.find(&cookie, &token).unwrap().is_none() && store.list().is_empty());
}

#[test]
fn new_token_ends_sessions() {
    let (_folder, store, file) = store();
    let cookie = store.begin(Role::Full, None, "", &file.read().unwrap()).unwrap();
    let token = file.rotate().unwrap();
    assert!(store.find(&cookie, &token).unwrap().is_none());
    assert!(store.list().is_empty());
}

/// Sets the login time of the only session to one lifetime ago.
fn expire(store: &SessionStore) -> PathBuf {
    let digest = store.records.digests().remove(0);
    let mut record = store.records.read(&digest).unwrap().unwrap();
    record.created_at = TsMs(record.created_at.0 - u64::try_from(SESSION_LIFETIME.as_millis()).unwrap());
    store.records.write(&digest, &record).unwrap();
    store.records.path(&digest)
}

#[test]
fn old_session_expires() {
    let (_folder, store, file) = store();
    let token = file.read().unwrap();
    let cookie = store.begin(Role::Full, None, "", &token).unwrap();
    let path = expire(&store);
    assert!(store.find(&cookie, &token).unwrap().is_none());
    assert!(!path.exists());
}

#[test]
fn unreadable_session_has_not_ended() {
    let (_folder, store, file) = store();
    let token = file.read().unwrap();
    let cookie = store.begin(Role::Full, None, "", &token).unwrap();
    let digest = store.records.digests().remove(0);
    let path = store.records.path(&digest);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(store.find(&cookie, &token).is_err() && !store.has_ended(&digest));
}

#[test]
fn sessions_are_bounded() {
    let (_folder, store, file) = store();
    let token = file.read().unwrap();
    for _ in 0..MAX_SESSIONS + 3 {
        store.begin(Role::View, None, "", &token).unwrap();
    }
    assert_eq!(store.list().len(), MAX_SESSIONS);
}

#[tokio::test(start_paused = true)]
async fn removed_file_revokes_live_session() {
    assert!(is_revoked_after(|store| store.records.remove(&store.records.digests()[0]).unwrap()).await);
}

#[tokio::test(start_paused = true)]
async fn expiry_revokes_live_session() {
    assert!(is_revoked_after(|store| drop(expire(store))).await);
    assert!(!is_revoked_after(|_| {}).await);
}

/// Returns true if a live session is revoked soon after a change.
async fn is_revoked_after(change: impl FnOnce(&SessionStore)) -> bool {
    let (_folder, store, file) = store();
    let token = file.read().unwrap();
    let cookie = store.begin(Role::Full, None, "", &token).unwrap();
    let found = store.find(&cookie, &token).unwrap().unwrap();
    let revoked = store.revocation(&found, &CancellationToken::new());
    change(&store);
    let watch = store.watch(|| file.read().ok());
    let ended = tokio::time::timeout(2 * POLL_INTERVAL, async {
        tokio::select! {
            () = watch => false,
            () = revoked.cancelled() => true,
        }
    });
    ended.await.unwrap_or(false)
}
