//! Replies to requests: the outcome of a request as a result message.

use nerve_api::framing::TooLarge;
use nerve_api::reply::{ErrorDetails, RunEnded};
use nerve_api::{AnyReply, Envelope, ErrorKind, Reply, RequestId, RequestName};
use nerve_engine::dispatch::Outcome;
use nerve_engine::{RequestContext, Warnings};
use nerve_node::client_origin::ClientOrigin;
use nerve_node::error::EngineError;

/// Everything about a request that its reply needs, known before the outcome.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplyContext {
    pub(crate) request_id: Option<RequestId>,
    /// Name of the request, if it is known.
    pub(crate) name: Option<RequestName>,
    /// The request used older names; its reply has the older names of fields too.
    pub(crate) old_names: bool,
    /// Warnings about the request itself.
    pub(crate) warnings: Vec<String>,
    /// The client that sent the request.
    pub(crate) origin: ClientOrigin,
    /// Warnings that the engine adds.
    pub(crate) late_warnings: Warnings,
}

/// A failed request: the error in the form in which clients receive it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) details: Box<ErrorDetails>,
}

/// A reply of any type, or a failure.
pub(crate) type AnyResult = Result<Box<dyn AnyReply>, Failure>;

impl ReplyContext {
    /// Returns the context for the engine.
    pub(crate) fn request_context(&self, tag: Option<u64>) -> RequestContext {
        RequestContext { tag, origin: self.origin.clone(), warnings: self.late_warnings.clone() }
    }

    /// Returns the parts of the encoded reply that do not depend on its outcome.
    pub(crate) fn envelope(&self) -> Envelope<'_> {
        let old_names = self.name.filter(|_| self.old_names);
        Envelope { old_names, request_id: self.request_id.as_ref(), warnings: &self.warnings }
    }

    /// Returns the result message for an outcome, as a line.
    pub(crate) fn outcome_line(self, outcome: Outcome) -> Vec<u8> {
        self.encode(outcome, |envelope, result| match result {
            Ok(reply) => reply.line(envelope),
            Err(failure) => envelope.error_line(&failure.message, &failure.details),
        })
        // Never an error: the only part of unknown length is the id of the request, which is bounded.
        .unwrap_or_default()
    }

    /// Encodes an outcome. A reply that is too long becomes a failure. A run that has ended is shortened first:
    /// its trace and then its results are left out, and a warning says so.
    pub(crate) fn encode<T>(
        mut self,
        outcome: Outcome,
        encode: impl Fn(&Envelope<'_>, &mut AnyResult) -> Result<T, TooLarge>,
    ) -> Result<T, TooLarge> {
        let mut result = outcome.map_err(Failure::from);
        self.warnings.extend(self.late_warnings.take());
        loop {
            let error = match encode(&self.envelope(), &mut result) {
                Err(error) => error,
                encoded => return encoded,
            };
            match shorten_run(&mut result) {
                Some(omitted) => self.warnings.push(format!("{omitted} omitted: {error}")),
                None => return encode(&self.envelope(), &mut Err(Failure::too_large(&error))),
            }
        }
    }

    /// Returns the result message for a reply, as a line.
    pub(crate) fn ok_line(self, reply: impl Reply) -> Vec<u8> {
        self.outcome_line(Ok(Box::new(reply)))
    }

    /// Returns the result message for an error, as a line.
    pub(crate) fn error_line(self, error: EngineError) -> Vec<u8> {
        self.outcome_line(Err(error))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let (message, details) = error.into_reply();
        Failure { message, details: Box::new(details) }
    }
}

impl Failure {
    /// Creates the failure of a reply that is too large.
    pub(crate) fn too_large(error: &TooLarge) -> Failure {
        let hint = Some("request fewer entries or lines, or a list in pages (limit, cursor)".to_string());
        let details = ErrorDetails { hint, ..ErrorDetails::of(ErrorKind::TooLarge) };
        Failure { message: error.to_string(), details: Box::new(details) }
    }

    /// Creates the failure of a run that succeeded, but whose results are too large.
    fn results_too_large(run: RunEnded) -> Failure {
        let message =
            format!("run '{}' is {}, but its results are too large for a reply", run.run_id, run.status);
        let hint = run.journal.as_ref().map(|journal| format!("its journal contains the results: {journal}"));
        let details =
            ErrorDetails { hint, run: Some(Box::new(run)), ..ErrorDetails::of(ErrorKind::TooLarge) };
        Failure { message, details: Box::new(details) }
    }
}

/// Removes the largest remaining part of a run: first its trace, then its results. Returns the name of the part;
/// `None` if nothing is left to remove.
fn shorten_run(result: &mut AnyResult) -> Option<&'static str> {
    let run = match result {
        Ok(reply) => reply.run_mut(),
        Err(failure) => failure.details.run.as_deref_mut(),
    }?;
    if run.trace.take().is_some() {
        return Some("trace");
    }
    if run.results.is_empty() {
        return None;
    }
    run.results.clear();
    let run = std::mem::take(run);
    match result {
        Ok(_) => *result = Err(Failure::results_too_large(run)),
        Err(failure) => failure.details.run = Some(Box::new(run)),
    }
    Some("results")
}

/// Returns true if the error is the outcome of a run that has ended: the request itself was handled.
pub(crate) fn has_ended_run(error: &EngineError) -> bool {
    error.details.as_ref().is_some_and(|run| run.ended.is_some())
}

#[cfg(test)]
mod tests;
