//! Terminal nodes over shells and REPLs.

use std::time::{Duration, Instant};

use nerve_api::request::CreateSession;
use nerve_core::command::{EventKind, StateName};
use nerve_core::error::ErrorKind;

use crate::harness::{LIMIT, Stage, at, ops, wait_for};

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

#[tokio::test]
async fn many_fast_turns_give_as_many_answers() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    for n in 0..300 {
        let response = stage.ask("sh", &format!("echo {n}")).await;
        assert_eq!(response.text, n.to_string());
        assert_eq!(response.attributes["exit_code"], "0");
        assert!(response.is_complete && response.is_ready);
        assert_eq!(response.delivery, "started");
    }
    stage.stop("sh").await;
}

#[tokio::test]
async fn no_prompt_text_is_depended_on() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    for prompt in ["me: ", "", "100%", "\\w $(date +%N) > ", "a\\nb\\n$ "] {
        assert_eq!(stage.ask("sh", &format!("PS1='{prompt}'")).await.text, "");
        assert_eq!(
            stage.ask("sh", "echo one; printf 'two> '; echo; printf 'no newline %%'").await.text,
            "one\ntwo>\nno newline %"
        );
    }
    stage.stop("sh").await;
}

#[tokio::test]
async fn exit_codes_long_output_and_several_lines() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    assert_eq!(stage.ask("sh", "false").await.attributes["exit_code"], "1");
    let long = stage.ask("sh", "seq 1 5000").await.text;
    assert_eq!(long.lines().count(), 5000);
    assert!(long.starts_with("1\n2\n") && long.ends_with("\n5000"));
    let wide = stage.ask("sh", "printf 'x%.0s' {1..500}").await.text;
    assert_eq!(wide, "x".repeat(500), "a row the terminal wrapped is one line");
    assert_eq!(
        stage.ask("sh", "for i in 1 2; do\n  echo line $i\ndone").await.text.lines().last(),
        Some("line 2")
    );
    stage.stop("sh").await;
}

#[tokio::test]
async fn megabytes_of_output_do_not_break_the_next_turn() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    let big = stage.ask("sh", "head -c 6000000 /dev/zero | tr '\\0' x | fold -w 99").await;
    assert!(big.attributes.contains_key("truncated"));
    for text in [&big.text, &big.raw, &big.sections[0].content] {
        assert!(
            text.len() <= 512 << 10 && text.len() > 500 << 10,
            "the wire has it five times: {}",
            text.len()
        );
    }
    assert_eq!(stage.ask("sh", "echo after").await.text, "after");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_shell_without_marks_and_python_take_turns() {
    let stage = Stage::new();
    stage.start("dash", &["sh"]).await;
    for n in 0..5 {
        assert_eq!(stage.ask("dash", &format!("echo {n}")).await.text, n.to_string());
    }
    assert_eq!(stage.ask("dash", "sleep 0.5; echo slept").await.text, "slept");
    stage.stop("dash").await;
    stage.start("py", &["python3", "-q"]).await;
    for n in 0..5 {
        assert_eq!(stage.ask("py", &format!("print({n} * 2)")).await.text, (n * 2).to_string());
    }
    assert_eq!(stage.ask("py", "import time; time.sleep(0.5); print('slept')").await.text, "slept");
    let open = stage.send("py", "if True:").await.unwrap_err();
    assert_eq!(open.kind, ErrorKind::Blocked, "{open:?}");
    stage.stop("py").await;
}

#[tokio::test]
async fn turns_queue_in_order_and_never_mix() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    let turns: Vec<_> = (0..10)
        .map(|n| {
            let engine = stage.engine.clone();
            let execute = stage.execute("sh", &format!("sleep 0.02; echo answer {n}"));
            tokio::spawn(async move { engine.run_turn(execute, Default::default()).await })
        })
        .collect();
    for (n, turn) in turns.into_iter().enumerate() {
        let response = turn.await.unwrap().unwrap();
        assert_eq!(response.text, format!("answer {n}"));
    }
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_busy_node_can_be_refused_at_once_and_a_timeout_interrupts() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let mut slow = stage.execute("sh", "sleep 30");
    slow.timeout = Some(Duration::from_millis(400).into());
    let engine = stage.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(slow, Default::default()).await });
    stage.wait("sh", StateName::Busy).await.unwrap();
    let mut now = stage.execute("sh", "echo x");
    now.fail_if_busy = true;
    assert_eq!(stage.run(now).await.unwrap_err().kind, ErrorKind::Busy);
    let late = turn.await.unwrap().unwrap_err();
    assert_eq!(late.kind, ErrorKind::Timeout, "{late:?}");
    assert_eq!(stage.ask("sh", "echo free again").await.text, "free again");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_leave_the_node_busy() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let left =
        tokio::time::timeout(Duration::from_millis(100), stage.send("sh", "sleep 0.4; echo done")).await;
    assert!(left.is_err());
    assert_eq!(stage.ask("sh", "echo next").await.text, "next");
    let entries = stage.history("sh").await;
    assert!(
        entries.iter().any(|entry| entry.contains("\"content\":\"done\"")),
        "the turn is in the history: {entries:?}"
    );
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_child_that_ignores_interrupts_times_out_and_can_be_stopped() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    let mut stubborn = stage.execute("sh", "(trap '' INT TERM HUP; sleep 60)");
    stubborn.timeout = Some(Duration::from_millis(500).into());
    assert_eq!(stage.run(stubborn).await.unwrap_err().kind, ErrorKind::Timeout);
    let mut next = stage.execute("sh", "echo x");
    next.timeout = Some(Duration::from_millis(300).into());
    let late = stage.run(next).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Timeout);
    assert!(late.screen.is_some());
    let started = Instant::now();
    stage.stop("sh").await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn write_run_and_read() {
    let stage = Stage::new();
    stage.start("cat", &["cat"]).await;
    stage.wait("cat", StateName::Ready).await.unwrap();
    let long = "y".repeat(3000) + "\n";
    let text = long.repeat(3) + "日本語 end\n";
    let bytes = stage.engine.write_bytes(&at("cat"), text.clone().into_bytes()).await.unwrap();
    assert_eq!(bytes, text.len());
    let seen = async {
        while stage.buffer("cat", None).await.matches("日本語 end").count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, seen).await.expect("all of it went in and came back");
    stage
        .engine
        .run_command(
            nerve_api::request::RunCommand {
                node_id: "cat".into(),
                command: "typed".into(),
                ..Default::default()
            },
            Default::default(),
        )
        .await
        .unwrap();
    stage.wait("cat", StateName::Ready).await.unwrap();
    assert_eq!(stage.buffer("cat", Some(2)).await, "typed\ntyped");
    stage.engine.clear_buffer(at("cat").into(), Default::default()).await.unwrap();
    assert!(stage.buffer("cat", None).await.lines().count() <= 30, "only the screen is left");
    stage.stop("cat").await;
}

#[tokio::test]
async fn what_is_logged_and_in_which_order() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.ask("sh", "echo one").await;
    stage
        .engine
        .run_command(
            nerve_api::request::RunCommand {
                node_id: "sh".into(),
                command: "echo two".into(),
                ..Default::default()
            },
            Default::default(),
        )
        .await
        .unwrap();
    stage.wait("sh", StateName::Ready).await.unwrap();
    stage.engine.write_bytes(&at("sh"), b"echo three\r".to_vec()).await.unwrap();
    stage.engine.send_interrupt(at("sh").into(), Default::default()).await.unwrap();
    let mut stream = stage.execute("sh", "echo four");
    stream.stream = true;
    stage.run(stream).await.unwrap();
    stage.stop("sh").await;
    let entries = stage.history("sh").await;
    let expected = "read send run read write read interrupt read read send_stream read close";
    assert_eq!(ops(&entries).join(" "), expected);
    let send: serde_json::Value = serde_json::from_str(&entries[1]).unwrap();
    assert_eq!(send["preceding_buffer_seq"], 1);
    assert_eq!(send["response"]["sections"][0]["content"], "one");
    let stream: serde_json::Value = serde_json::from_str(&entries[9]).unwrap();
    assert_eq!(stream["preceding_buffer_seq"], 9);
    assert!(stream["final_buffer"].as_str().unwrap().contains("four"));
    let read: serde_json::Value = serde_json::from_str(&entries[3]).unwrap();
    assert!(read["buffer"].as_str().unwrap().contains("two"), "captured after its effect: {read}");
}

#[tokio::test]
async fn what_input_in_a_turn_shows_is_logged_before_the_turn() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    for (stream, send) in [(false, "send"), (true, "send_stream")] {
        let before = stage.history("sh").await.len();
        let mut execute = stage.execute("sh", "sleep 5");
        execute.stream = stream;
        let engine = stage.engine.clone();
        let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
        stage.wait("sh", StateName::Busy).await.unwrap();
        stage.engine.send_interrupt(at("sh").into(), Default::default()).await.unwrap();
        turn.await.unwrap().unwrap();
        let entries = stage.history("sh").await;
        assert_eq!(ops(&entries[before..]).join(" "), format!("read interrupt read {send}"));
    }
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_prompt_behind_wide_characters_is_not_in_the_answer() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    for text in ["日本語", "a日b", "e\u{301}n", "👍🏽 ok", "日本語日本語 end", "x"] {
        assert_eq!(stage.ask("sh", &format!("printf '{text}'")).await.text, text);
    }
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_stream_gives_whole_rows_in_order_and_nothing_twice() {
    let mut stage = Stage::new();
    stage.start("sh", &BASH).await;
    let mut stream = stage.execute("sh", "for i in 1 2 3 4 5; do echo row $i; sleep 0.12; done");
    stream.stream = true;
    let response = stage.run(stream).await.unwrap();
    let mut chunks = Vec::new();
    while let Ok(event) = stage.events.try_recv() {
        if let EventKind::OutputChunk { chunk, .. } = event.kind {
            chunks.push(chunk);
        }
    }
    assert!(chunks.len() > 1, "{chunks:?}");
    assert_eq!(chunks.concat(), response.text);
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_child_that_exits_is_noticed_and_its_name_is_free_again() {
    let mut stage = Stage::new();
    stage.start("sh", &BASH).await;
    let gone = stage.send("sh", "exit 3").await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Process);
    assert!(gone.message.contains("exit code 3"), "{gone}");
    let EventKind::NodeStopped { reason } =
        stage.event(|kind| matches!(kind, EventKind::NodeStopped { .. })).await
    else {
        panic!()
    };
    assert_eq!(reason, "exit code 3");
    let after = stage.send("sh", "echo x").await.unwrap_err();
    assert_eq!(after.kind, ErrorKind::NodeStopped);
    stage.start("sh", &BASH).await;
    assert_eq!(stage.ask("sh", "echo new").await.text, "new");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_child_that_exits_at_once() {
    let stage = Stage::new();
    stage.start("t", &["true"]).await;
    let gone = stage.wait("t", StateName::Ready).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NodeStopped);
    assert!(gone.message.contains("exit code 0"), "{gone}");
}

#[tokio::test]
async fn bad_starts_are_told_and_hurt_nobody() {
    let stage = Stage::new();
    stage.start("good", &BASH).await;
    let start = |spec| stage.engine.create(spec);
    let misspelt = start(stage.spec("a", &["clade"])).await.unwrap_err();
    assert_eq!(misspelt.kind, ErrorKind::Process);
    assert!(misspelt.message.contains("no program 'clade' in PATH"), "{misspelt}");
    let mut lost = stage.spec("b", &BASH);
    lost.cwd = Some("/no/such/place".into());
    assert!(start(lost).await.unwrap_err().message.contains("'/no/such/place' is not a directory"));
    let taken = start(stage.spec("good", &BASH)).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::AlreadyExists);
    for name in ["../x", "", "Caps", "-a", "a-", "a b", &"x".repeat(33)] {
        let error = start(stage.spec(name, &BASH)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{name}");
    }
    let mut quote = stage.spec("c", &[]);
    quote.command = nerve_core::command::CommandLine::Text("bash 'open".into());
    assert_eq!(start(quote).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(stage.ask("good", "echo fine").await.text, "fine");
    let missing = stage.send("nobody", "x").await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(missing.hint.unwrap().contains("good"));
    stage.stop("good").await;
}

#[tokio::test]
async fn prompts_of_no_bytes_a_megabyte_and_with_escapes() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    assert_eq!(stage.send("sh", "").await.unwrap_err().kind, ErrorKind::InvalidRequest);
    let hostile = stage.ask("sh", "echo 'a\x1b[201~\x1b]0;t\x07b'").await;
    assert!(hostile.text.starts_with('a') && hostile.text.ends_with('b'), "{hostile:?}");
    stage.stop("sh").await;
    let landed = stage.folder.path().join("got");
    let script = format!(
        "stty raw -echo; echo ok; head -c 1000000 > {0}.tmp; mv {0}.tmp {0}; echo landed; exec cat",
        landed.display()
    );
    stage.start("cat", &["sh", "-c", &script]).await;
    stage.shows("cat", "ok").await;
    let data = vec![b'z'; 1_000_000];
    stage.engine.write_bytes(&at("cat"), data).await.unwrap();
    stage.shows("cat", "landed").await;
    assert_eq!(std::fs::metadata(&landed).unwrap().len(), 1_000_000);
    stage.stop("cat").await;
}

#[tokio::test]
async fn a_flood_is_survived_and_can_be_interrupted() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let mut flood = stage.execute("sh", "yes flood");
    flood.timeout = Some(Duration::from_secs(1).into());
    assert_eq!(stage.run(flood).await.unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(stage.ask("sh", "echo calm").await.text, "calm");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_child_that_does_not_read_blocks_nobody() {
    let stage = Stage::new();
    stage.start("deaf", &["sh", "-c", "stty raw -echo; echo up; sleep 60"]).await;
    stage.shows("deaf", "up").await;
    let write = async |size: usize| stage.engine.write_bytes(&at("deaf"), vec![b'x'; size]).await;
    write(40 << 20).await.unwrap();
    let full = write(40 << 20).await.unwrap_err();
    assert_eq!(full.kind, ErrorKind::Busy);
    assert!(full.message.contains("is not reading"), "{full}");
    let started = Instant::now();
    stage.stop("deaf").await;
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn resize_reaches_the_child() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    assert_eq!(stage.ask("sh", "stty size").await.text, "30 100");
    stage
        .engine
        .resize_node(
            nerve_api::request::ResizeNode {
                node_id: "sh".into(),
                cols: 132,
                rows: 50,
                ..Default::default()
            },
            Default::default(),
        )
        .await
        .unwrap();
    assert_eq!(stage.ask("sh", "stty size").await.text, "50 132");
    stage.stop("sh").await;
}

#[tokio::test]
async fn wait_is_level_triggered_and_has_a_limit() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let started = Instant::now();
    stage.wait("sh", StateName::Ready).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(50));
    let limit = Some(Duration::from_millis(50));
    let request = wait_for("sh", &[StateName::Blocked], limit);
    let late = stage.engine.wait_node(request, Default::default()).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Timeout);
    assert!(late.message.contains("still ready, not blocked"), "{late}");
    stage.stop("sh").await;
}

#[tokio::test]
async fn sessions_keep_nodes_apart_and_take_them_along() {
    let stage = Stage::new();
    let make = CreateSession { name: "work".into(), description: "d".into(), tags: vec!["t".into()] };
    let create = |request| stage.engine.create_session(request, Default::default());
    create(make.clone()).await.unwrap();
    assert_eq!(create(make).await.unwrap_err().kind, ErrorKind::AlreadyExists);
    let bad = CreateSession { name: "../../x".into(), ..CreateSession::default() };
    assert_eq!(create(bad).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    let mut spec = stage.spec("sh", &BASH);
    spec.node.session = Some("work".into());
    stage.engine.create(spec).await.unwrap();
    assert_eq!(
        stage.send("sh", "x").await.unwrap_err().kind,
        ErrorKind::NotFound,
        "not in the default session"
    );
    let mut execute = stage.execute("sh", "echo here");
    execute.session_id = Some("work".into());
    assert_eq!(stage.run(execute).await.unwrap().text, "here");
    let info = stage
        .engine
        .get_session(nerve_api::request::GetSession::new(Some("work".into())), Default::default())
        .await
        .unwrap();
    assert_eq!(info.nodes, ["sh"]);
    stage
        .engine
        .delete_session(nerve_api::request::DeleteSession::new(Some("work".into())), Default::default())
        .await
        .unwrap();
    assert!(
        stage
            .engine
            .delete_session(
                nerve_api::request::DeleteSession::new(Some("default".into())),
                Default::default()
            )
            .await
            .is_err()
    );
}

#[tokio::test]
async fn twenty_nodes_stop_within_a_second() {
    let stage = Stage::new();
    for n in 0..20 {
        stage.start(&format!("n{n}"), &BASH).await;
    }
    let started = Instant::now();
    stage.engine.shut_down(false).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_history_that_cannot_be_written_costs_the_history_only() {
    let mut stage = Stage::new();
    std::fs::write(stage.folder.path().join("history"), "a file where the folder should be").unwrap();
    stage.start("sh", &BASH).await;
    let EventKind::Error { message } = stage.event(|kind| matches!(kind, EventKind::Error { .. })).await
    else {
        panic!()
    };
    assert!(message.contains("no history is kept"), "{message}");
    assert_eq!(stage.ask("sh", "echo works").await.text, "works");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_broken_profile_file_is_told_and_the_others_load() {
    let mut stage = Stage::new();
    let folder = stage.folder.path().join("profiles");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("bad.toml"), "name = \"bad\"\nprograms = 3\n").unwrap();
    std::fs::write(folder.join("mine.toml"), "name = \"mine\"\nprograms = [\"cat\"]\nprompt = '^ready> $'\n")
        .unwrap();
    stage.start("sh", &BASH).await;
    let EventKind::Error { message } = stage.event(|kind| matches!(kind, EventKind::Error { .. })).await
    else {
        panic!()
    };
    assert!(message.contains("bad.toml', line 2, column"), "{message}");
    let info = stage.start("cat", &["cat"]).await;
    assert_eq!(info.metadata["profile"], "mine");
    let mut spec = stage.spec("x", &["cat"]);
    spec.profile = Some("bad".into());
    let missing = stage.engine.create(spec).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(missing.hint.unwrap().contains("bad.toml"), "says why it is not there");
    stage.stop("sh").await;
    stage.stop("cat").await;
}

#[tokio::test]
async fn a_shell_that_takes_long_to_start_is_not_ready_before_its_prompt() {
    let stage = Stage::new();
    let rc = stage.folder.path().join("slow.rc");
    // Start files that run programs: the shell sleeps, in the foreground, silent.
    std::fs::write(&rc, "sleep 1.2; echo welcome; sleep 0.6; PS1='late> '\n").unwrap();
    stage.start("sh", &["bash", "--rcfile", &rc.display().to_string()]).await;
    let first = stage.ask("sh", "echo first").await;
    assert_eq!((first.text.as_str(), first.delivery), ("first", "started"), "{first:?}");
    stage.stop("sh").await;
}
