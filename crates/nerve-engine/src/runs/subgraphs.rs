//! Embeds registered graphs into the graph that is run. Their nodes are created for the run, and its journal contains everything that is
//! needed to resume it, even if the session changes.

use std::collections::BTreeSet;

use nerve_graph::file::{GraphFile, NestedDefinition, NodeDefinition};
use nerve_graph::session::Session;
use nerve_node::error::EngineError;

/// Limit of embedded graphs, counted per use: graphs that name each other could grow without end.
const LIMIT: usize = 1000;

/// Embeds the graphs of `session` that steps of `file` name.
///
/// # Errors
/// InvalidRequest: there are more than 1000.
pub(crate) fn embed(file: &mut GraphFile, session: &Session) -> Result<(), EngineError> {
    let mut linker = Linker { session, path: Vec::new(), count: 0 };
    linker.embed(file, &BTreeSet::new())
}

struct Linker<'a> {
    session: &'a Session,
    /// Names of the enclosing graphs, the outermost first.
    path: Vec<String>,
    count: usize,
}

impl Linker<'_> {
    /// Embeds into one graph. `outer`: nodes of the enclosing graphs.
    fn embed(&mut self, file: &mut GraphFile, outer: &BTreeSet<String>) -> Result<(), EngineError> {
        let is_graph = |node: &NodeDefinition| matches!(node, NodeDefinition::Graph(_));
        let visible = file.nodes.iter().filter(|(_, node)| !is_graph(node)).map(|(name, _)| name);
        let visible: BTreeSet<String> = outer.iter().chain(visible).cloned().collect();
        self.path.push(file.graph.clone());
        for node in file.nodes.values_mut() {
            if let NodeDefinition::Graph(NestedDefinition { graph: Some(inner), .. }) = node {
                self.embed(inner, &visible)?;
            }
        }
        let fallbacks =
            file.steps.iter().filter_map(|step| step.error_policy.as_ref()?.fallback_node.as_ref());
        let names: BTreeSet<&String> =
            file.steps.iter().filter_map(|step| step.node.as_ref()).chain(fallbacks).collect();
        let unknown =
            names.into_iter().filter(|name| !file.nodes.contains_key(*name) && !visible.contains(*name));
        for name in unknown.cloned().collect::<Vec<String>>() {
            // A graph that contains itself is not embedded: running it fails with an error.
            let node = self.session.get(&name).filter(|_| !self.path.contains(&name));
            let Some(definition) = node.as_ref().and_then(|node| node.graph()?.definition()) else {
                continue;
            };
            self.count += 1;
            if self.count > LIMIT {
                let message =
                    format!("graph '{}' embeds more than {LIMIT} graphs of its session", self.path[0]);
                return Err(
                    EngineError::invalid_request(message).hint("reduce the graphs that refer to each other")
                );
            }
            let mut inner = GraphFile::from_value(definition.clone())?;
            self.embed(&mut inner, &visible)?;
            let nested = NestedDefinition { file: None, graph: Some(Box::new(inner)) };
            file.nodes.insert(name, NodeDefinition::Graph(nested));
        }
        self.path.pop();
        Ok(())
    }
}
