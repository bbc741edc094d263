//! A host in this process, and connections to it.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use nerve_core::backend::HostedBackend;
use nerve_core::host::connection::Connection;
use nerve_core::host::process::Host;
use nerve_core::host::protocol::{HostEvent, HostRequest, Window};
use nerve_core::host::{CONTROL, HostSpec, SNAPSHOT};
use nerve_record::ssz::frame::{MAX_EVENT, decode_frame};
use nerve_record::ssz::snapshot::{Request, Response};
use nerve_term::event::{Origin, Size};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) const SIZE: Size = Size { cols: 100, rows: 30 };
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) host: Host,
    pub(crate) folder: TempDir,
}

impl Stage {
    /// A script in a shell whose terminal does not echo.
    pub(crate) async fn new(script: &str) -> Stage {
        Stage::with(script, false, false).await
    }

    /// The same, recorded.
    pub(crate) async fn recorded(script: &str) -> Stage {
        Stage::with(script, true, false).await
    }

    /// One whose viewer is on its way.
    pub(crate) async fn viewed(script: &str) -> Stage {
        Stage::with(script, false, true).await
    }

    async fn with(script: &str, record: bool, viewed: bool) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let (id, session_id) = HostSpec::new_ids();
        let registry = folder.path().join("registry");
        std::fs::create_dir(&registry).unwrap();
        let host = Host::start(HostSpec {
            runtime: folder.path().join(&id),
            id,
            session_id,
            argv: ["sh", "-c", &format!("stty -echo; {script}")].map(str::to_string).to_vec(),
            cwd: None,
            env: BTreeMap::new(),
            env_remove: Vec::new(),
            cols: SIZE.cols,
            rows: SIZE.rows,
            recording: record.then(|| folder.path().join("session.ahr")),
            must_record: true,
            quality: 0,
            registry,
            snapshots_at: None,
            label: serde_json::Value::Null,
            end: None,
            viewed,
        });
        Stage { host: host.await.unwrap(), folder }
    }

    /// One that hears everything from now on.
    pub(crate) async fn link(&self) -> Link {
        let mut link = Link::silent(&self.host).await.unwrap();
        link.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
        link
    }

    /// The same, and it is a viewer with this window.
    pub(crate) async fn viewer(&self, window: Window) -> Link {
        let mut link = self.link().await;
        link.request(&HostRequest::View(window)).await;
        link
    }

    /// A viewer as it is one in earnest.
    pub(crate) fn hosted(&self, window: Window) -> HostedBackend {
        HostedBackend::view(self.host.entry.clone(), self.folder.path().join("registry"), window)
    }

    /// Takes a snapshot; returns when it is confirmed.
    pub(crate) async fn snapshot(&self, id: u64) {
        let path = self.host.entry.runtime.join(SNAPSHOT);
        let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
        stream.write_all(&Request::Snapshot { id, label: b"mark".to_vec() }.frame().unwrap()).await.unwrap();
        let mut read = Vec::new();
        let body = loop {
            if let Some(body) = decode_frame(&mut read, MAX_EVENT).unwrap() {
                break body;
            }
            assert_ne!(soon(stream.read_buf(&mut read)).await.unwrap(), 0);
        };
        assert!(matches!(Response::decode(&body).unwrap(), Response::Success { .. }));
    }
}

/// A connection to a host's socket.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    output: Vec<u8>,
}

impl Link {
    pub(crate) async fn silent(host: &Host) -> std::io::Result<Link> {
        let connection = soon(Connection::open(&host.entry.runtime.join(CONTROL))).await?;
        Ok(Link { connection, output: Vec::new() })
    }

    /// Over a stream that is open.
    pub(crate) async fn of(stream: tokio::net::UnixStream) -> Link {
        Link { connection: soon(Connection::greeted(stream)).await.unwrap(), output: Vec::new() }
    }

    pub(crate) async fn request(&mut self, request: &HostRequest) {
        self.connection.send(request).await.unwrap();
    }

    pub(crate) async fn types(&mut self, text: &str) {
        self.request(&HostRequest::Input { origin: Origin::User, bytes: text.into() }).await;
    }

    /// Waits for a report that is told something by.
    pub(crate) async fn until<T>(&mut self, mut look: impl FnMut(&HostEvent) -> Option<T>) -> T {
        loop {
            let event = soon(self.connection.next()).await.unwrap().expect("the host is there");
            if let HostEvent::Output { bytes, .. } = &event {
                self.output.extend_from_slice(bytes);
            }
            if let Some(found) = look(&event) {
                return found;
            }
        }
    }

    /// Waits until the terminal has this size.
    pub(crate) async fn resized(&mut self, cols: u16, rows: u16) {
        let wanted = Size::new(cols, rows);
        self.until(|event| (*event == HostEvent::Resized(wanted)).then_some(())).await;
    }

    /// Waits until the program has written this, after what was waited for last.
    pub(crate) async fn reads(&mut self, text: &str) {
        while !self.has_read(text) {
            self.until(|event| matches!(event, HostEvent::Output { .. }).then_some(())).await;
        }
    }

    /// Whether the program has written this, after what was waited for last; what comes next is waited for after it.
    pub(crate) fn has_read(&mut self, text: &str) -> bool {
        let at = self.output.windows(text.len()).position(|bytes| bytes == text.as_bytes());
        if let Some(at) = at {
            self.output.drain(..at + text.len());
        }
        at.is_some()
    }
}

/// Nothing takes so long, unless it hangs.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it hangs")
}
