//! Embedded servers and engines, used as by a program that embeds them.

use std::time::Duration;

use nerve_api::request::CreateNode;
use nerve_api::value::BackendKind;
use nerve_client::{ClientError, NerveClient};
use nerve_compose::{create_http_server, create_socket_server, create_standalone, engine_config};
use nerve_server::config::ServerConfig;
use nerve_server::error::ServerError;
use nerve_server::paths::ServerPaths;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_secs(20);

async fn hello(client: &NerveClient) -> Result<String, ClientError> {
    let params = CreateNode { backend: BackendKind::Bash, ..CreateNode::new("sh") };
    let node = client.create_node(&params).await?;
    Ok(node.execute("echo hello").await?.response.text)
}

#[tokio::test]
async fn standalone_needs_no_socket_and_ends_with_its_client() {
    let home = tempfile::tempdir().unwrap();
    let nerve = create_standalone(engine_config("mine", &ServerPaths::under(home.path()), None)).unwrap();
    assert_eq!(hello(nerve.client()).await.unwrap(), "hello");
    assert!(!home.path().join("run").exists(), "a socket folder was created");
    let (client, server) = nerve.into_parts();
    drop(client);
    tokio::time::timeout(DEADLINE, server.ended()).await.expect("it continues without a client");
}

#[tokio::test]
async fn socket_server_frees_its_name_when_stopped() {
    let home = tempfile::tempdir().unwrap();
    let paths = ServerPaths::under(home.path());
    let config = ServerConfig::new("mine", paths.clone());
    let server = create_socket_server(&config, engine_config("mine", &paths, None)).unwrap();
    let client = NerveClient::connect(server.socket()).await.unwrap();
    assert_eq!(hello(&client).await.unwrap(), "hello");
    assert_eq!((server.tcp(), server.http()), (None, None));
    let again = create_socket_server(&config, engine_config("mine", &paths, None));
    assert!(matches!(again, Err(ServerError::AlreadyRunning { .. })));
    let socket = server.socket().to_path_buf();
    tokio::time::timeout(DEADLINE, server.stop()).await.expect("it does not stop").unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn client_can_shut_the_server_down() {
    let home = tempfile::tempdir().unwrap();
    let paths = ServerPaths::under(home.path());
    let config = ServerConfig::new("mine", paths.clone());
    let server = create_socket_server(&config, engine_config("mine", &paths, None)).unwrap();
    NerveClient::connect(server.socket()).await.unwrap().shutdown(false).await.unwrap();
    tokio::time::timeout(DEADLINE, server.ended()).await.expect("it does not end").unwrap();
}

#[tokio::test]
async fn http_server_answers_at_its_port() {
    let home = tempfile::tempdir().unwrap();
    let paths = ServerPaths::under(home.path());
    let config = ServerConfig::new("mine", paths.clone());
    let address = "127.0.0.1:0".parse().unwrap();
    let server = create_http_server(&config, address, engine_config("mine", &paths, None)).unwrap();
    let address = server.http().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(server.token().read().is_ok(), "no token was created");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn non_loopback_address_requires_tls() {
    let home = tempfile::tempdir().unwrap();
    let paths = ServerPaths::under(home.path());
    let config = ServerConfig::new("mine", paths.clone());
    let address = "0.0.0.0:0".parse().unwrap();
    let refused = create_http_server(&config, address, engine_config("mine", &paths, None)).unwrap_err();
    assert!(matches!(refused, ServerError::NeedsTls { .. }) && refused.hint().is_some(), "{refused}");
    assert!(!paths.socket("mine").unwrap().exists(), "it was half started");
}
