//! Operations of the HTTP interface.

use nerve_api::RequestName;
use schemars::Schema;
use schemars::generate::SchemaGenerator;

use super::page::List;
use super::query::Query;

/// An operation of the HTTP interface.
#[derive(Debug)]
pub(crate) struct Operation {
    /// `GET`, `POST` or `DELETE`.
    pub(crate) method: &'static str,
    /// With placeholders, which are named like the parameters.
    pub(crate) path: &'static str,
    /// One sentence for people.
    pub(crate) summary: &'static str,
    /// Needs no token.
    pub(crate) open: bool,
    pub(crate) does: Does,
}

impl Operation {
    /// Returns the parameters of its query.
    pub(crate) fn query(&self) -> &'static [Query] {
        match &self.does {
            Does::Request(mapped) => mapped.query,
            Does::Own(_, query) => query,
        }
    }
}

/// Implementation of an operation.
#[derive(Debug)]
pub(crate) enum Does {
    /// A request to the engine.
    Request(Mapped),
    /// A built-in handler.
    Own(Own, &'static [Query]),
}

/// Built-in handlers, which are no single request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Health,
    Metrics,
    Document,
    Page,
    Line,
    Shutdown,
    Socket,
    Events,
    Recordings,
    AgentStatus,
    AgentMessages,
    AgentMessage,
    AgentEvents,
}

/// How an HTTP request becomes a request to the engine, and the reply an HTTP response.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) request: RequestName,
    pub(crate) query: &'static [Query],
    /// The request.
    pub(crate) params: SchemaOf,
    pub(crate) body: BodyUse,
    /// The reply.
    pub(crate) reply: SchemaOf,
    /// The reply is a list, which is returned in pages.
    pub(crate) list: Option<List>,
    /// Field of the reply that names what was created.
    pub(crate) created: Option<&'static str>,
    /// The reply may come before the end of the work, with `async` or `detach`.
    pub(crate) may_be_later: bool,
    /// The headers `traceparent` and `tracestate` are parameters of the request.
    pub(crate) takes_trace: bool,
}

/// Whether an operation has a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyUse {
    None,
    Optional,
    Required,
}

/// Returns the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
