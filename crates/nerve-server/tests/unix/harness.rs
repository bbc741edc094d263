//! A server in its own directory, and clients that send raw lines.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nerve_engine::{Engine, EngineConfig};
use nerve_node::factory::FactoryConfig;
use nerve_server::access::token::TokenFile;
use nerve_server::config::ServerConfig;
use nerve_server::error::ServerError;
use nerve_server::paths::ServerPaths;
use nerve_server::server::Server;
pub(crate) use nerve_testkit::DEADLINE;
use nerve_testkit::within_deadline;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Returns the directories below a separate NERVE_HOME.
pub(crate) fn paths(home: &Path) -> ServerPaths {
    ServerPaths::under(home)
}

/// Creates an engine whose nodes run in this process.
pub(crate) fn engine(paths: &ServerPaths) -> Engine {
    Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "test".to_string(),
            history_dir: Some(paths.data.history.clone()),
            ..FactoryConfig::default()
        },
        runs_dir: Some(paths.runs()),
        sessions_file: Some(paths.data.sessions_file.clone()),
        conversations: Some(paths.conversations()),
        results_dir: Some(paths.results()),
        data_dirs: Some(paths.data.clone()),
        telemetry: Default::default(),
    })
}

/// A transport for the clients of a test: the same tests run over each.
pub(crate) trait Transport: Sized {
    /// Configures the server's listener.
    fn listen(_config: &mut ServerConfig) {}
    /// Connects and authenticates a client.
    async fn connect(server: &RunningServer<Self>) -> Client;
}

/// The Unix socket.
pub(crate) struct Unix;

impl Transport for Unix {
    async fn connect(server: &RunningServer<Unix>) -> Client {
        Client::connect(&server.socket).await
    }
}

/// Plain TCP on loopback.
pub(crate) struct Tcp;

impl Transport for Tcp {
    fn listen(config: &mut ServerConfig) {
        config.tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    }

    async fn connect(server: &RunningServer<Tcp>) -> Client {
        let mut client = Client::tcp(server.tcp()).await;
        let answer = client.request_ok("AUTHENTICATE", json!({ "token": server.token() })).await;
        assert_eq!(answer["authenticated"], true);
        client
    }
}

/// A running server with clients over its Unix socket.
pub(crate) type TestServer = RunningServer<Unix>;
/// A running server with clients over TCP.
pub(crate) type TcpServer = RunningServer<Tcp>;

/// A running server. Dropping it stops it; [`RunningServer::stop`] waits for that.
pub(crate) struct RunningServer<T> {
    pub(crate) home: TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) task: JoinHandle<Result<(), ServerError>>,
    tcp: Option<SocketAddr>,
    http: Option<SocketAddr>,
    token: TokenFile,
    stop: CancellationToken,
    transport: PhantomData<T>,
}

impl<T: Transport> RunningServer<T> {
    pub(crate) fn start() -> RunningServer<T> {
        RunningServer::start_with(|_| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut ServerConfig)) -> RunningServer<T> {
        RunningServer::start_in(tempfile::tempdir().unwrap(), change)
    }

    fn start_in(home: TempDir, change: impl FnOnce(&mut ServerConfig)) -> RunningServer<T> {
        let paths = paths(home.path());
        let mut config = ServerConfig::new("test", paths.clone());
        T::listen(&mut config);
        change(&mut config);
        let server = Server::bind(&config).unwrap();
        let (tcp, http, token) = (server.tcp_address(), server.http_address(), config.token);
        let engine = engine(&paths);
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = tokio::spawn(async move { server.run(engine, stopping.cancelled_owned()).await });
        let socket = paths.socket("test").unwrap();
        RunningServer { socket, home, task, tcp, http, token, stop, transport: PhantomData }
    }

    pub(crate) async fn client(&self) -> Client {
        T::connect(self).await
    }

    /// Returns the TCP address.
    pub(crate) fn tcp(&self) -> SocketAddr {
        self.tcp.unwrap()
    }

    /// Returns the HTTP address.
    pub(crate) fn http(&self) -> SocketAddr {
        self.http.unwrap()
    }

    /// Returns the current token.
    pub(crate) fn token(&self) -> String {
        self.token.read().unwrap().reveal().to_string()
    }

    /// Replaces the token and returns the new one.
    pub(crate) fn rotate_token(&self) -> String {
        self.token.rotate().unwrap().reveal().to_string()
    }

    pub(crate) async fn stop(self) {
        self.begin_shutdown();
        self.wait_for_exit().await;
    }

    pub(crate) fn begin_shutdown(&self) {
        self.stop.cancel();
    }

    /// Waits until the server has exited.
    pub(crate) async fn wait_for_exit(self) {
        wait_for_exit(self.task).await;
    }

    /// Stops the server and starts another one in the same directory.
    pub(crate) async fn restart(self) -> RunningServer<T> {
        self.stop.cancel();
        wait_for_exit(self.task).await;
        RunningServer::start_in(self.home, |_| {})
    }
}

async fn wait_for_exit(task: JoinHandle<Result<(), ServerError>>) {
    within_deadline("the server exits", task).await.unwrap().unwrap();
}

/// A client connection.
pub(crate) struct Client {
    read: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    write: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    next_id: u32,
}

impl Client {
    pub(crate) async fn connect(socket: &Path) -> Client {
        let (read, write) = UnixStream::connect(socket).await.unwrap().into_split();
        Client::new(read, write)
    }

    /// Connects without authenticating.
    pub(crate) async fn tcp(address: SocketAddr) -> Client {
        let (read, write) = TcpStream::connect(address).await.unwrap().into_split();
        Client::new(read, write)
    }

    pub(crate) fn new(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Client {
        Client { read: BufReader::new(Box::new(read)), write: Some(Box::new(write)), next_id: 0 }
    }

    /// Sends raw bytes and a newline.
    pub(crate) async fn send_raw(&mut self, line: impl AsRef<[u8]>) {
        let write = self.write.as_mut().unwrap();
        let line = [line.as_ref(), b"\n"].concat();
        tokio::time::timeout(DEADLINE, write.write_all(&line)).await.expect("send timed out").unwrap();
    }

    /// Sends a command and returns its request id.
    pub(crate) async fn send(&mut self, command: &str, params: Value) -> String {
        self.next_id += 1;
        let id = format!("{command}-{}", self.next_id);
        let request =
            json!({ "type": "command", "command_type": command, "params": params, "request_id": id });
        self.send_raw(request.to_string()).await;
        id
    }

    /// Reads the next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.read.read_line(&mut line);
        // Closing a connection with unread data resets it, which counts as an end too.
        let bytes = within_deadline("a line", read).await.unwrap_or(0);
        (bytes > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Reads the next line that is not an event.
    pub(crate) async fn reply(&mut self) -> Value {
        loop {
            let line = self.line().await.expect("connection closed");
            if line["type"] != "event" {
                return line;
            }
        }
    }

    /// Waits for the next event of this type; others are skipped.
    pub(crate) async fn wait_for_event(&mut self, kind: &str) -> Value {
        loop {
            let line = self.line().await.expect("connection closed");
            if line["type"] == "event" && line["event_type"] == kind {
                return line;
            }
        }
    }

    /// Sends a command and returns its reply; no other request may be pending.
    pub(crate) async fn request(&mut self, command: &str, params: Value) -> Value {
        let id = self.send(command, params).await;
        let reply = self.reply().await;
        assert_eq!(reply["request_id"], id.as_str(), "{reply}");
        reply
    }

    /// Like [`Client::request`] for a command that must succeed; returns its data.
    pub(crate) async fn request_ok(&mut self, command: &str, params: Value) -> Value {
        let mut reply = self.request(command, params).await;
        assert_eq!(reply["success"], true, "{reply}");
        reply["data"].take()
    }

    /// Like [`Client::request`] for a command that must fail; returns the error.
    pub(crate) async fn request_err(&mut self, command: &str, params: Value) -> String {
        let reply = self.request(command, params).await;
        assert_eq!(reply["success"], false, "{reply}");
        reply["error"].as_str().unwrap().to_string()
    }

    /// Sends a command to a server that may close the connection meanwhile.
    pub(crate) async fn try_send(&mut self, command: &str) {
        let line = format!("{}\n", json!({ "command_type": command }));
        let _ = self.write.as_mut().unwrap().write_all(line.as_bytes()).await;
    }

    /// Finishes sending; the client can still read.
    pub(crate) fn half_close(&mut self) {
        self.write = None;
    }
}
