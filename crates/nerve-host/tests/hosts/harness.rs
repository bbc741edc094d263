//! A host in this process, and clients of it.

use std::collections::BTreeMap;
use std::path::Path;

use nerve_host::backend::HostedBackend;
use nerve_host::connection::Connection;
use nerve_host::process::Host;
use nerve_host::protocol::{HostEvent, HostRequest, Window};
use nerve_host::{CONTROL, HostSpec, SNAPSHOT};
use nerve_record::ssz::frame::{MAX_EVENT, decode_frame};
use nerve_record::ssz::snapshot::{Request, Response};
use nerve_types::{Origin, Size};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) const SIZE: Size = Size { cols: 100, rows: 30 };

/// Name of a recording in the folder of its host.
const RECORDING: &str = "session.ahr";

pub(crate) struct HostHarness {
    pub(crate) host: Host,
    pub(crate) folder: TempDir,
}

impl HostHarness {
    /// Starts a script in a shell without echo.
    pub(crate) async fn new(script: &str) -> HostHarness {
        HostHarness::with(tempfile::tempdir().unwrap(), script, None, false).await
    }

    /// Like [`HostHarness::new`], with a recording.
    pub(crate) async fn recorded(script: &str) -> HostHarness {
        HostHarness::recorded_in(tempfile::tempdir().unwrap(), script, RECORDING).await
    }

    /// Like [`HostHarness::recorded`], with a recording of this name in a prepared folder.
    pub(crate) async fn recorded_in(folder: TempDir, script: &str, recording: &str) -> HostHarness {
        HostHarness::with(folder, script, Some(recording), false).await
    }

    /// Like [`HostHarness::new`], with an announced viewer.
    pub(crate) async fn with_announced_viewer(script: &str) -> HostHarness {
        HostHarness::with(tempfile::tempdir().unwrap(), script, None, true).await
    }

    async fn with(folder: TempDir, script: &str, recording: Option<&str>, viewed: bool) -> HostHarness {
        std::fs::create_dir(folder.path().join("registry")).unwrap();
        let argv = ["sh", "-c", &format!("stty -echo; {script}")].map(str::to_string).to_vec();
        let recording = recording.map(|name| folder.path().join(name));
        let spec = HostSpec { recording, viewed, ..spec(folder.path(), argv) };
        HostHarness { host: Host::start(spec).await.unwrap(), folder }
    }

    /// Connects a client that receives all output.
    pub(crate) async fn client(&self) -> TestClient {
        let mut client = TestClient::connect(&self.host).await.unwrap();
        client.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
        client
    }

    /// Connects a client that is a viewer with this window.
    pub(crate) async fn viewer(&self, window: Window) -> TestClient {
        let mut client = self.client().await;
        client.request(&HostRequest::View(window)).await;
        client
    }

    /// Connects a viewer as the application does.
    pub(crate) fn backend(&self, window: Window) -> HostedBackend {
        HostedBackend::view(self.host.entry.clone(), self.folder.path().join("registry"), window)
    }

    /// Takes a snapshot and waits for its confirmation.
    pub(crate) async fn snapshot(&self, id: u64) {
        assert!(matches!(self.request_snapshot(id, b"mark").await, Response::Success { .. }));
    }

    /// Requests a snapshot.
    pub(crate) async fn request_snapshot(&self, id: u64, label: &[u8]) -> Response {
        let path = self.host.entry.runtime.join(SNAPSHOT);
        let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
        stream.write_all(&Request::Snapshot { id, label: label.to_vec() }.frame().unwrap()).await.unwrap();
        let mut read = Vec::new();
        let body = loop {
            if let Some(body) = decode_frame(&mut read, MAX_EVENT).unwrap() {
                break body;
            }
            assert_ne!(within_limit(stream.read_buf(&mut read)).await.unwrap(), 0);
        };
        Response::decode(&body).unwrap()
    }
}

/// Describes an unrecorded program whose host has its files in `folder`.
pub(crate) fn spec(folder: &Path, argv: Vec<String>) -> HostSpec {
    let (id, session_id) = HostSpec::new_ids();
    HostSpec {
        runtime: folder.join(&id),
        id,
        session_id,
        argv,
        cwd: None,
        env: BTreeMap::new(),
        env_remove: Vec::new(),
        cols: SIZE.cols,
        rows: SIZE.rows,
        recording: None,
        must_record: true,
        quality: 0,
        registry: folder.join("registry"),
        snapshots_at: None,
        label: serde_json::Value::Null,
        end: None,
        viewed: false,
    }
}

/// A client of a host.
pub(crate) struct TestClient {
    pub(crate) connection: Connection,
    output: Vec<u8>,
}

impl TestClient {
    pub(crate) async fn connect(host: &Host) -> std::io::Result<TestClient> {
        let connection = within_limit(Connection::open(&host.entry.runtime.join(CONTROL))).await?;
        Ok(TestClient { connection, output: Vec::new() })
    }

    /// Uses an open connection.
    pub(crate) async fn of(stream: tokio::net::UnixStream) -> TestClient {
        TestClient {
            connection: within_limit(Connection::handshake(stream)).await.unwrap(),
            output: Vec::new(),
        }
    }

    pub(crate) async fn request(&mut self, request: &HostRequest) {
        self.connection.send(request).await.unwrap();
    }

    pub(crate) async fn send_input(&mut self, text: &str) {
        self.request(&HostRequest::Input { origin: Origin::User, bytes: text.into() }).await;
    }

    /// Waits for an event for which `look` returns a value.
    pub(crate) async fn wait_for<T>(&mut self, mut look: impl FnMut(&HostEvent) -> Option<T>) -> T {
        loop {
            let event = within_limit(self.connection.next()).await.unwrap().expect("the host is alive");
            if let HostEvent::Output { bytes, .. } = &event {
                self.output.extend_from_slice(bytes);
            }
            if let Some(found) = look(&event) {
                return found;
            }
        }
    }

    /// Waits until the terminal has this size.
    pub(crate) async fn wait_size(&mut self, cols: u16, rows: u16) {
        let expected = Size::new(cols, rows);
        self.wait_for(|event| (*event == HostEvent::Resized(expected)).then_some(())).await;
    }

    /// Waits until the program has written this text after the previously awaited one.
    pub(crate) async fn wait_output(&mut self, text: &str) {
        let mut start = 0;
        while !self.take_output_after(start, text) {
            // Searches no output twice, but the text may begin in the last one.
            start = self.output.len().saturating_sub(text.len());
            self.wait_for(|event| matches!(event, HostEvent::Output { .. }).then_some(())).await;
        }
    }

    /// Returns true if the program has written this text after the previously awaited one, and consumes it.
    pub(crate) fn take_output(&mut self, text: &str) -> bool {
        self.take_output_after(0, text)
    }

    fn take_output_after(&mut self, start: usize, text: &str) -> bool {
        let at = self.output[start..].windows(text.len()).position(|bytes| bytes == text.as_bytes());
        if let Some(at) = at {
            self.output.drain(..start + at + text.len());
        }
        at.is_some()
    }
}

/// Fails a test that hangs.
pub(crate) async fn within_limit<T>(future: impl Future<Output = T>) -> T {
    nerve_testkit::within_deadline("a step of the host", future).await
}
