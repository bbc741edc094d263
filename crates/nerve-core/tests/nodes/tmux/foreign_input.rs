//! Somebody else types into the same pane: theirs goes first.

use std::time::{Duration, Instant};

use nerve_core::command::StateName;
use nerve_core::error::ErrorKind;

use super::{BASH, Tmux};
use crate::harness::at;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_types_goes_first_and_prompts_wait_and_say_so() {
    let Some(tmux) = Tmux::new("who_types_goes_first") else { return };
    let info = tmux.start("sh", &BASH).await;
    tmux.stage.wait("sh", StateName::Ready).await.unwrap();
    let person = tmux.person("nerve");
    // They have come, and type.
    person.types(&["echo theirs", "Enter"]);
    tmux.stage.shows("sh", "\ntheirs").await;
    let mut short = tmux.stage.execute("sh", "echo too early");
    short.timeout = Some(Duration::from_millis(500).into());
    let error = tmux.stage.run(short).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("is typing into the same terminal"), "{}", error.message);
    assert!(error.message.contains("/dev/"), "who: {}", error.message);
    person.types(&["echo again", "Enter"]);
    let since = Instant::now();
    assert_eq!(tmux.stage.ask("sh", "echo ours").await.text, "ours");
    let waited = since.elapsed();
    assert!(waited > Duration::from_secs(1), "theirs did not go first: {waited:?}");
    assert!(waited < Duration::from_secs(8), "{waited:?}");
    assert!(!tmux.stage.buffer("sh", None).await.contains("too early"));
    assert!(person.sees().contains("ours"), "{}", person.sees());
    // Who only looks holds nobody up.
    let since = Instant::now();
    assert_eq!(tmux.stage.ask("sh", "echo quick").await.text, "quick");
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    drop(person);
    tmux.stop("sh").await;
    assert_eq!(info.metadata["owned"], "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_typed_into_copy_mode() {
    let Some(tmux) = Tmux::new("nothing_is_typed_into_copy_mode") else { return };
    let info = tmux.start("sh", &BASH).await;
    let pane = &info.metadata["pane_id"];
    tmux.stage.wait("sh", StateName::Ready).await.unwrap();
    tmux.tmux(&["copy-mode", "-t", pane]).unwrap();
    let mut short = tmux.stage.execute("sh", "echo too early");
    short.timeout = Some(Duration::from_millis(400).into());
    let error = tmux.stage.run(short).await.unwrap_err();
    assert!(error.message.contains("copy mode"), "{}", error.message);
    // Written bytes wait too, and come when it is over, in their order.
    for text in ["echo fir", "st\r"] {
        tmux.stage.engine.write_bytes(&at("sh"), text.into()).await.unwrap();
    }
    assert_eq!(tmux.ask(pane, "#{pane_in_mode}"), "1");
    let (engine, execute) = (tmux.stage.engine.clone(), tmux.stage.execute("sh", "echo second"));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    tmux.stage.wait("sh", StateName::Ready).await.unwrap();
    tmux.tmux(&["send-keys", "-t", pane, "-X", "cancel"]).unwrap();
    turn.await.unwrap().unwrap();
    tmux.stage.shows("sh", "\nsecond").await;
    let text = tmux.stage.buffer("sh", None).await;
    let (first, second) = (text.find("\nfirst"), text.find("\nsecond"));
    assert!(first.is_some() && first < second, "{text}");
    assert!(!text.contains("too early"), "{text}");
    tmux.stop("sh").await;
}
