//! Replies to requests over HTTP: the outcome of a request as the body of a response, or as a typed reply.

use std::any::Any;

use nerve_api::Reply;
use nerve_api::framing::{MAX_LINE_BYTES, TooLarge};
use nerve_engine::dispatch::Outcome;

use super::problem::Problem;
use crate::legacy_names;
use crate::reply_context::ReplyContext;

/// A reply as the body of a response.
pub(crate) struct ReplyBody {
    /// A JSON object.
    pub(crate) bytes: Vec<u8>,
    /// Id of the item that the reply describes, if a request can have created it.
    pub(crate) created_id: Option<String>,
}

/// Encodes the body of a reply.
pub(crate) fn encode(context: ReplyContext, outcome: Outcome) -> Result<ReplyBody, Problem> {
    let encoded = context.encode(outcome, |envelope, result| match result {
        Ok(reply) => {
            let created_id = reply.created_id().map(str::to_string);
            Ok(Ok(ReplyBody { bytes: reply.body(envelope)?, created_id }))
        }
        Err(failure) => {
            let problem = Problem::of(failure, envelope);
            let bytes = problem.data_bytes();
            if bytes > MAX_LINE_BYTES { Err(TooLarge { bytes: bytes as u64 }) } else { Ok(Err(problem)) }
        }
    });
    encoded.unwrap_or_else(|error| Err(Problem::internal(error.to_string())))
}

/// Encodes like [`encode`], and calls the node a channel if `is_channel`.
pub(crate) fn encode_with(
    is_channel: bool,
    mut context: ReplyContext,
    mut outcome: Outcome,
) -> Result<ReplyBody, Problem> {
    if let Ok(reply) = &mut outcome
        && is_channel
    {
        legacy_names::call_channel(&mut **reply);
        context.old_names = true;
    }
    encode(context, outcome)
}

/// Returns the typed reply to a request that was made in this process. The warnings are dropped: nothing reads them.
pub(crate) fn downcast<T: Reply>(_: ReplyContext, outcome: Outcome) -> Result<Box<T>, Problem> {
    let reply: Box<dyn Any> = outcome.map_err(Problem::from)?;
    reply.downcast().map_err(|_| Problem::internal("the reply has the type of another request"))
}
