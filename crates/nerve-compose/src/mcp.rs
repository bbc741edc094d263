//! Mounts MCP's tools and resources on a server's HTTP listener or on a separate gate.

use nerve_mcp::Config;
use nerve_mcp::http::{HttpService, PATH};
use nerve_mcp::link::Link;
use nerve_record::store::Store;
use nerve_server::config::ServerConfig;
use nerve_server::error::ServerError;
use nerve_server::{Mount, ShutdownSignal};

/// Returns a mount for MCP at the path `/mcp`. `make` creates the configuration, once per server.
pub fn create_mcp(make: impl Fn() -> Config + Send + Sync + 'static) -> Mount {
    Mount::new(PATH, move |closing: ShutdownSignal| {
        let service = HttpService::new(make(), closing.begun());
        closing.wait_for(service.clone().ended());
        move |request| {
            let service = service.clone();
            async move { service.answer(request).await }
        }
    })
}

/// Returns a mount for the server of `config` itself, to be added to its `mounts`. The tools use the server's Unix socket.
///
/// # Errors
/// The server's name is invalid, or its socket's path is too long.
pub fn create_mcp_of(config: &ServerConfig) -> Result<Mount, ServerError> {
    let (socket, recordings) = (config.paths.socket(&config.name)?, config.paths.data.recordings.clone());
    Ok(create_mcp(move || Config {
        link: Link::to_socket(socket.clone()),
        recordings: Some(Store::new(recordings.clone())),
        machines: None,
        legacy_tools: false,
    }))
}
