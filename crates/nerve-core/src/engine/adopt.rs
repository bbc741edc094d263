//! Takes back the nodes of a server that is gone.

use std::sync::Arc;

use nerve_term::event::Size;

use super::Engine;
use crate::backend::Program;
use crate::command::{EventKind, NodeInfo};
use crate::error::EngineError;
use crate::host::hosting::{Hosting, Label};
use crate::host::registry::Entry;
use crate::node::factory::named;
use crate::node::terminal::TerminalSpec;
use crate::profiles::Loaded;

impl Engine {
    /// Takes back the nodes of a server of this name that is gone. Their past is read meanwhile: they are `starting` until it is
    /// known. Must be called on a runtime.
    pub fn adopt(&self) {
        let Some(hosting) = self.inner.factory.hosting() else { return };
        let profiles = self.inner.factory.profiles();
        for (entry, label) in hosting.of_server(self.inner.factory.server_name()) {
            let at = label.at();
            let (id, node) = (entry.id.clone(), label.node.clone());
            match self.adopt_one(hosting, &profiles, entry, label) {
                Ok(info) => {
                    self.inner.events.publish(Some(&named(&at)), EventKind::NodeCreated { kind: info.kind });
                    tracing::info!(host = %id, %node, "taken back");
                }
                Err(error) => tracing::warn!(host = %id, %node, %error, "left alone"),
            }
        }
    }

    fn adopt_one(
        &self,
        hosting: &Hosting,
        profiles: &Loaded,
        entry: Entry,
        label: Label,
    ) -> Result<NodeInfo, EngineError> {
        let at = label.at();
        let session = self.session_of(&at)?;
        let reservation = session.reserve(&at.node)?;
        let spec = self.adopted_spec(profiles, &entry, &label);
        let spec = spec.inspect_err(|_| session.release(&at.node, reservation))?;
        let node = hosting.adopt(spec, entry);
        let info = node.info();
        session.fill(&at.node, reservation, Arc::new(node));
        Ok(info)
    }

    fn adopted_spec(
        &self,
        profiles: &Loaded,
        entry: &Entry,
        label: &Label,
    ) -> Result<TerminalSpec, EngineError> {
        // A profile that is gone meanwhile is as if the node had been made now.
        let profile = profiles.find(Some(&label.profile), &label.argv);
        let profile = profile.or_else(|_| profiles.find(None, &label.argv))?;
        let env = label.env_home.iter().map(|home| ("HOME".to_string(), home.clone())).collect();
        let program =
            Program { argv: label.argv.clone(), cwd: entry.cwd.clone(), env, env_remove: Vec::new() };
        Ok(TerminalSpec {
            node: named(&label.at()),
            program,
            size: Size::new(entry.cols, entry.rows),
            parser: label.parser.parse().unwrap_or(profile.parser),
            profile,
            ready_timeout: label.ready_timeout,
            response_timeout: label.response_timeout,
            journal: self.inner.factory.journal(&label.at(), label.history)?,
            adopted: Some(serde_json::from_value(entry.memory.clone()).unwrap_or_default()),
            answers: true,
            events: self.inner.events.clone(),
        })
    }
}
