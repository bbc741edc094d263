//! The tools and resources of MCP over HTTP: at a path of a server's own HTTP, or behind a gate of their own.

use nerve_mcp::Config;
use nerve_mcp::http::{HttpService, PATH};
use nerve_mcp::link::Link;
use nerve_record::store::Store;
use nerve_server::error::ServerError;
use nerve_server::server::ServerConfig;
use nerve_server::{Closing, Mount};

/// MCP at the path `/mcp`. `make`: what is served there; it is asked once for each server that has it.
pub fn create_mcp(make: impl Fn() -> Config + Send + Sync + 'static) -> Mount {
    Mount::new(PATH, move |closing: Closing| {
        let service = HttpService::new(make(), closing.begun());
        closing.wait_for(service.clone().ended());
        move |request| {
            let service = service.clone();
            async move { service.answer(request).await }
        }
    })
}

/// The same for the server of `config` itself, which the tools reach over its Unix socket: to be put among its `mounts`.
///
/// # Errors
/// Its name is bad, or the socket's path too long.
pub fn create_mcp_of(config: &ServerConfig) -> Result<Mount, ServerError> {
    let (socket, recordings) = (config.places.socket(&config.name)?, config.places.recordings());
    Ok(create_mcp(move || Config {
        link: Link::to_socket(socket.clone()),
        recordings: Some(Store::new(recordings.clone())),
    }))
}
