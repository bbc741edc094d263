//! Terminal nodes with shells and REPLs.

use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::value::{Delivery, NodeState, StopCause};

use nerve_api::request::{CreateSession, RunCommand};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::{assert_error, node_ref, wait_request};
use nerve_testkit::{eventually, skip, within_deadline};

use crate::harness::{Harness, ops};

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

#[tokio::test]
async fn each_of_many_fast_turns_has_its_own_answer() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    for n in 0..300 {
        let response = harness.ask("sh", &format!("echo {n}")).await;
        assert_eq!(response.text, n.to_string());
        assert_eq!(response.attributes["exit_code"], 0);
        assert!(response.is_complete && response.is_ready);
        assert_eq!(response.delivery, Delivery::Started);
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn any_shell_prompt_is_recognized() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    for prompt in ["me: ", "", "100%", "\\w $(date +%N) > ", "a\\nb\\n$ "] {
        assert_eq!(harness.ask("sh", &format!("PS1='{prompt}'")).await.text, "");
        assert_eq!(
            harness.ask("sh", "echo one; printf 'two> '; echo; printf 'no newline %%'").await.text,
            "one\ntwo>\nno newline %"
        );
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn exit_codes_long_output_and_multi_line_commands() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    assert_eq!(harness.ask("sh", "false").await.attributes["exit_code"], 1);
    let long = harness.ask("sh", "seq 1 5000").await.text;
    assert_eq!(long.lines().count(), 5000);
    assert!(long.starts_with("1\n2\n") && long.ends_with("\n5000"));
    let wide = harness.ask("sh", "printf 'x%.0s' {1..500}").await.text;
    assert_eq!(wide, "x".repeat(500), "a wrapped row is one line");
    assert_eq!(
        harness.ask("sh", "for i in 1 2; do\n  echo line $i\ndone").await.text.lines().last(),
        Some("line 2")
    );
    harness.stop("sh").await;
}

#[tokio::test]
async fn timed_out_turn_keeps_its_partial_text() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let mut endless = harness.execute("sh", "echo begun; sleep 1000");
    endless.timeout = Some(Duration::from_secs(1).into());
    let error = harness.run(endless).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.text.as_deref().is_some_and(|text| text.contains("begun")), "{error:?}");
    harness.stop("sh").await;
}

#[tokio::test]
async fn megabytes_of_output_are_truncated() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    let big = harness.ask("sh", "head -c 6000000 /dev/zero | tr '\\0' x | fold -w 99").await;
    assert!(big.attributes.contains_key("truncated"));
    assert_eq!(big.failure().map(|failure| failure.kind), Some(ErrorKind::Incomplete), "never silently cut");
    for text in [&big.text, &big.raw, &big.sections[0].content] {
        assert!(
            text.len() <= 512 << 10 && text.len() > 500 << 10,
            "the wire repeats the text five times: {}",
            text.len()
        );
    }
    assert_eq!(harness.ask("sh", "echo after").await.text, "after");
    harness.stop("sh").await;
}

#[tokio::test]
async fn shell_without_marks_and_python_take_turns() {
    let harness = Harness::new();
    harness.start("dash", &["sh"]).await;
    for n in 0..5 {
        assert_eq!(harness.ask("dash", &format!("echo {n}")).await.text, n.to_string());
    }
    assert_eq!(harness.ask("dash", "sleep 0.5; echo slept").await.text, "slept");
    assert_eq!(harness.ask("dash", "echo 1; printf 'no line end'").await.text, "1\nno line end");
    assert_eq!(harness.ask("dash", "echo next").await.text, "next");
    harness.stop("dash").await;
    harness.start("py", &["python3", "-q"]).await;
    for n in 0..5 {
        assert_eq!(harness.ask("py", &format!("print({n} * 2)")).await.text, (n * 2).to_string());
    }
    assert_eq!(harness.ask("py", "import time; time.sleep(0.5); print('slept')").await.text, "slept");
    assert_eq!(harness.ask("py", "print('no line end', end='')").await.text, "no line end");
    assert_eq!(harness.ask("py", "print('next')").await.text, "next");
    let open = harness.send("py", "if True:").await.unwrap_err();
    assert_eq!(open.kind, ErrorKind::Blocked, "{open:?}");
    harness.stop("py").await;
}

#[tokio::test]
async fn changed_prompt_is_no_part_of_the_answer() {
    let harness = Harness::new();
    for (program, argv, set_prompt) in [
        ("zsh", &["zsh", "-f"][..], "PS1='%~ %# '"),
        ("fish", &["fish", "--no-config"], "function fish_prompt; echo -n (pwd)'> '; end"),
    ] {
        if std::process::Command::new(program).arg("--version").output().is_err() {
            skip(&format!("changed_prompt_is_no_part_of_the_answer ({program})"), "it is missing");
            continue;
        }
        harness.start(program, argv).await;
        for (command, text) in [(set_prompt, ""), ("cd /", ""), ("cd /tmp", ""), ("echo one", "one")] {
            let response = harness.ask(program, command).await;
            assert_eq!((response.text.as_str(), response.failure()), (text, None), "{program} {command}");
        }
        harness.stop(program).await;
    }
    // In dash, output without a line end precedes the prompt in the same row.
    harness.start("dash", &["sh"]).await;
    for command in ["PS1='$PWD> '", "cd /"] {
        let response = harness.ask("dash", command).await;
        assert_eq!(
            response.failure().map(|failure| failure.kind),
            Some(ErrorKind::Incomplete),
            "{response:?}"
        );
    }
    assert_eq!(harness.ask("dash", "echo one").await.text, "one");
    harness.stop("dash").await;
}

#[tokio::test]
async fn unfinished_line_blocks_programs_without_marks() {
    let harness = Harness::new();
    for (argv, unfinished, rest, text) in [
        (&["sh"][..], "echo 'a", "b'\r", "a\nb"),
        (&["zsh", "-f"], "echo 'a", "b'\r", "a\nb"),
        (&["sqlite3"], "select 'a", "b';\r", "a\nb"),
    ] {
        let program = argv[0];
        if std::process::Command::new(program).arg("--version").output().is_err() {
            skip(&format!("unfinished_line_blocks_programs_without_marks ({program})"), "it is missing");
            continue;
        }
        harness.start(program, argv).await;
        harness.wait(program, NodeState::Ready).await.unwrap();
        let open = harness.send(program, unfinished).await.unwrap_err();
        assert_eq!(open.kind, ErrorKind::Blocked, "{program}: {open:?}");
        harness.engine.write_bytes(&node_ref(program), rest.as_bytes().to_vec()).await.unwrap();
        harness.wait(program, NodeState::Ready).await.unwrap();
        let finished = if program == "sqlite3" { "select 'a\nb';" } else { "echo 'a\nb'" };
        assert!(harness.ask(program, finished).await.text.ends_with(text), "{program}");
        harness.stop(program).await;
    }
}

/// Executes a command that must have an incomplete answer, and returns its text.
async fn ask_incomplete(harness: &Harness, node: &str, command: &str) -> String {
    let response = harness.ask(node, command).await;
    let failure = response.failure().map(|failure| failure.kind);
    assert_eq!(failure, Some(ErrorKind::Incomplete), "{node} {command}: {response:?}");
    response.text
}

#[tokio::test]
async fn end_of_the_prompt_of_dash_may_ask_for_more() {
    let harness = Harness::new();
    harness.start("dash", &["sh"]).await;
    for command in ["PS1='me> '", "echo 'a", "b"] {
        ask_incomplete(&harness, "dash", command).await;
    }
    for (command, text) in [("c'", "a\nb\nc"), ("echo one", "one")] {
        let response = harness.ask("dash", command).await;
        assert_eq!((response.text.as_str(), response.failure()), (text, None), "{command}");
    }
    harness.stop("dash").await;
}

#[tokio::test]
async fn row_of_a_waiting_shell_is_no_prompt() {
    for (argv, command, text, input) in [
        (&["zsh", "-f"][..], "printf working; read x", "working", "x\r"),
        (&["fish", "--no-config"], "printf working; read -P '' x", "working", "x\r"),
        (&["fish", "--no-config"], "echo 'a", "", "b'\r"),
    ] {
        let program = argv[0];
        if std::process::Command::new(program).arg("--version").output().is_err() {
            skip(&format!("row_of_a_waiting_shell_is_no_prompt ({program})"), "it is missing");
            continue;
        }
        let harness = Harness::new();
        harness.start(program, argv).await;
        assert_eq!(ask_incomplete(&harness, program, command).await.trim(), text, "{program}");
        harness.engine.write_bytes(&node_ref(program), input.as_bytes().to_vec()).await.unwrap();
        harness.wait(program, NodeState::Ready).await.unwrap();
        let response = harness.ask(program, "echo one").await;
        assert_eq!((response.text.as_str(), response.failure()), ("one", None), "{program} after {command}");
        harness.stop(program).await;
    }
}

/// Sends `run` and `write` requests in every mix of up to three, then executes a prompt: more than 200 rounds in all.
async fn prompt_waits_for_lines_typed_before_it(argv: &[&str], print: fn(&str) -> String) {
    const ROUNDS: usize = 32;
    let program = argv[0];
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.join(program).exists()) {
        return skip(
            &format!("prompt_waits_for_lines_typed_before_it ({program})"),
            "the program is missing",
        );
    }
    let harness = Harness::new();
    harness.start(program, argv).await;
    harness.wait(program, NodeState::Ready).await.unwrap();
    for round in 0..ROUNDS {
        for input in 0..round % 4 {
            let line = print(&format!("input {input} of {round}"));
            if (round >> input) & 4 == 0 {
                let run = RunCommand { node_id: program.into(), command: line, ..Default::default() };
                harness.engine.run_command(run, Default::default()).await.unwrap();
            } else {
                let line = format!("{line}\r").into_bytes();
                harness.engine.write_bytes(&node_ref(program), line).await.unwrap();
            }
        }
        let answer = harness.ask(program, &print(&format!("executed {round}"))).await;
        // Node.js prints the value of each expression below its output.
        let text = answer.text.strip_suffix("\nundefined").unwrap_or(&answer.text);
        assert_eq!(text, format!("executed {round}"), "{program}: {answer:?}");
    }
    harness.stop(program).await;
}

#[tokio::test]
async fn bash_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&BASH, |text| format!("echo {text}")).await;
}

#[tokio::test]
async fn sh_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&["sh"], |text| format!("echo {text}")).await;
}

#[tokio::test]
async fn zsh_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&["zsh", "-f"], |text| format!("echo {text}")).await;
}

#[tokio::test]
async fn fish_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&["fish", "--no-config"], |text| format!("echo {text}")).await;
}

#[tokio::test]
async fn python_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&["python3", "-q"], |text| format!("print('{text}')")).await;
}

#[tokio::test]
async fn node_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&["node"], |text| format!("console.log('{text}')")).await;
}

#[tokio::test]
async fn sqlite_prompt_waits_for_earlier_lines() {
    prompt_waits_for_lines_typed_before_it(&["sqlite3"], |text| format!("select '{text}';")).await;
}

#[tokio::test]
async fn output_equal_to_a_line_of_the_prompt_is_kept() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    assert_eq!(harness.ask("sh", "cat <<EOF\nhello\nEOF").await.text, "hello");
    assert_eq!(harness.ask("sh", "cat <<EOF\nhello\nEOF\necho hello").await.text, "hello\nhello");
    harness.stop("sh").await;
    // dash has no marks: its prompts before the lines it reads are part of the answer.
    harness.start("dash", &["sh"]).await;
    for (command, count) in [("cat <<EOF\nhello\nEOF", 1), ("cat <<EOF\nhello\nEOF\necho hello", 2)] {
        let text = harness.ask("dash", command).await.text;
        assert_eq!(text.lines().filter(|line| line.ends_with("hello")).count(), count, "{text}");
    }
    harness.stop("dash").await;
}

#[tokio::test]
async fn turns_are_queued_in_order() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    let turns: Vec<_> = (0..10)
        .map(|n| {
            let engine = harness.engine.clone();
            let execute = harness.execute("sh", &format!("sleep 0.02; echo answer {n}"));
            tokio::spawn(async move { engine.run_turn(execute, Default::default()).await })
        })
        .collect();
    for (n, turn) in turns.into_iter().enumerate() {
        let response = turn.await.unwrap().unwrap();
        assert_eq!(response.text, format!("answer {n}"));
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn fail_if_busy_is_immediate_and_timeout_interrupts() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let mut slow = harness.execute("sh", "sleep 30");
    slow.timeout = Some(Duration::from_millis(400).into());
    let engine = harness.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(slow, Default::default()).await });
    harness.wait("sh", NodeState::Busy).await.unwrap();
    let mut immediate = harness.execute("sh", "echo x");
    immediate.fail_if_busy = true;
    assert_eq!(harness.run(immediate).await.unwrap_err().kind, ErrorKind::Busy);
    let timeout = turn.await.unwrap().unwrap_err();
    assert_eq!(timeout.kind, ErrorKind::Timeout, "{timeout:?}");
    assert_eq!(harness.ask("sh", "echo free again").await.text, "free again");
    harness.stop("sh").await;
}

#[tokio::test]
async fn abandoned_turn_still_completes() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let go = harness.folder.path().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo done", go.display());
    let (engine, execute) = (harness.engine.clone(), harness.execute("sh", &command));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.wait("sh", NodeState::Busy).await.unwrap();
    turn.abort();
    assert!(turn.await.unwrap_err().is_cancelled());
    std::fs::write(go, "").unwrap();
    assert_eq!(harness.ask("sh", "echo next").await.text, "next");
    let entries = harness.history("sh").await;
    assert!(
        entries.iter().any(|entry| entry.contains("\"content\":\"done\"")),
        "the turn is missing from the history: {entries:?}"
    );
    harness.stop("sh").await;
}

#[tokio::test]
async fn program_that_ignores_interrupts_can_be_stopped() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    let mut stubborn = harness.execute("sh", "(trap '' INT TERM HUP; sleep 1000)");
    stubborn.timeout = Some(Duration::from_millis(500).into());
    assert_eq!(harness.run(stubborn).await.unwrap_err().kind, ErrorKind::Timeout);
    let mut next = harness.execute("sh", "echo x");
    next.timeout = Some(Duration::from_millis(300).into());
    let timeout = harness.run(next).await.unwrap_err();
    assert_eq!(timeout.kind, ErrorKind::Timeout);
    assert!(timeout.screen.is_some());
    within_deadline("the shell stops", harness.stop("sh")).await;
}

#[tokio::test]
async fn write_run_read_and_clear() {
    let harness = Harness::new();
    harness.start("cat", &["cat"]).await;
    harness.wait("cat", NodeState::Ready).await.unwrap();
    let long = "y".repeat(3000) + "\n";
    let text = long.repeat(3) + "日本語 end\n";
    let bytes = harness.engine.write_bytes(&node_ref("cat"), text.clone().into_bytes()).await.unwrap();
    assert_eq!(bytes, text.len());
    eventually("the whole text is echoed", async || {
        harness.buffer("cat", None).await.matches("日本語 end").count() >= 2
    })
    .await;
    harness
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
    harness.wait("cat", NodeState::Ready).await.unwrap();
    assert_eq!(harness.buffer("cat", Some(2)).await, "typed\ntyped");
    harness.engine.clear_buffer(node_ref("cat").into(), Default::default()).await.unwrap();
    assert!(harness.buffer("cat", None).await.lines().count() <= 30, "the scrollback was not cleared");
    harness.stop("cat").await;
}

#[tokio::test]
async fn clearing_the_buffer_makes_a_running_answer_incomplete() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    let (engine, execute) = (harness.engine.clone(), harness.execute("sh", "seq 1 200; read -r; echo end"));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.wait_for_output("sh", "\n200").await;
    harness.engine.clear_buffer(node_ref("sh").into(), Default::default()).await.unwrap();
    harness.engine.write_bytes(&node_ref("sh"), b"\n".to_vec()).await.unwrap();
    let response = within_deadline("the turn", turn).await.unwrap().unwrap();
    assert!(response.text.ends_with("end") && !response.text.starts_with("1\n"), "{response:?}");
    assert_eq!(response.failure().map(|failure| failure.kind), Some(ErrorKind::Incomplete), "{response:?}");
    assert!(harness.ask("sh", "echo next").await.is_success());
    harness.stop("sh").await;
}

#[tokio::test]
async fn operations_are_logged_in_order() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.ask("sh", "echo one").await;
    harness
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
    harness.wait("sh", NodeState::Ready).await.unwrap();
    harness.engine.write_bytes(&node_ref("sh"), b"echo three\r".to_vec()).await.unwrap();
    harness.engine.send_interrupt(node_ref("sh").into(), Default::default()).await.unwrap();
    let mut stream = harness.execute("sh", "echo four");
    stream.stream = true;
    harness.run(stream).await.unwrap();
    harness.stop("sh").await;
    let entries = harness.history("sh").await;
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
async fn input_during_turn_is_logged_before_the_turn() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    for (stream, send) in [(false, "send"), (true, "send_stream")] {
        let before = harness.history("sh").await.len();
        let mut execute = harness.execute("sh", "sleep 5");
        execute.stream = stream;
        let engine = harness.engine.clone();
        let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
        harness.wait("sh", NodeState::Busy).await.unwrap();
        harness.engine.send_interrupt(node_ref("sh").into(), Default::default()).await.unwrap();
        turn.await.unwrap().unwrap();
        let entries = harness.history("sh").await;
        assert_eq!(ops(&entries[before..]).join(" "), format!("read interrupt read {send}"));
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn prompt_after_wide_characters_is_excluded_from_answer() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    for text in ["日本語", "a日b", "e\u{301}n", "👍🏽 ok", "日本語日本語 end", "x"] {
        assert_eq!(harness.ask("sh", &format!("printf '{text}'")).await.text, text);
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn stream_publishes_each_row_once_in_order() {
    let mut harness = Harness::new();
    harness.start("sh", &BASH).await;
    let mut stream = harness.execute("sh", "for i in 1 2 3 4 5; do echo row $i; sleep 0.12; done");
    stream.stream = true;
    let response = harness.run(stream).await.unwrap();
    let mut chunks = Vec::new();
    while let Ok(event) = harness.events.try_recv() {
        if let EventKind::OutputChunk { chunk, .. } = event.kind {
            chunks.push(chunk);
        }
    }
    assert!(chunks.len() > 1, "{chunks:?}");
    assert_eq!(chunks.concat(), response.text);
    harness.stop("sh").await;
}

#[tokio::test]
async fn exited_program_releases_its_node_name() {
    let mut harness = Harness::new();
    harness.start("sh", &BASH).await;
    let stopped = harness.send("sh", "exit 3").await.unwrap_err();
    assert_error(&stopped, ErrorKind::Process, &["exit code 3"]);
    let EventKind::NodeStopped { reason, cause } =
        harness.wait_for_event(|kind| matches!(kind, EventKind::NodeStopped { .. })).await
    else {
        panic!()
    };
    assert_eq!((reason.as_str(), cause), ("exit code 3", StopCause::Failed));
    let after = harness.send("sh", "echo x").await.unwrap_err();
    assert_eq!(after.kind, ErrorKind::NodeStopped);
    harness.start("sh", &BASH).await;
    assert_eq!(harness.ask("sh", "echo new").await.text, "new");
    harness.stop("sh").await;
}

#[tokio::test]
async fn program_that_exits_immediately_stops_the_node() {
    let harness = Harness::new();
    harness.start("t", &["true"]).await;
    let stopped = harness.wait("t", NodeState::Ready).await.unwrap_err();
    assert_error(&stopped, ErrorKind::NodeStopped, &["exit code 0"]);
}

#[tokio::test]
async fn invalid_starts_are_rejected_and_leave_others_alone() {
    let harness = Harness::new();
    harness.start("good", &BASH).await;
    let start = |spec| harness.engine.create(spec);
    let misspelled = start(harness.spec("a", &["clade"])).await.unwrap_err();
    assert_error(&misspelled, ErrorKind::Process, &["'clade'", "PATH"]);
    let mut missing_directory = harness.spec("b", &BASH);
    missing_directory.cwd = Some("/no/such/place".into());
    assert_error(&start(missing_directory).await.unwrap_err(), ErrorKind::Process, &["'/no/such/place'"]);
    let duplicate = start(harness.spec("good", &BASH)).await.unwrap_err();
    assert_eq!(duplicate.kind, ErrorKind::AlreadyExists);
    for name in ["../x", "", "Caps", "-a", "a-", "a b", &"x".repeat(33)] {
        let error = start(harness.spec(name, &BASH)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{name}");
    }
    let mut unbalanced = harness.spec("c", &[]);
    unbalanced.command = Some(nerve_api::request::CommandLine::Text("bash 'open".into()));
    assert_eq!(start(unbalanced).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(harness.ask("good", "echo fine").await.text, "fine");
    let missing = harness.send("missing", "x").await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(missing.hint.unwrap().contains("good"));
    harness.stop("good").await;
}

#[tokio::test]
async fn empty_large_and_hostile_input() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    assert_eq!(harness.send("sh", "").await.unwrap_err().kind, ErrorKind::InvalidRequest);
    let hostile = harness.ask("sh", "echo 'a\x1b[201~\x1b]0;t\x07b'").await;
    assert!(hostile.text.starts_with('a') && hostile.text.ends_with('b'), "{hostile:?}");
    harness.stop("sh").await;
    let received = harness.folder.path().join("got");
    let script = format!(
        "stty raw -echo; echo ok; head -c 1000000 > {0}.tmp; mv {0}.tmp {0}; echo landed; exec cat",
        received.display()
    );
    harness.start("cat", &["sh", "-c", &script]).await;
    harness.wait_for_output("cat", "ok").await;
    let data = vec![b'z'; 1_000_000];
    harness.engine.write_bytes(&node_ref("cat"), data).await.unwrap();
    harness.wait_for_output("cat", "landed").await;
    assert_eq!(std::fs::metadata(&received).unwrap().len(), 1_000_000);
    harness.stop("cat").await;
}

#[tokio::test]
async fn endless_output_can_be_interrupted() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let mut flood = harness.execute("sh", "yes flood");
    flood.timeout = Some(Duration::from_secs(1).into());
    assert_eq!(harness.run(flood).await.unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(harness.ask("sh", "echo calm").await.text, "calm");
    harness.stop("sh").await;
}

#[tokio::test]
async fn program_that_does_not_read_causes_busy_error() {
    let harness = Harness::new();
    harness.start("deaf", &["sh", "-c", "stty raw -echo; echo up; sleep 1000"]).await;
    harness.wait_for_output("deaf", "up").await;
    let write = async |size: usize| harness.engine.write_bytes(&node_ref("deaf"), vec![b'x'; size]).await;
    write(40 << 20).await.unwrap();
    assert_eq!(write(40 << 20).await.unwrap_err().kind, ErrorKind::Busy);
    within_deadline("the program stops", harness.stop("deaf")).await;
}

#[tokio::test]
async fn resize_reaches_the_program() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    assert_eq!(harness.ask("sh", "stty size").await.text, "30 100");
    harness
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
    assert_eq!(harness.ask("sh", "stty size").await.text, "50 132");
    harness.stop("sh").await;
}

#[tokio::test]
async fn wait_is_level_triggered_and_times_out() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    // Nothing changes meanwhile.
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let limit = Some(Duration::from_millis(50));
    let request = wait_request("sh", &[NodeState::Blocked, NodeState::Blocked], limit);
    let timeout = harness.engine.wait_node(request, Default::default()).await.unwrap_err();
    assert_error(&timeout, ErrorKind::Timeout, &["ready", "blocked"]);
    assert_eq!(timeout.message.matches("blocked").count(), 1, "{timeout}");
    harness.stop("sh").await;
}

#[tokio::test]
async fn sessions_scope_and_stop_their_nodes() {
    let harness = Harness::new();
    let make =
        CreateSession { name: "work".into(), description: "d".into(), tags: vec!["t".into()], budget: None };
    let create = |request| harness.engine.create_session(request, Default::default());
    create(make.clone()).await.unwrap();
    assert_eq!(create(make).await.unwrap_err().kind, ErrorKind::AlreadyExists);
    for long in [
        CreateSession { name: "long".into(), description: "d".repeat(1 << 20), ..CreateSession::default() },
        CreateSession { name: "long".into(), tags: vec!["t".repeat(1 << 20)], ..CreateSession::default() },
        CreateSession { name: "long".into(), tags: vec![String::new(); 1000], ..CreateSession::default() },
    ] {
        assert_eq!(create(long).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    }
    let bad = CreateSession { name: "../../x".into(), ..CreateSession::default() };
    assert_eq!(create(bad).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    let mut spec = harness.spec("sh", &BASH);
    spec.session_id = Some("work".into());
    harness.engine.create(spec).await.unwrap();
    assert_eq!(
        harness.send("sh", "x").await.unwrap_err().kind,
        ErrorKind::NotFound,
        "not in the default session"
    );
    let mut execute = harness.execute("sh", "echo here");
    execute.session_id = Some("work".into());
    assert_eq!(harness.run(execute).await.unwrap().text, "here");
    let info = harness
        .engine
        .get_session(nerve_api::request::GetSession::new(Some("work".into())), Default::default())
        .await
        .unwrap();
    assert_eq!(info.nodes, ["sh"]);
    harness
        .engine
        .delete_session(nerve_api::request::DeleteSession::new(Some("work".into())), Default::default())
        .await
        .unwrap();
    assert!(
        harness
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
async fn nodes_stop_at_the_same_time() {
    let harness = Harness::new();
    let log = harness.folder.path().join("log");
    let script = format!(
        "trap 'echo hangup >> {0}' HUP; trap 'echo term >> {0}; exit' TERM; echo up; while :; do sleep 0.01; done",
        log.display()
    );
    for n in 0..20 {
        let node = format!("n{n}");
        harness.start(&node, &["bash", "-c", &script]).await;
        harness.wait_for_output(&node, "up").await;
    }
    harness.engine.shut_down(false).await;
    // One after the other, the first would be terminated before the second is hung up.
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.lines().take_while(|line| *line == "hangup").count() > 1, "{log}");
}

#[tokio::test]
async fn unwritable_history_does_not_affect_the_node() {
    let mut harness = Harness::new();
    std::fs::write(harness.folder.path().join("history"), "a file where the folder should be").unwrap();
    harness.start("sh", &BASH).await;
    let EventKind::Error { message, .. } =
        harness.wait_for_event(|kind| matches!(kind, EventKind::Error { .. })).await
    else {
        panic!()
    };
    assert!(message.contains("history"), "{message}");
    assert_eq!(harness.ask("sh", "echo works").await.text, "works");
    harness.stop("sh").await;
}

#[tokio::test]
async fn invalid_profile_is_reported_and_others_load() {
    let mut harness = Harness::new();
    let folder = harness.folder.path().join("profiles");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("bad.toml"), "name = \"bad\"\nprograms = 3\n").unwrap();
    std::fs::write(folder.join("mine.toml"), "name = \"mine\"\nprograms = [\"cat\"]\nprompt = '^ready> $'\n")
        .unwrap();
    harness.start("sh", &BASH).await;
    let EventKind::Error { message, .. } =
        harness.wait_for_event(|kind| matches!(kind, EventKind::Error { .. })).await
    else {
        panic!()
    };
    assert!(message.contains("bad.toml', line 2, column"), "{message}");
    let info = harness.start("cat", &["cat"]).await;
    assert_eq!(info.metadata.text("profile"), "mine");
    let mut spec = harness.spec("x", &["cat"]);
    spec.profile = Some("bad".into());
    let missing = harness.engine.create(spec).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(missing.hint.unwrap().contains("bad.toml"), "the hint names the invalid file");
    harness.stop("sh").await;
    harness.stop("cat").await;
}

#[tokio::test]
async fn slow_shell_is_not_ready_before_its_prompt() {
    let harness = Harness::new();
    let rc = harness.folder.path().join("slow.rc");
    // The start file runs programs, so the shell is silent and in the foreground before its prompt.
    std::fs::write(&rc, "sleep 1.2; echo welcome; sleep 0.6; PS1='late> '\n").unwrap();
    harness.start("sh", &["bash", "--rcfile", &rc.display().to_string()]).await;
    let first = harness.ask("sh", "echo first").await;
    assert_eq!((first.text.as_str(), first.delivery), ("first", Delivery::Started), "{first:?}");
    harness.stop("sh").await;
}
