//! `nerve hook`: run by an agent, forwards the hook's input to the node and never disturbs the agent.

use std::io::Read;
use std::os::unix::net::UnixDatagram;

use nerve_node::hooks::filter_hook_input;
use nerve_record::executions::trace::Announcement;

use nerve_cli::local_commands::HookArgs;

/// Maximum hook input to read, in bytes. Answers can be long, and only names are forwarded.
const INPUT_LIMIT: u64 = 16 << 20;

/// Forwards one message. Prints nothing and always succeeds, because a hook's output and exit code would affect the
/// agent.
pub(crate) fn run(args: &HookArgs) {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_LIMIT).read_to_end(&mut input);
    let Ok(message) = read.map_err(drop).and_then(|_| serde_json::from_slice(&input).map_err(drop)) else {
        return;
    };
    if let (Some(announcement), Some(folder)) =
        (Announcement::from_hook_input(&message), args.socket.parent())
    {
        // If the command cannot be announced, it runs without recording.
        return announcement.store(folder).unwrap_or_default();
    }
    let Ok(socket) = UnixDatagram::unbound() else { return };
    // A node that has stopped listening needs no message.
    let _ = socket.set_nonblocking(true);
    let _ = socket.send_to(filter_hook_input(&message).to_string().as_bytes(), &args.socket);
}
