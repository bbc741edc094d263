//! Upstreams with TLS and HTTP/2 that are controlled by a test.

use std::path::PathBuf;
use std::sync::Arc;

use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use hyper::body::Bytes;
use nerve_proxy::{ProxyConfig, RootCerts};
use nerve_testkit::within_deadline;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::harness::config;

/// The certificate authority of a test's upstreams.
pub(crate) struct CertAuthority {
    cert: Certificate,
    key: KeyPair,
    folder: TempDir,
}

impl CertAuthority {
    pub(crate) fn new() -> CertAuthority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), cert.pem()).unwrap();
        CertAuthority { cert, key, folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Settings for an upstream with a certificate of this authority.
    pub(crate) fn config(&self, upstream: &str) -> ProxyConfig {
        ProxyConfig { root_certs: Some(RootCerts::read(self.file()).unwrap()), ..config(upstream) }
    }

    /// Returns a TLS acceptor that offers these protocols.
    pub(crate) fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        let cert = params.signed_by(&key, &self.cert, &self.key).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config =
            builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A command for all connections of an upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConnectionCommand {
    /// Send GOAWAY and close.
    GoAway(Reason),
    /// Close without GOAWAY.
    Close,
}

/// An upstream that speaks HTTP/2.
pub(crate) struct Http2Upstream {
    url: String,
    next_request: mpsc::UnboundedReceiver<Http2Request>,
    commands: broadcast::Sender<ConnectionCommand>,
}

/// A request that waits for its response.
pub(crate) struct Http2Request {
    pub(crate) request: Request<RecvStream>,
    pub(crate) answer: SendResponse<Bytes>,
}

impl Http2Upstream {
    pub(crate) async fn listen(authority: &CertAuthority) -> Http2Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = authority.acceptor(&["h2", "http/1.1"]);
        let (requests, next_request) = mpsc::unbounded_channel();
        let (commands, _) = broadcast::channel(8);
        let reply = commands.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, requests, commands) = (acceptor.clone(), requests.clone(), reply.subscribe());
                tokio::spawn(async move {
                    // A client that rejects the certificate.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                    serve(stream, requests, commands).await;
                });
            }
        });
        Http2Upstream { url, next_request, commands }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) async fn next_request(&mut self) -> Http2Request {
        within_deadline("a request", self.next_request.recv()).await.unwrap()
    }

    pub(crate) fn command(&self, command: ConnectionCommand) {
        self.commands.send(command).unwrap();
    }
}

async fn serve(
    stream: TlsStream<TcpStream>,
    requests: mpsc::UnboundedSender<Http2Request>,
    mut commands: broadcast::Receiver<ConnectionCommand>,
) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(100);
    let mut connection: Connection<_, Bytes> = builder.handshake(stream).await.unwrap();
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Ok(ConnectionCommand::GoAway(reason)) => connection.abrupt_shutdown(reason),
                Ok(ConnectionCommand::Close) | Err(_) => return,
            },
            accepted = connection.accept() => {
                let Some(Ok((request, answer))) = accepted else { return };
                if requests.send(Http2Request { request, answer }).is_err() {
                    return;
                }
            }
        }
    }
}

impl Http2Request {
    /// Returns the request's body.
    pub(crate) async fn body(&mut self) -> String {
        let mut read_reply = Vec::new();
        while let Some(data) = within_deadline("a body", self.request.body_mut().data()).await {
            let data = data.unwrap();
            self.request.body_mut().flow_control().release_capacity(data.len()).unwrap();
            read_reply.extend_from_slice(&data);
        }
        String::from_utf8(read_reply).unwrap()
    }

    /// Starts a response that is a stream of events.
    pub(crate) fn begin(&mut self) -> SendStream<Bytes> {
        let head = Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
        self.answer.send_response(head, false).unwrap()
    }

    /// Sends a whole response.
    pub(crate) fn respond(&mut self, text: &str) {
        let mut stream = self.begin();
        stream.send_data(Bytes::copy_from_slice(text.as_bytes()), true).unwrap();
    }

    pub(crate) fn refuse(&mut self, reason: Reason) {
        self.answer.send_reset(reason);
    }
}

pub(crate) fn send(stream: &mut SendStream<Bytes>, text: &str) {
    stream.send_data(Bytes::copy_from_slice(text.as_bytes()), false).unwrap();
}

pub(crate) fn end_with(stream: &mut SendStream<Bytes>, name: &'static str, value: &'static str) {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, value.parse().unwrap());
    stream.send_trailers(trailers).unwrap();
}
