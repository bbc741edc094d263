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
            Does::Command(mapped) => mapped.query,
            Does::Own(_, query) => query,
        }
    }
}

/// What is done.
#[derive(Debug)]
pub(crate) enum Does {
    /// A command of the wire.
    Command(Mapped),
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

/// How a request becomes a command, and its result an answer.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) command: RequestName,
    pub(crate) query: &'static [Query],
    /// The object in the request's body; `None`: there is none.
    pub(crate) body: Option<SchemaOf>,
    /// The object in the answer's.
    pub(crate) data: SchemaOf,
    /// It is a list, and given in pages.
    pub(crate) list: Option<List>,
    /// The field of the answer that names what was made.
    pub(crate) made: Option<&'static str>,
}

/// Gives the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
