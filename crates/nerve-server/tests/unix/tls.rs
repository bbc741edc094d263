//! TLS over TCP, with a certificate authority made for the test.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use nerve_client::{ClientError, NerveClient, Tls};
use nerve_server::access::tls::TlsFiles;
use nerve_server::config::ServerConfig;
use nerve_server::error::ServerError;
use nerve_server::server::Server;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Client, DEADLINE, TcpServer, paths};

/// A CA certificate, and a directory with the server's certificate and key.
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) files: TlsFiles,
    _folder: TempDir,
}

pub(crate) fn authority() -> Authority {
    let folder = tempfile::tempdir().unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With equal names, OpenSSL would take the server's certificate for a self-signed one.
    ca.distinguished_name.push(DnType::CommonName, "an authority of a test");
    let ca = ca.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_string(), "127.0.0.1".to_string()]).unwrap();
    let cert = params.signed_by(&key, &ca, &ca_key).unwrap();
    let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    fs::write(&files.cert, cert.pem()).unwrap();
    write_private(&files.key, &key.serialize_pem());
    Authority { pem: ca.pem(), files, _folder: folder }
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn start_server(authority: &Authority) -> TcpServer {
    TcpServer::start_with(|config| config.tls = Some(authority.files.clone()))
}

async fn connect_client(server: &TcpServer, authority: &Authority) -> NerveClient {
    let tls = Tls::Authorities(authority.pem.clone().into());
    NerveClient::connect_tcp(&server.tcp().to_string(), &server.token(), &tls).await.unwrap()
}

#[tokio::test]
async fn trusting_client_is_served_by_name_and_address() {
    let authority = authority();
    let server = start_server(&authority);
    let tls = Tls::Authorities(authority.pem.clone().into());
    for host in ["localhost", "127.0.0.1"] {
        let address = format!("{host}:{}", server.tcp().port());
        let client = NerveClient::connect_tcp(&address, &server.token(), &tls).await.unwrap();
        assert!(client.ping().await.unwrap().pong);
    }
    server.stop().await;
}

#[tokio::test]
async fn client_without_ca_sends_no_token() {
    let known = authority();
    let server = start_server(&known);
    let (address, token) = (server.tcp().to_string(), server.token());
    for tls in [Tls::Public, Tls::Authorities(authority().pem.into())] {
        let error = NerveClient::connect_tcp(&address, &token, &tls).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Io { action, .. } if action.starts_with("TLS handshake with")),
            "{error}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn plain_text_on_tls_port_is_ignored() {
    let authority = authority();
    let server = start_server(&authority);
    let mut plain = TcpStream::connect(server.tcp()).await.unwrap();
    let line =
        format!("{{\"command_type\":\"AUTHENTICATE\",\"params\":{{\"token\":\"{}\"}}}}\n", server.token());
    plain.write_all(line.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, plain.read_to_end(&mut received))
        .await
        .expect("connection was not closed");
    assert!(!String::from_utf8_lossy(&received).contains('{'), "{received:?}");
    let error =
        NerveClient::connect_tcp(&server.tcp().to_string(), &server.token(), &Tls::Off).await.unwrap_err();
    assert!(!matches!(error, ClientError::Server(_)), "{error}");
    assert!(connect_client(&server, &authority).await.ping().await.unwrap().pong);
    server.stop().await;
}

#[tokio::test]
async fn stalled_handshakes_are_ended() {
    let authority = authority();
    let server = start_server(&authority);
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
        // The first bytes of a handshake.
        stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
        stalled.push(stream);
    }
    assert!(connect_client(&server, &authority).await.ping().await.unwrap().pong);
    // The stalled ones did not have to time out first.
    let end = stalled[49].try_read(&mut [0]);
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let mut received = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stalled[0].read_to_end(&mut received))
        .await
        .expect("connection was not closed");
    assert!(matches!(read, Ok(0) | Err(_)), "{received:?}");
    server.stop().await;
}

#[tokio::test]
async fn slow_reader_gets_large_answers_completely() {
    let authority = authority();
    let server = start_server(&authority);
    // Small buffers, which the answers exceed.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(32 * 1024).unwrap();
    let stream = socket.connect(server.tcp()).await.unwrap();
    let (read, write) = tokio::io::split(tls_connect(stream, &authority).await);
    let client = &mut Client::new(read, write);
    client.request_ok("AUTHENTICATE", json!({ "token": server.token() })).await;
    client.request_ok("CREATE_NODE", json!({ "node_id": "a", "backend": "bash" })).await;
    let text = "head -c 400000 /dev/zero | tr '\\0' x";
    for _ in 0..4 {
        client.request_ok("EXECUTE_INPUT", json!({ "node_id": "a", "text": text })).await;
    }
    client.request_ok("SUBSCRIBE", json!({ "types": [] })).await;
    let history = json!({ "node_id": "a" });
    for _ in 0..ANSWERS {
        client.send("GET_HISTORY", history.clone()).await;
    }
    // Once another client has received as many answers, the unread ones are ready too.
    let mut other = Client::connect(&server.socket).await;
    for _ in 0..ANSWERS {
        other.request_ok("GET_HISTORY", history.clone()).await;
    }
    let mut bytes = 0;
    for _ in 0..ANSWERS {
        bytes += client.reply().await.to_string().len();
    }
    assert!(bytes > 10_000_000, "{bytes} bytes do not fill the buffers");
    server.stop().await;
}

/// The maximum number of concurrent large answers per client.
const ANSWERS: usize = 8;

async fn tls_connect(stream: TcpStream, authority: &Authority) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn invalid_certificate_files_are_named() {
    let (one, other) = (authority(), authority());
    let home = tempfile::tempdir().unwrap();
    let assert_rejected = |cert: &Path, key: &Path, name: &Path| {
        let mut config = ServerConfig::new("test", paths(home.path()));
        config.tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.tls = Some(TlsFiles { cert: cert.to_path_buf(), key: key.to_path_buf() });
        let error = Server::bind(&config).unwrap_err();
        assert!(matches!(error, ServerError::BadTls { .. }), "{error}");
        assert!(error.to_string().contains(name.to_str().unwrap()), "{error}");
    };
    let (cert, key) = (&one.files.cert, &one.files.key);
    assert_rejected(key, key, key);
    assert_rejected(cert, cert, cert);
    assert_rejected(cert, &other.files.key, cert);
    let missing = home.path().join("none.pem");
    assert_rejected(&missing, key, &missing);
    let open = home.path().join("open.pem");
    fs::copy(key, &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    assert_rejected(cert, &open, &open);
}
