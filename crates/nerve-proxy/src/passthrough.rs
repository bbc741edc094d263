//! Forwards requests to an Anthropic upstream.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Bytes;

use crate::api_error::ApiError;
use crate::body::{self, DynBody};
use crate::headers;
use crate::network_body::NetworkBody;
use crate::path;
use crate::relay::Relay;
use crate::request_log::RequestLog;
use crate::request_summary;
use crate::state::ProxyState;
use crate::usage::UsageReader;

/// Forwards a request and returns the response.
pub(crate) async fn forward(
    state: &ProxyState,
    request: Request<NetworkBody>,
    mut request_log: RequestLog,
) -> Result<Response<DynBody>, (ApiError, RequestLog)> {
    let (head, incoming) = request.into_parts();
    let prepared = prepare(state, &head, incoming, &mut request_log).await;
    let (uri, bytes) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err((error, request_log)),
    };
    let is_billable = path::is_billable(&head.method, head.uri.path());
    if is_billable && let Err(error) = state.ledger.admit() {
        return Err((error, request_log));
    }
    let mut upstream_request = Request::new(bytes);
    *upstream_request.method_mut() = head.method;
    *upstream_request.uri_mut() = uri;
    *upstream_request.headers_mut() = headers::for_upstream(head.headers, state.config.api_key.as_ref());
    match state.client.send(upstream_request, &state.config.upstream).await {
        Ok(reply) => Ok(return_response(state, reply, request_log)),
        Err(send_error) => {
            if is_billable && !send_error.was_sent {
                state.ledger.refund();
            }
            Err((send_error.error, request_log))
        }
    }
}

async fn prepare(
    state: &ProxyState,
    head: &Parts,
    incoming: NetworkBody,
    request_log: &mut RequestLog,
) -> Result<(http::Uri, Bytes), ApiError> {
    path::check(&head.uri)?;
    let model = state.config.model.as_deref();
    let has_model = path::has_model(head.uri.path());
    // A billable request must not be forwarded with the wrong model.
    if model.is_some() && !has_model && path::is_billable(&head.method, head.uri.path()) {
        let message = "this proxy replaces the model: it forwards only /v1/messages, /v1/messages/count_tokens \
                       and requests that cost nothing";
        return Err(ApiError::new(StatusCode::NOT_FOUND, message));
    }
    let (bytes, reservation) = body::read_request(incoming, &state.buffers).await?;
    request_log.record_request(&request_summary::parse(&bytes).unwrap_or_default(), &bytes, reservation);
    let upstream = &state.config.upstream;
    let uri = upstream.uri_for(&head.uri).ok_or_else(|| ApiError::bad_request("the path is invalid"))?;
    let Some(model) = model.filter(|_| has_model && !bytes.is_empty()) else {
        return Ok((uri, bytes));
    };
    let replaced = request_summary::replace_model(&bytes, model).ok_or_else(|| {
        ApiError::bad_request(
            "cannot replace the model: the body is not a JSON object, or names its model twice",
        )
    })?;
    Ok((uri, replaced.into()))
}

fn return_response(
    state: &ProxyState,
    reply: Response<NetworkBody>,
    mut request_log: RequestLog,
) -> Response<DynBody> {
    let (mut head, incoming) = reply.into_parts();
    request_log.record_status(head.status);
    head.headers = headers::for_client(head.headers);
    let reader =
        UsageReader::new(headers::text(&head.headers, &CONTENT_TYPE), headers::is_encoded(&head.headers));
    let relay = Relay::new(incoming.boxed_unsync(), request_log, reader, state.config.upstream_timeout);
    // The upstream's HTTP version is independent of the client's.
    head.version = http::Version::HTTP_11;
    Response::from_parts(head, relay.boxed_unsync())
}
