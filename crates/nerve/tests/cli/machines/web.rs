//! The web console with the nodes of other machines.

use serde_json::{Value, json};

use super::ssh_server::SshServer;
use crate::harness::{Home, NERVE};
use crate::mcp::http_client::{Endpoint, Reply};
use crate::web::run_in_browser_with;

/// A browser's session.
struct Browser<'a> {
    endpoint: &'a Endpoint,
    cookie: String,
}

impl<'a> Browser<'a> {
    /// Logs in with a body of the request.
    fn log_in(endpoint: &'a Endpoint, login: &Value) -> Browser<'a> {
        let origin = format!("http://{}", endpoint.address);
        let headers = [("Content-Type", "application/json"), ("Origin", origin.as_str())];
        let reply = endpoint.request("POST", "/web/login", &headers, &login.to_string());
        let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_string();
        Browser { endpoint, cookie }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let origin = format!("http://{}", self.endpoint.address);
        let headers = [
            ("Content-Type", "application/json"),
            ("Origin", origin.as_str()),
            ("Cookie", self.cookie.as_str()),
        ];
        self.endpoint.request(method, path, &headers, body)
    }
}

fn get(endpoint: &Endpoint, path: &str) -> (u16, Value) {
    send(endpoint, "GET", path, "")
}

fn send(endpoint: &Endpoint, method: &str, path: &str, body: &str) -> (u16, Value) {
    let bearer = format!("Bearer {}", endpoint.token);
    let reply = endpoint.request(method, path, &[("Authorization", bearer.as_str())], body);
    (reply.status, serde_json::from_str(&reply.text()).unwrap())
}

/// Returns the secret behind `#NAME=` in a link.
fn secret(document: &Value, name: &str) -> Value {
    let url = document["url"].as_str().unwrap();
    url.split_once(&format!("#{name}=")).unwrap().1.into()
}

#[test]
fn server_relays_requests_to_machines_on_request_only() {
    let (here, laptop) = (Home::with_shell(), Home::with_shell());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.add("off", "ssh://127.0.0.1:1");

    here.ok(&["server", "stop", "--keep-nodes"]);
    let endpoint = Endpoint::on_server(&here);
    assert_eq!(get(&endpoint, "/machines").0, 404);
    assert_eq!(get(&endpoint, "/machines/laptop/nodes").0, 404);
    client.nerve(&["web", "--machines", "--json"]).assert_stderr(1, &["--machines", "--keep-nodes"]);
    client.ok(&["server", "stop", "--keep-nodes"]);

    client.ok(&["server", "start", "--http", "127.0.0.1:0", "--machines"]);
    let endpoint = Endpoint::on_server(&here);
    let (_, listed) = get(&endpoint, "/machines");
    let states = |listed: &Value| -> Vec<(Value, Value)> {
        let machines = listed["machines"].as_array().unwrap().iter();
        machines.map(|one| (one["machine_name"].clone(), one["reachable"].clone())).collect()
    };
    assert_eq!(states(&listed), [(json!("laptop"), Value::Null), (json!("off"), Value::Null)]);
    let (_, nodes) = get(&endpoint, "/machines/laptop/nodes?session=default");
    assert_eq!(nodes["nodes_info"][0]["node_id"], "sh", "{nodes}");
    let prompt = json!({ "text": "echo by-page" }).to_string();
    let (status, turn) =
        send(&endpoint, "POST", "/machines/laptop/nodes/sh/execute?session=default", &prompt);
    assert_eq!((status, &turn["response"]["text"]), (200, &json!("by-page")), "{turn}");
    assert!(laptop.read("sh").contains("by-page") && !here.read("sh").contains("by-page"));
    let later = json!({ "text": "echo later", "async": true }).to_string();
    let (status, begun) =
        send(&endpoint, "POST", "/machines/laptop/nodes/sh/execute?session=default", &later);
    assert_eq!(status, 202, "{begun}");
    // A wait has a connection of its own.
    let path = format!("/machines/laptop/results/{}?wait=true", begun["result_id"].as_str().unwrap());
    let (status, result) = get(&endpoint, &path);
    assert_eq!((status, &result["state"]), (200, &json!("done")), "{result}");
    let bearer = format!("Bearer {}", endpoint.token);
    let headers = [("Authorization", bearer.as_str())];
    let created = endpoint.request("POST", "/machines/laptop/sessions", &headers, r#"{"name":"night"}"#);
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), Some("/machines/laptop/sessions/night"));

    let (status, problem) = get(&endpoint, "/machines/laptop/nodes/none");
    assert_eq!((status, &problem["error_type"]), (404, &json!("not_found_error")), "{problem}");
    assert_eq!(get(&endpoint, "/machines/absent/nodes").0, 404);
    assert_eq!(get(&endpoint, "/machines/laptop/nowhere").0, 404);
    let (status, problem) = get(&endpoint, "/machines/off/nodes");
    assert_eq!(status, 502, "{problem}");
    let (_, listed) = get(&endpoint, "/machines");
    assert_eq!(states(&listed), [(json!("laptop"), Value::Null), (json!("off"), json!(false))]);
    assert!(listed["machines"][0]["last_contact_at"].is_string(), "{listed}");
    // A server there that has ended is no missing node.
    laptop.ok(&["server", "stop"]);
    assert_eq!(get(&endpoint, "/machines/laptop/nodes/sh").0, 502);
}

#[test]
fn roles_and_shares_hold_for_machines() {
    let (here, laptop) = (Home::with_shell(), Home::with_shell());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.ok(&["server", "stop", "--keep-nodes"]);
    client.ok(&["server", "start", "--http", "127.0.0.1:0", "--machines"]);
    let endpoint = Endpoint::on_server(&here);

    let code = secret(&here.nerve(&["web", "--role", "view", "--json"]).json(), "code");
    let viewer = Browser::log_in(&endpoint, &json!({ "code": code }));
    assert_eq!(viewer.send("GET", "/machines/laptop/nodes/sh/explain?session=default", "").status, 200);
    for path in ["execute", "write", "answer"] {
        let path = format!("/machines/laptop/nodes/sh/{path}?session=default");
        assert_eq!(viewer.send("POST", &path, "{}").status, 403, "{path}");
    }
    assert_eq!(viewer.send("DELETE", "/machines/laptop/nodes/sh?session=default", "").status, 403);
    let without_origin = [("Cookie", viewer.cookie.as_str()), ("Upgrade", "websocket")];
    assert_eq!(endpoint.request("GET", "/machines/laptop/events", &without_origin, "").status, 403);

    let code = secret(&here.nerve(&["web", "--role", "answer", "--json"]).json(), "code");
    let answerer = Browser::log_in(&endpoint, &json!({ "code": code }));
    // It may answer, but there is no dialog.
    let answered =
        answerer.send("POST", "/machines/laptop/nodes/sh/answer?session=default", r#"{"choice":1}"#);
    let problem: Value = serde_json::from_str(&answered.text()).unwrap();
    assert_eq!(problem["error_type"], "invalid_request_error", "{problem}");
    assert_eq!(answerer.send("POST", "/machines/laptop/nodes/sh/write?session=default", "{}").status, 403);

    let share = secret(&here.nerve(&["share", "sh", "--json"]).json(), "share");
    let shared = Browser::log_in(&endpoint, &json!({ "share": share }));
    assert_eq!(shared.send("GET", "/nodes/sh?session=default", "").status, 200);
    for path in ["/machines", "/machines/laptop/nodes/sh?session=default", "/machines/laptop/events"] {
        assert_eq!(shared.send("GET", path, "").status, 403, "{path}");
    }
}

#[test]
fn nodes_of_another_machine_are_used_in_a_browser() {
    let (here, laptop) = (Home::with_shell(), Home::new());
    laptop.ok(&["server", "start"]);
    laptop.ok(&["new", "remote", "-c", "bash --norc", "--env", "PS1=$ "]);
    let agent = format!("{NERVE} mock-agent --onboarding");
    laptop.ok(&["new", "agent", "-c", &agent, "--profile", "claude"]);
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.add("off", "ssh://127.0.0.1:1");
    client.ok(&["server", "stop", "--keep-nodes"]);
    client.ok(&["server", "start", "--http", "127.0.0.1:0", "--machines"]);
    let nerve_home = laptop.hermetic.nerve_home();
    let variables = [("NERVE_OTHER_HOME", nerve_home.to_str().unwrap())];
    let test = "nodes_of_another_machine_are_used_in_a_browser";
    run_in_browser_with(&here, test, "machines.mjs", &variables);
}
