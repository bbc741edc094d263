//! Panes of WezTerm, over its command line.
//!
//! There is no stream of bytes: the command line tells what a pane shows. So a pane is looked at (`eye`), and what has changed becomes
//! the bytes that repaint it (`repaint`); those are modelled and recorded, and marked as states of a screen. What is typed goes call by
//! call (`hand`).

mod asking;
mod client;
mod eye;
mod hand;
mod input;
mod listing;
mod lists;
mod pane;
mod repaint;
mod rows;
mod running;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use nerve_term::event::{ExitStatus, Size};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use self::eye::{Eye, Process, Shared};
use self::hand::Hand;
use self::listing::Listed;
use self::lists::Server;
use self::pane::WeztermPane;
use self::repaint::Picture;
use super::pane::{Claim, NewPane, PaneEntry, PaneError, Panes, Setting};
use super::{Happened, SpawnError, tty};
use crate::clock::Clock;
use crate::command::TerminalKind;
use crate::host::HostSpec;
use crate::host::hosting::{Label, QUALITY};
use crate::node::hooks::HookSocket;
use crate::node::terminal::{TerminalLocation, TerminalNode, TerminalSpec};
use crate::pump::Pump;
use crate::recorder::Recorder;
use crate::tap::Tap;

pub use asking::{Keys, Range};
pub use client::Wezterm;

/// Looks that may wait to be told.
const REPORTS: usize = 8;

/// Makes a pane, or takes one over that is there.
///
/// # Errors
/// Nothing was started.
pub(crate) async fn start(mut spec: TerminalSpec, setting: Setting<'_>) -> Result<TerminalNode, SpawnError> {
    let server = server_of(setting.panes, setting.place.socket.clone());
    let (id, session_id) = HostSpec::new_ids();
    let (listed, claim, hooks, ours) = match &setting.place.pane {
        Some(pane) => {
            let listed = server.wezterm.find(pane).await.map_err(refused)?;
            let claim = claim(setting.panes, &server, &listed.id(), setting.label)?;
            (listed, claim, None, false)
        }
        None => {
            let folder = setting.panes.hooks(&id);
            let mut argv = spec.program.argv.clone();
            let hooks = HookSocket::attach_if_able(&spec, setting.relay, &mut argv, folder.as_deref());
            std::mem::swap(&mut argv, &mut spec.program.argv);
            let listed = make(&server, &spec, &setting).await;
            // The command as it was asked for is what is told of it.
            spec.program.argv = argv;
            let listed = listed.inspect_err(|_| forget_hooks(folder.as_deref()))?;
            let claim = claim(setting.panes, &server, &listed.id(), setting.label);
            if claim.is_err() {
                let _ = server.wezterm.kill(&listed.id()).await;
            }
            (listed, claim?, hooks, true)
        }
    };
    spec.size = Size::new(listed.size.cols, listed.size.rows);
    let process = Process::of(&listed);
    let mut told = VecDeque::new();
    let mut entry = PaneEntry {
        id,
        session_id,
        terminal: TerminalKind::Wezterm,
        socket: server.wezterm.socket().map(str::to_string),
        server: None,
        session: None,
        pane: listed.id(),
        pid: process.map(|process| process.pid),
        cwd: spec.program.cwd.clone(),
        ours,
        label: setting.label.clone(),
        recording: None,
        memory: Default::default(),
    };
    let recorder = match setting.record {
        true => setting.panes.record(&entry, spec.size, setting.now, true),
        false => Ok(None),
    };
    // Without a recording the node does its work all the same.
    let recorder = recorder.unwrap_or_else(|error| {
        told.push_back(Happened::Fault(error));
        None
    });
    entry.recording = recorder.as_ref().map(|recorder| recorder.flusher().path().to_path_buf());
    if let Err(error) = setting.panes.store(&entry) {
        told.push_back(Happened::Fault(format!("a new server will not find the pane: {error}")));
    }
    let outside = TerminalLocation { recording: entry.recording.clone(), ..TerminalLocation::default() };
    let making = Making { server, panes: setting.panes.clone(), entry, process, claim: Some(claim), told };
    let taps = recorder.into_iter().map(|tap| Box::new(tap) as Box<dyn Tap>).collect();
    let picture = picture(&spec, ours);
    let pane = making.pane(Pump::new(taps), picture, false);
    Ok(TerminalNode::with_backend(spec, pane, hooks, outside))
}

/// Takes the pane of a server that is gone. What comes of it is told as the backend's happenings: that it is gone too, or that somebody
/// else has it.
pub(crate) fn adopt(spec: TerminalSpec, panes: &Panes, mut entry: PaneEntry) -> TerminalNode {
    let server = server_of(panes, entry.socket.clone());
    let mut told = VecDeque::new();
    let claim = claim(panes, &server, &entry.pane, &entry.label);
    // Another program in a pane of that number: the one that was there is gone.
    let process = entry.pid.and_then(|pid| Some(Process { pid, started: tty::stat(pid)?.started }));
    let mut pump = Pump::default();
    match (&claim, entry.recording.clone()) {
        (Err(error), _) => told.extend([Happened::CaughtUp, Happened::Lost(error.to_string())]),
        (Ok(_), Some(path)) => match Recorder::resume(&path, QUALITY) {
            Ok((recorder, off)) => {
                pump = Pump::resumed(vec![Box::new(recorder)], off);
                pump.gap(Clock::start().now());
                told.push_back(Happened::Skipped(off));
            }
            Err(error) => {
                told.push_back(Happened::Fault(format!("it is not recorded any more: {error}")));
                entry.recording = None;
            }
        },
        (Ok(_), None) => {}
    }
    let hooks = panes.hooks(&entry.id).and_then(|folder| HookSocket::resume(&folder).ok());
    let outside = TerminalLocation { recording: entry.recording.clone(), ..TerminalLocation::default() };
    let making = Making { server, panes: panes.clone(), entry, process, claim: claim.ok(), told };
    let picture = picture(&spec, making.entry.ours);
    let pane = making.pane(pump, picture, true);
    TerminalNode::with_backend(spec, pane, hooks, outside)
}

/// What a pane's backend is made of.
struct Making {
    server: Arc<Server>,
    panes: Panes,
    entry: PaneEntry,
    process: Option<Process>,
    claim: Option<Claim>,
    told: VecDeque<Happened>,
}

impl Making {
    /// Somebody looks at it and somebody types from now on, if it is ours.
    fn pane(self, pump: Pump, picture: Picture, adopted: bool) -> WeztermPane {
        let Making { server, panes, entry, process, claim, told } = self;
        let (reports, seen) = mpsc::channel(REPORTS);
        let (batches, inbox) = mpsc::unbounded_channel();
        let (shared, waiting) = (Arc::new(Shared::default()), Arc::new(AtomicUsize::default()));
        let mut work = Vec::new();
        if claim.is_some() {
            let pid = entry.pid;
            let at = (server.clone(), entry.pane.clone());
            let eye = Eye::new(at, picture, shared.clone(), (process, pid), reports.clone());
            let hand = Hand {
                server: server.clone(),
                pane: entry.pane.clone(),
                shared: shared.clone(),
                batches: inbox,
                waiting: waiting.clone(),
                reports,
            };
            work.push(AbortOnDropHandle::new(tokio::spawn(eye.run())));
            work.push(AbortOnDropHandle::new(tokio::spawn(hand.run())));
        }
        WeztermPane {
            over: claim.is_none(),
            exit: ExitStatus::Unknown,
            released: claim.is_none(),
            server,
            entry,
            panes,
            process,
            shared,
            pump,
            clock: Clock::start(),
            seen,
            batches,
            waiting,
            adopted,
            _claim: claim,
            work,
            output: Vec::new(),
            told,
            place: Vec::new(),
        }
    }
}

fn server_of(panes: &Panes, socket: Option<String>) -> Arc<Server> {
    let wezterm = Wezterm::new(socket);
    Server::of(match &panes.wezterm {
        Some(program) => wezterm.with_program(program.clone()),
        None => wezterm,
    })
}

async fn make(server: &Server, spec: &TerminalSpec, setting: &Setting<'_>) -> Result<Listed, SpawnError> {
    spec.program.find()?;
    let pane = NewPane { size: spec.size, session: setting.place.session.clone(), ..NewPane::default() };
    let id = server.wezterm.spawn_program(&spec.program, &pane, primed(spec)).await.map_err(refused)?;
    server.wezterm.find(&id).await.map_err(refused)
}

/// Programs that draw their own screen may do so on the other one, which has to be known: of others it does not matter, and a shell's
/// `clear` empties the scrollback.
fn primed(spec: &TerminalSpec) -> bool {
    spec.profile.composer.is_some()
}

fn picture(spec: &TerminalSpec, ours: bool) -> Picture {
    if primed(spec) { Picture::of_agent(ours) } else { Picture::default() }
}

fn claim(panes: &Panes, server: &Server, pane: &str, label: &Label) -> Result<Claim, SpawnError> {
    let socket = server.wezterm.socket().unwrap_or_default();
    let (node, of, pid) = (&label.node, &label.server, std::process::id());
    let holder = format!("node '{node}' of server '{of}' (pid {pid})");
    let claim = panes.claim(TerminalKind::Wezterm, socket, pane, &holder);
    claim.map_err(|error| SpawnError::Multiplexer(error.to_string()))
}

fn refused(error: PaneError) -> SpawnError {
    let what_to_do = match &error {
        PaneError::NotInstalled(_) => "; install WezTerm, or choose another backend",
        PaneError::NoServer(_) => "; start WezTerm, or `wezterm-mux-server --daemonize`",
        PaneError::NoPane(pane) => return SpawnError::NoPane(pane.clone()),
        _ => "",
    };
    SpawnError::Multiplexer(format!("{error}{what_to_do}"))
}

fn forget_hooks(folder: Option<&Path>) {
    if let Some(folder) = folder {
        // It may not have been made.
        let _ = std::fs::remove_dir_all(folder);
    }
}
