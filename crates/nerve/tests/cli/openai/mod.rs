//! Nodes as models of OpenAI's API: the modes, streams, dialogs and failures; the official clients in a module of their own.

mod api;
mod official_clients;

use serde_json::{Value, json};

use self::api::{Api, conversation, error, message, streamed_text};
use crate::forks::mock_claude;
use crate::harness::NERVE;

#[test]
fn node_answers_if_the_conversation_is_its_own() {
    let api = Api::with_agent();
    let one = api.answer("me", conversation(&["one"]));
    assert_eq!(one, "You said: one");
    assert_eq!(api.answer("me", conversation(&["one", &one, "two"])), "You said: two");
    // The conversation lacks the second turn, has another answer, or none.
    for texts in [&["one", &one, "three"][..], &["one", "You said: other", "three"], &["three"]] {
        let refused = api.error("me", conversation(texts), 409);
        assert_eq!(
            (&refused["code"], &refused["param"]),
            (&json!("conversation_mismatch"), &json!("messages"))
        );
        assert_eq!(refused["nerve"]["node_id"], "me");
    }
    let two = "You said: two";
    assert_eq!(
        api.answer("default/me", conversation(&["one", &one, "two", two, "three"])),
        "You said: three"
    );
    // What a person typed is a turn, too.
    api.home.ok(&["server", "node", "execute", "me", "four"]);
    let texts = ["one", &one, "two", two, "three", "You said: three", "five"];
    assert_eq!(api.error("me", conversation(&texts), 409)["code"], "conversation_mismatch");
    assert_eq!(api.answer("me:node", conversation(&["whatever", "else", "five"])), "You said: five");
    assert_eq!(api.prompts("me"), ["one", "two", "three", "four", "five"]);
    api.configure("mode = \"node\"");
    assert_eq!(api.answer("me", conversation(&["six"])), "You said: six");
    assert_eq!(api.error("me:match", conversation(&["seven"]), 409)["code"], "conversation_mismatch");
}

#[test]
fn start_of_a_node_is_not_part_of_its_conversation() {
    let api = Api::new();
    let claude = mock_claude(&api.home);
    // The history of such a node begins with its command.
    api.home.ok(&["server", "node", "create", "me", "-c", &claude, "-b", "claude"]);
    let one = api.answer("me", conversation(&["one"]));
    assert_eq!(api.answer("me", conversation(&["one", &one, "two"])), "You said: two");
    assert_eq!(api.answer("me:fork", conversation(&["one", &one, "RECALL"])), "You said: one");
}

#[test]
fn fork_answers_and_is_removed() {
    let api = Api::with_agent();
    assert_eq!(api.error("me:fork", conversation(&["RECALL"]), 400)["nerve"]["node_id"], "me");
    for prompt in ["one", "two"] {
        api.home.ok(&["server", "node", "execute", "me", prompt]);
    }
    let (one, two) = ("You said: one", "You said: two");
    // The whole conversation, a message of it edited, and one that only the client has.
    assert_eq!(api.answer("me:fork", conversation(&["RECALL"])), "You said: one | two");
    assert_eq!(
        api.answer("me:fork", conversation(&["one", one, "two", two, "RECALL"])),
        "You said: one | two"
    );
    assert_eq!(api.answer("me:fork", conversation(&["one", one, "RECALL"])), "You said: one");
    let mut messages = conversation(&["one", one, "two", two, "three", "Three it is.", "And then?"]);
    messages.as_array_mut().unwrap().insert(0, message("system", "Be brief."));
    let answer = api.answer("me:fork", messages);
    assert!(answer.contains("Three it is.") && answer.ends_with("And then?"), "{answer}");
    assert!(!answer.contains("You said: two") && !answer.contains("Be brief."), "{answer}");
    api.wait_for_removal();
    assert_eq!(api.prompts("me"), ["one", "two"]);
    api.configure("mode = \"fork\"");
    assert_eq!(api.answer("me", conversation(&["RECALL"])), "You said: one | two");
}

#[test]
fn new_node_gets_the_conversation_and_is_removed() {
    let api = Api::with_agent();
    api.configure(&format!("[new.helper]\ncommand = [\"{NERVE}\", \"mock-agent\"]\n[new.absent]\ncommand = \"/no/such/program\"\n"));
    let listed: Value = serde_json::from_str(&api.send("GET", "/v1/models", &Value::Null).text()).unwrap();
    let ids: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["absent:new", "helper:new", "me"]);
    let messages = json!([
        message("system", "Be brief."),
        message("user", "one"),
        message("assistant", "uno"),
        message("user", "And now?"),
    ]);
    for _ in 0..2 {
        let answer = api.answer("helper:new", messages.clone());
        let positions = ["Be brief.", "one", "uno", "And now?"].map(|text| answer.find(text));
        assert!(positions.is_sorted() && positions[0].is_some(), "{answer}");
    }
    api.wait_for_removal();
    let failed = api.begin("absent:new", conversation(&["hi"]), Value::Null);
    assert!((400..500).contains(&failed.status), "{}", failed.text());
    api.wait_for_removal();
    assert_eq!(api.error("other:new", conversation(&["hi"]), 404)["code"], "model_not_found");
    assert_eq!(api.prompts("me"), [] as [&str; 0]);
}

#[test]
fn streamed_answer_is_complete_and_ends_with_done() {
    let api = Api::with_agent();
    let usage = json!({ "stream_options": { "include_usage": true } });
    let events = api.stream("me", conversation(&["TOOL please"]), usage);
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    let reasons: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["finish_reason"]).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == "stop").count(), 1, "{chunks:?}");
    let text = streamed_text(&events);
    assert!(text.contains("I will run a command.") && text.contains("END-OF-TOOL"), "{text}");
    assert_eq!(text.matches("END-OF-TOOL").count(), 1, "{text}");
    // The next request contains the streamed answer.
    assert_eq!(api.answer("me", conversation(&["TOOL please", &text, "two"])), "You said: two");
    let slow = conversation(&["TOOL please", &text, "two", "You said: two", "SLOW words"]);
    let events = api.stream("me", slow, json!({}));
    assert!(events.len() > 5, "{events:?}");
    assert!(streamed_text(&events).trim_end().ends_with("END-OF-SLOW"), "{events:?}");
    api.configure("tool_calls = \"text\"");
    let shown = streamed_text(&api.stream("me:node", conversation(&["TOOL again"]), json!({})));
    assert!(shown.contains("> tool: Bash"), "{shown}");
    assert!(api.answer("me:node", conversation(&["a third TOOL"])).contains("> tool: Bash"));
}

#[test]
fn dialog_is_an_error_that_names_the_answer() {
    let api = Api::with_agent();
    let blocked = api.error("me", conversation(&["PERMIT please"]), 409);
    assert_eq!((&blocked["code"], &blocked["nerve"]["error_type"]), (&json!("blocked"), &json!("blocked")));
    let said = blocked["message"].as_str().unwrap();
    assert!(said.contains("nerve answer me") && said.contains("1. Yes"), "{said}");
    assert!(blocked["nerve"]["choices"].as_array().is_some_and(|choices| choices.len() >= 2), "{blocked}");
    // No prompt is typed into the dialog.
    assert_eq!(api.error("me:node", conversation(&["hello"]), 409)["code"], "blocked");
    let answer = api.home.ok(&["answer", "me", "1", "--wait"]);
    assert!(answer.contains("END-OF-TOOL"), "{answer}");
    let events = api.stream("me:node", conversation(&["PERMIT again"]), json!({}));
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "blocked", "{events:?}");
    assert!(!events.iter().any(|event| event.contains("\"stop\"") || event == "[DONE]"), "{events:?}");
    api.home.ok(&["answer", "me", "1", "--wait"]);
    // A new node is removed with its dialog.
    api.configure(&format!("[new.asks]\ncommand = [\"{NERVE}\", \"mock-agent\", \"--onboarding\"]\n"));
    let asked = api.error("asks:new", conversation(&["hello"]), 409);
    assert_eq!(asked["code"], "blocked", "{asked}");
    assert!(!asked["message"].as_str().unwrap().contains("nerve answer"), "{asked}");
    api.wait_for_removal();
}

#[test]
fn failed_turn_is_never_a_stop() {
    let api = Api::with_agent();
    let failed = api.begin("me", conversation(&["ERR 529"]), Value::Null);
    let status = failed.status;
    assert!(status >= 500, "{}", failed.text());
    let events = api.stream("me:node", conversation(&["ERR 400"]), json!({}));
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert!(last["error"]["code"].is_string(), "{events:?}");
    assert!(!events.iter().any(|event| event.contains("\"stop\"")), "{events:?}");
    api.configure("timeout = 1");
    let late = api.error("me:node", conversation(&["STALL 6000"]), 504);
    assert_eq!(late["code"], "timeout");
    api.configure("");
    api.wait_for_state("me", "ready");
    let crashed = api.begin("me:node", conversation(&["CRASH now"]), Value::Null);
    assert!(crashed.status >= 400, "{}", crashed.text());
    let stopped = api.begin("me:node", conversation(&["hello"]), Value::Null);
    assert!((400..500).contains(&stopped.status), "{}", stopped.text());
}

#[test]
fn busy_node_refuses_and_the_client_may_retry() {
    let api = Api::with_agent();
    let running = api.home.start(&["server", "node", "execute", "me", "STALL 6000"]);
    api.wait_for_state("me", "busy");
    let refused = api.begin("me:node", conversation(&["hello"]), Value::Null);
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(error(refused, 429)["code"], "busy");
    api.home.ok(&["server", "node", "interrupt", "me"]);
    drop(running);
}

#[test]
fn disconnect_interrupts_the_turn_unless_configured() {
    let api = Api::with_agent();
    for stream in [true, false] {
        let body = json!({ "model": "me:node", "messages": conversation(&["STALL 6000"]), "stream": stream })
            .to_string();
        let connection = begin_raw(&api, &body);
        api.wait_for_state("me", "busy");
        drop(connection);
        api.wait_for_state("me", "ready");
    }
    api.configure("on_disconnect = \"continue\"");
    let body = json!({ "model": "me:node", "messages": conversation(&["STALL 10"]) }).to_string();
    let connection = begin_raw(&api, &body);
    api.wait_for_state("me", "busy");
    drop(connection);
    let is_answered = || api.home.ok(&["transcript", "me"]).contains("You said: STALL 10");
    assert!(nerve_testkit::wait_until(crate::harness::DEADLINE, is_answered));
}

/// Sends a request and does not wait for the response.
fn begin_raw(api: &Api, body: &str) -> std::net::TcpStream {
    use std::io::Write;
    let (address, token) = (&api.endpoint.address, &api.endpoint.token);
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head =
        format!("POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream
}
