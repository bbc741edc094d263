//! Sets up a host in this process: sockets, recording, program and session loop.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nerve_types::ExitStatus;
use nerve_types::files::private_folder;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::backend::pty::Pty;
use crate::backend::{HostedBackend, SpawnError};
use crate::clients::Clients;
use crate::clock::WallClock;
use crate::pump::Pump;
use crate::recorder::Recorder;
use crate::registry::{Entry, make_unrecorded};
use crate::session::{Inbox, OwnerRequest, Parts, Session};
use crate::snapshots::{SnapshotRequest, listen_tcp, listen_unix};
use crate::sockets::{PrivateListener, make_private_directory};
use crate::tap::Tap;
use crate::{CONTROL, HostSpec, OF, SNAPSHOT, UNRECORDED};

/// A host that runs in this process.
#[derive(Debug)]
pub struct Host {
    /// The host's entry in the registry.
    pub entry: Entry,
    /// Address for snapshot requests; the program's environment contains it too.
    pub snapshot_socket: String,
    registry: PathBuf,
    connections: mpsc::Sender<(UnixStream, bool)>,
    requests: mpsc::Sender<OwnerRequest>,
    done: tokio::task::JoinHandle<ExitStatus>,
}

impl Host {
    /// Starts the program and the host's tasks on the current runtime.
    ///
    /// # Errors
    /// [`SpawnError`]: the program, its directory or a socket; nothing is left behind. A recording that cannot be created is
    /// reported to clients as a fault, unless it is required.
    pub async fn start(spec: HostSpec) -> Result<Host, SpawnError> {
        Host::begin_in_directory(spec, None, None).await
    }

    /// Starts a host like [`Host::start`], with a connection from within this process that misses no output. `stdin`, if
    /// given, replaces the terminal as the program's standard input.
    ///
    /// # Errors
    /// See [`Host::start`].
    pub async fn start_with_client(
        spec: HostSpec,
        stdin: Option<OwnedFd>,
    ) -> Result<(Host, UnixStream), SpawnError> {
        let (ours, theirs) = UnixStream::pair().map_err(SpawnError::system("create a connection"))?;
        Ok((Host::begin_in_directory(spec, stdin, Some(theirs)).await?, ours))
    }

    async fn begin_in_directory(
        spec: HostSpec,
        stdin: Option<OwnedFd>,
        client: Option<UnixStream>,
    ) -> Result<Host, SpawnError> {
        handle_file_size_limit();
        make_private_directory(&spec.runtime).map_err(SpawnError::system("create the host's directory"))?;
        let runtime = spec.runtime.clone();
        Host::begin(spec, stdin, client).await.inspect_err(|_| drop(fs::remove_dir_all(&runtime)))
    }

    async fn begin(
        mut spec: HostSpec,
        stdin: Option<OwnedFd>,
        client: Option<UnixStream>,
    ) -> Result<Host, SpawnError> {
        let mut clock = WallClock::default();
        let (requests, snapshot_requests) = mpsc::channel(16);
        let repairs = watch::Sender::new(());
        let snapshot_socket = listen_for_snapshots(&spec, requests, &repairs).await?;
        let control = PrivateListener::bind(&spec.runtime.join(CONTROL), &repairs)
            .map_err(SpawnError::system("listen on the control socket"))?;
        let mut faults = Vec::new();
        let existed = spec.recording.as_deref().is_some_and(Path::exists);
        let recorder = start_recorder(&mut spec, &mut faults)?;
        // Data of an agent's tool belongs to the agent's session.
        let has_own_files = spec.recording.is_none() && spec.label.get(OF).is_none();
        let unrecorded = has_own_files.then(|| make_unrecorded(&spec.registry, &spec.id)).transpose();
        let unrecorded = unrecorded.unwrap_or_else(|error| {
            faults.push(format!("executions are not listed: {error}"));
            None
        });
        set_environment(&mut spec, unrecorded.as_deref(), &snapshot_socket);
        let discard = |spec: &HostSpec| {
            discard_recording(spec, existed);
            unrecorded
                .iter()
                .filter_map(|file| file.parent())
                .for_each(|folder| drop(fs::remove_dir(folder)));
        };
        let started = clock.now();
        let mut entry = Entry::new(&spec, started);
        // The port is known only now.
        entry.snapshots_at = spec.snapshots_at.map(|_| snapshot_socket.clone());
        entry.unrecorded = unrecorded.clone();
        // Written first without the program: nothing may have run if that fails.
        let stored = entry.store(&spec.registry).map_err(SpawnError::system("write the host's entry"));
        stored.inspect_err(|_| discard(&spec))?;
        let pty = Pty::spawn_with_stdin(&spec.program(), spec.size(), stdin).inspect_err(|_| {
            entry.forget(&spec.registry);
            discard(&spec);
        })?;
        entry.set_child(pty.control.pid().unwrap_or(0));
        let stored = entry.store(&spec.registry);
        faults.extend(stored.err().map(|error| format!("cannot write the host's entry: {error}")));
        let flusher = recorder.as_ref().map(Recorder::flusher);
        let taps = recorder.into_iter().map(|tap| Box::new(tap) as Box<dyn Tap>).collect();
        let mut pump = Pump::new(taps);
        pump.resize(started, spec.size());
        if let Some(path) = entry.session_file() {
            let result = spec.meta(started).store(path);
            faults.extend(result.err().map(|error| format!("cannot write the metadata: {error}")));
        }
        let (clients, client_events) = Clients::new();
        let (connections, connected) = mpsc::channel(4);
        if let Some(client) = client {
            // The channel has room for four.
            let _ = connections.try_send((client, true));
        }
        let acceptor = AbortOnDropHandle::new(tokio::spawn(accept(control, connections.clone())));
        let (owner, owner_requests) = mpsc::channel(1);
        let (registry, host_entry) = (spec.registry.clone(), entry.clone());
        let session =
            Session::new(clock, spec, entry, pump, pty, Parts { flusher, clients, repairs, faults });
        let done = tokio::spawn(session.run(Inbox {
            client_events,
            snapshot_requests,
            connections: connected,
            _acceptor: acceptor,
            owner_requests,
        }));
        Ok(Host { entry: host_entry, snapshot_socket, registry, connections, requests: owner, done })
    }

    /// Connects from within this process, as through the control socket.
    ///
    /// # Errors
    /// The system has no socket left, or the host has ended.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        self.open_connection(true).await
    }

    /// Drives the terminal from within this process, and receives the exit even if another client acknowledges it first.
    ///
    /// # Errors
    /// See [`Host::connect`].
    pub async fn drive(&self) -> io::Result<HostedBackend> {
        let stream = self.open_connection(false).await?;
        Ok(HostedBackend::drive_over(self.entry.clone(), self.registry.clone(), stream))
    }

    async fn open_connection(&self, is_internal: bool) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.connections.send((theirs, is_internal)).await.map_err(|_| io::ErrorKind::NotConnected)?;
        Ok(ours)
    }

    /// Stops the program, as `nerve host stop` does. Has no effect after its end.
    pub async fn stop(&self) {
        let _ = self.requests.send(OwnerRequest::Stop).await;
    }

    /// Creates the host's entry, metadata, sockets and recording again, as far as they were deleted or damaged. Failures are
    /// reported to clients as faults.
    pub async fn repair(&self) {
        let _ = self.requests.send(OwnerRequest::Repair).await;
    }

    /// Waits until the program has ended and everything is written. Must not be called again after it has returned.
    pub async fn wait(&mut self) -> ExitStatus {
        (&mut self.done).await.unwrap_or(ExitStatus::Unknown)
    }

    /// Removes the host's entry and directory. For a caller that has seen the exit.
    pub fn forget(&self) {
        self.entry.forget(&self.registry);
    }
}

/// Handles the signal that a write beyond the limit of file sizes causes, which would end the process. The write then fails like
/// one on a full disk. The signal is not ignored, because programs would inherit that. Must be called on a runtime.
pub fn handle_file_size_limit() {
    // Without a handler, the limit ends this process as before.
    let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
}

/// Passes connections to the session as external clients.
async fn accept(mut control: PrivateListener, connections: mpsc::Sender<(UnixStream, bool)>) {
    loop {
        let stream = control.accept().await;
        if connections.send((stream, false)).await.is_err() {
            return;
        }
    }
}

/// Listens for requests for snapshots. Returns the address.
async fn listen_for_snapshots(
    spec: &HostSpec,
    requests: mpsc::Sender<SnapshotRequest>,
    repairs: &watch::Sender<()>,
) -> Result<String, SpawnError> {
    let socket = match spec.snapshots_at {
        Some(addr) => listen_tcp(addr, requests).await,
        None => listen_unix(&spec.runtime.join(SNAPSHOT), requests, repairs),
    };
    socket.map_err(SpawnError::system("listen for snapshots"))
}

/// Sets the variables through which the program finds its recorder.
fn set_environment(spec: &mut HostSpec, unrecorded: Option<&Path>, snapshot_socket: &str) {
    // A tool's snapshots belong to the agent's session.
    if spec.label.get(OF).is_some() {
        return;
    }
    spec.env.insert("NERVE_RECORDER_SOCKET".into(), snapshot_socket.to_string());
    spec.env.insert("AH_RECORDER_IPC_SOCKET".into(), snapshot_socket.to_string());
    spec.env.insert("NERVE_SESSION_ID".into(), spec.session_id.clone());
    for (name, file) in [("NERVE_RECORDING", spec.recording.as_deref()), (UNRECORDED, unrecorded)] {
        match file {
            Some(path) => drop(spec.env.insert(name.into(), path.display().to_string())),
            // The variable may be inherited from an enclosing session.
            None => spec.env_remove.push(name.into()),
        }
    }
}

/// Starts the recorder, if the spec has a recording. A failure is a fault unless the recording is required.
fn start_recorder(spec: &mut HostSpec, faults: &mut Vec<String>) -> Result<Option<Recorder>, SpawnError> {
    let Some(path) = spec.recording.as_deref() else { return Ok(None) };
    match create_recorder(path, spec.quality) {
        Ok(recorder) => Ok(Some(recorder)),
        Err(error) if spec.must_record => Err(SpawnError::Host(error)),
        Err(error) => {
            faults.push(format!("nothing is recorded: {error}"));
            spec.recording = None;
            Ok(None)
        }
    }
}

fn create_recorder(path: &Path, quality: u8) -> Result<Recorder, String> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let created = private_folder(folder);
        created.map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    }
    Recorder::create(path, quality).map_err(|error| error.to_string())
}

/// Removes the recording of a program that did not start.
fn discard_recording(spec: &HostSpec, existed: bool) {
    if let Some(path) = spec.recording.as_ref().filter(|_| !existed) {
        let _ = fs::remove_file(path);
    }
}
