//! Operations of the HTTP interface.

use axum::routing::MethodFilter;
use nerve_api::RequestName;
use schemars::Schema;
use schemars::generate::SchemaGenerator;

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
    /// Needs no token.
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
    /// The request.
    pub(crate) params: SchemaOf,
    pub(crate) body: BodyUse,
    /// The reply.
    pub(crate) reply: SchemaOf,
    /// The reply is a list, which is returned in pages.
    pub(crate) is_list: bool,
    /// The request creates an item: the reply has its id.
    pub(crate) creates: bool,
    /// The reply may come before the end of the work, with `async` or `detach`.
    pub(crate) may_be_later: bool,
    /// The headers `traceparent` and `tracestate` are parameters of the request.
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
