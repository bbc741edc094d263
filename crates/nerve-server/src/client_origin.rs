//! The origin of the connection that is being served, known to all requests read from it.

use std::net::SocketAddr;

use nerve_node::client_origin::ClientOrigin;
use tokio::net::UnixStream;

tokio::task_local! {
    static CURRENT: ClientOrigin;
}

/// Serves a connection: requests that `work` reads come from `origin`.
pub(crate) async fn scope<F: Future>(origin: ClientOrigin, work: F) -> F::Output {
    CURRENT.scope(origin, work).await
}

/// Returns the origin of the connection that this task serves.
pub(crate) fn current() -> ClientOrigin {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Returns the origin of the connection that this task serves, with the id of the request's web session.
pub(crate) fn in_session(id: Option<String>) -> ClientOrigin {
    let origin = current();
    match id {
        Some(id) => ClientOrigin::new(origin.transport, format!("{}, web session {id}", origin.client)),
        None => origin,
    }
}

/// Describes the peer of a Unix socket by its user and process.
pub(crate) fn unix(stream: &UnixStream) -> ClientOrigin {
    let peer = stream.peer_cred().ok();
    let user = peer.map(|peer| format!("uid {}", peer.uid()));
    let process = peer.and_then(|peer| peer.pid()).map(|pid| format!("pid {pid}"));
    let client: Vec<String> = [user, process].into_iter().flatten().collect();
    ClientOrigin::new("unix", client.join(" "))
}

/// Describes a peer in the network by its address.
pub(crate) fn network(transport: &'static str, peer: SocketAddr) -> ClientOrigin {
    ClientOrigin::new(transport, peer.to_string())
}
