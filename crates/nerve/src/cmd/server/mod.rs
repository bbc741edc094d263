//! `nerve server`: start, stop, status, list; and the way from a name to a connection.

pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;

use anyhow::Result;
use nerve_client::{ClientError, NerveClient};
use nerve_server::paths::Places;

use crate::exit::{Failure, NOT_FOUND};

/// Connects to a server by its name.
///
/// # Errors
/// Exit code 3 when it does not run.
pub(crate) async fn connect(server: &str) -> Result<NerveClient> {
    let socket = Places::from_env().socket(server)?;
    match NerveClient::connect(&socket).await {
        Ok(client) => Ok(client),
        Err(ClientError::NotRunning { .. }) => Err(not_running(server).into()),
        Err(error) => Err(error.into()),
    }
}

fn not_running(server: &str) -> Failure {
    let start = if server == "default" { String::new() } else { format!(" {server}") };
    Failure::new(NOT_FOUND, format!("server '{server}' is not running"))
        .hint(format!("start it with 'nerve server start{start}'"))
}
