//! Operations of the HTTP interface.

use axum::routing::MethodFilter;
use nerve_api::RequestName;
use nerve_api::request::Example;
use schemars::Schema;
use schemars::generate::SchemaGenerator;
use serde_json::Value;

use super::query::Query;

/// An operation of the HTTP interface.
#[derive(Debug)]
pub(crate) struct Operation {
    /// `GET`, `POST` or `DELETE`.
    pub(crate) method: &'static str,
    /// Path with placeholders, which are named like the parameters.
    pub(crate) path: &'static str,
    /// One sentence for people.
    pub(crate) summary: &'static str,
    /// True if it needs no token.
    pub(crate) open: bool,
    pub(crate) handler: Handler,
}

impl Operation {
    /// Returns the method as a filter of routes.
    pub(crate) fn method(&self) -> MethodFilter {
        match self.method {
            "POST" => MethodFilter::POST,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        }
    }

    /// Returns true if `path` is its path with values for the placeholders.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let is_match = |pattern: &str| {
            segments.next().is_some_and(|segment| pattern.starts_with('{') || pattern == segment)
        };
        self.path.split('/').all(is_match) && segments.next().is_none()
    }

    /// Returns the parameters of its query.
    pub(crate) fn query(&self) -> &'static [Query] {
        match &self.handler {
            Handler::Request(mapped) => mapped.query,
            Handler::Builtin(_, query) => query,
        }
    }

    /// Returns the first word of the path, or `server`.
    pub(crate) fn tag(&self) -> &'static str {
        match &self.handler {
            Handler::Builtin(
                Builtin::Health
                | Builtin::Metrics
                | Builtin::Document
                | Builtin::Page
                | Builtin::RawCommand
                | Builtin::Shutdown
                | Builtin::Socket
                | Builtin::Events,
                _,
            ) => "server",
            Handler::Builtin(..) | Handler::Request(_) => self.path.split('/').nth(1).unwrap_or_default(),
        }
    }

    /// Returns an example of the request; `None` for built-in handlers.
    pub(crate) fn example(&self) -> Option<Example> {
        match &self.handler {
            Handler::Request(mapped) => Some(mapped.request.example()),
            Handler::Builtin(..) => None,
        }
    }

    /// Returns the names of the placeholders in the path.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the parameters of an example that are not in the path.
    pub(crate) fn body_example(&self, mut params: Value) -> Value {
        if let Value::Object(fields) = &mut params {
            for name in self.placeholders() {
                fields.shift_remove(name);
            }
        }
        params
    }
}

/// Implementation of an operation.
#[derive(Debug)]
pub(crate) enum Handler {
    /// A request to the engine.
    Request(RequestMapping),
    /// A built-in handler.
    Builtin(Builtin, &'static [Query]),
}

/// Handlers of operations that are not a single request to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    Health,
    Metrics,
    Document,
    Page,
    RawCommand,
    Shutdown,
    Socket,
    Terminal,
    Events,
    AgentStatus,
    AgentMessages,
    AgentMessage,
    AgentEvents,
    Models,
    Model,
    ChatCompletion,
}

/// Mapping of an HTTP request to a request to the engine, and of the reply to an HTTP response.
#[derive(Debug)]
pub(crate) struct RequestMapping {
    pub(crate) request: RequestName,
    pub(crate) query: &'static [Query],
    /// Parameters of the request.
    pub(crate) params: SchemaOf,
    pub(crate) body: BodyUse,
    /// The reply.
    pub(crate) reply: SchemaOf,
    /// True if the reply is a list, which is returned in pages.
    pub(crate) is_list: bool,
    /// True if the request creates an item: the reply has its id.
    pub(crate) creates: bool,
    /// True if the reply may come before the end of the work, with `async` or `detach`.
    pub(crate) may_be_later: bool,
    /// True if the headers `traceparent` and `tracestate` are parameters of the request.
    pub(crate) takes_trace: bool,
}

/// States whether an operation takes its parameters from a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyUse {
    None,
    Optional,
    Required,
}

/// Returns the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
