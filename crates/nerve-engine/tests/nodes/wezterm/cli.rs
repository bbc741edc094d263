//! The `wezterm cli` client with the fake WezTerm, including the two calls that crash a real server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nerve_host::backend::PaneError;
use nerve_mux::pane::NewPane;
use nerve_mux::wezterm::{Keys, RowRange, Wezterm};
use nerve_testkit::{eventually, within_deadline};
use nerve_types::Size;

use super::mux::{Mux, program};
use crate::harness::LIMIT;

fn new_pane(argv: &[&str]) -> NewPane {
    NewPane {
        argv: argv.iter().map(ToString::to_string).collect(),
        size: Size::new(60, 10),
        ..NewPane::default()
    }
}

/// Returns a program that reports its start and reads nothing.
fn unresponsive() -> NewPane {
    new_pane(&["bash", "-c", "stty raw -echo; echo deaf; exec sleep 1000"])
}

async fn wait_for_text(wezterm: &Wezterm, pane: &str, text: &str) {
    eventually(text, async || wezterm.text(pane, RowRange::screen(10), false).await.unwrap().contains(text))
        .await;
}

#[tokio::test]
async fn panes_are_created_listed_focused_read_and_closed() {
    let mux = Mux::start();
    let wezterm = mux.wezterm();
    assert!(wezterm.list().await.unwrap().is_empty());
    let folder = tempfile::Builder::new().prefix("a b%").tempdir().unwrap();
    let env = BTreeMap::from([
        ("SECRET".to_string(), "s3".to_string()),
        ("HOME".to_string(), "/nowhere".to_string()),
    ]);
    let mut pane = new_pane(&["bash", "-c", "echo $SECRET $HOME; pwd; exec cat"]);
    (pane.cwd, pane.env, pane.session) = (Some(folder.path().to_path_buf()), env, Some("work".into()));
    let one = wezterm.spawn(&pane).await.unwrap();
    let two = wezterm.spawn(&new_pane(&["cat"])).await.unwrap();
    let listed = wezterm.list().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.pane.clone()).collect::<Vec<_>>(), [one.clone(), two.clone()]);
    wait_for_text(&wezterm, &one, "s3 /nowhere").await;
    let info = wezterm.pane_info(&one).await.unwrap();
    assert_eq!((info.cols, info.rows, info.session.as_str()), (60, 10, "work"));
    assert_eq!(info.cwd.as_deref(), Some(folder.path()));
    assert!(info.pid.is_some() && info.tty.is_some());
    wezterm.paste(&two, b"-n 'quoted' \xe6\x97\xa5").await.unwrap();
    wezterm.keys(&two, &Keys::new(b"\r").unwrap()).await.unwrap();
    wait_for_text(&wezterm, &two, "-n 'quoted' 日").await;
    wezterm.activate(&one).await.unwrap();
    wezterm.kill(&one).await.unwrap();
    assert_eq!(wezterm.list().await.unwrap().len(), 1);
    for result in [wezterm.kill(&one).await, wezterm.activate(&one).await, wezterm.paste(&one, b"x").await] {
        assert!(matches!(result, Err(PaneError::NoPane(ref pane)) if *pane == one), "{result:?}");
    }
    assert!(matches!(wezterm.pane_info(&one).await, Err(PaneError::NoPane(_))));
}

#[tokio::test]
async fn problems_that_wezterm_ignores_are_errors() {
    let mux = Mux::start();
    let wezterm = mux.wezterm();
    let missing = wezterm.spawn(&new_pane(&["no-such-program-at-all"])).await.unwrap_err().to_string();
    assert!(missing.contains("no program 'no-such-program-at-all'"), "{missing}");
    let mut nowhere = new_pane(&["cat"]);
    nowhere.cwd = Some(PathBuf::from("/no/such/folder"));
    assert!(wezterm.spawn(&nowhere).await.unwrap_err().to_string().contains("/no/such/folder"));
    assert_eq!(mux.calls("spawn"), 0);
    assert!(wezterm.paste("0", b"\xff").await.unwrap_err().to_string().contains("UTF-8"));
    // nerve checks this because WezTerm creates the pane anyway, with an error in it.
    let spawned = mux.run(&["cli", "--no-auto-start", "spawn", "--new-window", "--", "no-such-program"]);
    let pane = String::from_utf8(spawned.stdout).unwrap().trim().to_string();
    assert!(spawned.status.success());
    assert!(wezterm.text(&pane, RowRange::screen(24), false).await.unwrap().contains("Unable to spawn"));
    assert_eq!(wezterm.pane_info(&pane).await.unwrap().tty, None);
}

#[tokio::test]
async fn missing_program_and_server_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Wezterm::new(None).with_program(folder.path().join("wezterm"));
    assert!(matches!(missing.list().await, Err(PaneError::NotInstalled("wezterm"))));
    let socket = folder.path().join("sock").display().to_string();
    let without_server = Wezterm::new(Some(socket)).with_program(program());
    assert!(matches!(without_server.list().await, Err(PaneError::NoServer("wezterm"))));
}

#[tokio::test]
async fn hanging_call_times_out() {
    let mux = Mux::start();
    mux.fault("hang");
    let wezterm = mux.wezterm().with_limit(Duration::from_millis(300));
    let listed = within_deadline("the call times out", wezterm.list()).await;
    assert!(matches!(listed, Err(PaneError::Timeout("wezterm", _))));
    mux.fault("none");
    assert!(wezterm.list().await.unwrap().is_empty());
}

/// The first call that crashes a real server, reproduced by the fake.
#[tokio::test]
async fn inverted_range_that_kills_wezterm_is_never_requested() {
    let mut mux = Mux::start();
    let wezterm = mux.wezterm();
    let pane = wezterm.spawn(&new_pane(&["bash", "-c", "seq 1 50; exec cat"])).await.unwrap();
    for range in [
        RowRange::screen(0),
        RowRange::screen(10),
        RowRange::screen(u16::MAX),
        RowRange::with_scrollback(10, u32::MAX),
    ] {
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
    assert!(nerve_testkit::wait_until(LIMIT, || mux.has_ended()), "the fake survived the inverted range");
    assert!(matches!(wezterm.list().await, Err(PaneError::NoServer(_))));
}

/// The second call that crashes a real server: exact bytes to a program that does not read.
#[tokio::test]
async fn keys_are_refused_after_unread_paste() {
    let mux = Mux::start();
    let wezterm = mux.wezterm().with_limit(Duration::from_millis(500));
    let pane = wezterm.spawn(&unresponsive()).await.unwrap();
    wait_for_text(&wezterm, &pane, "deaf").await;
    wezterm.paste(&pane, "x".repeat(200_000).as_bytes()).await.unwrap();
    // In the same client, and in a second one that is unaware of the paste.
    for wezterm in [&wezterm, &mux.wezterm().with_limit(Duration::from_millis(500))] {
        let refused = wezterm.keys(&pane, &Keys::new(b"\r").unwrap()).await.unwrap_err();
        assert!(refused.to_string().contains("has not read"), "{refused}");
    }
    assert_eq!(mux.calls("send-text --no-paste"), 0);
    assert!(wezterm.list().await.is_ok(), "the server does not respond");
    // The call that nerve avoids.
    let mut freezing = std::process::Command::new(program());
    freezing.args(["cli", "--no-auto-start", "send-text", "--no-paste", "--pane-id", &pane, "--", "\r"]);
    let mut freezing = freezing.env("WEZTERM_UNIX_SOCKET", mux.socket()).spawn().unwrap();
    eventually("the fake is frozen", async || matches!(wezterm.list().await, Err(PaneError::Timeout(..))))
        .await;
    freezing.kill().unwrap();
    freezing.wait().unwrap();
}
