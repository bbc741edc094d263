//! `nerve top` in a pseudo-terminal.

use nerve_types::Size;

use crate::harness::{Home, NERVE};
use crate::tty::Tty;

const SIZE: Size = Size { cols: 120, rows: 30 };
/// The prefix, as terminals with the kitty keyboard protocol send it.
const PREFIX: &str = "\x1b[93;5u";

/// A server with an agent and a shell.
fn home() -> Home {
    let home = Home::with_shell();
    let agent = format!("{NERVE} mock-agent");
    home.ok(&["server", "node", "create", "agent", "-c", &agent, "--profile", "claude"]);
    home
}

#[test]
fn top_prompts_answers_attaches_and_stops() {
    let home = home();
    let mut top = Tty::new(&home, SIZE, &["top"]);
    top.expect("2 nodes  2 ready");
    top.send("pPERMIT\r");
    top.expect("blocked: permission");
    top.send("a");
    top.expect("answer of 'agent':");
    top.send("1");
    top.expect("END-OF-TOOL");
    top.expect("2 ready");
    top.send("w");
    top.expect("agent is ready");
    top.send("q");
    top.send("r");
    // The viewer of recordings.
    top.expect("h help");
    top.send("q");
    top.expect("2 ready");
    top.send("G\r");
    // The viewer shows its state in another place.
    top.expect("ctrl+]");
    top.send(&format!("{PREFIX}d"));
    top.expect("2 nodes  2 ready");
    top.send("gsy");
    top.expect("node 'agent' stopped");
    top.expect("2 nodes  1 ready  1 stopped");
    top.send("p");
    top.expect("node 'agent' is stopped: Enter starts it");
    // The mock agent does not report the id of its conversation.
    top.send("\r");
    top.expect("`nerve start agent --fresh`");
    top.send("x");
    top.expect("1 node  1 ready");
    top.send("sy");
    top.expect("1 stopped");
    top.send("\r");
    top.expect("1 node  1 ready");
    top.send("pecho hello\r");
    top.expect("'nerve result ");
    top.send("q");
    assert_eq!(top.wait_for_exit(), Some(0));
}

#[test]
fn top_follows_servers_and_nodes() {
    let home = Home::new();
    let mut top = Tty::new(&home, SIZE, &["top"]);
    top.expect("no server is running");
    home.ok(&["server", "start", "night"]);
    home.ok(&["server", "node", "create", "one", "-c", "bash", "--server", "night"]);
    top.expect("night/default");
    home.ok(&["server", "node", "execute", "one", "echo $((20 + 3)) lines", "--server", "night"]);
    top.expect("23 lines");
    home.ok(&["server", "stop", "night"]);
    top.expect("no server is running");
    top.send("\x03");
    assert_eq!(top.wait_for_exit(), Some(0));
}

#[test]
fn node_created_in_top_gets_a_free_name() {
    let home = Home::with_shell();
    let mut top = Tty::new(&home, SIZE, &["top"]);
    top.expect("1 node  ");
    for name in ["bash", "bash2"] {
        top.send("nbash\r");
        top.expect(&format!("node '{name}' created"));
    }
    top.expect("3 nodes");
    top.send("nno-such-program\r");
    top.expect("was not started: no program 'no-such-program'");
    top.send("q");
    assert_eq!(top.wait_for_exit(), Some(0));
}
