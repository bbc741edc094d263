//! Names of models, and their list.

use axum::response::Response;
use nerve_api::reply::NodeInfo;
use nerve_api::request::{GetNode, ListNodes, ListSessions, NodeRef};
use nerve_api::value::NodeState;
use nerve_api::{DEFAULT_SESSION, ErrorKind};

use super::config::{Config, Mode, Template};
use super::error::ApiError;
use super::types::{Model, ModelList};
use crate::http::SiteState;
use crate::http::query::short;
use crate::http::resource::{call, json_body};

/// Suffix of templates.
const NEW: &str = "new";
/// Kinds in the list of nodes that take no prompts.
const NO_PROMPTS: [&str; 3] = ["graph", "gate", "function"];

/// The destination of a prompt, as a model names it.
#[derive(Debug)]
pub(super) enum ModelTarget {
    /// A node, or a fork of it.
    Node { at: NodeRef, mode: Mode },
    /// A new node.
    New { name: String, template: Box<Template> },
}

impl ModelTarget {
    /// Reads the name of a model: `NODE` or `SESSION/NODE` with an optional suffix, or `TEMPLATE:new`.
    ///
    /// # Errors
    /// The suffix is unknown, or the template does not exist. Nodes are not looked up.
    pub(super) fn read(model: &str, config: &Config) -> Result<ModelTarget, ApiError> {
        let (name, suffix) = match model.split_once(':') {
            Some((name, suffix)) => (name, Some(suffix)),
            None => (model, None),
        };
        let mode = match suffix {
            None => config.mode,
            Some("match") => Mode::Match,
            Some("node") => Mode::Node,
            Some("fork") => Mode::Fork,
            Some(NEW) => return new_target(name, config),
            Some(other) => {
                let message = format!("no model {:?}: unknown suffix {:?}", short(model), short(other));
                let hint = "suffixes of nodes: match, node, fork; of templates: new".to_string();
                return Err(ApiError::no_model(message, Some(hint)));
            }
        };
        let (session, node) = match name.split_once('/') {
            Some((session, node)) => (session, node),
            None => (DEFAULT_SESSION, name),
        };
        Ok(ModelTarget::Node { at: NodeRef { session: Some(session.into()), node: node.into() }, mode })
    }
}

fn new_target(name: &str, config: &Config) -> Result<ModelTarget, ApiError> {
    if let Some(template) = config.new.get(name) {
        return Ok(ModelTarget::New { name: name.to_string(), template: Box::new(template.clone()) });
    }
    let known: Vec<String> = config.new.keys().map(|name| format!("{name}:{NEW}")).collect();
    let hint = match known.is_empty() {
        true => "openai.toml in the configuration directory has no templates".to_string(),
        false => format!("templates: {}", known.join(", ")),
    };
    Err(ApiError::no_model(format!("no template {:?}", short(name)), Some(hint)))
}

/// Returns a node that a model names.
///
/// # Errors
/// `model_not_found` if there is no such node.
pub(super) async fn find_node(at: &NodeRef, site: &SiteState) -> Result<NodeInfo, ApiError> {
    let node = call(GetNode::new(at.node.clone(), at.session.clone()), site).await;
    let error = match node {
        Ok((node, _)) => return Ok(node),
        Err(problem) => ApiError::from(problem),
    };
    Err(match error.kind() {
        // The session or the node, or a name that no node can have.
        ErrorKind::NotFound | ErrorKind::InvalidRequest => error.model_not_found(),
        _ => error.at(at),
    })
}

/// Lists the nodes of all sessions that take prompts, and the templates.
pub(super) async fn list(site: &SiteState) -> Result<Response, ApiError> {
    let config = site.openai.config().await?;
    let mut data: Vec<Model> = config.new.keys().map(|name| template_model(name)).collect();
    let (sessions, _) = call(ListSessions::default(), site).await?;
    for session in sessions.sessions {
        let request = ListNodes { session_id: Some(session.name.clone()), ..ListNodes::default() };
        // The session may be gone by now.
        let Ok((nodes, _)) = call(request, site).await else { continue };
        let is_temporary = |node: &NodeInfo| {
            let session = Some(session.name.clone());
            site.openai.is_temporary(&NodeRef { session, node: node.node_id.clone() })
        };
        let nodes = nodes.nodes_info.iter().filter(|node| takes_prompts(node) && !is_temporary(node));
        data.extend(nodes.map(node_model));
    }
    data.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(json_body(encode(&ModelList { object: "list", data })))
}

/// Describes one model.
pub(super) async fn retrieve(site: &SiteState, id: &str) -> Result<Response, ApiError> {
    let config = site.openai.config().await?;
    let model = match ModelTarget::read(id, &config)? {
        ModelTarget::New { name, .. } => template_model(&name),
        ModelTarget::Node { at, .. } => {
            let node = find_node(&at, site).await?;
            Model { id: id.to_string(), ..node_model(&node) }
        }
    };
    Ok(json_body(encode(&model)))
}

/// Encodes an object of the API, all of which consist of texts, numbers and lists: this cannot fail.
pub(super) fn encode(object: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(object).unwrap_or_default()
}

fn takes_prompts(node: &NodeInfo) -> bool {
    !NO_PROMPTS.contains(&&*node.kind) && !matches!(node.state, NodeState::Stopping | NodeState::Stopped)
}

/// Returns the name of a node as a model, without a suffix.
pub(super) fn model_name(node: &str, session: Option<&str>) -> String {
    match session.unwrap_or(DEFAULT_SESSION) {
        DEFAULT_SESSION => node.to_string(),
        session => format!("{session}/{node}"),
    }
}

fn node_model(node: &NodeInfo) -> Model {
    let id = model_name(&node.node_id, Some(&node.metadata.session_id));
    let created = node.progress.state_changed_at.map_or(0, |at| at.0 / 1000);
    let owned_by = node.metadata.known_text("profile").unwrap_or(&node.kind).to_string();
    Model { id, object: "model", created, owned_by }
}

fn template_model(name: &str) -> Model {
    Model { id: format!("{name}:{NEW}"), object: "model", created: 0, owned_by: "template".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(model: &str, mode: Mode) -> Option<(String, String, Mode)> {
        let config = Config { mode, ..Config::default() };
        match ModelTarget::read(model, &config).ok()? {
            ModelTarget::Node { at, mode } => Some((at.session?, at.node, mode)),
            ModelTarget::New { .. } => None,
        }
    }

    #[test]
    fn suffix_overrides_the_configured_mode() {
        let node = |session: &str, node: &str, mode| Some((session.to_string(), node.to_string(), mode));
        assert_eq!(target("me", Mode::Match), node("default", "me", Mode::Match));
        assert_eq!(target("me", Mode::Fork), node("default", "me", Mode::Fork));
        assert_eq!(target("work/me:node", Mode::Fork), node("work", "me", Mode::Node));
        assert_eq!(target("me:match", Mode::Fork), node("default", "me", Mode::Match));
        assert_eq!(target("me:new", Mode::Match), None);
        assert_eq!(target("me:guess", Mode::Match), None);
    }
}
