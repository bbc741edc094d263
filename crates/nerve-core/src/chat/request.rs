//! One question to a model's API: the request, its answer as it grows, and what is tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::answer::{Answer, Growing};
use super::error::Fault;
use super::spec::{ChatSpec, Provider};
use super::{anthropic, openai, retry, sse};
use crate::clock::Clock;
use crate::context::{ChunkSink, ExecutionContext};
use crate::error::{EngineError, ErrorKind};
use crate::http::{client, in_words};
use crate::telemetry::{ActiveSpan, SpanKind, TraceContext, failed};

/// Bytes of a request, and of an answer.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Bytes of what an API says of an error.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How long what follows an answer's end is waited for.
const GRACE: Duration = Duration::from_secs(2);

/// Whom is asked, with which key. Its `Debug` has no key in it.
pub(super) struct Api {
    endpoint: Uri,
    provider: Provider,
    key: Option<String>,
    retries: u32,
    /// Requests that were sent.
    sent: AtomicU32,
}

/// An answer and how it came.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) answer: Answer,
    /// How often the request was sent again.
    pub(super) retries: u32,
    /// Bytes of the answer.
    pub(super) bytes: u64,
}

impl Api {
    /// The API of a spec. The key is looked for with `variable`.
    ///
    /// # Errors
    /// InvalidRequest: there is no key; the variable is named.
    pub(super) fn new(
        spec: &ChatSpec,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Api, EngineError> {
        let key = match spec.key_variable() {
            None => None,
            Some(name) => {
                let key = variable(name).map(|key| key.trim().to_string()).filter(|key| !key.is_empty());
                Some(key.ok_or_else(|| no_key(name))?)
            }
        };
        if key.as_ref().is_some_and(|key| HeaderValue::from_str(key).is_err()) {
            let message = format!(
                "what {} holds cannot be a key: it has characters that no header takes",
                spec.key_variable().unwrap_or_default()
            );
            return Err(EngineError::new(ErrorKind::InvalidRequest, message));
        }
        Ok(Api {
            endpoint: spec.endpoint()?,
            provider: spec.provider,
            key,
            retries: spec.retries,
            sent: AtomicU32::new(0),
        })
    }

    /// Asks until there is an answer, or nothing more to be tried. Each try counts as a call of an API. What is said goes to
    /// `chunks` while it is said; after that nothing is tried again.
    ///
    /// # Errors
    /// What the API says, or what keeps us from hearing it. Cancelled: the context is.
    pub(super) async fn ask(
        &self,
        body: &Value,
        context: &ExecutionContext,
        chunks: Option<&ChunkSink>,
        deadline: Instant,
        clock: &Clock,
    ) -> Result<Asked, EngineError> {
        let asked = body["model"].as_str().unwrap_or_default().to_string();
        let before = self.sent();
        let body = Bytes::from(body.to_string());
        if body.len() > MAX_BODY {
            let message = format!("the conversation is too long: a request would have {} bytes", body.len());
            return Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(format!(
                "{MAX_BODY} are the limit: clear the conversation, or go on in a fork of an earlier one"
            )));
        }
        let mut span = self.begin_span(&asked, context);
        let done = self.ask_until_answered(&body, context, chunks, (deadline, clock), &mut span).await;
        let retries = self.sent().saturating_sub(before + 1);
        span.end(|span| {
            span.attributes.set("nerve.retries", retries);
            match &done {
                Ok(asked) => asked.answer.describe(span),
                Err(error) => failed(span, error),
            }
        });
        done
    }

    /// The span of a question; its tries are not spans of their own.
    fn begin_span(&self, model: &str, context: &ExecutionContext) -> ActiveSpan {
        let name = || format!("chat {model}").into();
        let mut span = context.telemetry().begin(SpanKind::Client, context.trace_context(), name);
        span.describe(|span| {
            let facts = &mut span.attributes;
            facts.set("gen_ai.operation.name", "chat");
            facts.set("gen_ai.provider.name", self.provider.as_str());
            facts.set("gen_ai.request.model", model.to_string());
            facts.set_some("server.address", self.endpoint.host().map(str::to_string));
            let usual = if self.endpoint.scheme_str() == Some("http") { 80 } else { 443 };
            facts.set("server.port", u32::from(self.endpoint.port_u16().unwrap_or(usual)));
        });
        span
    }

    async fn ask_until_answered(
        &self,
        body: &Bytes,
        context: &ExecutionContext,
        chunks: Option<&ChunkSink>,
        (deadline, clock): (Instant, &Clock),
        span: &mut ActiveSpan,
    ) -> Result<Asked, EngineError> {
        let mut tries = 0;
        loop {
            context.add_api_call(0.0);
            self.sent.fetch_add(1, Ordering::Relaxed);
            tries += 1;
            let mut said = false;
            let asked = self.try_once(body.clone(), span.context(), chunks, &mut said, clock);
            let fault = tokio::select! {
                biased;
                () = context.cancellation().wait() => return Err(crate::cancellation::cancelled()),
                asked = asked => match asked {
                    Ok((answer, bytes)) => return Ok(Asked { answer, retries: tries - 1, bytes }),
                    Err(fault) => fault,
                },
            };
            let pause = retry::pause(tries - 1, fault.wait());
            let pause = pause.filter(|_| fault.is_passing() && !said && tries <= self.retries);
            // A pause that nobody lives to see the end of is a wait for nothing.
            let Some(pause) = pause.filter(|pause| Instant::now() + *pause < deadline) else {
                return Err(self.without_key(fault.into_error(&self.host(), tries)));
            };
            tracing::debug!(host = %self.host(), ?pause, tries, "a model's API is asked again");
            span.happened("nerve.retry", |facts| {
                facts.set("nerve.attempt", tries + 1);
                facts.set("nerve.delay_ms", u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
            });
            tokio::select! {
                () = sleep(pause) => {}
                () = context.cancellation().wait() => return Err(crate::cancellation::cancelled()),
            }
        }
    }

    /// How many requests were sent.
    pub(super) fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whom is asked, for people.
    pub(super) fn host(&self) -> String {
        self.endpoint.authority().map(ToString::to_string).unwrap_or_default()
    }

    async fn try_once(
        &self,
        body: Bytes,
        trace: Option<&Arc<TraceContext>>,
        chunks: Option<&ChunkSink>,
        said: &mut bool,
        clock: &Clock,
    ) -> Result<(Answer, u64), Fault> {
        let mut request = Request::post(self.endpoint.clone()).body(Full::new(body)).map_err(network)?;
        *request.headers_mut() = self.headers();
        if let Some(trace) = trace {
            trace.put_into(request.headers_mut());
        }
        let response = client().request(request).await.map_err(network)?;
        if !response.status().is_success() {
            return Err(refusal(response, clock).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_whole = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/json"));
        let mut reading =
            Reading { provider: self.provider, growing: Growing::default(), chunks, said, bytes: 0 };
        match is_whole {
            true => reading.whole(response.into_body()).await?,
            false => reading.stream(response.into_body()).await?,
        }
        let bytes = reading.bytes as u64;
        Ok((reading.growing.finish()?, bytes))
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("nerve/", env!("CARGO_PKG_VERSION"))));
        let (name, key) = match (self.provider, &self.key) {
            (Provider::Anthropic, key) => {
                headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
                (HeaderName::from_static("x-api-key"), key.clone())
            }
            (Provider::Openai, key) => (AUTHORIZATION, key.as_ref().map(|key| format!("Bearer {key}"))),
        };
        if let Some(Ok(mut value)) = key.map(|key| HeaderValue::from_str(&key)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers
    }

    /// Who refuses a key may repeat it.
    fn without_key(&self, mut error: EngineError) -> EngineError {
        if let Some(key) = &self.key {
            error.message = error.message.replace(key.as_str(), "***");
        }
        error
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// An answer that is being read.
struct Reading<'a> {
    provider: Provider,
    growing: Growing,
    chunks: Option<&'a ChunkSink>,
    /// Something was given out.
    said: &'a mut bool,
    bytes: usize,
}

impl Reading<'_> {
    /// Reads events until the answer ends.
    async fn stream(&mut self, mut body: Incoming) -> Result<(), Fault> {
        let mut parser = sse::Parser::new(MAX_BODY);
        loop {
            let frame = match self.growing.ended {
                false => body.frame().await,
                // Counts of tokens may follow, and a connection that is read to its end can be used again.
                true => timeout(GRACE, body.frame()).await.unwrap_or(None),
            };
            let bytes = match frame {
                None => return Ok(()),
                Some(Err(_)) if self.growing.ended => return Ok(()),
                Some(Err(error)) => return Err(network(error)),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            self.bytes += bytes.len();
            if self.bytes > MAX_BODY {
                return Err(Fault::TooLarge(MAX_BODY));
            }
            for event in parser.push(&bytes).map_err(|_| Fault::TooLarge(MAX_BODY))? {
                let piece = match self.provider {
                    Provider::Anthropic => anthropic::event(&mut self.growing, &event.data)?,
                    Provider::Openai => openai::event(&mut self.growing, &event.data)?,
                };
                self.say(piece);
            }
        }
    }

    /// Reads an answer of those who do not stream though they are asked to.
    async fn whole(&mut self, body: Incoming) -> Result<(), Fault> {
        let (bytes, is_all) = read(body, MAX_BODY).await?;
        if !is_all {
            return Err(Fault::TooLarge(MAX_BODY));
        }
        self.bytes = bytes.len();
        let json: Value =
            serde_json::from_slice(&bytes).map_err(|error| Fault::Garbled(error.to_string()))?;
        let piece = match self.provider {
            Provider::Anthropic => anthropic::whole(&mut self.growing, &json)?,
            Provider::Openai => openai::whole(&mut self.growing, &json)?,
        };
        self.say(piece);
        Ok(())
    }

    fn say(&mut self, piece: Option<String>) {
        if let (Some(piece), Some(chunks)) = (piece, self.chunks) {
            *self.said = true;
            chunks(&piece);
        }
    }
}

/// A response that is no success.
async fn refusal(response: Response<Incoming>, clock: &Clock) -> Fault {
    let (head, body) = response.into_parts();
    let header = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let wait = header(RETRY_AFTER).and_then(|value| retry::asked_for(value, clock.now()));
    if head.status.is_redirection() {
        // Without what may be secret in it.
        let to = header(LOCATION).and_then(|to| to.parse::<Uri>().ok());
        let to = to.and_then(|to| Some(format!("it sends us to {}", to.host()?)));
        return Fault::Status { status: head.status.as_u16(), message: to.unwrap_or_default(), wait };
    }
    // The status says enough where the rest does not come.
    let body = read(body, MAX_ERROR_BODY).await.map(|(body, _)| body).unwrap_or_default();
    Fault::of_status(head.status.as_u16(), &body, wait)
}

/// The first `limit` bytes, and whether that is all.
async fn read(mut body: Incoming, limit: usize) -> Result<(Vec<u8>, bool), Fault> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        bytes.extend_from_slice(&frame.map_err(network)?.into_data().unwrap_or_default());
        if bytes.len() > limit {
            bytes.truncate(limit);
            return Ok((bytes, false));
        }
    }
    Ok((bytes, true))
}

fn network(error: impl std::error::Error) -> Fault {
    Fault::Network(in_words(&error))
}

fn no_key(name: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, format!("there is no key: the variable {name} is not set"))
        .hint(format!("set {name} where the server is started, or for the node (`--env`), or name another variable as api_key_env (`--api-key-env`; '' sends no key)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-0123456789";

    fn api(provider: Provider) -> Api {
        let set = |name: &str| name.ends_with("_API_KEY").then(|| format!(" {KEY}\n"));
        Api::new(&ChatSpec::new(provider, "m"), set).unwrap()
    }

    #[test]
    fn the_key_is_sent_as_each_api_wants_it_and_not_shown() {
        let headers = api(Provider::Anthropic).headers();
        assert_eq!(headers["x-api-key"], KEY);
        assert_eq!(headers["anthropic-version"], anthropic::VERSION);
        assert!(headers["x-api-key"].is_sensitive() && !headers.contains_key(AUTHORIZATION));
        let headers = api(Provider::Openai).headers();
        assert_eq!(headers[AUTHORIZATION], format!("Bearer {KEY}"));
        assert!(!headers.contains_key("x-api-key"));
        for shown in [format!("{headers:?}"), format!("{:?}", api(Provider::Openai))] {
            assert!(!shown.contains(KEY), "{shown}");
        }
    }

    #[test]
    fn no_key_is_sent_where_none_is_named() {
        let spec = ChatSpec { api_key_env: Some(String::new()), ..ChatSpec::new(Provider::Openai, "m") };
        let headers = Api::new(&spec, |_| Some(KEY.to_string())).unwrap().headers();
        assert!(!headers.contains_key(AUTHORIZATION));
    }
}
