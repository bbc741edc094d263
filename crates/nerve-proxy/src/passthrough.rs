//! Anthropic's API behind: everything is passed on.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Bytes;

use crate::api_error::Fault;
use crate::body::{self, AnyBody};
use crate::headers;
use crate::model;
use crate::path;
use crate::relay::Relay;
use crate::request_body::Arriving;
use crate::request_log::Call;
use crate::state::Gateway;
use crate::usage::Reader;

/// Passes a request on, and its reply back.
pub(crate) async fn pass_on(
    gateway: &Gateway,
    request: Request<Arriving>,
    mut call: Call,
) -> Result<Response<AnyBody>, (Fault, Call)> {
    let (head, incoming) = request.into_parts();
    let prepared = prepare(gateway, &head, incoming, &mut call).await;
    let (uri, bytes) = match prepared {
        Ok(prepared) => prepared,
        Err(fault) => return Err((fault, call)),
    };
    let spends = path::spends(&head.method, head.uri.path());
    if spends && let Err(fault) = gateway.ledger.admit() {
        return Err((fault, call));
    }
    let mut onward = Request::new(bytes);
    *onward.method_mut() = head.method;
    *onward.uri_mut() = uri;
    *onward.headers_mut() = headers::of_request(head.headers, gateway.config.api_key.as_ref());
    match gateway.client.send(onward, &gateway.config.upstream).await {
        Ok(reply) => Ok(pass_back(gateway, reply, call)),
        Err(failed) => {
            if spends && !failed.was_sent {
                gateway.ledger.give_back();
            }
            Err((failed.fault, call))
        }
    }
}

async fn prepare(
    gateway: &Gateway,
    head: &Parts,
    incoming: Arriving,
    call: &mut Call,
) -> Result<(http::Uri, Bytes), Fault> {
    path::check(&head.uri)?;
    let model = gateway.config.model.as_deref();
    let names_a_model = path::names_a_model(head.uri.path());
    // What costs something must not go on with a model that is not meant.
    if model.is_some() && !names_a_model && path::spends(&head.method, head.uri.path()) {
        let message = "the proxy puts another model into requests: it passes on /v1/messages and /v1/messages/count_tokens, \
                       and nothing else that may cost something";
        return Err(Fault::new(StatusCode::NOT_FOUND, message));
    }
    let (bytes, place) = body::of_request(incoming, &gateway.room).await?;
    call.asked(&model::asked(&bytes).unwrap_or_default(), &bytes, place);
    let upstream = &gateway.config.upstream;
    let uri = upstream.passed_on(&head.uri).ok_or_else(|| Fault::bad_request("the path is none"))?;
    let Some(model) = model.filter(|_| names_a_model && !bytes.is_empty()) else {
        return Ok((uri, bytes));
    };
    let replaced = model::replaced(&bytes, model).ok_or_else(|| {
        Fault::bad_request(
            "the body is no JSON object, or names its model twice: the proxy cannot put another model there",
        )
    })?;
    Ok((uri, replaced.into()))
}

fn pass_back(gateway: &Gateway, reply: Response<Arriving>, mut call: Call) -> Response<AnyBody> {
    let (mut head, incoming) = reply.into_parts();
    call.status = Some(head.status.as_u16());
    head.headers = headers::of_reply(head.headers);
    let reader = Reader::new(headers::text(&head.headers, &CONTENT_TYPE), headers::is_encoded(&head.headers));
    let relay = Relay::new(incoming.boxed_unsync(), call, reader, gateway.config.patience);
    // The version of the upstream's connection is not that of the client's.
    head.version = http::Version::HTTP_11;
    Response::from_parts(head, relay.boxed_unsync())
}
