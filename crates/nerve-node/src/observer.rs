//! A passive node over a host in this process: it follows the agent's activity and can answer the program's terminal queries.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::profile::Profile;
use nerve_api::event::Event;
use nerve_api::request::NodeRef;
use nerve_api::value::BackendKind;
use nerve_host::HostSpec;
use nerve_host::backend::Program;
use nerve_host::clock::Clock;
use nerve_host::manager::HOOKS;
use nerve_host::process::Host;
use nerve_record::executions::trace;
use nerve_types::Size;
use tokio::sync::broadcast;

use super::hooks::HookSocket;
use super::terminal::{AuditLog, TerminalLocation, TerminalNode, TerminalSpec};
use crate::events::Publisher;
use crate::usage_ledger::UsageLedger;

/// An observer before the start of the program, whose command line must include the hooks.
pub struct Observer {
    spec: TerminalSpec,
    hooks: Option<HookSocket>,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("profile", &self.spec.profile.name).finish_non_exhaustive()
    }
}

/// A running observer. Dropping it does not end the program.
#[derive(Debug)]
pub struct RunningObserver {
    node: TerminalNode,
    events: Publisher,
}

impl Observer {
    /// Finds the profile of the program and adds the arguments for its hooks where possible. `answers_queries`: no other terminal
    /// answers the program's queries.
    pub fn prepare(
        host: &mut HostSpec,
        profiles: Option<&Path>,
        relay: Option<&Path>,
        answers_queries: bool,
    ) -> Option<Observer> {
        let (profiles, errors) = crate::profiles::load(profiles);
        for error in &errors {
            tracing::warn!("{error}");
        }
        let profile: Arc<Profile> = profiles.for_command(&host.argv)?;
        // The metadata names the agent and the command without added arguments.
        if let Some(label) = host.label.as_object_mut() {
            label.insert("profile".into(), profile.name.clone().into());
            label.insert("argv".into(), host.argv.clone().into());
        }
        if let Some(end) = host.end.as_mut().filter(|_| profile.session.is_none()) {
            // Without a conversation there is nothing to continue.
            end.files = None;
        }
        let program = Program {
            argv: host.argv.clone(),
            cwd: host.cwd.clone(),
            env: host.env.clone(),
            env_remove: host.env_remove.clone(),
        };
        let spec = TerminalSpec {
            proxy: None,
            ledger: UsageLedger::unlimited(),
            node: NodeRef { session: None, node: "record".into() },
            program,
            size: Size::new(host.cols, host.rows),
            parser: profile.parser,
            profile,
            // The observer sends no prompts.
            ready_timeout: Duration::MAX,
            response_timeout: Duration::MAX,
            audit_log: AuditLog::disabled(),
            adopted: None,
            answers_queries,
            events: Publisher::new(Clock::start()),
            kind: BackendKind::Pty,
            log_start: false,
            conversation_id: None,
            agent_version: None,
        };
        let hooks = spec.attach_hooks(relay, &mut host.argv, Some(&host.runtime.join(HOOKS)));
        Some(Observer { spec, hooks })
    }

    /// Returns the reason why the agent's tools do not run in their own terminals; `None` if they do.
    pub fn tracing_problem(&self) -> Option<String> {
        match &self.hooks {
            None => Some(
                "only Claude Code, started without -p and --settings, can run tools in their own terminals"
                    .to_string(),
            ),
            Some(hooks) if hooks.traces_tools() => None,
            Some(_) => Some(format!("{} is already set: unset it", trace::PREFIX)),
        }
    }

    /// Returns true if the agent has conversations of its own. The current one is recorded in the metadata.
    pub fn has_conversations(&self) -> bool {
        self.spec.profile.session.is_some()
    }

    /// Begins to observe a host that was started with the prepared spec. Fails if it cannot be connected.
    pub async fn start(self, host: &Host) -> io::Result<RunningObserver> {
        let (events, backend) = (self.spec.events.clone(), host.drive().await?);
        let location = TerminalLocation::of_host(&host.entry, None);
        let node = TerminalNode::with_backend(self.spec, backend, Ok(self.hooks), location);
        Ok(RunningObserver { node, events })
    }
}

impl RunningObserver {
    /// Subscribes to the node's events.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Returns the node.
    pub fn node(&self) -> &TerminalNode {
        &self.node
    }
}
