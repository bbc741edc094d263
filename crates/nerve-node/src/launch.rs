//! Assembles terminal nodes: starts or adopts a backend and puts a node over it.

use std::path::Path;

use nerve_host::EndSnapshot;
use nerve_host::backend::{HostedBackend, SpawnError};
use nerve_host::manager::{HOOKS, HostContext, HostManager, Label};
use nerve_host::registry::Entry;
use nerve_mux::pane::{PaneContext, PaneEntry, PanePlace, Panes, TerminalKind};
use nerve_mux::{tmux, wezterm};
use nerve_types::TsNs;

use super::hooks::HookSocket;
use super::terminal::{TerminalLocation, TerminalNode, TerminalSpec};

/// The settings for a node's backend in addition to its spec.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) panes: &'a Panes,
    pub(crate) place: &'a PanePlace,
    pub(crate) label: &'a Label,
    /// The program that agents' hooks run.
    pub(crate) relay: Option<&'a Path>,
    pub(crate) record: bool,
    pub(crate) now: TsNs,
}

impl<'a> Launch<'a> {
    /// Starts a node in a host of its own.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub(crate) async fn start_in_host(
        self,
        manager: &HostManager,
        spec: TerminalSpec,
    ) -> Result<TerminalNode, SpawnError> {
        let context = HostContext {
            program: &spec.program,
            size: spec.size,
            // Without conversations to continue, the files of the end are of no use.
            end: EndSnapshot { files: spec.profile.session.as_ref().map(|_| manager.snapshots.clone()) },
            label: self.label,
            record: self.record,
            now: self.now,
        };
        let mut hooks = None;
        let started = manager.start(context, |argv, folder| {
            hooks = spec.attach_hooks(self.relay, argv, Some(folder));
        });
        let (backend, entry) = started.await?;
        Ok(TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::from_host(&entry)))
    }

    /// Starts a node in a pane of tmux.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub(crate) async fn start_in_tmux(self, mut spec: TerminalSpec) -> Result<TerminalNode, SpawnError> {
        let mut hooks = None;
        let started = tmux::start(self.context(&spec), |argv, folder| {
            hooks = spec.attach_hooks(self.relay, argv, folder);
        });
        let (backend, entry, size) = started.await?;
        spec.size = size;
        spec.program.cwd = entry.cwd.clone();
        Ok(TerminalNode::with_backend(spec, backend, hooks, tmux_location(&entry)))
    }

    /// Starts a node in a pane of WezTerm.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub(crate) async fn start_in_wezterm(self, mut spec: TerminalSpec) -> Result<TerminalNode, SpawnError> {
        let mut hooks = None;
        let started = wezterm::start(self.context(&spec), |argv, folder| {
            hooks = spec.attach_hooks(self.relay, argv, folder);
        });
        let (backend, entry, size) = started.await?;
        spec.size = size;
        Ok(TerminalNode::with_backend(spec, backend, hooks, wezterm_location(&entry)))
    }

    fn context(self, spec: &'a TerminalSpec) -> PaneContext<'a> {
        let Launch { panes, place, label, record, now, .. } = self;
        PaneContext {
            panes,
            place,
            label,
            program: &spec.program,
            name: &spec.node.node,
            size: spec.size,
            full_screen: is_full_screen(spec),
            agent_session: spec.agent_session.clone(),
            record,
            now,
        }
    }
}

/// Takes over the host of a server that is gone.
pub fn adopt_host(manager: &HostManager, spec: TerminalSpec, entry: Entry) -> TerminalNode {
    let hooks = HookSocket::resume(&entry.runtime.join(HOOKS)).ok();
    let backend = HostedBackend::adopt(entry.clone(), manager.registry.clone());
    TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::from_host(&entry))
}

/// Takes over the pane of a server that is gone. Failures are reported as events of the backend.
pub fn adopt_pane(panes: &Panes, spec: TerminalSpec, entry: PaneEntry) -> TerminalNode {
    let hooks = panes.hooks_dir(&entry.id).and_then(|folder| HookSocket::resume(&folder).ok());
    match entry.terminal {
        TerminalKind::Wezterm => {
            let (backend, entry) = wezterm::adopt(panes, entry, is_full_screen(&spec));
            TerminalNode::with_backend(spec, backend, hooks, wezterm_location(&entry))
        }
        TerminalKind::Tmux | TerminalKind::Pty => {
            let location = tmux_location(&entry);
            TerminalNode::with_backend(spec, tmux::adopt(panes, entry), hooks, location)
        }
    }
}

/// Returns true for programs that draw their own screen.
fn is_full_screen(spec: &TerminalSpec) -> bool {
    spec.profile.composer.is_some()
}

fn tmux_location(entry: &PaneEntry) -> TerminalLocation {
    let mut place = vec![("pane_id", entry.pane.clone()), ("owned", entry.ours.to_string())];
    place.extend(entry.session.clone().map(|session| ("tmux_session", session)));
    place.extend(entry.socket.clone().map(|socket| ("tmux_socket", socket)));
    TerminalLocation { recording: entry.recording.clone(), unrecorded: None, place }
}

fn wezterm_location(entry: &PaneEntry) -> TerminalLocation {
    TerminalLocation { recording: entry.recording.clone(), ..TerminalLocation::default() }
}
