//! Answers to requests: the outcome of a request as a result message.

use nerve_api::encode_body;
use nerve_api::reply::{Authenticated, ErrorDetails, RunEnded, Stopped, Subscribed};
use nerve_api::{ErrorKind, Message, RequestId, RequestName, ResultMessage, framing, legacy_names};
use nerve_engine::dispatch::Outcome;
use nerve_engine::{RequestContext, Warnings};
use nerve_node::command::ClientOrigin;
use nerve_node::error::EngineError;
use serde::Serialize;
use serde_json::Value;

use crate::line::{line_of, too_large};

/// Required content of the answer to a request, whatever the outcome.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
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

/// A reply as the body of an HTTP response.
pub(crate) struct ReplyBody {
    /// A JSON object.
    pub(crate) bytes: Vec<u8>,
    /// Id of the item that the reply describes, if a request can have created it.
    pub(crate) created_id: Option<String>,
}

impl Answer {
    /// Returns the context for the engine.
    pub(crate) fn context(&self, tag: Option<u64>) -> RequestContext {
        RequestContext { tag, origin: self.origin.clone(), warnings: self.late_warnings.clone() }
    }

    /// Returns the line that answers with an outcome.
    pub(crate) fn outcome(mut self, outcome: Outcome) -> Vec<u8> {
        match outcome {
            Ok(mut reply) => match reply.run_mut() {
                Some(run) => {
                    let run = std::mem::take(run);
                    line_of(&Message::Result(self.run(run, None)))
                }
                None if self.old_names => {
                    self.collect_warnings();
                    let message =
                        ResultMessage::ok(self.request_id.clone(), self.with_old_fields(reply.value()));
                    line_of(&Message::Result(message.with_warnings(self.warnings)))
                }
                None => {
                    self.collect_warnings();
                    reply
                        .line(self.request_id.as_ref(), &self.warnings)
                        .unwrap_or_else(|error| line_of(&Message::Result(too_large(self.request_id, &error))))
                }
            },
            Err(error) => self.failed(error),
        }
    }

    /// Returns the message that answers with an outcome. Only runs are known to fit into a line.
    pub(crate) fn message(mut self, outcome: Outcome) -> ResultMessage {
        match outcome {
            Ok(mut reply) => match reply.run_mut() {
                Some(run) => {
                    let run = std::mem::take(run);
                    self.run(run, None)
                }
                None => {
                    self.collect_warnings();
                    let data = self.with_old_fields(reply.value());
                    ResultMessage::ok(self.request_id, data).with_warnings(self.warnings)
                }
            },
            Err(error) => self.failure(error),
        }
    }

    /// Encodes an outcome for an HTTP response: the body, or the message of a failure.
    pub(crate) fn body(mut self, outcome: Outcome) -> Result<ReplyBody, Box<ResultMessage>> {
        let mut reply = match outcome {
            Ok(reply) => reply,
            Err(error) => return Err(Box::new(self.failure(error))),
        };
        let Some(run) = reply.run_mut() else {
            self.collect_warnings();
            let created_id = reply.created_id().map(str::to_string);
            return Ok(ReplyBody { bytes: reply.body(&self.warnings), created_id });
        };
        let run = std::mem::take(run);
        let message = self.run(run, None);
        match message.success {
            true => Ok(ReplyBody { bytes: encode_body(&message.data, &message.warnings), created_id: None }),
            false => Err(Box::new(message)),
        }
    }

    /// Returns the line that answers SUBSCRIBE.
    pub(crate) fn subscribed(self, seq: u64, server: &str) -> Vec<u8> {
        self.ok(&Subscribed { subscribed: true, seq, server: Some(server.to_string()) })
    }

    /// Returns the line that answers AUTHENTICATE of a client with the right token.
    pub(crate) fn authenticated(self) -> Vec<u8> {
        self.ok(&Authenticated { authenticated: true })
    }

    /// Returns the line that answers SHUTDOWN.
    pub(crate) fn shutting_down(self) -> Vec<u8> {
        self.ok(&Stopped { stopped: true })
    }

    /// Returns the line that answers with an error.
    pub(crate) fn failed(self, error: EngineError) -> Vec<u8> {
        line_of(&Message::Result(self.failure(error)))
    }

    /// Returns the message that answers with an error.
    pub(crate) fn failure(mut self, error: EngineError) -> ResultMessage {
        let (message, mut details) = error.into_reply();
        match details.run.take() {
            Some(run) => self.run(*run, Some((message, details))),
            None => {
                self.collect_warnings();
                ResultMessage::failed(self.request_id, message, &details).with_warnings(self.warnings)
            }
        }
    }

    fn ok(mut self, reply: &impl Serialize) -> Vec<u8> {
        self.collect_warnings();
        line_of(&Message::Result(
            ResultMessage::ok(self.request_id, json(reply)).with_warnings(self.warnings),
        ))
    }

    /// Returns the answer with a run that has ended. The trace and then the results are left out if the message is too long for a line;
    /// a warning says so.
    fn run(mut self, mut run: RunEnded, mut failure: Option<(String, ErrorDetails)>) -> ResultMessage {
        self.collect_warnings();
        loop {
            let message = self.run_message(&run, failure.as_ref());
            let Err(error) = framing::encode(&message.as_line()) else { return message };
            if run.trace.take().is_some() {
                self.warnings.push(format!("trace omitted: {error}"));
            } else if !run.results.is_empty() {
                run.results.clear();
                self.warnings.push(format!("results omitted: {error}"));
                failure.get_or_insert_with(|| results_too_large(&run));
            } else {
                return message;
            }
        }
    }

    /// Adds the older names of fields if the request used older names.
    fn with_old_fields(&self, mut data: Value) -> Value {
        if let (true, Some(name), Value::Object(fields)) = (self.old_names, self.name, &mut data) {
            legacy_names::add_old_fields(name, fields);
        }
        data
    }

    fn run_message(&self, run: &RunEnded, failure: Option<&(String, ErrorDetails)>) -> ResultMessage {
        let mut message = ResultMessage::ok(self.request_id.clone(), self.with_old_fields(json(run)));
        message.warnings.clone_from(&self.warnings);
        if let Some((error, details)) = failure {
            message.success = false;
            message.error = Some(error.clone());
            if let (Value::Object(fields), Value::Object(more)) = (&mut message.data, json(details)) {
                fields.extend(more);
            }
        }
        message
    }

    fn collect_warnings(&mut self) {
        self.warnings.extend(self.late_warnings.take());
    }
}

/// Replies are maps with text keys, lists and plain values, so this cannot fail.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The failure of a run that succeeded and whose results are too large.
fn results_too_large(run: &RunEnded) -> (String, ErrorDetails) {
    let hint = run.journal.as_ref().map(|journal| format!("its journal contains the results: {journal}"));
    let details = ErrorDetails { hint, ..ErrorDetails::of(ErrorKind::TooLarge) };
    (format!("run '{}' is {}, but its results are too large for a reply", run.run_id, run.status), details)
}

/// Returns true for the error of a run that ended as its graph and its budget say: the request itself was handled.
pub(crate) fn is_run(error: &EngineError) -> bool {
    error.details.as_ref().is_some_and(|run| run.ended.is_some())
}

#[cfg(test)]
mod tests;
