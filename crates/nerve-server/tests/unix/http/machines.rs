//! The relay to other machines, which refuse or do not reply.

use futures_util::StreamExt;
use nerve_machine::{Machine, Machines};
use nerve_testkit::within_deadline;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::client::HttpServer;

/// A server that relays to one machine, `laptop`, whose network a test plays.
struct Relay {
    server: HttpServer,
    machine: TcpListener,
    folder: TempDir,
}

impl Relay {
    async fn start() -> Relay {
        let folder = tempfile::tempdir().unwrap();
        let machine = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "secret").unwrap();
        let address = format!("tls://{}", machine.local_addr().unwrap());
        let entry =
            Machine { name: "laptop".to_string(), token_file: Some(token), ..Machine::unnamed(&address) };
        let machines = Machines::new(folder.path(), folder.path());
        machines.add(entry).unwrap();
        let server = HttpServer::start_with(|config| config.machines = Some(machines));
        Relay { server, machine, folder }
    }

    /// Opens the WebSocket with the events of the machine.
    async fn open_events(&self) -> WebSocketStream<TcpStream> {
        let url = format!("ws://{}/machines/laptop/events", self.server.address);
        let mut request = url.into_client_request().unwrap();
        let token = format!("Bearer {}", self.server.token).parse().unwrap();
        request.headers_mut().insert("authorization", token);
        let stream = TcpStream::connect(self.server.address).await.unwrap();
        let opening = tokio_tungstenite::client_async(request, stream);
        within_deadline("WebSocket", opening).await.unwrap().0
    }

    async fn accept(&self) -> TcpStream {
        within_deadline("connection", self.machine.accept()).await.unwrap().0
    }

    async fn reachable(&self) -> Value {
        self.server.get("/machines").await.json()["machines"][0]["reachable"].clone()
    }
}

#[tokio::test]
async fn page_is_accepted_before_its_machine_replies() {
    let relay = Relay::start().await;
    let mut page = relay.open_events().await;
    // The machine accepts the connection and does not continue.
    let stream = relay.accept().await;
    assert_eq!(relay.reachable().await, Value::Null);
    drop(stream);
    let closed = within_deadline("close", page.next()).await.unwrap().unwrap();
    let Message::Close(Some(frame)) = closed else { panic!("{closed:?}") };
    assert_eq!(frame.code, CloseCode::Again);
    assert!(frame.reason.as_str().contains("laptop"), "{frame:?}");
    assert_eq!(relay.reachable().await, false);
}

#[tokio::test]
async fn attempt_to_connect_ends_with_the_page() {
    let relay = Relay::start().await;
    let page = relay.open_events().await;
    let mut stream = relay.accept().await;
    drop(page);
    within_deadline("end", stream.read_to_end(&mut Vec::new())).await.unwrap();
    assert_eq!(relay.reachable().await, Value::Null);
}

#[tokio::test]
async fn events_that_are_not_relayed_are_refused() {
    let relay = Relay::start().await;
    for query in ["types=STEP_STARTED", "types=NODE_READY,NODE_REDAY", "run=r", "since=1", "aliases=1"] {
        let path = format!("/machines/laptop/events?{query}");
        relay.server.get(&path).await.problem(400, "invalid_request_error");
    }
    relay.server.get("/machines/absent/events").await.problem(404, "not_found_error");
    let plain = relay.server.get("/machines/laptop/events?types=NODE_READY").await;
    plain.problem(400, "invalid_request_error");
    let hint = plain.json()["hint"].clone();
    assert!(!hint.as_str().unwrap().contains("/events"), "{hint}");
}

#[tokio::test]
async fn damaged_list_of_machines_has_a_hint() {
    let relay = Relay::start().await;
    std::fs::write(relay.folder.path().join("machines.json"), "{").unwrap();
    for path in ["/machines", "/machines/laptop/nodes"] {
        let response = relay.server.get(path).await;
        response.problem(422, "process_error");
        assert!(response.json()["hint"].is_string());
    }
}
