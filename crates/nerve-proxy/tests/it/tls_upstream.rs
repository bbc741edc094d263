//! Upstreams with TLS, and with HTTP/2, that do what a test says.

use std::path::PathBuf;
use std::sync::Arc;

use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use hyper::body::Bytes;
use nerve_proxy::{Authorities, ProxyConfig};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::harness::{config, soon};

/// Who vouches for a test's upstreams.
pub(crate) struct Authority {
    cert: Certificate,
    key: KeyPair,
    folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), cert.pem()).unwrap();
        Authority { cert, key, folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Settings for an upstream that is believed if this vouches for it.
    pub(crate) fn config(&self, upstream: &str) -> ProxyConfig {
        ProxyConfig { authorities: Some(Authorities::read(self.file()).unwrap()), ..config(upstream) }
    }

    /// A server's half of TLS that offers these protocols.
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

/// What all connections of an upstream are told to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// Say GOAWAY at once, and close.
    GoAway(Reason),
    /// Close without a word.
    Close,
}

/// An upstream that speaks HTTP/2.
pub(crate) struct Http2 {
    url: String,
    asked: mpsc::UnboundedReceiver<Asked>,
    orders: broadcast::Sender<Order>,
}

/// A request and who waits for its answer.
pub(crate) struct Asked {
    pub(crate) request: Request<RecvStream>,
    pub(crate) answer: SendResponse<Bytes>,
}

impl Http2 {
    pub(crate) async fn listen(authority: &Authority) -> Http2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = authority.acceptor(&["h2", "http/1.1"]);
        let (requests, asked) = mpsc::unbounded_channel();
        let (orders, _) = broadcast::channel(8);
        let told = orders.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, requests, orders) = (acceptor.clone(), requests.clone(), told.subscribe());
                tokio::spawn(async move {
                    // Who does not believe the certificate ends this.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                    serve(stream, requests, orders).await;
                });
            }
        });
        Http2 { url, asked, orders }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) async fn asked(&mut self) -> Asked {
        soon("a request", self.asked.recv()).await.unwrap()
    }

    pub(crate) fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }
}

async fn serve(
    stream: TlsStream<TcpStream>,
    requests: mpsc::UnboundedSender<Asked>,
    mut orders: broadcast::Receiver<Order>,
) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(100);
    let mut connection: Connection<_, Bytes> = builder.handshake(stream).await.unwrap();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Ok(Order::GoAway(reason)) => connection.abrupt_shutdown(reason),
                Ok(Order::Close) | Err(_) => return,
            },
            accepted = connection.accept() => {
                let Some(Ok((request, answer))) = accepted else { return };
                if requests.send(Asked { request, answer }).is_err() {
                    return;
                }
            }
        }
    }
}

impl Asked {
    /// The request's body.
    pub(crate) async fn body(&mut self) -> String {
        let mut whole = Vec::new();
        while let Some(data) = soon("a body", self.request.body_mut().data()).await {
            let data = data.unwrap();
            self.request.body_mut().flow_control().release_capacity(data.len()).unwrap();
            whole.extend_from_slice(&data);
        }
        String::from_utf8(whole).unwrap()
    }

    /// The head of an answer that is a stream of events.
    pub(crate) fn begin(&mut self) -> SendStream<Bytes> {
        let head = Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
        self.answer.send_response(head, false).unwrap()
    }

    /// A whole answer.
    pub(crate) fn say(&mut self, text: &str) {
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
