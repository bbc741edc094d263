use nerve_host::HostSpec;
use nerve_host::process::Host;
use nerve_vt::keys::{Code, Key};
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

fn mirror(host: &Host, folder: &TempDir) -> TerminalMirror {
    TerminalMirror::open(
        host.entry.clone(),
        folder.path(),
        &Profiles::builtin(),
        SizeRule::Smallest,
        Some(SIZE),
    )
    .unwrap()
}

/// Returns the events until a condition holds.
async fn until(
    mirror: &mut TerminalMirror,
    mut is_so: impl FnMut(&TerminalMirror, &MirrorEvent) -> bool,
) -> Vec<MirrorEvent> {
    let mut all = Vec::new();
    let seeing = async {
        loop {
            let seen = mirror.next().await;
            let enough = is_so(mirror, &seen);
            all.push(seen);
            if enough {
                return;
            }
        }
    };
    let seen = tokio::time::timeout(LIMIT, seeing).await;
    assert!(seen.is_ok(), "{all:?}\n{}", mirror.terminal().screen().text());
    all
}

/// Types a text; false if a key was not accepted.
fn types(mirror: &mut TerminalMirror, text: &str) -> bool {
    let key = |c| if c == '\r' { Key::plain(Code::Enter) } else { Key::char(c) };
    text.chars().all(|c| mirror.send(&Input::Key(key(c))))
}

fn shows(text: &str) -> impl FnMut(&TerminalMirror, &MirrorEvent) -> bool {
    move |mirror, _| mirror.terminal().screen().text().contains(text)
}

#[tokio::test]
async fn detects_shell_states_without_typing() {
    let (host, folder) = host(&["bash", "--norc", "--noprofile"]).await;
    let mut mirror = mirror(&host, &folder);
    until(&mut mirror, |mirror, _| mirror.state().0 == "ready").await;
    assert!(!mirror.is_catching_up() && mirror.state().1.contains(": "), "{:?}", mirror.state());
    assert_eq!(mirror.terminal().screen().text().trim(), "$");
    assert!(types(&mut mirror, "cat\r"));
    until(&mut mirror, |mirror, _| mirror.state().0 == "busy").await;
    // The end of cat's input.
    assert!(mirror.send(&Input::Key(Key::ctrl('d'))));
    until(&mut mirror, |mirror, _| mirror.state().0 == "ready").await;
    assert!(types(&mut mirror, "exit 3\r"));
    let seen = until(&mut mirror, |_, seen| matches!(seen, MirrorEvent::Ended(_))).await;
    assert_eq!(seen.last(), Some(&MirrorEvent::Ended(ExitStatus::Code(3))));
    assert_eq!(mirror.state().0, "exited");
    assert!(!types(&mut mirror, "more"), "the program has ended");
    let more = tokio::time::timeout(Duration::from_millis(20), mirror.next()).await;
    assert!(more.is_err(), "the end is reported once");
}

#[tokio::test]
async fn reports_titles_and_expires_unfinished_frames() {
    let script = r"printf '\033]2;one\007'; read a; printf '\033]2;two\007\033[?2026h torn'; read a";
    let (host, folder) = host(&["sh", "-c", script]).await;
    let mut mirror = mirror(&host, &folder);
    until(&mut mirror, |_, seen| *seen == MirrorEvent::Title).await;
    assert_eq!(mirror.terminal().title(), "one");
    assert!(types(&mut mirror, "\r"));
    until(&mut mirror, |_, seen| *seen == MirrorEvent::Title).await;
    assert_eq!(mirror.terminal().title(), "two");
    until(&mut mirror, shows("torn")).await;
}

#[tokio::test]
async fn many_outputs_are_one_event() {
    let pipes = tempfile::tempdir().unwrap();
    let [go, done] = ["go", "done"].map(|name| pipes.path().join(name));
    let script = format!(
        "mkfifo {go} {done}; echo up; read a <{go}; seq 100000; echo >{done}; read a",
        go = go.display(),
        done = done.display()
    );
    let (host, folder) = host(&["sh", "-c", &script]).await;
    let mut mirror = mirror(&host, &folder);
    until(&mut mirror, shows("up")).await;
    let before = mirror.terminal().offset();
    // The host has read all outputs before the mirror reads one. A faster mirror would show each of them.
    let writing =
        tokio::task::spawn_blocking(move || std::fs::write(go, "\n").and_then(|()| std::fs::read(done)));
    tokio::time::timeout(LIMIT, writing).await.unwrap().unwrap().unwrap();
    let seen = until(&mut mirror, shows("100000")).await;
    let reads = usize::try_from(mirror.terminal().offset() - before).unwrap() / 4096;
    assert!(seen.len() < reads, "{} for about {reads} reads", seen.len());
}

#[tokio::test]
async fn stop_ends_the_program_without_faults() {
    let (host, folder) = host(&["sleep", "1000"]).await;
    let mut mirror = mirror(&host, &folder);
    mirror.set_size(Size::new(20, 5));
    until(&mut mirror, |mirror, _| mirror.terminal().size() == Size::new(20, 5)).await;
    mirror.stop();
    let seen = until(&mut mirror, |_, seen| matches!(seen, MirrorEvent::Ended(_))).await;
    assert!(matches!(seen.last(), Some(MirrorEvent::Ended(ExitStatus::Signal(_)))), "{seen:?}");
    assert!(!seen.iter().any(|seen| matches!(seen, MirrorEvent::Fault(_))), "{seen:?}");
}

#[tokio::test]
async fn killed_host_is_reported() {
    let (mut host, folder) = host(&["true"]).await;
    let mut entry = host.entry.clone();
    host.wait().await;
    entry.exit = None;
    // Like a host whose process was killed.
    entry.start = 1;
    entry.forget(folder.path());
    let mut mirror =
        TerminalMirror::open(entry, folder.path(), &Profiles::builtin(), SizeRule::Smallest, Some(SIZE))
            .unwrap();
    let seen = until(&mut mirror, |_, seen| matches!(seen, MirrorEvent::Ended(_))).await;
    assert!(
        matches!(&seen[0], MirrorEvent::Fault(reason) if reason.contains("is gone, and its program with it")),
        "{seen:?}"
    );
    assert_eq!(seen.last(), Some(&MirrorEvent::Ended(ExitStatus::Unknown)));
}
