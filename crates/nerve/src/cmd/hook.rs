//! `nerve hook`: run by an agent, forwards the hook's input to the node and never disturbs the agent.

use std::io::Read;
use std::os::unix::net::UnixDatagram;

use nerve_node::hooks::filter_hook_input;
use nerve_record::executions::trace::Announcement;

use nerve_cli::local_commands::HookArgs;

/// Maximum hook input to read, in bytes. Answers can be long, and only names are forwarded.
const INPUT_LIMIT: u64 = 16 << 20;

/// Runs `nerve hook SOCKET` without the parser of the command line, which takes longer than the rest: the end of a turn waits for it.
/// Returns false for any other command line.
pub(crate) fn run_if_invoked() -> bool {
    let mut args = std::env::args_os().skip(1);
    let (Some(name), Some(socket), None) = (args.next(), args.next(), args.next()) else { return false };
    let is_invoked =
        name == "hook" && socket.as_encoded_bytes().starts_with(b"/") && !nerve_cli::ah::is_invoked();
    if is_invoked {
        run(&HookArgs { socket: socket.into() });
    }
    is_invoked
}

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
