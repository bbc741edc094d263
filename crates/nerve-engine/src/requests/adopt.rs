//! Adopts the nodes of a server that is gone.

use std::path::PathBuf;
use std::sync::Arc;

use nerve_api::event::EventKind;
use nerve_api::request::NodeRef;
use nerve_api::value::BackendKind;
use nerve_graph::session::Session;
use nerve_graph::session::entry::NodeEntry;
use nerve_host::backend::{Memory, Program};
use nerve_host::manager::{HostManager, Label};
use nerve_node::Node;
use nerve_node::error::EngineError;
use nerve_node::launch::{adopt_host, adopt_pane};
use nerve_node::profiles::LoadedProfiles;
use nerve_node::proxy::NodeProxy;
use nerve_node::terminal::{TerminalNode, TerminalSpec};
use nerve_node::usage_ledger::{LedgerRecord, UsageLedger};
use nerve_types::Size;

use crate::engine::Engine;

/// The state of a node when its server ended.
struct LastState {
    cwd: Option<PathBuf>,
    size: Size,
    memory: Memory,
}

impl Engine {
    /// Adopts the nodes of an earlier server with this name. They are `starting` while their past output is read. Must be called on a
    /// runtime.
    pub fn adopt(&self) {
        let profiles = self.inner.factory.profiles();
        let server = self.inner.factory.server_name();
        let hosts = self.inner.factory.hosting().map(|hosting| (hosting, hosting.of_server(server)));
        let panes = self.inner.factory.panes();
        let in_panes = panes.of_server(server);
        let labels = hosts.iter().flat_map(|(_, hosts)| hosts).map(|(_, label)| label);
        let labels = labels.chain(in_panes.iter().map(|entry| &entry.label));
        let damaged = self.inner.factory.hosting().map(HostManager::damaged_entries).unwrap_or_default();
        damaged.iter().for_each(|entry| tracing::warn!("{entry}; if its host runs, its node is not adopted"));
        // An agent behind a damaged entry may use any of the proxies.
        if damaged.is_empty() {
            let proxies: Vec<String> = labels.filter_map(|label| label.proxy.clone()).collect();
            self.inner.factory.prune_proxies(&proxies);
        }
        if let Some((hosting, hosts)) = hosts {
            for (entry, label) in hosts {
                if !entry.is_alive() {
                    self.inner.gone_nodes.lock().push(label_node(&label));
                }
                let memory = serde_json::from_value(entry.memory.clone()).unwrap_or_default();
                let size = Size::new(entry.cols, entry.rows);
                let last_state = LastState { cwd: entry.cwd.clone(), size, memory };
                self.adopt_node(&profiles, &label, last_state, |spec| {
                    adopt_host(hosting, panes, spec, entry)
                });
            }
        }
        for entry in in_panes {
            let (label, memory) = (entry.label.clone(), entry.memory.clone());
            let last_state = LastState { cwd: entry.cwd.clone(), size: Size::default(), memory };
            self.adopt_node(&profiles, &label, last_state, |spec| adopt_pane(panes, spec, entry));
        }
        for session in self.inner.sessions.list() {
            let gone = session.stopped().into_iter().filter(|(_, entry)| entry.spec.pane_id.is_some());
            gone.for_each(|(name, _)| session.set_entry(&name, None));
        }
        self.inner.persister.save();
    }

    /// Checks that the agent of a lost node does not run still: a second one would share its conversation and its directory.
    ///
    /// # Errors
    /// Busy.
    pub(super) fn check_host_gone(&self, at: &NodeRef, entry: &NodeEntry) -> Result<(), EngineError> {
        let spec = &entry.spec;
        let is_hosted = spec.backend.has_terminal() && spec.pane_id.is_none();
        let hosting = self.inner.factory.hosting().filter(|_| is_hosted && entry.is_lost());
        let Some(hosting) = hosting else { return Ok(()) };
        let error = |reason: String, hint: &str| {
            let message = format!("node '{}' was not started: its agent may still run: {reason}", at.node);
            Err(EngineError::busy(message).hint(hint))
        };
        if let Some(damaged) = hosting.damaged_entries_in_use().first() {
            let hint = "repair the entry with `nerve doctor --fix`, then start the server again, which finds the agent";
            return error(damaged.to_string(), hint);
        }
        let hosts = hosting.of_server(self.inner.factory.server_name());
        let is_own = |label: &Label| label_node(label).with_session() == at.with_session();
        match hosts.into_iter().find(|(entry, label)| entry.is_alive() && is_own(label)) {
            Some((host, _)) => {
                let hint = "start the server again, which finds the agent";
                error(format!("host {} is not adopted", host.id), hint)
            }
            None => Ok(()),
        }
    }

    fn adopt_node(
        &self,
        profiles: &LoadedProfiles,
        label: &Label,
        last_state: LastState,
        adopt: impl FnOnce(TerminalSpec) -> TerminalNode,
    ) {
        let (at, node) = (label_node(label), &label.node);
        let adopted = || {
            let session = self.inner.sessions.ensure(at.session.as_deref())?;
            let reservation = session.reserve(&at.node)?;
            let spec = self.adopted_spec(profiles, label, &session, last_state);
            let spec = spec.inspect_err(|_| session.release(&at.node, reservation))?;
            let node = adopt(spec);
            let kind = node.info().kind;
            session.fill(&at.node, reservation, Arc::new(node));
            Ok::<_, EngineError>(kind)
        };
        match adopted() {
            Ok(kind) => {
                let created = EventKind::NodeCreated { kind: kind.clone(), forked_from: None };
                self.inner.events.publish(Some(&at.with_session()), created);
                tracing::info!(%node, kind, "adopted");
            }
            Err(error) => tracing::warn!(%node, %error, "not adopted"),
        }
    }

    fn adopted_spec(
        &self,
        profiles: &LoadedProfiles,
        label: &Label,
        session: &Session,
        LastState { cwd, size, memory }: LastState,
    ) -> Result<TerminalSpec, EngineError> {
        // If the profile is gone, one is detected from the command.
        let profile = profiles.find(Some(&label.profile), &label.argv);
        let profile = profile.or_else(|_| profiles.find(None, &label.argv))?;
        let env = label.env_home.iter().map(|home| ("HOME".to_string(), home.clone())).collect();
        let program = Program { argv: label.argv.clone(), cwd, env, env_remove: Vec::new() };
        let node = label_node(label).with_session();
        // Started before the node, because its agent may be in a turn.
        let launch = self.inner.factory.proxy_launch(&node);
        let proxy = label.proxy.as_deref().map(|id| NodeProxy::resume(launch, id));
        Ok(TerminalSpec {
            node,
            program,
            size,
            parser: label.parser.parse().unwrap_or(profile.parser),
            profile,
            ready_timeout: label.ready_timeout,
            response_timeout: label.response_timeout,
            audit_log: self.inner.factory.audit_log(&label_node(label), label.history)?,
            conversation_id: memory.conversation_id.clone(),
            agent_version: label.agent_version.clone(),
            proxy,
            ledger: adopted_ledger(session, &label.node, &memory),
            adopted: Some(memory),
            // Set by `adopt_host` for the node of a host.
            answers_queries: false,
            events: self.inner.events.clone(),
            kind: BackendKind::parse(&label.kind).unwrap_or_default(),
            log_start: false,
        })
    }
}

/// Returns the ledger of an adopted node. The node has remembered its usage more often than its session was stored.
fn adopted_ledger(session: &Session, node: &str, memory: &Memory) -> UsageLedger {
    let stored =
        session.entry(node).map(|entry| LedgerRecord { limits: entry.spec.budget, usage: entry.last.usage });
    let stored = stored.unwrap_or_default();
    let remembered: Option<LedgerRecord> =
        memory.budget.clone().and_then(|budget| serde_json::from_value(budget).ok());
    let Some(record) = remembered else { return session.ledger().node(node, stored) };
    session.ledger().add_missed(&stored.usage, &record.usage);
    session.ledger().node(node, record)
}

/// Returns the node that a label describes.
fn label_node(label: &Label) -> NodeRef {
    NodeRef { session: label.session.clone(), node: label.node.clone() }
}
