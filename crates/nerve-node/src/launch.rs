//! Assembles terminal nodes: starts or adopts a backend and puts a node over it.

use std::path::Path;

use nerve_host::EndSnapshot;
use nerve_host::backend::{Backend, HostedBackend, SpawnError};
use nerve_host::manager::{HOOKS, HostContext, HostManager, Label};
use nerve_host::registry::Entry;
use nerve_mux::pane::{PaneContext, PaneEntry, PanePlace, Panes};
use nerve_mux::{Window, tmux, wezterm};
use nerve_types::{Multiplexer, TsNs};

use super::Node;
use super::hooks::HookSocket;
use super::terminal::{TerminalLocation, TerminalNode, TerminalSpec};

/// The settings for a node's backend in addition to its spec.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) panes: &'a Panes,
    pub(crate) label: &'a Label,
    /// The program that agents' hooks run.
    pub(crate) relay: Option<&'a Path>,
    pub(crate) record: bool,
    pub(crate) now: TsNs,
}

impl Launch<'_> {
    /// Starts a node in a host of its own. `window`: the multiplexer that shows it, and the place there.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub(crate) async fn start_in_host(
        self,
        manager: &HostManager,
        spec: TerminalSpec,
        window: Option<(Multiplexer, PanePlace)>,
    ) -> Result<TerminalNode, SpawnError> {
        let context = HostContext {
            program: &spec.program,
            size: spec.size,
            // Without a conversation to continue, a snapshot of the final files has no use.
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
        let viewer = Window::of_host(self.panes, &manager.program, &entry, &spec.node.node);
        let node = TerminalNode::with_backend(
            spec,
            backend,
            Ok(hooks),
            TerminalLocation::of_host(&entry, Some(viewer)),
        );
        if let Some((multiplexer, place)) = window
            && let Err(error) = node.show(multiplexer, place).await
            // The viewer of a program that ends at once may end before it is known.
            && entry.has_child()
        {
            node.stop("its window cannot be opened").await;
            return Err(SpawnError::Multiplexer(error.message));
        }
        Ok(node)
    }

    /// Creates a node over an existing pane.
    ///
    /// # Errors
    /// [`SpawnError`]: the pane cannot be attached.
    pub(crate) async fn attach(
        self,
        mut spec: TerminalSpec,
        multiplexer: Multiplexer,
        pane: &str,
        socket: Option<&str>,
    ) -> Result<TerminalNode, SpawnError> {
        let context = PaneContext {
            panes: self.panes,
            pane,
            socket,
            label: self.label,
            cwd: spec.program.cwd.clone(),
            full_screen: is_full_screen(&spec),
            conversation_id: spec.conversation_id.clone(),
            record: self.record,
            now: self.now,
        };
        match multiplexer {
            Multiplexer::Wezterm => {
                let (backend, entry, size) = wezterm::start(context).await?;
                spec.size = size;
                Ok(over_pane(self.panes, spec, backend, &entry))
            }
            Multiplexer::Tmux => {
                let (backend, entry, size) = tmux::start(context).await?;
                (spec.size, spec.program.cwd) = (size, entry.cwd.clone());
                Ok(over_pane(self.panes, spec, backend, &entry))
            }
        }
    }
}

/// Takes over the host of a server that is gone.
pub fn adopt_host(manager: &HostManager, panes: &Panes, spec: TerminalSpec, entry: Entry) -> TerminalNode {
    let hooks = HookSocket::resume(&entry.runtime.join(HOOKS));
    let backend = HostedBackend::adopt(entry.clone(), manager.registry.clone());
    let window = Window::of_host(panes, &manager.program, &entry, &spec.node.node);
    let spec = TerminalSpec { answers_queries: true, ..spec };
    TerminalNode::with_backend(spec, backend, hooks, TerminalLocation::of_host(&entry, Some(window)))
}

/// Takes over the pane of a server that is gone. Failures are reported as events of the backend.
pub fn adopt_pane(panes: &Panes, spec: TerminalSpec, entry: PaneEntry) -> TerminalNode {
    match entry.multiplexer {
        Multiplexer::Wezterm => {
            let backend = wezterm::adopt(panes, entry.clone(), is_full_screen(&spec));
            over_pane(panes, spec, backend, &entry)
        }
        Multiplexer::Tmux => over_pane(panes, spec, tmux::adopt(panes, entry.clone()), &entry),
    }
}

fn over_pane(panes: &Panes, spec: TerminalSpec, backend: impl Backend, entry: &PaneEntry) -> TerminalNode {
    // Only a program that nerve starts gets hooks.
    TerminalNode::with_backend(spec, backend, Ok(None), TerminalLocation::of_pane(panes, entry))
}

/// Returns true for programs that draw their own screen.
fn is_full_screen(spec: &TerminalSpec) -> bool {
    spec.profile.composer.is_some()
}
