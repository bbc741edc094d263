//! The nodes and the time whose usage is read.

use nerve_api::request::GetUsage;
use nerve_node::error::EngineError;
use nerve_node::names::check_name;
use nerve_record::lookup::Name;
use nerve_types::activity::TsMs;

use crate::node_files::NodeKey;
use crate::search::parse_time;

/// Selects the usage to read. Empty fields do not filter.
#[derive(Debug, Clone, Default)]
pub(super) struct UsageQuery {
    /// Nodes, each with its session if one is given.
    pub(super) nodes: Vec<(String, Option<String>)>,
    /// Only the nodes of this session.
    pub(super) session: Option<String>,
    /// Only responses since this time, in milliseconds since the Unix epoch.
    pub(super) since_ms: Option<u64>,
}

impl UsageQuery {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// InvalidRequest.
    pub(super) fn from_request(request: &GetUsage) -> Result<UsageQuery, EngineError> {
        request.session_id.iter().try_for_each(|session| check_name(session, "session"))?;
        Ok(UsageQuery {
            nodes: request.nodes.iter().map(|name| parse_node(name)).collect::<Result<_, _>>()?,
            session: request.session_id.clone(),
            since_ms: request.since.clone().map(parse_time).transpose()?,
        })
    }

    /// Returns true if the usage of a node counts.
    pub(super) fn selects(&self, node: &NodeKey) -> bool {
        let has_name = |(name, session): &(String, Option<String>)| {
            node.node.as_ref() == Some(name) && (session.is_none() || *session == node.session)
        };
        (self.nodes.is_empty() || self.nodes.iter().any(has_name))
            && (self.session.is_none() || self.session == node.session)
    }

    /// Returns true if a response at this time counts.
    pub(super) fn includes(&self, at: Option<TsMs>) -> bool {
        self.since_ms.is_none_or(|since| at.is_some_and(|at| at.0 >= since))
    }
}

/// Parses NODE or SESSION/NODE.
fn parse_node(text: &str) -> Result<(String, Option<String>), EngineError> {
    let name = Name::parse(text).ok().filter(|_| !text.contains('@'));
    let node = name.as_ref().and_then(|name| Some((name.node()?.to_string(), name.session())));
    let (node, session) = node.ok_or_else(|| {
        EngineError::invalid_request(format!("'{text}' is not the name of a node"))
            .hint("give NODE or SESSION/NODE")
    })?;
    Ok((node, session.map(str::to_string)))
}
