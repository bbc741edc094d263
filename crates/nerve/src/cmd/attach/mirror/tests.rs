use nerve_core::host::HostSpec;
use nerve_core::host::process::Host;
use nerve_term::keys::{Code, Key};
use tempfile::TempDir;

use super::*;

const SIZE: Size = Size { cols: 40, rows: 8 };
const LIMIT: Duration = Duration::from_secs(30);

async fn host(argv: &[&str]) -> (Host, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (id, session_id) = HostSpec::new_ids();
    let spec = HostSpec {
        runtime: folder.path().join(&id),
        id,
        session_id,
        argv: argv.iter().map(ToString::to_string).collect(),
        cwd: None,
        env: [("PS1".to_string(), "$ ".to_string())].into(),
        env_remove: Vec::new(),
        cols: SIZE.cols,
        rows: SIZE.rows,
        recording: None,
        must_record: false,
        quality: 0,
        registry: folder.path().to_path_buf(),
        snapshots_at: None,
        label: serde_json::Value::Null,
        end: None,
        viewed: false,
    };
    (Host::start(spec).await.unwrap(), folder)
}

fn source(host: &Host, folder: &TempDir) -> TerminalMirror {
    TerminalMirror::open(host.entry.clone(), folder.path(), None, SizeRule::Smallest, Some(SIZE)).unwrap()
}

/// What is seen until something is so.
async fn until(
    source: &mut TerminalMirror,
    mut is_so: impl FnMut(&TerminalMirror, &Seen) -> bool,
) -> Vec<Seen> {
    let mut all = Vec::new();
    let seeing = async {
        loop {
            let seen = source.next().await.unwrap();
            let enough = is_so(source, &seen);
            all.push(seen);
            if enough {
                return;
            }
        }
    };
    let seen = tokio::time::timeout(LIMIT, seeing).await;
    assert!(seen.is_ok(), "{all:?}\n{}", source.terminal().screen().text());
    all
}

/// Key by key; false if one was not taken.
fn types(source: &mut TerminalMirror, text: &str) -> bool {
    let key = |c| if c == '\r' { Key::plain(Code::Enter) } else { Key::char(c) };
    text.chars().all(|c| source.send(&Input::Key(key(c))))
}

fn shows(text: &str) -> impl FnMut(&TerminalMirror, &Seen) -> bool {
    move |source, _| source.terminal().screen().text().contains(text)
}

#[tokio::test]
async fn a_shell_is_seen_to_be_ready_with_evidence_and_nobody_types_into_it() {
    let (host, folder) = host(&["bash", "--norc", "--noprofile"]).await;
    let mut source = source(&host, &folder);
    until(&mut source, |source, _| source.state().0 == "ready").await;
    assert!(!source.is_catching_up() && source.state().1.contains(": "), "{:?}", source.state());
    assert_eq!(source.terminal().screen().text().trim(), "$");
    assert!(types(&mut source, "cat\r"));
    until(&mut source, |source, _| source.state().0 == "busy").await;
    // The end of cat's input.
    assert!(source.send(&Input::Key(Key::ctrl('d'))));
    until(&mut source, |source, _| source.state().0 == "ready").await;
    assert!(types(&mut source, "exit 3\r"));
    let seen = until(&mut source, |_, seen| matches!(seen, Seen::Ended(_))).await;
    assert_eq!(seen.last(), Some(&Seen::Ended(ExitStatus::Code(3))));
    assert_eq!(source.state().0, "exited");
    assert!(!types(&mut source, "more"), "nobody is there");
    let more = tokio::time::timeout(Duration::from_millis(20), source.next()).await;
    assert!(more.is_err(), "the end is told once");
}

#[tokio::test]
async fn titles_are_told_and_a_frame_that_is_not_finished_in_time_is_shown() {
    let script = r"printf '\033]2;one\007'; read a; printf '\033]2;two\007\033[?2026h torn'; read a";
    let (host, folder) = host(&["sh", "-c", script]).await;
    let mut source = source(&host, &folder);
    until(&mut source, |_, seen| *seen == Seen::Title).await;
    assert_eq!(source.terminal().title(), "one");
    assert!(types(&mut source, "\r"));
    until(&mut source, |_, seen| *seen == Seen::Title).await;
    assert_eq!(source.terminal().title(), "two");
    until(&mut source, shows("torn")).await;
}

#[tokio::test]
async fn many_outputs_are_one_thing_to_see() {
    let (host, folder) = host(&["sh", "-c", "seq 100000; read a"]).await;
    let mut source = source(&host, &folder);
    let seen = until(&mut source, shows("100000")).await;
    let reads = usize::try_from(source.terminal().offset()).unwrap() / 4096;
    assert!(seen.len() < reads, "{} for about {reads} reads", seen.len());
}

#[tokio::test]
async fn it_is_stopped_from_here_and_what_was_asked_for_before_it_is_over_is_no_fault() {
    let (host, folder) = host(&["sleep", "1000"]).await;
    let mut source = source(&host, &folder);
    source.view(Size::new(20, 5));
    until(&mut source, |source, _| source.terminal().size() == Size::new(20, 5)).await;
    source.stop();
    let seen = until(&mut source, |_, seen| matches!(seen, Seen::Ended(_))).await;
    assert!(matches!(seen.last(), Some(Seen::Ended(ExitStatus::Signal(_)))), "{seen:?}");
    assert!(!seen.iter().any(|seen| matches!(seen, Seen::Fault(_))), "{seen:?}");
}

#[tokio::test]
async fn a_host_that_is_gone_without_a_word_is_told() {
    let (mut host, folder) = host(&["true"]).await;
    let mut entry = host.entry.clone();
    host.finished().await;
    entry.exit = None;
    // As one whose process was killed.
    entry.start = 1;
    entry.forget(folder.path());
    let mut source =
        TerminalMirror::open(entry, folder.path(), None, SizeRule::Smallest, Some(SIZE)).unwrap();
    let seen = until(&mut source, |_, seen| matches!(seen, Seen::Ended(_))).await;
    assert!(
        matches!(&seen[0], Seen::Fault(why) if why.contains("is gone, and its program with it")),
        "{seen:?}"
    );
    assert_eq!(seen.last(), Some(&Seen::Ended(ExitStatus::Unknown)));
}
