//! Something that can be asked for over HTTP.

use nerve_api::RequestName;
use schemars::Schema;
use schemars::generate::SchemaGenerator;

use super::page::List;
use super::query::Query;

/// Something that can be asked for.
#[derive(Debug)]
pub(crate) struct Operation {
    /// `GET`, `POST` or `DELETE`.
    pub(crate) method: &'static str,
    /// With placeholders, which have the names of the wire's params.
    pub(crate) path: &'static str,
    /// In words.
    pub(crate) summary: &'static str,
    /// Who comes without a token may have it too.
    pub(crate) open: bool,
    pub(crate) does: Does,
}

impl Operation {
    /// What may stand in its query.
    pub(crate) fn query(&self) -> &'static [Query] {
        match &self.does {
            Does::Request(mapped) => mapped.query,
            Does::Own(_, query) => query,
        }
    }
}

/// What is done.
#[derive(Debug)]
pub(crate) enum Does {
    /// A request to the engine.
    Request(Mapped),
    /// Something of its own.
    Own(Own, &'static [Query]),
}

/// What is no command of the wire.
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
