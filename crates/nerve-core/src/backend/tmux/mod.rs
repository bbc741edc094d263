//! Panes of tmux, over its control mode.
//!
//! | file | what it is |
//! |---|---|
//! | `client`, `formats`, `version` | the command line, a process for each call; for whoever has no node |
//! | `control`, `lines`, `words` | a connection in control mode, what it says, how it is spoken to |
//! | `joining` | making a pane, and connecting to one that is there |
//! | `screen` | what a pane shows, as bytes |
//! | `pane` | a pane as a terminal: `input`, `typing` (who else does), `death` |

mod client;
mod control;
mod death;
mod formats;
mod input;
mod joining;
mod lines;
mod pane;
mod screen;
mod typing;
mod version;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use nerve_record::ahr::AhrError;

pub use client::{Range, Tmux};

use self::joining::{Facts, Wanted, join, make};
use self::pane::{Fresh, Parts, Taken, TmuxPane, Untaken, rejoin};
use super::SpawnError;
use super::pane::{PaneEntry, PaneError, Panes, Setting};
use crate::command::TerminalKind;
use crate::host::HostSpec;
use crate::host::hosting::{Label, QUALITY};
use crate::node::hooks::HookSocket;
use crate::node::terminal::{TerminalLocation, TerminalNode, TerminalSpec};
use crate::pump::Pump;
use crate::recorder::Recorder;
use crate::tap::Tap;

/// How long a server that goes may take to leave its panes to the next one.
const HANDOVER: Duration = Duration::from_secs(3);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

impl From<PaneError> for SpawnError {
    fn from(error: PaneError) -> SpawnError {
        match error {
            PaneError::NoPane(pane) => SpawnError::NoPane(pane),
            error => SpawnError::Multiplexer(error.to_string()),
        }
    }
}

/// Makes a pane, or takes one over that is there.
///
/// # Errors
/// Nothing was started.
pub(crate) async fn start(mut spec: TerminalSpec, setting: Setting<'_>) -> Result<TerminalNode, SpawnError> {
    let tmux = Tmux::new(setting.place.socket.as_deref()).with_program(setting.panes.tmux.clone());
    tmux.version().await?;
    let (id, session_id) = HostSpec::new_ids();
    let hooks_at = setting.panes.hooks(&id);
    let (joined, claim, hooks, ours) = match &setting.place.pane {
        Some(target) => {
            let facts = Facts::of(&tmux, target).await?;
            // First of all: two must not type into one pane.
            let claim = claim(setting.panes, &facts, setting.label)?;
            (join(&tmux, facts).await?, claim, None, false)
        }
        None => {
            let mut run = spec.program.clone();
            // As we would find it: tmux may have been started with another PATH.
            let program = run.find()?.display().to_string();
            run.argv[0] = program;
            let hooks = HookSocket::attach_if_able(&spec, setting.relay, &mut run.argv, hooks_at.as_deref());
            let cwd = match &spec.program.cwd {
                Some(cwd) => cwd.clone(),
                None => std::env::current_dir().map_err(SpawnError::system("know our folder"))?,
            };
            let session = setting.place.session.as_deref().unwrap_or(words::SESSION);
            let wanted = Wanted { session, name: &spec.node.node, size: spec.size, cwd: &cwd };
            let joined = make(&tmux, &wanted, &run).await.inspect_err(|_| remove(hooks_at.as_ref()))?;
            let claim = match claim(setting.panes, &joined.facts, setting.label) {
                Ok(claim) => claim,
                Err(error) => {
                    // Nobody else can have it; what failed is a folder, and the pane is not to stay.
                    let _ = tmux.kill(&joined.facts.pane).await;
                    remove(hooks_at.as_ref());
                    return Err(error);
                }
            };
            (joined, claim, hooks, true)
        }
    };
    let facts = &joined.facts;
    spec.size = facts.size;
    // What was there before us works where it works.
    spec.program.cwd = spec.program.cwd.take().or_else(|| facts.cwd.clone());
    let mut entry = PaneEntry {
        id,
        session_id,
        terminal: TerminalKind::Tmux,
        socket: facts.socket.clone().or_else(|| setting.place.socket.clone()),
        server: facts.server,
        session: Some(facts.session.clone()),
        pane: facts.pane.clone(),
        pid: facts.pid,
        cwd: spec.program.cwd.clone(),
        ours,
        label: setting.label.clone(),
        recording: None,
        memory: super::Memory { agent_session: spec.agent_session.clone(), ..super::Memory::default() },
    };
    let mut faults = Vec::new();
    let recorder = match setting.record {
        true => setting.panes.record(&entry, facts.size, setting.now, false).unwrap_or_else(|error| {
            faults.push(error);
            None
        }),
        false => None,
    };
    let flusher = recorder.as_ref().map(Recorder::flusher);
    entry.recording = flusher.as_ref().map(|flusher| flusher.path().to_path_buf());
    if let Err(error) = setting.panes.store(&entry) {
        faults.push(format!("a new server will not find the pane: {error}"));
    }
    let outside = outside(&entry);
    let pump = Pump::new(recorder.into_iter().map(|tap| Box::new(tap) as Box<dyn Tap>).collect());
    // By its path: whatever the environment says later, it is the same server.
    let tmux = Tmux::new(entry.socket.as_deref()).with_program(setting.panes.tmux.clone());
    let parts = Parts { tmux, panes: setting.panes.clone(), entry };
    let backend = TmuxPane::live(parts, joined, Fresh { claim, pump, flusher, faults });
    Ok(TerminalNode::with_backend(spec, backend, hooks, outside))
}

/// Takes the pane of a server that is gone. What comes of it is told as the backend's happenings: that it is gone too, or that somebody
/// else has it.
pub(crate) fn adopt(spec: TerminalSpec, panes: &Panes, entry: PaneEntry) -> TerminalNode {
    let hooks = panes.hooks(&entry.id).and_then(|folder| HookSocket::resume(&folder).ok());
    let outside = outside(&entry);
    let tmux = Tmux::new(entry.socket.as_deref()).with_program(panes.tmux.clone());
    let taking = take_over(tmux.clone(), panes.clone(), entry.clone());
    let backend = TmuxPane::adopted(Parts { tmux, panes: panes.clone(), entry }, taking);
    TerminalNode::with_backend(spec, backend, hooks, outside)
}

async fn take_over(tmux: Tmux, panes: Panes, entry: PaneEntry) -> Result<Taken, Untaken> {
    let joined = rejoin(&tmux, &entry).await?;
    let claim = soon(|| claim(&panes, &joined.facts, &entry.label).map_err(|error| error.to_string())).await;
    let claim = claim.map_err(|why| Untaken { why, gone: false })?;
    let mut faults = Vec::new();
    let resumed = match &entry.recording {
        Some(path) => resume(path.clone()).await.unwrap_or_else(|error| {
            faults.push(format!("nothing more is recorded: {error}"));
            None
        }),
        None => None,
    };
    let (flusher, pump) = match resumed {
        Some((recorder, off)) => {
            let flusher = recorder.flusher();
            (Some(flusher), Pump::resumed(vec![Box::new(recorder)], off))
        }
        None => (None, Pump::default()),
    };
    Ok(Taken { joined, fresh: Some(Fresh { claim, pump, flusher, faults }) })
}

/// Goes on with a recording: reading where it ends takes a thread.
async fn resume(path: PathBuf) -> Result<Option<(Recorder, u64)>, String> {
    let resume = move || {
        let deadline = std::time::Instant::now() + HANDOVER;
        loop {
            match Recorder::resume(&path, QUALITY) {
                // Whoever wrote it finishes it.
                Err(AhrError::Busy { .. }) if std::time::Instant::now() < deadline => {
                    std::thread::sleep(LOOK);
                }
                resumed => return resumed.map(Some).map_err(|error| error.to_string()),
            }
        }
    };
    tokio::task::spawn_blocking(resume).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Tries until it works, for as long as one who goes may need.
async fn soon<T, E>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = tokio::time::Instant::now() + HANDOVER;
    loop {
        match attempt() {
            Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(LOOK).await,
            done => return done,
        }
    }
}

fn claim(panes: &Panes, facts: &Facts, label: &Label) -> Result<super::pane::Claim, SpawnError> {
    let socket = facts.socket.as_deref().unwrap_or_default();
    let (node, pid) = (&label.node, std::process::id());
    let holder = format!("node '{node}' of nerve server '{}' (pid {pid})", label.server);
    let claimed = panes.claim(TerminalKind::Tmux, socket, &facts.pane, &holder);
    claimed.map_err(|error| SpawnError::Multiplexer(error.to_string()))
}

fn remove(folder: Option<&PathBuf>) {
    if let Some(folder) = folder {
        // Of a program that was not started.
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn outside(entry: &PaneEntry) -> TerminalLocation {
    let mut place = vec![("pane_id", entry.pane.clone()), ("owned", entry.ours.to_string())];
    place.extend(entry.session.clone().map(|session| ("tmux_session", session)));
    place.extend(entry.socket.clone().map(|socket| ("tmux_socket", socket)));
    TerminalLocation { recording: entry.recording.clone(), unrecorded: None, place }
}
