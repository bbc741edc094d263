//! Missing, outdated and hanging tmux, and invalid requests.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nerve_api::request::NodeSpec;
use nerve_api::value::NodeState;
use nerve_engine::Engine;
use nerve_host::backend::PaneError;
use nerve_mux::pane::{NewPane, Panes};
use nerve_mux::tmux::{RowRange, Tmux as Client};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use nerve_testkit::{wait_until, within_deadline};

use super::{BASH, Tmux, config};
use crate::harness::LIMIT;

/// Replaces the engine with one that uses `program` as tmux.
fn with_tmux(tmux: &mut Tmux, program: PathBuf) {
    let mut config = config(tmux.home.root());
    config.nodes.panes = Panes { tmux: Some(program), ..config.nodes.panes };
    tmux.nodes.engine = Engine::new(config);
}

fn script(tmux: &Tmux, text: &str) -> PathBuf {
    let path = tmux.home.root().join("tmux");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_old_or_hanging_tmux_is_reported() {
    let Some(mut tmux) = Tmux::new("missing_old_or_hanging_tmux_is_reported") else { return };
    with_tmux(&mut tmux, "/nowhere/tmux".into());
    let error = tmux.create(tmux.attached_spec("sh", "%0")).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'tmux'", "PATH"]);
    let old = script(&tmux, "echo tmux 3.1c");
    with_tmux(&mut tmux, old);
    let error = tmux.create(tmux.attached_spec("sh", "%0")).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["3.1c", "3.2"]);
    let hanging = script(&tmux, "[ \"$1\" = -V ] && echo tmux 3.3a && exit; exec sleep 1000");
    with_tmux(&mut tmux, hanging);
    let created = within_deadline("tmux times out", tmux.create(tmux.attached_spec("sh", "%0"))).await;
    let error = created.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["tmux", "5s"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_server_pane_or_hosts_are_reported() {
    let Some(tmux) = Tmux::new("missing_server_pane_or_hosts_are_reported") else { return };
    let error = tmux.create(tmux.attached_spec("sh", "%3")).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &[]);
    let existing = tmux.new_pane("keep", "sleep 1000");
    for pane in ["%99", "nosuch:1.2", "work"] {
        let error = tmux.create(tmux.attached_spec("sh", pane)).await.unwrap_err();
        assert_error(&error, ErrorKind::NotFound, &[pane]);
    }
    let with_command =
        NodeSpec { command: tmux.nodes.spec("sh", &BASH).command, ..tmux.attached_spec("sh", &existing) };
    for (word, spec) in [("command", with_command), ("empty", tmux.attached_spec("sh", ""))] {
        let error = tmux.create(spec).await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidRequest, &[word]);
    }
    // A new pane shows a host.
    let error = tmux.create(NodeSpec { pane_id: None, ..tmux.attached_spec("sh", "") }).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[]);
    assert_eq!(tmux.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).unwrap(), existing, "a pane is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_fails_the_turn() {
    let Some(tmux) = Tmux::new("killed_server_fails_the_turn") else { return };
    tmux.start("sh", &BASH).await;
    tmux.nodes.wait("sh", NodeState::Ready).await.unwrap();
    let (engine, execute) = (tmux.nodes.engine.clone(), tmux.nodes.execute("sh", "echo begun; sleep 1000"));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    tmux.nodes.wait_for_output("sh", "\nbegun").await;
    tmux.tmux(&["kill-server"]).unwrap();
    let error = tokio::time::timeout(LIMIT, turn).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Process, "{error:?}");
    assert!(error.screen.unwrap_or_default().contains("begun"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_works_without_nodes() {
    let Some(tmux) = Tmux::new("client_works_without_nodes") else { return };
    let client = Client::new(Some(&tmux.socket().display().to_string()));
    assert!(client.version().await.unwrap().starts_with(char::is_numeric));
    assert!(matches!(client.list().await, Err(PaneError::NoServer("tmux"))));
    let new = NewPane {
        argv: vec!["sh".into(), "-c".into(), "seq 1 100; echo \"$A\"; exec cat".into()],
        env: [("A".to_string(), "b c;".to_string())].into(),
        cwd: Some("/tmp".into()),
        session: Some("made".into()),
        name: Some("win".into()),
        ..NewPane::default()
    };
    let pane = client.spawn(&new).await.unwrap();
    let second = client.spawn(&NewPane { argv: vec!["cat".into()], ..new.clone() }).await.unwrap();
    let list = client.list().await.unwrap();
    let info = list.iter().find(|info| info.pane == pane).unwrap();
    assert_eq!((info.session.as_str(), info.window.as_str(), info.cols, info.rows), ("made", "win", 120, 40));
    assert_eq!((list.len(), info.cwd.as_deref()), (2, Some("/tmp".as_ref())));
    assert!(wait_until(LIMIT, || tmux.tmux(&["capture-pane", "-p", "-t", &pane]).unwrap().contains("b c;")));
    let text = client.text(&pane, RowRange::Last(2)).await.unwrap();
    assert_eq!(text, "100\nb c;");
    assert!(client.text(&pane, RowRange::All).await.unwrap().starts_with("1\n2\n"));
    assert!(!client.text(&pane, RowRange::Screen).await.unwrap().starts_with("1\n"));
    client.paste(&second, "pasted ünd\nmore;".as_bytes()).await.unwrap();
    client.keys(&second, b"\r").await.unwrap();
    let shown = || tmux.tmux(&["capture-pane", "-p", "-t", &second]).unwrap();
    assert!(wait_until(LIMIT, || shown().matches("more;").count() == 2), "{}", shown());
    assert!(shown().contains("pasted ünd"));
    assert_eq!(tmux.tmux(&["list-buffers"]).unwrap(), "");
    client.kill(&second).await.unwrap();
    for result in
        [client.kill(&second).await, client.paste(&second, b"x").await, client.keys("%77", b"x").await]
    {
        assert!(matches!(result, Err(PaneError::NoPane(_))), "{result:?}");
    }
    assert!(matches!(client.text("%77", RowRange::Screen).await, Err(PaneError::NoPane(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrently_created_panes_share_a_session() {
    let Some(tmux) = Tmux::new("concurrently_created_panes_share_a_session") else { return };
    let client = Client::new(Some(&tmux.socket().display().to_string()));
    let tasks = (0..6).map(|_| {
        let (client, new) = (client.clone(), NewPane { argv: vec!["cat".into()], ..NewPane::default() });
        tokio::spawn(async move { client.spawn(&new).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        let created = task.await.unwrap();
        assert!(created.is_ok(), "{created:?}");
    }
    assert_eq!(client.list().await.unwrap().len(), 6);
    assert_eq!(tmux.tmux(&["list-sessions", "-F", "#{session_name}"]).unwrap(), "nerve");
}
