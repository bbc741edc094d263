//! Agents that speak the Agent Client Protocol as nodes at the command line, with the stand-in of the testkit.

use nerve_testkit::harness::{example, is_alive};
use nerve_testkit::wait_until;

use crate::graphs::{graph, with_server, write};
use crate::harness::{DEADLINE, Home};

fn home_with_node() -> Home {
    let home = Home::new();
    let agent = example("acp_agent").display().to_string();
    home.ok(&["server", "start"]);
    assert_eq!(home.ok(&["new", "a", "-b", "acp", "-c", &agent]), "node 'a' created\n");
    home
}

#[test]
fn acp_node_answers_streams_and_asks() {
    let home = home_with_node();
    assert_eq!(home.ok(&["send", "a", "hello"]), "You said: hello\n");
    let streamed = home.ok(&["send", "a", "again", "--stream"]);
    assert!(streamed.contains("You said: again"), "{streamed:?}");
    home.nerve(&["send", "a", "PERMIT"]).assert_stderr(5, &["touch a", "Allow once"]);
    assert!(home.ok(&["ls"]).contains("blocked"));
    assert!(home.ok(&["answer", "a", "1", "--wait"]).contains("a: once"));
    let log = home.ok(&["logs", "a"]);
    assert!(log.contains("hello") && log.contains("Allow once"), "{log}");
    home.nerve(&["send", "a", "FAIL"]).assert_stderr(9, &["the model is overloaded"]);
    // There is no terminal and no recording.
    for arguments in
        [&["attach", "a"][..], &["view", "a"], &["replay", "a"], &["node", "write", "a", "--key", "enter"]]
    {
        let done = home.nerve(arguments);
        assert!(done.code != 0 && done.stderr.contains("hint: "), "{arguments:?}: {done:?}");
    }
    let refused = home.nerve(&["new", "b", "-b", "acp"]);
    assert!(refused.code != 0 && refused.stderr.contains("opencode acp"), "{refused:?}");
}

#[test]
fn session_is_resumed_after_a_crash_of_the_server() {
    let home = home_with_node();
    home.ok(&["send", "a", "hello"]);
    let pid: u32 = home.metadata("a", "pid").parse().unwrap();
    let session = home.metadata("a", "conversation_id");
    // The session is written to the disk before the reply.
    home.ok(&["new", "sh", "-b", "bash"]);
    home.kill_server("default");
    assert!(wait_until(DEADLINE, || !is_alive(pid)), "the agent survives the server");
    home.ok(&["server", "start"]);
    home.ok(&["start", "a"]);
    assert_eq!(home.metadata("a", "conversation_id"), session);
    assert!(home.ok(&["send", "a", "RECALL"]).starts_with("hello"));
    let transcript = home.ok(&["transcript", "a"]);
    assert!(transcript.contains("hello") && transcript.contains("RECALL"), "{transcript}");
}

#[test]
fn graph_file_declares_an_acp_node() {
    let home = with_server();
    let agent = example("acp_agent").display().to_string();
    let file = format!(
        "graph: g\nnodes:\n  oc: {{type: acp, command: ['{agent}']}}\nsteps:\n  \
         - {{id: first, node: oc, input: hello}}\n  \
         - {{id: second, node: oc, input: RECALL, depends_on: first}}\n"
    );
    write(&home, "g.yaml", &file);
    let done = graph(&home, &["run", "g.yaml"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.starts_with("== first\nYou said: hello\n== second\nhello"), "{done:?}");
}
