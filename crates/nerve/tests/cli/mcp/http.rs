//! MCP over HTTP: served by a server and by `nerve mcp --http`, for several clients, and for bad ones.

use nerve_testkit::harness::{is_alive, signal};
use nerve_testkit::{skip, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::http_client::{Endpoint, HttpClient, hello};
use super::stdio_client::{Client, text};
use crate::harness::{DEADLINE, Home};

fn shell(node: &str) -> Value {
    json!({"node_id": node, "command": ["bash", "--norc"], "env": {"PS1": "$ "}})
}

/// Begins a long turn and waits until the node is busy. The caller has to read the returned reply.
fn begin_long_turn(web: &mut HttpClient<'_>, text: &str, more: Value) -> (u64, super::http_client::Reply) {
    let mut arguments = json!({"node_id": "sh", "text": text});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let begun = web.begin("tools/call", json!({"name": "nerve_execute", "arguments": arguments}));
    let at_it = || web.ok("nerve_read", json!({"node_id": "sh"}))["state"] == "busy";
    assert!(wait_until(DEADLINE, at_it), "the turn does not begin");
    begun
}

#[test]
fn both_http_servers_offer_same_tools_and_resources() {
    for own in [false, true] {
        let home = Home::new();
        let endpoint = if own {
            home.ok(&["server", "start"]);
            Endpoint::standalone(&home, &[])
        } else {
            Endpoint::on_server(&home)
        };
        let mut web = HttpClient::ready(&endpoint);
        assert_eq!(web.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len(), 19);
        let mut listening = web.listen(None);
        assert_eq!(listening.header("content-type"), Some("text/event-stream"));
        assert_eq!(web.ok("nerve_create_node", shell("sh"))["state"], "ready");
        listening.next(|message| message["method"] == "notifications/resources/list_changed");
        let done = web.call("nerve_execute", json!({"node_id": "sh", "text": "echo $((6 * 7))"}));
        assert_eq!(text(&done), "42");
        let listed = web.request("resources/list", json!({}))["result"]["resources"].clone();
        assert_eq!(listed[0]["uri"], "nerve://nodes/sh/screen", "{listed}");
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
        let read = web.request("resources/read", json!({"uri": "nerve://nodes/sh/screen"}));
        assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("42"), "{read}");
        let lost = web.call("nerve_execute", json!({"node_id": "lost", "text": "hi"}));
        assert_eq!(lost["structuredContent"]["error_type"], "not_found_error", "{lost}");
        // A second client sees the same nodes but only its own notifications.
        let mut other = HttpClient::ready(&endpoint);
        assert_ne!(other.session, web.session);
        assert_eq!(other.ok("nerve_list_nodes", json!({}))["nodes"][0]["node_id"], "sh");
        other.ok("nerve_stop_node", json!({"node_id": "sh"}));
        listening.next(|message| message["method"] == "notifications/resources/list_changed");
        assert_eq!(web.end().status, 202);
        assert_eq!(web.begin("tools/list", json!({})).1.status, 404);
        // The stream has ended with its session.
        while listening.message().is_some() {}
        assert_eq!(other.ok("nerve_list_nodes", json!({}))["nodes"], json!([]));
    }
}

#[test]
fn token_and_host_name_are_required() {
    let home = Home::new();
    for endpoint in
        [Endpoint::on_server(&home), Endpoint::standalone(&home, &["--http-name", "nerve.example"])]
    {
        let bearer = format!("Bearer {}", endpoint.token);
        let accept = ("Accept", "application/json, text/event-stream");
        let json_body = ("Content-Type", "application/json");
        let cut = &bearer[..bearer.len() - 1];
        for (method, token) in [("POST", ""), ("POST", cut), ("GET", "Bearer wrong"), ("DELETE", "Basic x")] {
            let reply = endpoint.raw(method, &[("Authorization", token), accept, json_body], &hello(1));
            assert_eq!(reply.status, 401, "{method} {token}");
            let message = reply.text();
            assert!(message.contains("nerve token show") && !message.contains(&endpoint.token), "{message}");
        }
        let good = [("Authorization", bearer.as_str()), accept, json_body];
        let with = |more: (&'static str, &str)| {
            let headers: Vec<(&str, &str)> = good.iter().copied().chain([more]).collect();
            endpoint.raw("POST", &headers, &hello(1))
        };
        assert_eq!(with(("Host", "evil.example")).status, 403);
        assert_eq!(with(("Origin", "http://evil.example")).status, 403);
        assert_eq!(with(("Origin", "null")).status, 403);
        assert_eq!(with(("Host", "localhost")).status, 200);
        let named = with(("Host", "nerve.example")).status;
        assert_eq!(named, if endpoint.child.is_some() { 200 } else { 403 });
    }
}

#[test]
fn invalid_requests_get_their_status() {
    let home = Home::new();
    let endpoint = Endpoint::on_server(&home);
    let mut web = HttpClient::ready(&endpoint);
    let unknown = ("Mcp-Session-Id", "00000000-0000-0000-0000-000000000000");
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}).to_string();
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(endpoint.send(method, &[unknown], &call).status, 404, "{method}");
        assert_eq!(endpoint.send(method, &[], &call).status, 400, "{method} without a session");
    }
    assert_eq!(endpoint.send("PUT", &[], &call).status, 405);
    assert_eq!(endpoint.send("POST", &[("Mcp-Session-Id", "\u{e9}")], &call).status, 400);
    for garbage in
        ["", "garbage {{{", "[]", "7", &"[".repeat(100_000), r#"{"jsonrpc":"2.0","id":[1],"method":7}"#]
    {
        let status = endpoint.send("POST", &[("Mcp-Session-Id", &web.session)], garbage).status;
        assert!((400..=422).contains(&status), "{status}: {}", &garbage[..garbage.len().min(40)]);
    }
    let version = [("Mcp-Session-Id", web.session.as_str()), ("MCP-Protocol-Version", "1999-01-01")];
    assert_eq!(endpoint.send("POST", &version, &call).status, 400);
    // A body that is announced as too long is not read.
    let too_long = endpoint.send("POST", &[("Content-Length", "17000000")], "");
    assert_eq!(too_long.status, 413);
    assert!(too_long.text().contains("too_large"));
    let wrong = web.call("nerve_execute", json!({"node_id": 7}));
    assert_eq!(wrong["structuredContent"]["error_type"], "invalid_arguments", "{wrong}");
    let nothing = web.request("tools/call", json!({"name": "no_such_tool"}));
    assert!(nothing["error"]["message"].as_str().unwrap().contains("no_such_tool"), "{nothing}");
    assert_eq!(web.ok("nerve_list_nodes", json!({}))["nodes"], json!([]));
}

#[test]
fn excess_sessions_are_refused_until_one_ends() {
    let home = Home::new();
    let endpoint = Endpoint::standalone(&home, &[]);
    let webs: Vec<HttpClient<'_>> = (0..64).map(|_| HttpClient::ready(&endpoint)).collect();
    let refused = endpoint.send("POST", &[], &hello(1));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("30")));
    let message: Value = serde_json::from_str(&refused.text()).unwrap();
    assert!(message["error"]["message"].as_str().unwrap().contains("too many sessions"), "{message}");
    assert_eq!(webs[7].end().status, 202);
    let mut late = HttpClient::ready(&endpoint);
    assert_eq!(late.call("nerve_list_nodes", json!({}))["isError"], true, "no server runs");
}

#[test]
fn long_turn_reports_progress_and_only_its_client_cancels() {
    let home = Home::new();
    let endpoint = Endpoint::on_server(&home);
    let (mut web, mut other) = (HttpClient::ready(&endpoint), HttpClient::ready(&endpoint));
    web.ok("nerve_create_node", shell("sh"));
    let wait = "for i in 1 2 3; do echo step-$i; read -t 0.5 <> <(:); done; echo over";
    let (_, mut reply) = web.begin(
        "tools/call",
        json!({
            "name": "nerve_execute", "arguments": {"node_id": "sh", "text": wait}, "_meta": {"progressToken": "p1"},
        }),
    );
    let (_, message) = reply.next(|message| message["method"] == "notifications/progress");
    assert!(message["params"]["message"].as_str().unwrap().contains("step-"), "{message}");
    assert_eq!(message["params"]["progressToken"], "p1", "{message}");
    assert!(text(&reply.answer()["result"]).ends_with("over"));
    assert!(reply.message().is_none(), "a stream ends with its answer");

    let (id, mut reply) = begin_long_turn(&mut web, "sleep 3000", json!({"interrupt_on_cancel": true}));
    // The same number of another client is another request.
    other.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(other.ok("nerve_read", json!({"node_id": "sh"}))["state"], "busy");
    web.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    let ready = || web.ok("nerve_read", json!({"node_id": "sh"}))["state"] == "ready";
    assert!(wait_until(DEADLINE, ready), "the turn does not end");
    assert!(reply.message().is_none(), "a cancelled request is not answered");
}

#[test]
fn client_reconnects_for_its_answer() {
    let home = Home::new();
    let endpoint = Endpoint::on_server(&home);
    let mut web = HttpClient::ready(&endpoint);
    web.ok("nerve_create_node", shell("sh"));
    let go = home.hermetic.work().join("go");
    let wait = format!("echo begun; until [ -e {} ]; do read -t 0.05 <> <(:); done; echo over", go.display());
    let call = json!({
        "name": "nerve_execute", "arguments": {"node_id": "sh", "text": wait}, "_meta": {"progressToken": 1},
    });
    let (_, mut reply) = web.begin("tools/call", call);
    let busy = || web.ok("nerve_read", json!({"node_id": "sh"}))["state"] == "busy";
    assert!(wait_until(DEADLINE, busy));
    let (last, _) = reply.next(|message| message["method"] == "notifications/progress");
    drop(reply);
    // The response can be resumed while the call runs, and after its end.
    let mut again = web.listen(Some(&last));
    assert_eq!(again.status, 200);
    std::fs::write(&go, "").unwrap();
    assert!(text(&again.answer()["result"]).ends_with("over"));
    let (mut late, mut ended) = (web.listen(Some(&last)), None);
    while let Some((id, message)) = late.message() {
        ended = Some((id, message));
    }
    let (end, answer) = ended.expect("nothing is kept");
    assert!(text(&answer["result"]).ends_with("over"));
    // After the last message there is no content (204), so clients do not reconnect.
    assert_eq!(web.listen(Some(&end)).status, 204);
    assert_eq!(web.listen(Some("99-1")).status, 204);
}

/// Sockets that a process has open: a call of a tool has one to the server.
fn sockets(pid: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn turn_survives_client_exit_and_session_end() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let endpoint = Endpoint::standalone(&home, &[]);
    let pid = endpoint.child.as_ref().unwrap().0.id();
    let (mut web, mut other) = (HttpClient::ready(&endpoint), HttpClient::ready(&endpoint));
    web.ok("nerve_create_node", shell("sh"));
    let (_, reply) = begin_long_turn(&mut web, "sleep 3000", json!({"interrupt_on_cancel": true}));
    drop(reply);
    assert_eq!(web.ok("nerve_read", json!({"node_id": "sh"}))["state"], "busy");
    let at_work = sockets(pid);
    assert_eq!(web.end().status, 202);
    assert!(wait_until(DEADLINE, || sockets(pid) < at_work), "the call is not given up");
    assert_eq!(
        other.ok("nerve_list_nodes", json!({}))["nodes"][0]["state"],
        "busy",
        "no interrupt was requested"
    );
    other.ok("nerve_interrupt", json!({"node_id": "sh"}));
    let ready = || other.ok("nerve_read", json!({"node_id": "sh"}))["state"] == "ready";
    assert!(wait_until(DEADLINE, ready), "the turn does not end");
}

#[test]
fn sigterm_ends_streams_and_leaves_turns_running() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut endpoint = Endpoint::standalone(&home, &[]);
    let pid = endpoint.child.as_ref().unwrap().0.id();
    let (mut listening, mut reply) = {
        let mut web = HttpClient::ready(&endpoint);
        web.ok("nerve_create_node", shell("sh"));
        let (_, reply) = begin_long_turn(&mut web, "sleep 3000", json!({"interrupt_on_cancel": true}));
        (web.listen(None), reply)
    };
    signal(pid, Signal::TERM);
    while listening.message().is_some() {}
    assert!(reply.message().is_none_or(|(_, message)| message["result"]["isError"] == true));
    assert_eq!(endpoint.wait_for_exit(), Some(0));
    assert_eq!(home.info("sh")["state"], "busy", "no interrupt was requested");

    let mut here = Endpoint::standalone(&home, &["--in-process"]);
    let pid = here.child.as_ref().unwrap().0.id();
    let node = {
        let mut web = HttpClient::ready(&here);
        web.ok("nerve_create_node", shell("mine"));
        let echoed = web.call("nerve_execute", json!({"node_id": "mine", "text": "echo $$"}));
        text(&echoed).parse().unwrap()
    };
    signal(pid, Signal::TERM);
    assert_eq!(here.wait_for_exit(), Some(0));
    assert!(wait_until(DEADLINE, || !is_alive(node)), "nodes of the process end with it");
}

#[test]
fn non_loopback_address_needs_tls_or_opt_out() {
    let home = Home::new();
    home.nerve(&["mcp", "--http", "0.0.0.0:0"]).assert_stderr(2, &["TLS"]);
    home.nerve(&["mcp", "--json"]).assert_stderr(2, &["--http"]);
    let taken = Endpoint::standalone(&home, &[]);
    let again = home.nerve(&["mcp", "--http", &taken.address]);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""), "{again:?}");
    assert!(again.stderr.contains(&taken.address), "{again:?}");
}

#[test]
fn stopping_server_ends_sessions_and_streams() {
    let home = Home::new();
    let endpoint = Endpoint::on_server(&home);
    let mut web = HttpClient::ready(&endpoint);
    let mut listening = web.listen(None);
    web.ok("nerve_create_node", shell("sh"));
    let (_, mut reply) = begin_long_turn(&mut web, "sleep 3000", json!({}));
    home.ok(&["server", "stop"]);
    while listening.message().is_some() {}
    // The stream ends, with a reply if there was time for one.
    while let Some((_, message)) = reply.message() {
        assert_eq!(message["result"]["isError"], true, "{message}");
    }
    let log = std::fs::read_to_string(home.hermetic.nerve_home().join("logs/default.log")).unwrap();
    assert!(!log.contains("did not") && !log.contains(" ERROR ") && !log.contains(&web.session), "{log}");
}

#[test]
fn certificate_enables_tls_and_http_2() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        return skip("certificate_enables_tls_and_http_2", "there is no curl");
    }
    let home = Home::new();
    let (cert, key) = home.write_certificate();
    let endpoint = Endpoint::standalone(&home, &["--tls-cert", &cert, "--tls-key", &key]);
    let port = endpoint.address.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}/mcp");
    let head = home.write_private("head", &format!("Authorization: Bearer {}\n", endpoint.token));
    for (version, name) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
        let mut curl = home.hermetic.command("curl");
        curl.args(["-sS", "-i", "--max-time", "30", version, "--cacert", &cert, "-H", &format!("@{head}")]);
        curl.args(["-H", "Accept: application/json, text/event-stream", "--json", &hello(1), &url]);
        let done = home.run(curl);
        assert!(done.stdout.starts_with(name) && done.stdout.contains("mcp-session-id"), "{done:?}");
        assert!(done.stdout.contains("\"name\":\"nerve\""), "{done:?}");
    }
}
