//! Start and shutdown of servers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use nerve_server::config::ServerConfig;
use nerve_server::daemon::{NameStatus, holder};
use nerve_server::error::ServerError;
use nerve_server::paths::private_directory;
use nerve_server::server::Server;
use serde_json::json;

use crate::harness::{Client, TestServer, paths};

#[tokio::test]
async fn socket_is_private() {
    let server = TestServer::start();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&server.socket), 0o600);
    assert_eq!(mode(server.socket.parent().unwrap()), 0o700);
    server.stop().await;
}

#[tokio::test]
async fn second_server_of_a_name_is_rejected() {
    let server = TestServer::start();
    let config = ServerConfig::new("test", paths(server.home.path()));
    let error = Server::bind(&config).unwrap_err();
    assert!(matches!(error, ServerError::AlreadyRunning { pid: Some(pid), .. } if pid == std::process::id()));
    assert!(error.to_string().contains("'test'"), "{error}");
    let other = ServerConfig::new("other", paths(server.home.path()));
    drop(Server::bind(&other).unwrap());
    assert_eq!(server.client().await.request_ok("PING", json!({})).await["pong"], true);
    server.stop().await;
}

#[tokio::test]
async fn stale_socket_is_replaced() {
    let home = tempfile::tempdir().unwrap();
    let paths = paths(home.path());
    private_directory(&paths.runtime).unwrap();
    drop(UnixListener::bind(paths.socket("test").unwrap()).unwrap());
    fs::write(paths.lock("test").unwrap(), "1 1\n").unwrap();
    Server::bind(&ServerConfig::new("test", paths)).unwrap();
}

#[tokio::test]
async fn foreign_file_at_socket_path_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let paths = paths(home.path());
    private_directory(&paths.runtime).unwrap();
    let path = paths.socket("test").unwrap();
    fs::write(&path, "precious").unwrap();
    let error = Server::bind(&ServerConfig::new("test", paths)).unwrap_err();
    assert!(matches!(error, ServerError::NotASocket { .. }));
    assert_eq!(fs::read_to_string(path).unwrap(), "precious");
}

#[tokio::test]
async fn too_long_socket_path_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("d".repeat(90));
    let error = Server::bind(&ServerConfig::new("test", paths(&deep))).unwrap_err();
    assert!(matches!(error, ServerError::PathTooLong { .. }));
    assert!(error.to_string().contains("at most 107"), "{error}");
    assert!(error.hint().unwrap().contains("NERVE_HOME"));
    assert!(!deep.exists(), "directory created for a rejected server");
}

#[tokio::test]
async fn shutdown_notifies_clients_and_frees_name() {
    let server = TestServer::start();
    let paths = paths(server.home.path());
    let mut watcher = server.client().await;
    watcher.request_ok("PING", json!({})).await;
    let mut client = server.client().await;
    assert_eq!(client.request_ok("SHUTDOWN", json!({})).await["stopped"], true);
    watcher.wait_for_event("SERVER_SHUTDOWN").await;
    assert_eq!(watcher.line().await, None, "connection still open");
    let socket = server.socket.clone();
    server.wait_for_exit().await;
    assert!(!socket.exists());
    assert_eq!(holder(&paths, "test").unwrap(), NameStatus::Free);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_stalled_client() {
    let server = TestServer::start();
    let mut stalled = server.client().await;
    // Megabytes of unread answers.
    for _ in 0..200 {
        stalled
            .send_raw(format!("{{\"type\":\"command\",\"command_type\":\"{}\"}}", "X".repeat(50_000)))
            .await;
    }
    server.client().await.request_ok("SHUTDOWN", json!({})).await;
    server.wait_for_exit().await;
}

#[tokio::test]
async fn excess_connection_gets_an_error() {
    let server = TestServer::start_with(|config| config.max_connections = 2);
    let mut first = server.client().await;
    let mut second = server.client().await;
    first.request_ok("PING", json!({})).await;
    second.request_ok("PING", json!({})).await;
    let mut third = Client::connect(&server.socket).await;
    let error = third.line().await.unwrap();
    assert!(error["error"].as_str().unwrap().contains("too many connections"), "{error}");
    assert_eq!(third.line().await, None);
    first.request_ok("PING", json!({})).await;
    server.stop().await;
}
