use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::conversation::Role;

fn said(content: impl Into<String>) -> [Message; 1] {
    [Message::new(Role::User, content, 1)]
}

fn reader() -> ProgramSession {
    ProgramSession::new("p", None)
}

fn store() -> (ConversationStore, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (ConversationStore::new(folder.path().join("conversations")), folder)
}

fn contents(store: &ConversationStore, id: &ConversationId) -> Vec<String> {
    let loaded = store.load(id);
    assert_eq!(loaded.problem, None);
    loaded.messages.into_iter().map(|message| message.content).collect()
}

/// Counts the files set aside next to this one.
fn set_aside(path: &Path) -> usize {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().contains(".broken-")).count()
}

#[test]
fn file_names_are_unique_and_stay_below_the_base() {
    let (store, _folder) = store();
    let path = |workspace: &str, chat: &str| store.path(&ConversationId::new(workspace, chat));
    assert_eq!(path("work", "test-Chat_1"), store.base.join("work/test-Chat_1.json"));
    let long = "n".repeat(300);
    let names = [
        "a",
        "a_",
        "a/",
        "a.",
        "a ",
        "ä",
        "ö",
        "..",
        "../../etc",
        "/",
        ".lock",
        "a\0b",
        "a\nb",
        "a_b",
        &long,
        &(long.clone() + "n"),
    ];
    let mut paths = HashSet::new();
    for workspace in names {
        for chat in names {
            let path = path(workspace, chat);
            assert_eq!(path.parent().unwrap().parent(), Some(store.base.as_path()), "{path:?}");
            assert!(path.components().all(|part| part.as_os_str().len() <= 255 && part.as_os_str() != ".."));
            assert!(paths.insert(path.clone()), "{path:?} twice");
        }
    }
}

#[test]
fn appended_messages_are_stored_privately_and_indented() {
    let (store, _folder) = store();
    let id = ConversationId::new("w", "c");
    assert!(contents(&store, &id).is_empty());
    store.append(&id, &said("one"), &reader(), &[]).unwrap();
    store.append(&id, &[Message::new(Role::Assistant, "two", 2)], &reader(), &[]).unwrap();
    assert_eq!(contents(&store, &id), ["one", "two"]);
    let path = store.path(&id);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap()), mode(&store.base)), (0o600, 0o700, 0o700));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("[\n  {\n    \"role\": \"user\",\n    \"content\": \"one\""), "{text}");
}

#[test]
fn a_hundred_messages_are_kept_and_large_ones_cut() {
    let (store, _folder) = store();
    let id = ConversationId::new("w", "c");
    let many: Vec<Message> =
        (0..150).map(|at| Message::new(Role::User, format!("Message {at}"), at)).collect();
    store.append(&id, &many, &reader(), &[]).unwrap();
    let kept = contents(&store, &id);
    assert_eq!((kept.len(), kept[0].as_str(), kept[99].as_str()), (100, "Message 50", "Message 149"));
    let huge = format!("a{}z", "ä".repeat(1 << 20));
    store.append(&id, &said(huge), &reader(), &[]).unwrap();
    let kept = contents(&store, &id);
    assert_eq!(kept.len(), 100);
    let cut = &kept[99];
    assert!(cut.len() < MAX_MESSAGE + 100 && cut.starts_with('a') && cut.ends_with('z'), "{}", cut.len());
    // Six bytes each as JSON: thirty of them exceed the size of a file.
    let worst: Vec<Message> =
        (0..30).map(|at| Message::new(Role::User, "\u{1}".repeat(MAX_MESSAGE), at)).collect();
    store.append(&id, &worst, &reader(), &[]).unwrap();
    let kept = contents(&store, &id).len();
    assert!(kept > 0 && kept < 30, "{kept}");
}

#[test]
fn invalid_files_are_set_aside_and_reported() {
    let (store, _folder) = store();
    let id = ConversationId::new("w", "c");
    store.append(&id, &said("one"), &reader(), &[]).unwrap();
    let path = store.path(&id);
    let broken: [&dyn Fn(); 6] = [
        &|| fs::write(&path, "{ no json").unwrap(),
        &|| fs::write(&path, r#"{"role":"user"}"#).unwrap(),
        &|| fs::write(&path, r#"[{"role":"user","content":5,"timestamp":1}]"#).unwrap(),
        &|| fs::write(&path, b"[\"\xff\"]").unwrap(),
        &|| fs::File::create(&path).unwrap().set_len(MAX_FILE + 1).unwrap(),
        &|| {
            let _ = fs::remove_file(&path);
            fs::create_dir(&path).unwrap();
        },
    ];
    for (at, damage) in broken.iter().enumerate() {
        damage();
        let loaded = store.load(&id);
        let problem = loaded.problem.unwrap_or_else(|| panic!("{at}: no problem reported"));
        assert!(loaded.messages.is_empty() && problem.contains("c.json.broken-"), "{problem}");
        assert_eq!(set_aside(&path), 2 * at + 1);
        // The writer handles the file in the same way.
        damage();
        let problem = store.append(&id, &said("new"), &reader(), &[]).unwrap();
        assert!(problem.is_some_and(|problem| problem.contains("could not be used")));
        assert_eq!(contents(&store, &id), ["new"]);
        assert_eq!(set_aside(&path), 2 * at + 2);
    }
}

#[test]
fn unusable_folder_is_reported() {
    let (store, folder) = store();
    let id = ConversationId::new("w", "c");
    fs::write(folder.path().join("conversations"), "a file").unwrap();
    let error = store.append(&id, &said("x"), &reader(), &[]).unwrap_err();
    assert!(error.contains("was not added to") && error.contains("w/c.json"), "{error}");
    assert!(store.load(&id).problem.is_some());
}

#[test]
fn concurrent_writers_lose_nothing() {
    let (store, _folder) = store();
    let id = ConversationId::new("w", "c");
    std::thread::scope(|scope| {
        for writer in 0..5 {
            let (store, id) = (store.clone(), id.clone());
            scope.spawn(move || {
                for number in 0..20 {
                    store.append(&id, &said(format!("{writer}.{number}")), &reader(), &[]).unwrap();
                }
            });
        }
    });
    let kept = contents(&store, &id);
    assert_eq!(kept.iter().collect::<HashSet<_>>().len(), 100);
    // The messages of each writer are in order.
    let of_one: Vec<&String> = kept.iter().filter(|content| content.starts_with("3.")).collect();
    assert_eq!(
        of_one,
        (0..20).map(|number| format!("3.{number}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
}

#[test]
fn wait_for_held_lock_times_out() {
    let (mut store, _folder) = store();
    store.lock_timeout = Duration::from_millis(100);
    let id = ConversationId::new("w", "c");
    store.append(&id, &said("one"), &reader(), &[]).unwrap();
    let held = store.lock(&store.path(&id)).unwrap();
    let error = store.append(&id, &said("two"), &reader(), &[]).unwrap_err();
    assert!(error.contains("another process has held"), "{error}");
    // A reader needs no lock.
    assert_eq!(contents(&store, &id), ["one"]);
    drop(held);
}

#[test]
fn seen_marks_are_stored() {
    let (store, _folder) = store();
    let id = ConversationId::new("w", "c");
    let (one, two) = (ProgramSession::new("1", None), ProgramSession::new("2", None));
    store.append(&id, &said("by one"), &one, &[]).unwrap();
    let messages = store.load(&id).messages;
    assert!(one.has_seen(&messages[0]) && !two.has_seen(&messages[0]));
    store.append(&id, &said("by two"), &two, &messages).unwrap();
    let messages = store.load(&id).messages;
    assert!(two.has_seen(&messages[0]) && two.has_seen(&messages[1]) && !one.has_seen(&messages[1]));
}
