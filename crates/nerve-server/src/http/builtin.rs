//! Operations that are not a single command of the protocol: raw commands, shutdown, health, recordings.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use nerve_api::RequestName;
use nerve_record::library::{self, RecordingInfo};
use nerve_record::store::Store;
use nerve_types::ExitStatus;
use serde_json::{Map, Value, json};

use super::body::ReceivedBody;
use super::operation::Operation;
use super::page::{Page, RECORDINGS};
use super::problem::Problem;
use super::resource::{Line, execute, held, json_body, line, raw_query};
use super::{Shared, body, query};

/// Answers that the server is alive, without authentication.
pub(crate) fn health() -> Response {
    json_body(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }).to_string())
}

/// Executes any command of the protocol.
pub(crate) async fn raw_command(State(shared): State<Shared>, request: Request) -> Result<Response, Problem> {
    let sent = body::read(request.into_body(), &shared.budget).await?;
    let Line { bytes: mut answer, share } = line(sent, &shared).await?;
    answer.truncate(answer.trim_ascii_end().len());
    // A failed command is a valid response; a request that is no command is not.
    let understood = !answer.starts_with(b"{\"type\":\"error\"");
    let mut response = json_body(held(answer, share));
    if !understood {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

/// Shuts the server down.
pub(crate) async fn shutdown(State(shared): State<Shared>, request: Request) -> Result<Response, Problem> {
    let ReceivedBody { bytes: sent, share } = body::read(request.into_body(), &shared.budget).await?;
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

/// Lists the recordings on this machine, whichever server made them.
pub(crate) async fn recordings(
    operation: &'static Operation,
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Problem> {
    let mut params = query::read(operation.query(), &raw_query(request.uri())?)?;
    let page = Page::from_params(&mut params)?;
    let store = Store::new(shared.recordings.as_ref());
    // One listing at a time: the directory may contain thousands of files.
    let _turn = shared
        .recordings_lock
        .acquire()
        .await
        .map_err(|_| Problem::internal("the server is shutting down"))?;
    let looked = tokio::task::spawn_blocking(move || library::list(&store)).await;
    let all = looked.map_err(|_| Problem::internal("recordings cannot be listed: this is a bug in nerve"))?;
    let items: Vec<Value> = all.iter().filter(|info| !info.empty).map(recording).collect();
    let mut data = Map::from_iter([("recordings".to_string(), Value::from(items))]);
    page.apply(RECORDINGS, &mut data);
    Ok(json_body(Value::Object(data).to_string()))
}

fn recording(info: &RecordingInfo) -> Value {
    let exit = info.exit.map(|exit| match exit {
        ExitStatus::Code(code) => json!({ "code": code }),
        ExitStatus::Signal(signal) => json!({ "signal": signal }),
        ExitStatus::Unknown => json!({}),
    });
    json!({
        "id": info.id,
        "path": info.path,
        "started_at": info.started.map(|at| at.0 as f64 / 1e9),
        "duration": info.duration.map(|duration| duration.as_secs_f64()),
        "bytes": info.bytes,
        "cols": info.size.map(|size| size.cols),
        "rows": info.size.map(|size| size.rows),
        "command": info.command,
        "exit": exit,
        "snapshots": info.snapshots,
        "live": info.live,
    })
}
