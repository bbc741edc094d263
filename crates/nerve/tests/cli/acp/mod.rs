//! `nerve acp`: turns, dialogs, cancellation, earlier sessions; bad input in a module of its own.

mod acpx;
mod editor;
mod invalid_input;
mod official_sdk;

use nerve_testkit::wait_until;
use serde_json::{Value, json};

use self::editor::Editor;
use crate::forks::mock_claude;
use crate::harness::{DEADLINE, Home};

/// A conversation that the scripted agent stores in Claude Code's format.
const STORED: [&str; 2] = ["--session-id", "0197a1b2-0000-7000-8000-000000000001"];

#[test]
fn turn_is_streamed_with_its_tool_call() {
    // The first session starts the server.
    let home = Home::new();
    for agent in [&[][..], &STORED] {
        let mut editor = Editor::start(&home, &[], agent);
        let capabilities = editor.initialize();
        assert_eq!((&capabilities["protocolVersion"], &capabilities["authMethods"]), (&json!(1), &json!([])));
        let session = editor.session(&home.hermetic.work());
        assert_eq!(editor.turn(&session, "use a TOOL"), "end_turn");
        let text = editor.text(&session);
        assert!(text.contains("I will run a command.") && text.contains("END-OF-TOOL"), "{text}");
        assert_eq!(text.matches("END-OF-TOOL").count(), 1, "{text}");
        let started = editor.updates(&session, "tool_call");
        let ended = editor.updates(&session, "tool_call_update");
        let [call] = &started[..] else { panic!("{started:?}") };
        assert_eq!(
            (&call["kind"], &call["title"]),
            (&json!("execute"), &json!("Bash: echo hello")),
            "{call}"
        );
        let last = ended.last().unwrap();
        assert_eq!((&last["toolCallId"], &last["status"]), (&call["toolCallId"], &json!("completed")));
        assert!(last["content"][0]["content"]["text"].as_str().unwrap().contains("hello"), "{last}");
        // The text before the tool call is part of the answer, not also a thought.
        assert_eq!(editor.updates(&session, "agent_thought_chunk"), [] as [Value; 0]);
        // A normal node: recorded and logged.
        assert!(home.recording_of(&session).is_file());
        assert!(home.ok(&["logs", &session]).contains("use a TOOL"));
        assert_eq!(editor.io.disconnect(), Some(0));
        let nodes = home.nerve(&["ls", "--json"]).json();
        assert_eq!(nodes["nodes"], json!([]), "{nodes}");
        assert!(nodes["stopped"].as_array().unwrap().iter().any(|node| node["node_id"] == session.as_str()));
        assert_eq!(editor.io.stderr(), "", "nothing went wrong");
    }
}

#[test]
fn text_is_streamed_before_the_end() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "SLOW please");
    editor.next(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    assert!(!editor.text(&session).contains("END-OF-SLOW"));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let text = editor.text(&session);
    assert!(text.contains("END-OF-SLOW"), "{text}");
    assert!(editor.updates(&session, "agent_message_chunk").len() > 2, "{text}");
}

#[test]
fn editor_answers_dialogs() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &STORED);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "PERMIT please");
    let asked = editor.permission();
    assert_eq!(asked["params"]["sessionId"], session.as_str());
    let options = asked["params"]["options"].as_array().unwrap();
    let kinds: Vec<&str> = options.iter().filter_map(|option| option["kind"].as_str()).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"], "{asked}");
    let shown = asked["params"]["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("touch made-by-tool.txt"), "{shown}");
    editor.choose(&asked, options[0]["optionId"].as_str());
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert!(editor.text(&session).contains("END-OF-TOOL"));
    // The audit log has the answer.
    assert!(home.ok(&["logs", &session, "--op", "answer"]).contains("Yes"));

    let prompt = editor.prompt(&session, "PERMIT again");
    let asked = editor.permission();
    editor.choose(&asked, None);
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    assert_eq!(editor.turn(&session, "hello"), "end_turn");
}

#[test]
fn person_answers_before_the_editor() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "PERMIT please");
    let asked = editor.permission();
    home.ok(&["answer", &session, "1"]);
    editor.next(|message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == asked["id"]
    });
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    // The late answer of the editor changes nothing.
    editor.choose(&asked, Some("3"));
    assert_eq!(editor.turn(&session, "hello"), "end_turn");
}

#[test]
fn dialog_before_first_prompt_reaches_editor() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &["--onboarding"]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "hello");
    let asked = editor.permission();
    let options = asked["params"]["options"].as_array().unwrap();
    let trust = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
    editor.choose(&asked, trust["optionId"].as_str());
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert!(editor.text(&session).contains("You said: hello"));
}

#[test]
fn dialogs_in_a_row_reach_the_editor() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &["--theme", "--onboarding"]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "hello");
    let mut ids = Vec::new();
    let response = loop {
        let is_response = |message: &Value| message["id"] == prompt && message.get("method").is_none();
        let message =
            editor.next(|message| message["method"] == "session/request_permission" || is_response(message));
        if is_response(&message) {
            break message;
        }
        ids.push(message["params"]["toolCall"]["toolCallId"].clone());
        let options = message["params"]["options"].as_array().unwrap();
        // A dialog that is still drawn may have no such choice yet; another request follows.
        let allow = options.iter().find(|option| option["kind"] == "allow_once");
        if let Some(allow) = allow {
            editor.choose(&message, allow["optionId"].as_str());
        }
    };
    assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
    ids.dedup();
    assert!(ids.len() >= 2, "{ids:?}");
}

#[test]
fn cancelled_turn_is_interrupted() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    // First the cancellation follows the prompt at once; then it arrives while the agent works.
    let prompt = editor.prompt(&session, "STALL 6000");
    editor.io.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    let prompt = editor.prompt(&session, "STALL 6000");
    assert!(wait_until(DEADLINE, || home.info(&session)["state"] == "busy"));
    editor.io.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    let prompt = editor.prompt(&session, "PERMIT please");
    let asked = editor.permission();
    editor.io.notify("session/cancel", json!({ "sessionId": session }));
    editor.choose(&asked, None);
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    assert_eq!(editor.turn(&session, "hello"), "end_turn");
}

#[test]
fn failed_turn_is_an_error_with_its_text() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "ERR 529");
    let error = editor.answer(prompt)["error"].clone();
    assert_eq!(error["data"]["error_type"], "api_error", "{error}");
    let prompt = editor.prompt(&session, "CRASH now");
    let error = editor.answer(prompt)["error"].clone();
    assert!(error["data"]["error_type"].is_string(), "{error}");
    assert!(editor.text(&session).contains("This answer does not end because"), "{error}");
}

#[test]
fn earlier_session_is_listed_loaded_and_resumed() {
    let home = Home::new();
    let work = home.hermetic.work();
    let claude = mock_claude(&home);
    let start = || {
        let mut editor = Editor::with_agent(&home, &[], &[&claude]);
        editor.initialize();
        editor
    };
    let mut editor = start();
    let session = editor.session(&work);
    assert_eq!(editor.turn(&session, "use a TOOL"), "end_turn");
    assert_eq!(editor.io.disconnect(), Some(0));

    let mut editor = start();
    let listed = editor.ok("session/list", json!({}));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{listed}");
    assert_eq!(editor.ok("session/list", json!({ "cwd": "/" }))["sessions"], json!([]));
    let open = json!({ "sessionId": session, "cwd": work, "mcpServers": [] });
    editor.ok("session/load", open.clone());
    let prompts = editor.updates(&session, "user_message_chunk");
    assert_eq!(prompts.len(), 1, "{prompts:?}");
    assert_eq!(prompts[0]["content"]["text"], "use a TOOL");
    assert!(editor.text(&session).contains("END-OF-TOOL"));
    assert_eq!(editor.turn(&session, "hello again"), "end_turn");
    assert!(editor.text(&session).contains("You said: hello again"));

    // A second editor joins the running node, and leaves it running.
    let mut other = start();
    other.ok("session/resume", open.clone());
    assert_eq!(other.updates(&session, "user_message_chunk"), [] as [Value; 0]);
    assert_eq!(other.turn(&session, "and me"), "end_turn");
    assert_eq!(other.io.disconnect(), Some(0));
    assert_eq!(home.info(&session)["state"], "ready");
    // A fork knows the conversation.
    let fork = fork_of(&mut editor, open);
    assert_eq!(editor.turn(&fork, "RECALL"), "end_turn");
    assert!(editor.text(&fork).contains("hello again"), "{}", editor.text(&fork));
    editor.ok("session/close", json!({ "sessionId": fork }));
    editor.ok("session/close", json!({ "sessionId": session }));
    assert_eq!(home.nerve(&["ls", "--json"]).json()["nodes"], json!([]));
    assert_eq!(editor.error("session/close", json!({ "sessionId": session }))["code"], -32002);
}

/// Forks a session and returns the id of the new one.
fn fork_of(editor: &mut Editor, source: Value) -> String {
    let forked = editor.ok("session/fork", source.clone());
    assert_ne!(forked["sessionId"], source["sessionId"]);
    forked["sessionId"].as_str().unwrap().to_string()
}

#[test]
fn closed_session_cancels_its_turn() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "STALL 6000");
    assert!(wait_until(DEADLINE, || home.info(&session)["state"] == "busy"));
    editor.ok("session/close", json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
}

#[test]
fn disconnect_stops_a_working_agent() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    editor.prompt(&session, "STALL 6000");
    assert!(wait_until(DEADLINE, || home.info(&session)["state"] == "busy"));
    assert_eq!(editor.io.disconnect(), Some(0));
    assert_eq!(home.nerve(&["ls", "--json"]).json()["nodes"], json!([]));
}

#[test]
fn failed_permission_request_leaves_the_dialog_open() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    let prompt = editor.prompt(&session, "PERMIT please");
    let asked = editor.permission();
    editor.fail(&asked);
    editor.next(|message| message["params"]["update"]["sessionUpdate"] == "agent_thought_chunk");
    assert_eq!(home.info(&session)["state"], "blocked");
    home.ok(&["answer", &session, "1"]);
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    // The dialog is closed, so the node is stopped.
    assert_eq!(editor.io.disconnect(), Some(0));
    assert_eq!(home.nerve(&["ls", "--json"]).json()["nodes"], json!([]));
}

#[test]
fn load_starts_a_node_that_was_stopped_meanwhile() {
    let home = Home::new();
    let work = home.hermetic.work();
    let claude = mock_claude(&home);
    let mut editor = Editor::with_agent(&home, &[], &[&claude]);
    editor.initialize();
    let session = editor.session(&work);
    assert_eq!(editor.turn(&session, "hello"), "end_turn");
    home.ok(&["server", "node", "stop", &session]);
    let open = json!({ "sessionId": session, "cwd": work, "mcpServers": [] });
    // Two concurrent requests start the node only once.
    let requests = ["session/load", "session/resume"].map(|method| editor.begin(method, open.clone()));
    for request in requests {
        let response = editor.answer(request);
        assert!(response["result"].is_object(), "{response}");
    }
    assert_eq!(editor.turn(&session, "RECALL"), "end_turn");
    assert_eq!(editor.io.disconnect(), Some(0));
    assert_eq!(home.nerve(&["ls", "--json"]).json()["nodes"], json!([]));
}

#[test]
fn two_editors_do_not_see_each_other() {
    let home = Home::new();
    let mut editors = [Editor::ready(&home, &[], &[]), Editor::ready(&home, &[], &[])];
    let sessions: Vec<String> =
        editors.iter_mut().map(|editor| editor.session(&home.hermetic.work())).collect();
    let prompts: Vec<u64> = editors
        .iter_mut()
        .zip(&sessions)
        .enumerate()
        .map(|(at, (editor, session))| editor.prompt(session, &format!("SLOW number-{at}")))
        .collect();
    for (at, editor) in editors.iter_mut().enumerate() {
        assert_eq!(editor.stop_reason(prompts[at]), "end_turn");
        let (own, foreign) = (&sessions[at], &sessions[1 - at]);
        let text = editor.text(own);
        assert!(text.contains(&format!("number-{at}")), "{text}");
        assert!(!text.contains(&format!("number-{}", 1 - at)), "{text}");
        let is_foreign = |message: &Value| message["params"]["sessionId"] == foreign.as_str();
        assert!(!editor.log.iter().any(is_foreign), "{:?}", editor.log);
    }
}

#[test]
fn nodes_are_kept_on_request_and_at_open_dialogs() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &["--keep-nodes"], &[]);
    let kept = editor.session(&home.hermetic.work());
    assert_eq!(editor.io.disconnect(), Some(0));
    assert_eq!(home.info(&kept)["state"], "ready");

    let mut editor = Editor::ready(&home, &[], &[]);
    let blocked = editor.session(&home.hermetic.work());
    editor.prompt(&blocked, "PERMIT please");
    editor.permission();
    assert_eq!(editor.io.disconnect(), Some(0));
    assert_eq!(home.info(&blocked)["state"], "blocked");
    home.ok(&["answer", &blocked, "1"]);
    let is_done = || home.read(&blocked).contains("END-OF-TOOL");
    assert!(wait_until(DEADLINE, is_done), "{}", home.read(&blocked));
}
