//! Operations that are no single request: lines, shutdown, health, recordings.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use nerve_api::RequestName;
use nerve_record::shelf::{self, Shelved};
use nerve_record::store::Store;
use nerve_term::event::ExitStatus;
use serde_json::{Map, Value, json};

use super::body::Sent;
use super::operation::Operation;
use super::page::{Page, RECORDINGS};
use super::problem::Problem;
use super::resource::{Line, execute, held, json_body, line, raw_query};
use super::{Shared, body, query};

/// Reports that the server runs. Needs no token.
pub(crate) fn health() -> Response {
    json_body(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }).to_string())
}

/// Executes the request in the body, as a connection would.
pub(crate) async fn any(State(shared): State<Shared>, request: Request) -> Result<Response, Problem> {
    let sent = body::read(request.into_body(), &shared.budget).await?;
    let Line { bytes: mut answer, share } = line(sent, &shared).await?;
    answer.truncate(answer.trim_ascii_end().len());
    // A request that failed was answered; a line that is no request was not.
    let understood = !answer.starts_with(b"{\"type\":\"error\"");
    let mut response = json_body(held(answer, share));
    if !understood {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

/// Stops the server.
pub(crate) async fn shutdown(State(shared): State<Shared>, request: Request) -> Result<Response, Problem> {
    let Sent { bytes: sent, share } = body::read(request.into_body(), &shared.budget).await?;
    let params: Map<String, Value> = match sent.trim_ascii() {
        b"" => Map::new(),
        sent => serde_json::from_slice(sent).map_err(|_| Problem::invalid("body: expected a JSON object"))?,
    };
    let result = execute(RequestName::Shutdown, params, &shared, share).await?.0;
    match result.success {
        true => Ok(json_body(result.data.to_string())),
        false => Err(Problem::of(result)),
    }
}

/// Lists the recordings on this machine, of all servers.
pub(crate) async fn recordings(
    operation: &'static Operation,
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Problem> {
    let mut params = query::read(operation.query(), &raw_query(request.uri())?)?;
    let page = Page::take(&mut params)?;
    let store = Store::new(shared.recordings.as_ref());
    // One walk at a time: the folder may have thousands of files.
    let _turn = shared.shelf.acquire().await.map_err(|_| Problem::internal("the server goes down"))?;
    let looked = tokio::task::spawn_blocking(move || shelf::list(&store)).await;
    let all = looked.map_err(|_| Problem::internal("recordings cannot be listed: this is a bug in nerve"))?;
    let items: Vec<Value> = all.iter().filter(|shelved| !shelved.empty).map(recording).collect();
    let mut data = Map::from_iter([("recordings".to_string(), Value::from(items))]);
    page.cut(RECORDINGS, &mut data);
    Ok(json_body(Value::Object(data).to_string()))
}

fn recording(shelved: &Shelved) -> Value {
    let exit = shelved.exit.map(|exit| match exit {
        ExitStatus::Code(code) => json!({ "code": code }),
        ExitStatus::Signal(signal) => json!({ "signal": signal }),
        ExitStatus::Unknown => json!({}),
    });
    json!({
        "id": shelved.id,
        "path": shelved.path,
        "started_at": shelved.started.map(|at| at.0 as f64 / 1e9),
        "duration": shelved.duration.map(|duration| duration.as_secs_f64()),
        "bytes": shelved.bytes,
        "cols": shelved.size.map(|size| size.cols),
        "rows": shelved.size.map(|size| size.rows),
        "command": shelved.command,
        "exit": exit,
        "snapshots": shelved.snapshots,
        "live": shelved.live,
    })
}
