//! Assembles terminal nodes: starts or adopts a backend and puts a node over it.

use std::path::Path;

use nerve_host::EndSnapshot;
use nerve_host::backend::{HostedBackend, SpawnError};
use nerve_host::manager::{HOOKS, HostContext, HostManager, Label};
use nerve_host::registry::Entry;
use nerve_mux::pane::{PaneContext, PaneEntry, PanePlace, Panes, TerminalKind};
use nerve_mux::{Window, tmux, wezterm};
use nerve_types::TsNs;

use super::Node;
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
    /// The multiplexer that shows a program in a host.
    pub(crate) window: Option<TerminalKind>,
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
        let window = Window::of_host(self.panes, &manager.program, &entry, &spec.node.node);
        let node =
            TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_host(&entry, Some(window)));
        if let Some(terminal) = self.window
            && let Err(error) = node.show(terminal, self.place.clone()).await
            // The viewer of a program that ends at once may end before it is known.
            && entry.has_child()
        {
            node.stop("its window cannot be opened").await;
            return Err(SpawnError::Multiplexer(error.message));
        }
        Ok(node)
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
        Ok(TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_pane(self.panes, &entry)))
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
        Ok(TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_pane(self.panes, &entry)))
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
pub fn adopt_host(manager: &HostManager, panes: &Panes, spec: TerminalSpec, entry: Entry) -> TerminalNode {
    let hooks = HookSocket::resume(&entry.runtime.join(HOOKS)).ok();
    let backend = HostedBackend::adopt(entry.clone(), manager.registry.clone());
    let window = Window::of_host(panes, &manager.program, &entry, &spec.node.node);
    let spec = TerminalSpec { answers: true, ..spec };
    TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_host(&entry, Some(window)))
}

/// Takes over the pane of a server that is gone. Failures are reported as events of the backend.
pub fn adopt_pane(panes: &Panes, spec: TerminalSpec, entry: PaneEntry) -> TerminalNode {
    let hooks = panes.hooks_dir(&entry.id).and_then(|folder| HookSocket::resume(&folder).ok());
    match entry.terminal {
        TerminalKind::Wezterm => {
            let (backend, entry) = wezterm::adopt(panes, entry, is_full_screen(&spec));
            TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_pane(panes, &entry))
        }
        TerminalKind::Tmux | TerminalKind::Pty => {
            let location = TerminalLocation::of_pane(panes, &entry);
            TerminalNode::with_backend(spec, tmux::adopt(panes, entry), hooks, location)
        }
    }
}

/// Returns true for programs that draw their own screen.
fn is_full_screen(spec: &TerminalSpec) -> bool {
    spec.profile.composer.is_some()
}
