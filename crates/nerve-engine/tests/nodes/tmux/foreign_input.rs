//! Input of a user in the same pane, which takes precedence.

use std::time::{Duration, Instant};

use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::{assert_error, node_ref};
use nerve_testkit::{eventually, wait_until};

use super::{BASH, Tmux};
use crate::harness::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_wait_while_a_user_types() {
    let Some(tmux) = Tmux::new("prompts_wait_while_a_user_types") else { return };
    tmux.start("sh", &BASH).await;
    tmux.nodes.wait("sh", NodeState::Ready).await.unwrap();
    let viewer = tmux.attach_viewer("sh");
    // The user attaches and types.
    viewer.press(&["echo theirs", "Enter"]);
    tmux.nodes.wait_for_output("sh", "\ntheirs").await;
    let mut short = tmux.nodes.execute("sh", "echo too early");
    short.timeout = Some(Duration::from_millis(500).into());
    let error = tmux.nodes.run(short).await.unwrap_err();
    assert_error(&error, ErrorKind::Timeout, &["typing", "/dev/"]);
    let typed = Instant::now();
    viewer.press(&["echo again", "Enter"]);
    assert_eq!(tmux.nodes.ask("sh", "echo ours").await.text, "ours");
    let waited = typed.elapsed();
    assert!(waited > Duration::from_secs(1), "the prompt did not wait: {waited:?}");
    assert!(!tmux.nodes.buffer("sh", None).await.contains("too early"));
    assert!(viewer.screen().contains("ours"), "{}", viewer.screen());
    // A viewer who does not type delays nothing.
    let is_prompt = async || {
        let started = Instant::now();
        assert_eq!(tmux.nodes.ask("sh", "echo quick").await.text, "quick");
        started.elapsed() < Duration::from_secs(1)
    };
    eventually("a prompt is not delayed", is_prompt).await;
    drop(viewer);
    tmux.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_waits_for_the_end_of_copy_mode() {
    let Some(tmux) = Tmux::new("input_waits_for_the_end_of_copy_mode") else { return };
    let info = tmux.start("sh", &BASH).await;
    let pane = info.metadata.text("pane_id");
    tmux.nodes.wait("sh", NodeState::Ready).await.unwrap();
    tmux.tmux(&["copy-mode", "-t", pane]).unwrap();
    let mut short = tmux.nodes.execute("sh", "echo too early");
    short.timeout = Some(Duration::from_millis(400).into());
    let error = tmux.nodes.run(short).await.unwrap_err();
    assert_error(&error, ErrorKind::Timeout, &["copy mode"]);
    // Written bytes wait, too, and arrive in order afterwards.
    for text in ["echo fir", "st\r"] {
        tmux.nodes.engine.write_bytes(&node_ref("sh"), text.into()).await.unwrap();
    }
    assert_eq!(tmux.query(pane, "#{pane_in_mode}"), "1");
    let (engine, execute) = (tmux.nodes.engine.clone(), tmux.nodes.execute("sh", "echo second"));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    eventually("the prompt is queued", async || tmux.nodes.info("sh").metadata.number("queued") == Some(1))
        .await;
    tmux.tmux(&["send-keys", "-t", pane, "-X", "cancel"]).unwrap();
    turn.await.unwrap().unwrap();
    tmux.nodes.wait_for_output("sh", "\nsecond").await;
    let text = tmux.nodes.buffer("sh", None).await;
    let (first, second) = (text.find("\nfirst"), text.find("\nsecond"));
    assert!(first.is_some() && first < second, "{text}");
    assert!(!text.contains("too early"), "{text}");
    tmux.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_of_a_person_is_not_typed_over() {
    let Some(tmux) = Tmux::new("draft_of_a_person_is_not_typed_over") else { return };
    let pane = tmux.new_pane("work", "env PS1='$ ' bash --norc --noprofile");
    let shows = |text: &str| {
        let screen = || tmux.tmux(&["capture-pane", "-p", "-t", &pane]).unwrap();
        assert!(wait_until(LIMIT, || screen().trim_end().ends_with(text)), "{}", screen());
    };
    let keys = |keys: &[&str]| tmux.tmux(&[&["send-keys", "-t", &pane], keys].concat()).unwrap();
    shows("$");
    tmux.create(tmux.attached_spec("sh", &pane)).await.unwrap();
    assert_eq!(tmux.nodes.ask("sh", "echo ours").await.text, "ours");
    keys(&["echo draft"]);
    shows("$ echo draft");
    let error = tmux.nodes.send("sh", "echo ours").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["echo draft"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_before_attaching_is_not_typed_over() {
    let Some(tmux) = Tmux::new("draft_before_attaching_is_not_typed_over") else { return };
    for (node, command) in
        [("sh", "env PS1='$ ' bash --norc --noprofile"), ("long", "env PS1='me@host:~/x# ' bash --norc")]
    {
        let pane = tmux.new_pane(node, command);
        let screen = || tmux.tmux(&["capture-pane", "-p", "-t", &pane]).unwrap();
        let shows = |text: &str| {
            assert!(wait_until(LIMIT, || screen().trim_end().ends_with(text)), "{}", screen());
        };
        let keys = |keys: &[&str]| tmux.tmux(&[&["send-keys", "-t", &pane], keys].concat()).unwrap();
        shows(if node == "sh" { "$" } else { "#" });
        keys(&["echo draft"]);
        shows("echo draft");
        tmux.create(tmux.attached_spec(node, &pane)).await.unwrap();
        let error = tmux.nodes.send(node, "echo ours").await.unwrap_err();
        assert_error(&error, ErrorKind::Blocked, &["'echo draft'"]);
        assert!(screen().trim_end().ends_with("echo draft"), "{}", screen());
        keys(&["C-u"]);
        assert!(wait_until(LIMIT, || !screen().contains("draft")), "{}", screen());
        assert_eq!(tmux.nodes.ask(node, "echo ours").await.text, "ours");
        tmux.stop(node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_in_composer_before_attaching_is_not_typed_over() {
    let Some(tmux) = Tmux::new("draft_in_composer_before_attaching_is_not_typed_over") else { return };
    let pane = tmux.new_mock_pane("m", &[]);
    let screen = || tmux.tmux(&["capture-pane", "-p", "-t", &pane]).unwrap();
    assert!(wait_until(LIMIT, || screen().contains('❯')), "{}", screen());
    tmux.tmux(&["send-keys", "-t", &pane, "my own words"]).unwrap();
    assert!(wait_until(LIMIT, || screen().contains("my own words")), "{}", screen());
    tmux.create(tmux.mock_spec("m", &pane)).await.unwrap();
    let error = tmux.nodes.send("m", "hello there").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["my own words"]);
    tmux.tmux(&["send-keys", "-t", &pane, "C-u"]).unwrap();
    assert!(wait_until(LIMIT, || !screen().contains("my own words")), "{}", screen());
    assert_eq!(tmux.nodes.ask("m", "hello there").await.text, "You said: hello there");
    tmux.stop("m").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn echo_of_prompt_with_tabs_is_no_answer() {
    let Some(tmux) = Tmux::new("echo_of_prompt_with_tabs_is_no_answer") else { return };
    tmux.start("sh", &BASH).await;
    assert_eq!(tmux.nodes.ask("sh", "if true; then\n\techo a\tb\nfi").await.text, "a b");
}
