//! Links registered graphs into the graph that is run: their nodes are created for the run, and its journal contains everything that is
//! needed to resume it, whatever happens to the session.

use std::collections::BTreeSet;

use crate::error::{EngineError, ErrorKind};
use crate::graph::Graph;
use crate::graph::file::{GraphFile, NestedDefinition, NodeDefinition};
use crate::session::Session;

/// Limit of linked graphs, counted per use: graphs that name each other could grow without end.
const LIMIT: usize = 1000;

/// Links the graphs of `session` that steps of `file` name.
///
/// # Errors
/// InvalidRequest: there are more than 1000.
pub(super) fn link(file: &mut GraphFile, session: &Session) -> Result<(), EngineError> {
    let mut linker = Linker { session, way: Vec::new(), count: 0 };
    linker.graph(file, &BTreeSet::new())
}

struct Linker<'a> {
    session: &'a Session,
    /// The graphs around the current one.
    way: Vec<String>,
    count: usize,
}

impl Linker<'_> {
    /// Links into one graph. `around`: nodes of the graphs around it.
    fn graph(&mut self, file: &mut GraphFile, around: &BTreeSet<String>) -> Result<(), EngineError> {
        let is_graph = |node: &NodeDefinition| matches!(node, NodeDefinition::Graph(_));
        let seen = file.nodes.iter().filter(|(_, node)| !is_graph(node)).map(|(name, _)| name);
        let seen: BTreeSet<String> = around.iter().chain(seen).cloned().collect();
        self.way.push(file.graph.clone());
        for node in file.nodes.values_mut() {
            if let NodeDefinition::Graph(NestedDefinition { graph: Some(inner), .. }) = node {
                self.graph(inner, &seen)?;
            }
        }
        let fallbacks =
            file.steps.iter().filter_map(|step| step.error_policy.as_ref()?.fallback_node.as_ref());
        let named: BTreeSet<&String> =
            file.steps.iter().filter_map(|step| step.node.as_ref()).chain(fallbacks).collect();
        let named = named.into_iter().filter(|name| !file.nodes.contains_key(*name) && !seen.contains(*name));
        for name in named.cloned().collect::<Vec<String>>() {
            // A graph that contains itself is not linked: running it fails with an error.
            let node = self.session.get(&name).filter(|_| !self.way.contains(&name));
            let Some(definition) = node.as_ref().and_then(|node| node.as_graph().and_then(Graph::definition))
            else {
                continue;
            };
            self.count += 1;
            if self.count > LIMIT {
                let message =
                    format!("graph '{}' takes more than {LIMIT} graphs from its session", self.way[0]);
                return Err(EngineError::new(ErrorKind::InvalidRequest, message)
                    .hint("let fewer graphs name each other"));
            }
            let mut inner = GraphFile::from_value(definition.clone())?;
            self.graph(&mut inner, &seen)?;
            let nested = NestedDefinition { file: None, graph: Some(Box::new(inner)) };
            file.nodes.insert(name, NodeDefinition::Graph(nested));
        }
        self.way.pop();
        Ok(())
    }
}
