//! `nerve hook`: run by an agent, passes on what the agent told, and never gets in its way.

use std::io::Read;
use std::os::unix::net::UnixDatagram;

use nerve_core::executions::trace::Announcement;
use nerve_core::node::hooks::filter_hook_input;

use crate::cli::local::HookArgs;

/// What an agent gives its hook is read up to here: answers can be long, and only names are passed on.
const INPUT_LIMIT: u64 = 16 << 20;

/// Passes on one message. Says nothing and always succeeds: what a hook prints or returns would change what the agent does.
pub(crate) fn run(args: &HookArgs) {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_LIMIT).read_to_end(&mut input);
    let Ok(message) = read.map_err(drop).and_then(|_| serde_json::from_slice(&input).map_err(drop)) else {
        return;
    };
    if let (Some(announced), Some(folder)) = (Announcement::of(&message), args.socket.parent()) {
        // A command that cannot be noted runs as it would without us.
        return announced.note(folder).unwrap_or_default();
    }
    let Ok(socket) = UnixDatagram::unbound() else { return };
    // A node that does not listen any more misses nothing.
    let _ = socket.set_nonblocking(true);
    let _ = socket.send_to(filter_hook_input(&message).to_string().as_bytes(), &args.socket);
}
