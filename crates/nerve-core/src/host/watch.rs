//! A node beside a host in this process: sees what the agent does, answers its questions to the terminal where nobody else does,
//! and drives nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_term::event::Size;
use nerve_term::profile::Profile;
use tokio::sync::broadcast;

use super::HostSpec;
use super::hosting::HOOKS;
use super::process::Host;
use crate::backend::{Hosted, Program};
use crate::clock::Clock;
use crate::command::{EngineEvent, NodeRef};
use crate::events::Publisher;
use crate::executions::trace;
use crate::node::hooks::HookSocket;
use crate::node::terminal::{Journal, TerminalLocation, TerminalNode, TerminalSpec};

/// A watch that is not begun: hooks have to be asked for before the program starts.
pub struct Watch {
    spec: TerminalSpec,
    hooks: Option<HookSocket>,
    registry: PathBuf,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("profile", &self.spec.profile.name).finish_non_exhaustive()
    }
}

/// A watch at work. The program goes on when it is dropped.
#[derive(Debug)]
pub struct Watching {
    node: TerminalNode,
    events: Publisher,
}

impl Watch {
    /// Finds the profile of the program, and adds to its arguments what makes it tell what it does, if it can. `answers`: no other
    /// terminal answers its questions.
    pub fn prepare(
        host: &mut HostSpec,
        profiles: Option<&Path>,
        relay: Option<&Path>,
        answers: bool,
    ) -> Option<Watch> {
        let (profiles, errors) = crate::profiles::load(profiles);
        for error in &errors {
            tracing::warn!("{error}");
        }
        let profile: Arc<Profile> = profiles.for_command(&host.argv)?;
        // What stands beside the recording: which agent it is, and its command without what is added here.
        if let Some(label) = host.label.as_object_mut() {
            label.insert("profile".into(), profile.name.clone().into());
            label.insert("argv".into(), host.argv.clone().into());
        }
        if let Some(end) = host.end.as_mut().filter(|_| profile.session.is_none()) {
            // Nothing can go on from there.
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
            node: NodeRef { session: None, node: "record".into() },
            program,
            size: Size::new(host.cols, host.rows),
            parser: profile.parser,
            profile,
            // Nobody waits for it to be ready, and nobody asks it anything.
            ready_timeout: Duration::MAX,
            response_timeout: Duration::MAX,
            journal: Journal::off(),
            adopted: None,
            answers,
            events: Publisher::new(Clock::start()),
            kind: "pty",
            log_start: false,
            agent_session: None,
        };
        let hooks = HookSocket::attach_if_able(&spec, relay, &mut host.argv, Some(&host.runtime.join(HOOKS)));
        Some(Watch { spec, hooks, registry: host.registry.clone() })
    }

    /// Why its tools are not run in terminals of their own, where that was asked for; `None` if they are.
    pub fn untraced(&self) -> Option<String> {
        match &self.hooks {
            None => Some("that is for Claude Code, started without -p and without --settings".to_string()),
            Some(hooks) if hooks.traces() => None,
            Some(_) => Some(format!("{} is set to something else: unset it", trace::PREFIX)),
        }
    }

    /// The program has conversations of its own: which one it has is kept beside the recording.
    pub fn knows_conversations(&self) -> bool {
        self.spec.profile.session.is_some()
    }

    /// Begins to watch a host that was started with the spec that was prepared.
    pub fn start(self, host: &Host) -> Watching {
        let events = self.spec.events.clone();
        let backend = Hosted::fresh(host.entry.clone(), self.registry);
        let outside = TerminalLocation::of_host(&host.entry);
        Watching { node: TerminalNode::with_backend(self.spec, backend, self.hooks, outside), events }
    }
}

impl Watching {
    /// What happens from now on.
    pub fn events(&self) -> broadcast::Receiver<EngineEvent> {
        self.events.subscribe()
    }

    /// The node.
    pub fn node(&self) -> &TerminalNode {
        &self.node
    }
}
