//! Snapshot ids, and concurrent access to the store.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nerve_record::files::{FilesError, find_provider};
use nerve_record::snapshots::FilesRef;

use crate::Fixture;

#[test]
fn ids_are_unique() {
    let fixture = Fixture::new();
    assert_eq!(fixture.store().next_id("a", []).unwrap(), 1);
    assert_eq!(fixture.store().next_id("a", []).unwrap(), 2);
    assert_eq!(fixture.store().next_id("a", [7, 5]).unwrap(), 8);
    assert_eq!(fixture.store().next_id("b", []).unwrap(), 1);
    assert!(matches!(fixture.store().next_id("../a", []), Err(FilesError::Key(_))));
}

#[test]
fn concurrent_callers_get_different_ids() {
    let fixture = Fixture::new();
    let mut ids: Vec<u64> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let store = fixture.store();
                scope.spawn(move || (0..10).map(|_| store.next_id("a", []).unwrap()).collect::<Vec<_>>())
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    ids.sort_unstable();
    assert_eq!(ids, (1..=80).collect::<Vec<_>>());
}

#[test]
fn store_is_private() {
    let fixture = Fixture::new();
    fixture.store().next_id("a", []).unwrap();
    let mode = |path: &str| {
        let path = fixture.store().root().join(path);
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("a"), mode("a/lock")), (0o700, 0o700, 0o600));
}

#[test]
fn unknown_references_are_rejected() {
    let fixture = Fixture::new();
    let cases = [
        ("copy", "../../etc"),
        ("copy", "a/../b/1"),
        ("copy", "/etc"),
        ("reflink", "a"),
        ("git", "refs/heads/main"),
        ("git", "refs/nerve/snapshots/../../heads/main"),
        ("git", "--upload-pack=x"),
        ("zfs", "a/1"),
    ];
    for (provider, reference) in cases {
        let files =
            FilesRef { provider: provider.into(), source: fixture.work(), reference: reference.into() };
        let error = find_provider(&files, &fixture.store()).err();
        assert!(matches!(error, Some(FilesError::Reference { .. })), "{provider} {reference}: {error:?}");
    }
    let files = FilesRef {
        provider: "git".into(),
        source: fixture.work(),
        reference: "refs/nerve/snapshots/a/1".into(),
    };
    assert!(matches!(find_provider(&files, &fixture.store()).err(), Some(FilesError::NoWorkTree { .. })));
}
