//! The command line itself: what it is asked, and the two calls that take a server down, on the stand-in for WezTerm.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nerve_core::backend::pane::{NewPane, PaneError};
use nerve_core::backend::wezterm::{Keys, Range, Wezterm};
use nerve_types::Size;

use super::mux::{Mux, program};
use crate::harness::LIMIT;
use crate::matrix::until;

fn words(argv: &[&str]) -> NewPane {
    NewPane {
        argv: argv.iter().map(ToString::to_string).collect(),
        size: Size::new(60, 10),
        ..NewPane::default()
    }
}

/// A program that says when it is there, and reads nothing.
fn deaf() -> NewPane {
    words(&["bash", "-c", "stty raw -echo; echo deaf; exec sleep 1000"])
}

async fn shows(wezterm: &Wezterm, pane: &str, text: &str) {
    until(text, async || wezterm.text(pane, Range::screen(10), false).await.unwrap().contains(text)).await;
}

#[tokio::test]
async fn panes_of_the_fake_are_made_listed_focused_read_and_closed() {
    let mux = Mux::start();
    let wezterm = mux.wezterm();
    assert!(wezterm.list().await.unwrap().is_empty());
    let folder = tempfile::Builder::new().prefix("a b%").tempdir().unwrap();
    let env = BTreeMap::from([
        ("SECRET".to_string(), "s3".to_string()),
        ("HOME".to_string(), "/nowhere".to_string()),
    ]);
    let mut pane = words(&["bash", "-c", "echo $SECRET $HOME; pwd; exec cat"]);
    (pane.cwd, pane.env, pane.session) = (Some(folder.path().to_path_buf()), env, Some("work".into()));
    let one = wezterm.spawn(&pane).await.unwrap();
    let two = wezterm.spawn(&words(&["cat"])).await.unwrap();
    let listed = wezterm.list().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.pane.clone()).collect::<Vec<_>>(), [one.clone(), two.clone()]);
    shows(&wezterm, &one, "s3 /nowhere").await;
    let info = wezterm.pane_info(&one).await.unwrap();
    assert_eq!((info.cols, info.rows, info.session.as_str()), (60, 10, "work"));
    assert_eq!(info.cwd.as_deref(), Some(folder.path()));
    assert!(info.pid.is_some() && info.tty.is_some());
    wezterm.paste(&two, b"-n 'quoted' \xe6\x97\xa5").await.unwrap();
    wezterm.keys(&two, &Keys::new(b"\r").unwrap()).await.unwrap();
    shows(&wezterm, &two, "-n 'quoted' 日").await;
    wezterm.activate(&one).await.unwrap();
    wezterm.kill(&one).await.unwrap();
    assert_eq!(wezterm.list().await.unwrap().len(), 1);
    for gone in [wezterm.kill(&one).await, wezterm.activate(&one).await, wezterm.paste(&one, b"x").await] {
        assert!(matches!(gone, Err(PaneError::NoPane(ref pane)) if *pane == one), "{gone:?}");
    }
    assert!(matches!(wezterm.pane_info(&one).await, Err(PaneError::NoPane(_))));
}

#[tokio::test]
async fn what_wezterm_passes_silently_is_an_error() {
    let mux = Mux::start();
    let wezterm = mux.wezterm();
    let missing = wezterm.spawn(&words(&["no-such-program-at-all"])).await.unwrap_err().to_string();
    assert!(missing.contains("no program 'no-such-program-at-all'"), "{missing}");
    let mut nowhere = words(&["cat"]);
    nowhere.cwd = Some(PathBuf::from("/no/such/folder"));
    assert!(wezterm.spawn(&nowhere).await.unwrap_err().to_string().contains("/no/such/folder"));
    assert_eq!(mux.calls("spawn"), 0);
    assert!(wezterm.paste("0", b"\xff").await.unwrap_err().to_string().contains("UTF-8"));
    // Found by us and not by it: the pane is there, and says so.
    let said = mux.run(&["cli", "--no-auto-start", "spawn", "--new-window", "--", "no-such-program"]);
    let pane = String::from_utf8(said.stdout).unwrap().trim().to_string();
    assert!(said.status.success());
    assert!(wezterm.text(&pane, Range::screen(24), false).await.unwrap().contains("Unable to spawn"));
    assert_eq!(wezterm.pane_info(&pane).await.unwrap().tty, None);
}

#[tokio::test]
async fn no_program_and_no_server_are_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Wezterm::new(None).with_program(folder.path().join("wezterm"));
    assert!(matches!(missing.list().await, Err(PaneError::NotInstalled("wezterm"))));
    let socket = folder.path().join("sock").display().to_string();
    let alone = Wezterm::new(Some(socket)).with_program(program());
    assert!(matches!(alone.list().await, Err(PaneError::NoServer("wezterm"))));
}

#[tokio::test]
async fn a_call_that_hangs_has_a_limit() {
    let mux = Mux::start();
    mux.fault("hang");
    let wezterm = mux.wezterm().with_limit(Duration::from_millis(300));
    let began = Instant::now();
    assert!(matches!(wezterm.list().await, Err(PaneError::NoAnswer("wezterm", _))));
    assert!(began.elapsed() < Duration::from_secs(3));
    mux.fault("none");
    assert!(wezterm.list().await.unwrap().is_empty());
}

/// The first call that takes the real server down: the fake has it, and no range of ours is one.
#[tokio::test]
async fn a_range_that_ends_before_it_starts_ends_the_fake_and_cannot_be_asked_for() {
    let mut mux = Mux::start();
    let wezterm = mux.wezterm();
    let pane = wezterm.spawn(&words(&["bash", "-c", "seq 1 50; exec cat"])).await.unwrap();
    for range in
        [Range::screen(0), Range::screen(10), Range::screen(u16::MAX), Range::with_scrollback(10, u32::MAX)]
    {
        wezterm.text(&pane, range, false).await.unwrap();
    }
    assert!(!mux.has_ended());
    mux.run(&[
        "cli",
        "--no-auto-start",
        "get-text",
        "--pane-id",
        &pane,
        "--start-line",
        "5",
        "--end-line",
        "2",
    ]);
    assert!(nerve_testkit::wait_until(LIMIT, || mux.has_ended()), "the trap is in the fake");
    assert!(matches!(wezterm.list().await, Err(PaneError::NoServer(_))));
}

/// The second one: exact bytes to a program that does not read.
#[tokio::test]
async fn keys_after_an_unread_paste_freeze_the_fake_and_are_not_sent() {
    let mux = Mux::start();
    let wezterm = mux.wezterm().with_limit(Duration::from_millis(500));
    let pane = wezterm.spawn(&deaf()).await.unwrap();
    shows(&wezterm, &pane, "deaf").await;
    wezterm.paste(&pane, "x".repeat(200_000).as_bytes()).await.unwrap();
    // In the same process, and in another one that knows nothing of the paste.
    for wezterm in [&wezterm, &mux.wezterm().with_limit(Duration::from_millis(500))] {
        let refused = wezterm.keys(&pane, &Keys::new(b"\r").unwrap()).await.unwrap_err();
        assert!(refused.to_string().contains("has not read"), "{refused}");
    }
    assert_eq!(mux.calls("send-text --no-paste"), 0);
    assert!(wezterm.list().await.is_ok(), "it is alive");
    // What we do not do.
    let mut trap = std::process::Command::new(program());
    trap.args(["cli", "--no-auto-start", "send-text", "--no-paste", "--pane-id", &pane, "--", "\r"]);
    let mut trap = trap.env("WEZTERM_UNIX_SOCKET", mux.socket()).spawn().unwrap();
    until("the fake is frozen", async || matches!(wezterm.list().await, Err(PaneError::NoAnswer(..)))).await;
    trap.kill().unwrap();
    trap.wait().unwrap();
}
