//! A node that renders a template.

use nerve_node::context::TurnContext;
use nerve_node::error::EngineError;
use nerve_node::{Node, NodeFuture};
use serde_json::Value;

use super::file::templates::Template;
use super::step::Scope;

/// A template over `input`; the result is the rendered text.
///
/// ```
/// use nerve_node::context::TurnContext;
/// use nerve_graph::template::TemplateNode;
/// use nerve_node::Node;
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let node = TemplateNode::new("greet", "Hello {{ input.name }}!").unwrap();
/// let context = TurnContext::new().with_input(json!({"name": "you"}));
/// assert_eq!(node.execute(&context).await.unwrap(), json!("Hello you!"));
/// # });
/// ```
#[derive(Debug)]
pub struct TemplateNode {
    id: String,
    template: Template,
}

impl TemplateNode {
    /// Creates a node from a template (minijinja syntax).
    ///
    /// # Errors
    /// InvalidRequest: the template is malformed.
    pub fn new(id: impl Into<String>, template: &str) -> Result<TemplateNode, EngineError> {
        let id = id.into();
        let template = Template::compile(template).map_err(|malformed| {
            EngineError::invalid_request(format!("template of node '{id}': {}", malformed.message))
        })?;
        Ok(TemplateNode { id, template })
    }

    fn render(&self, context: &TurnContext) -> Result<Value, EngineError> {
        let scope = Scope {
            input: &context.input,
            upstream: &context.upstream,
            direct: &[],
            item: None,
            index: 0,
            round: 1,
            result: None,
        };
        let text = self.template.render(&scope);
        text.map_err(|error| error.in_context(format_args!("template of node '{}'", self.id)))
    }
}

impl Node for TemplateNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> &'static str {
        "template"
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(std::future::ready(self.render(context)))
    }
}
