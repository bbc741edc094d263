//! Sends bytes to the HTTP front of a server, as a client without a token. The server answers or closes.
//!
//! Without a token, because a client that has one may run any command.
#![no_main]

use std::cell::LazyCell;
use std::net::SocketAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nerve_engine::{Engine, EngineConfig};
use nerve_fuzz::pieces;
use nerve_node::factory::FactoryConfig;
use nerve_server::config::ServerConfig;
use nerve_server::paths::ServerPaths;
use nerve_server::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Longer than any timeout of the server. It is virtual time.
const TIMEOUT: Duration = Duration::from_secs(600);

thread_local! {
    static SERVER: LazyCell<TestServer> = const { LazyCell::new(TestServer::start) };
}

fuzz_target!(|data: &[u8]| SERVER.with(|server| server.send(data)));

struct TestServer {
    runtime: Runtime,
    address: SocketAddr,
    _home: tempfile::TempDir,
}

impl TestServer {
    fn start() -> TestServer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("no runtime");
        let home = tempfile::tempdir().expect("no directory");
        let address = runtime.block_on(async {
            let paths = ServerPaths::under(home.path());
            let mut config = ServerConfig::new("fuzz", paths.clone());
            config.http = Some(([127, 0, 0, 1], 0).into());
            let server = Server::bind(&config).expect("cannot listen");
            let address = server.http_address().expect("no HTTP");
            let engine = Engine::new(EngineConfig {
                nodes: FactoryConfig { server: "fuzz".to_string(), ..FactoryConfig::default() },
                runs_dir: None,
                sessions_file: None,
                conversations: None,
                results_dir: None,
                data_dirs: None,
                telemetry: Default::default(),
            });
            tokio::spawn(server.run(engine, std::future::pending()));
            address
        });
        TestServer { runtime, address, _home: home }
    }

    fn send(&self, data: &[u8]) {
        self.runtime.block_on(async {
            let mut stream = TcpStream::connect(self.address).await.expect("cannot connect");
            let exchange = async {
                for piece in pieces(data) {
                    // The server may refuse the rest.
                    if stream.write_all(piece).await.is_err() {
                        break;
                    }
                }
                let _ = stream.shutdown().await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            };
            tokio::time::timeout(TIMEOUT, exchange).await.expect("the connection stays open");
        });
    }
}
