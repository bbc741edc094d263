//! Servers on TCP: printed address, authentication, and that the token leaks nowhere.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;

use nerve_testkit::harness::{CommandOutput, KillOnDrop};
use nerve_testkit::wait_until;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, NERVE};

impl Home {
    /// Returns the address of the default server, from `server status`.
    fn tcp(&self) -> String {
        self.nerve(&["server", "status", "--json"]).json()["tcp"].as_str().unwrap().to_string()
    }

    fn token(&self) -> String {
        self.ok(&["token", "show"]).trim().to_string()
    }

    /// Runs a command with an additional environment variable.
    fn with(&self, name: &str, value: &str, args: &[&str]) -> CommandOutput {
        let mut command = self.command(args);
        command.env(name, value);
        self.run(command)
    }
}

/// Authenticates, pings, and returns the replies.
fn talk(address: &str, token: &str) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let hello = json!({ "command_type": "AUTHENTICATE", "params": { "token": token } });
    stream.write_all(format!("{hello}\n{{\"command_type\":\"PING\"}}\n").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    BufReader::new(stream).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

#[test]
fn tcp_server_prints_address_and_checks_token() {
    let home = Home::new();
    let started = home.ok(&["server", "start", "--tcp", "127.0.0.1:0"]);
    let address = home.tcp();
    assert!(started.contains(&format!("listening on tcp://{address}")), "{started}");
    assert!(home.ok(&["server", "status"]).contains(&address));
    let token = home.token();
    let lines = talk(&address, &token);
    assert_eq!(lines[0]["data"]["authenticated"], true);
    assert_eq!(lines[1]["data"]["pong"], true);
    let wrong = talk(&address, "wrong");
    assert_eq!((wrong.len(), &wrong[0]["data"]["error_type"]), (1, &json!("authentication_error")));
    home.ok(&["server", "stop"]);
    assert!(TcpStream::connect(&address).is_err());
    let status = home.nerve(&["server", "status", "--json"]).json();
    assert_eq!((&status["tcp"], &status["running"]), (&Value::Null, &json!(false)));
}

#[test]
fn token_is_in_its_file_and_nowhere_else() {
    let home = Home::new();
    let mut start = home.command(&["server", "start", "--tcp", "0"]);
    start.env("NERVE_LOG", "trace");
    assert_eq!(home.run(start).code, 0);
    let token = home.token();
    let address = home.tcp();
    talk(&address, &token);
    talk(&address, &token[1..]);
    let url = format!("tcp://{address}");
    home.ok(&["server", "node", "create", "sh", "--backend", "bash", "--server", &url]);
    let pid = home.pid("default");
    for file in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains(&token), "{file}");
    }
    let path = home.ok(&["token", "path"]);
    let path = std::path::Path::new(path.trim());
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    home.ok(&["server", "stop"]);
    let log = fs::read_to_string(home.hermetic.nerve_home().join("logs/default.log")).unwrap();
    assert!(log.contains("authentication failed"), "{log}");
    let mut looked_at = 0;
    every_file(&home.hermetic.nerve_home(), &mut |file, bytes| {
        looked_at += 1;
        let holds = bytes
            .windows(token.len() - 1)
            .any(|window| token.as_bytes().starts_with(window) || token.as_bytes().ends_with(window));
        assert_eq!(holds, file == path, "{}", file.display());
    });
    assert!(looked_at >= 3, "{looked_at}");
}

fn every_file(folder: &std::path::Path, look: &mut impl FnMut(&std::path::Path, &[u8])) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            every_file(&entry.path(), look);
        } else if kind.is_file() {
            look(&entry.path(), &fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn rotated_token_takes_effect_at_once() {
    let home = Home::new();
    home.ok(&["server", "start", "--tcp", "0"]);
    let (address, old) = (home.tcp(), home.token());
    let new = home.nerve(&["token", "rotate", "--json"]).json();
    assert_eq!(new["path"].as_str().unwrap(), home.ok(&["token", "path"]).trim());
    let new = new["token"].as_str().unwrap();
    assert_ne!(new, old);
    assert_eq!(talk(&address, new).len(), 2);
    assert_eq!(talk(&address, &old)[0]["success"], false);
    let file = home.hermetic.nerve_home().join("token");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    home.nerve(&["token", "show"]).assert_stderr(1, &["0644", "chmod 600"]);
}

#[test]
fn custom_token_file_is_created_and_used() {
    let home = Home::new();
    let file = home.hermetic.nerve_home().join("secrets/other");
    let name = file.to_str().unwrap();
    home.ok(&["server", "start", "--tcp", "0", "--token-file", name]);
    let token = home.ok(&["token", "show", "--token-file", name]);
    assert_eq!(talk(&home.tcp(), token.trim()).len(), 2);
    assert_eq!(talk(&home.tcp(), &home.token())[0]["success"], false);
}

#[test]
fn conflicting_options_are_usage_errors() {
    let home = Home::new();
    let refused = |args: &[&str], words: &[&str]| {
        home.nerve(&[&["server", "start"], args].concat()).assert_stderr(2, words);
        home.nerve(&[&["server", "start", "--foreground"], args].concat()).assert_stderr(2, words);
    };
    refused(&["--tcp", "0.0.0.0:0"], &["needs TLS", "--insecure"]);
    refused(&["--http", "[::]:0"], &["needs TLS"]);
    refused(&["--tcp", "0", "--tls-key", "k.pem"], &["--tls-cert"]);
    refused(&["--tcp", "0", "--tls-cert", "c.pem"], &["--tls-key"]);
    refused(&["--tls-cert", "c.pem", "--tls-key", "k.pem"], &["--tcp"]);
    refused(&["--insecure"], &["--tcp"]);
    refused(&["--token-file", "t"], &["--tcp"]);
    refused(&["--host", "127.0.0.1"], &["--port"]);
    refused(&["--port", "0", "--host", "0.0.0.0"], &["needs TLS"]);
    refused(&["--tcp", "0", "--port", "0"], &["cannot be used"]);
    refused(&["--tcp", "somewhere"], &["PORT or IP:PORT"]);
    home.nerve(&["server", "start", "--tcp", "0", "--tls-cert", "/no/c.pem", "--tls-key", "/no/k.pem"])
        .assert_stderr(1, &["/no/"]);
    assert!(home.nerve(&["server", "list", "--json"]).json()["servers"].as_array().unwrap().is_empty());
}

#[test]
fn taken_port_is_reported_and_nothing_keeps_running() {
    let home = Home::new();
    home.ok(&["server", "start", "--tcp", "0"]);
    let address = home.tcp();
    home.nerve(&["server", "start", "second", "--tcp", &address]).assert_stderr(1, &[&address]);
    home.nerve(&["server", "status", "second"]).assert_code(3);
}

#[test]
fn old_option_names_work_and_warn() {
    let home = Home::new();
    let started = home.nerve(&["server", "start", "--host", "127.0.0.1", "--port", "0"]);
    started.assert_stderr(0, &["warning", "--tcp 127.0.0.1:0"]);
    assert_eq!(talk(&home.tcp(), &home.token()).len(), 2);
    let open = home.nerve(&["server", "start", "open", "--tcp", "0.0.0.0:0", "--insecure"]);
    open.assert_stderr(0, &["warning", "not encrypted"]);
}

#[test]
fn commands_use_a_tcp_server() {
    let home = Home::new();
    home.ok(&["server", "start", "--tcp", "0"]);
    let url = format!("tcp://{}", home.tcp());
    home.ok(&["server", "node", "create", "a", "--backend", "bash", "--server", &url]);
    assert_eq!(home.ok(&["server", "node", "execute", "a", "echo hello", "--server", &url]), "hello\n");
    let listed = home.with("NERVE_SERVER", &url, &["server", "node", "list", "--json"]).json();
    assert_eq!(listed["nodes"], json!(["a"]));
    let history = home.nerve(&["server", "node", "history", "a", "--json", "--server", &url]).json();
    assert!(!history["entries"].as_array().unwrap().is_empty());
    home.with("NERVE_TOKEN", "wrong", &["server", "node", "list", "--server", &url])
        .assert_stderr(1, &["token"]);
    home.nerve(&["server", "node", "list", "--server", "tcp://nowhere"]).assert_stderr(2, &["HOST:PORT"]);
    // Addresses reserved for documentation (RFC 5737): nothing may be sent there.
    let list = |server: &str| home.nerve(&["server", "node", "list", "--server", server]);
    list("tcp://192.0.2.1:7070").assert_stderr(2, &["tls://", "NERVE_INSECURE"]);
    list("tls://192.0.2.1:7070").assert_stderr(2, &["192.0.2.1:7070", "NERVE_TOKEN"]);
    home.with("NERVE_INSECURE", "1", &["server", "node", "list", "--server", "tcp://192.0.2.1:7070"])
        .assert_code(2);
    home.ok(&["server", "stop"]);
    home.nerve(&["server", "node", "list", "--server", &url]).assert_stderr(3, &["refused"]);
}

#[test]
fn commands_use_a_trusted_tls_server() {
    let home = Home::new();
    let (cert, key) = home.write_certificate();
    let started = home.ok(&["server", "start", "--tcp", "0", "--tls-cert", &cert, "--tls-key", &key]);
    assert!(started.contains("listening on tls://"), "{started}");
    let port = home.tcp().rsplit_once(':').unwrap().1.to_string();
    let url = format!("tls://localhost:{port}");
    let list = ["server", "node", "list", "--json", "--server", &url];
    assert_eq!(home.with("NERVE_TLS_CA", &cert, &list).json()["nodes"], json!([]));
    home.nerve(&list).assert_stderr(1, &["NERVE_TLS_CA"]);
    home.with("NERVE_TLS_CA", &key, &list).assert_stderr(2, &["certificates"]);
}

/// Sends a request on many connections that stay open, and returns the first reply of each.
fn first_answers<S: Read + Write>(request: &str, connect: impl Fn() -> S) -> Vec<String> {
    let mut streams: Vec<S> = (0..200).map(|_| connect()).collect();
    // A refused connection may be closed already.
    streams.iter_mut().for_each(|stream| drop(stream.write_all(request.as_bytes())));
    let first_answer = |stream: &mut S| {
        let mut answer = vec![0; 4096];
        let count = stream.read(&mut answer).unwrap();
        String::from_utf8(answer[..count].to_vec()).unwrap()
    };
    streams.iter_mut().map(first_answer).collect()
}

/// Starts a server with at most 64 descriptors; it ends with the returned process.
pub(crate) fn server_with_few_descriptors(home: &Home) -> KillOnDrop {
    let mut command = home.hermetic.command("sh");
    let start = "ulimit -n 64; exec \"$0\" server start --foreground --tcp 127.0.0.1:0 --http 127.0.0.1:0";
    command.args(["-c", start, NERVE]);
    let server = KillOnDrop::spawn(command);
    assert!(wait_until(DEADLINE, || home.nerve(&["server", "status"]).code == 0));
    server
}

/// Asserts that some connections were served and the others refused, and that the server recovers.
fn assert_served_or_refused(home: &Home, answers: &[String], served: &str, refused: &str) {
    let count = |text: &str| answers.iter().filter(|answer| answer.contains(text)).count();
    assert_eq!(count(served) + count(refused), answers.len(), "{answers:?}");
    assert!(count(served) > 0 && count(refused) > 0, "{answers:?}");
    assert!(wait_until(DEADLINE, || home.nerve(&["server", "node", "list"]).code == 0));
}

#[test]
fn unix_clients_without_descriptor_are_refused() {
    let home = Home::new();
    let _server = server_with_few_descriptors(&home);
    let socket = home.nerve(&["server", "status", "--json"]).json()["socket"].as_str().unwrap().to_string();
    let connect = || UnixStream::connect(&socket).unwrap();
    let answers = first_answers("{\"command_type\":\"PING\"}\n", connect);
    assert_served_or_refused(&home, &answers, "\"pong\":true", "too many connections");
}

#[test]
fn tcp_clients_without_descriptor_are_refused() {
    let home = Home::new();
    let _server = server_with_few_descriptors(&home);
    let (address, token) = (home.tcp(), home.token());
    let hello = json!({ "command_type": "AUTHENTICATE", "params": { "token": token } });
    let answers = first_answers(&format!("{hello}\n"), || connect_tcp(&address));
    assert_served_or_refused(&home, &answers, "\"authenticated\":true", "too many connections");
}

#[test]
fn http_clients_without_descriptor_are_refused() {
    let home = Home::new();
    let _server = server_with_few_descriptors(&home);
    let status = home.nerve(&["server", "status", "--json"]).json();
    let (address, token) = (status["http"].as_str().unwrap(), home.token());
    let request = format!("GET /nodes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    let answers = first_answers(&request, || connect_tcp(address));
    assert_served_or_refused(&home, &answers, "HTTP/1.1 200", "HTTP/1.1 503");
}

fn connect_tcp(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}
