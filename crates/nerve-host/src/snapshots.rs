//! Receives snapshot requests from programs in the terminal, over the socket named in their environment.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_record::snapshots::{self, SnapshotLine};
use nerve_record::ssz::SszError;
use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame};
use nerve_record::ssz::snapshot::{MAX_LABEL, Request, Response};
use nerve_types::TsNs;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::recorder::Flusher;
use crate::sockets::{ACCEPT_RETRY_DELAY, PrivateListener};

/// Time for reading the rest of an oversized request.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of the snapshot list of a session that is not recorded, in bytes.
const MAX_UNRECORDED_LIST: u64 = 8 << 20;

/// A snapshot request, with the channel for its response.
#[derive(Debug)]
pub(super) struct SnapshotRequest {
    pub(super) id: u64,
    pub(super) label: String,
    pub(super) reply: oneshot::Sender<Response>,
}

/// Listens on a Unix socket and returns its address for the program's environment.
pub(super) fn listen_unix(
    path: &Path,
    requests: mpsc::Sender<SnapshotRequest>,
    repairs: &watch::Sender<()>,
) -> io::Result<String> {
    let mut listener = PrivateListener::bind(path, repairs)?;
    tokio::spawn(async move {
        loop {
            let stream = listener.accept().await;
            tokio::spawn(serve(stream, requests.clone()));
        }
    });
    Ok(path.display().to_string())
}

/// Listens on loopback and returns the address for the program's environment.
pub(super) async fn listen_tcp(
    addr: SocketAddr,
    requests: mpsc::Sender<SnapshotRequest>,
) -> io::Result<String> {
    if !addr.ip().is_loopback() {
        let message = format!("cannot listen on {addr}: not a loopback address");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(serve(stream, requests.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    });
    Ok(format!("tcp:{addr}"))
}

/// Serves requests in order until the peer closes or sends an invalid frame.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, requests: mpsc::Sender<SnapshotRequest>) {
    let mut read = Vec::new();
    loop {
        let (answer, is_open) = match decode_frame(&mut read, MAX_MESSAGE) {
            Ok(Some(body)) => (handle(&body, &requests).await, true),
            Ok(None) => match stream.read_buf(&mut read).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            },
            Err(error) => (Response::Error { message: error.to_string() }, false),
        };
        let sent = stream.write_all(&answer.frame()).await;
        if !is_open {
            let _ = stream.shutdown().await;
            // Closing with unread bytes would reset the connection, which can overtake the response.
            let _ = tokio::time::timeout(LINGER_TIMEOUT, discard_input(&mut stream)).await;
        }
        if sent.is_err() || !is_open {
            return;
        }
    }
}

async fn discard_input(stream: &mut (impl AsyncRead + Unpin)) {
    let mut bytes = [0; 4096];
    let mut remaining = MAX_MESSAGE;
    while let Ok(size @ 1..) = stream.read(&mut bytes).await {
        remaining = remaining.saturating_sub(size);
        if remaining == 0 {
            return;
        }
    }
}

async fn handle(body: &[u8], requests: &mpsc::Sender<SnapshotRequest>) -> Response {
    let Request::Snapshot { id, label } = match Request::decode(body) {
        Ok(request) => request,
        Err(error) => return Response::Error { message: error.to_string() },
    };
    let (reply, answer) = oneshot::channel();
    let label = String::from_utf8_lossy(&label).into_owned();
    // Each invalid byte was replaced by three.
    if label.len() > MAX_LABEL {
        return Response::Error { message: SszError::LabelTooLong { length: label.len() }.to_string() };
    }
    let over = || Response::Error { message: "the session has ended".to_string() };
    if requests.send(SnapshotRequest { id, label, reply }).await.is_err() {
        return over();
    }
    answer.await.unwrap_or_else(|_| over())
}

/// Location of the snapshot list.
#[derive(Debug, Clone)]
pub(super) enum SnapshotStore {
    /// In the recording and the list next to it.
    Recording(Flusher),
    /// In the list next to the stand-in path of a session that is not recorded.
    Unrecorded(PathBuf),
    /// Nowhere: only connected clients receive the snapshot.
    None,
}

impl SnapshotStore {
    /// Confirms a snapshot: syncs the recording, then adds the snapshot to the list.
    pub(super) async fn confirm(self, id: u64, label: String, anchor: u64, at: TsNs) -> Result<(), String> {
        let (path, limit) = match self {
            SnapshotStore::Recording(flusher) => {
                let flushed = flusher.flush(true).await;
                flushed.map_err(|error| format!("cannot record the snapshot: {error}"))?;
                (flusher.path().to_path_buf(), u64::MAX)
            }
            SnapshotStore::Unrecorded(file) => (file, MAX_UNRECORDED_LIST),
            SnapshotStore::None => return Ok(()),
        };
        let label = Some(label).filter(|label| !label.is_empty());
        let line =
            SnapshotLine { id, ts_ns: at.0, label, kind: "manual".into(), anchor_byte: anchor, files: None };
        let appended = tokio::task::spawn_blocking(move || append(&path, &line, limit)).await;
        let failed = |error: String| format!("cannot write the list of snapshots: {error}");
        appended.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

fn append(session: &Path, line: &SnapshotLine, limit: u64) -> io::Result<()> {
    let length = std::fs::metadata(snapshots::list_path(session)).map_or(0, |meta| meta.len());
    if length >= limit {
        let why = format!("the list of a session without a recording is limited to {limit} bytes: record it");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    snapshots::append(session, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unrecorded_snapshot_list_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("session.ahr");
        let confirm = |id| SnapshotStore::Unrecorded(file.clone()).confirm(id, "label".into(), 7, TsNs(9));
        confirm(1).await.unwrap();
        let kept = snapshots::read(&file).unwrap();
        assert_eq!((kept.len(), kept[0].id, kept[0].anchor_byte, kept[0].ts_ns), (1, 1, 7, 9));
        let list = std::fs::File::options().write(true).open(snapshots::list_path(&file)).unwrap();
        list.set_len(MAX_UNRECORDED_LIST).unwrap();
        assert!(confirm(2).await.unwrap_err().contains("record it"));
        std::fs::remove_file(snapshots::list_path(&file)).unwrap();
        confirm(2).await.unwrap();
        SnapshotStore::None.confirm(3, String::new(), 0, TsNs(0)).await.unwrap();
        assert_eq!(snapshots::read(&file).unwrap().len(), 1);
    }
}
