//! Graphs that steps name in their session become part of the graph that is run: their nodes are made for it, and its journal has all
//! that is needed to go on with it, whatever becomes of the session.

use std::collections::BTreeSet;

use crate::error::{EngineError, ErrorKind};
use crate::graph::Graph;
use crate::graph::file::{GraphFile, NestedDefinition, NodeDefinition};
use crate::session::Session;

/// Graphs that a run takes from its session, each as often as it is named: graphs that name graphs could be without end.
const LIMIT: usize = 1000;

/// Takes the graphs that steps of `file` name from `session`.
///
/// # Errors
/// InvalidRequest: there are more than 1000.
pub(super) fn link(file: &mut GraphFile, session: &Session) -> Result<(), EngineError> {
    let mut linking = Linking { session, way: Vec::new(), count: 0 };
    linking.graph(file, &BTreeSet::new())
}

struct Linking<'a> {
    session: &'a Session,
    /// The graphs around the one that is looked at.
    way: Vec<String>,
    count: usize,
}

impl Linking<'_> {
    /// `around`: nodes that are named around it.
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
            // One that runs in itself is left as it is: running it says so.
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
