//! `nerve notify`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use nerve_testkit::{wait_for, wait_until};
use nerve_types::Size;

use crate::harness::{DEADLINE, Home, NERVE};
use crate::tty::Tty;

/// A server with an agent that asks for permission.
fn home() -> Home {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let agent = format!("{NERVE} mock-agent");
    home.ok(&["server", "node", "create", "me", "-c", &agent, "--profile", "claude"]);
    home
}

#[test]
fn dialog_is_notified_once_on_each_channel() {
    let home = home();
    let (listener, output) = (TcpListener::bind("127.0.0.1:0").unwrap(), home.hermetic.work().join("out"));
    let hook = format!("http://{}/hook", listener.local_addr().unwrap());
    let command = format!("echo \"$NERVE_NOTIFY_OCCASION: $NERVE_NOTIFY_TEXT\" >> {}", output.display());
    let args = ["notify", "--on", "blocked", "--command", &command, "--webhook", &hook];
    let mut notify = Tty::with_stderr(home.command(&args), Size::new(100, 10));
    notify.expect("notifying about server 'default'");
    home.nerve(&["server", "node", "execute", "me", "PERMIT"]);
    listener.set_nonblocking(true).unwrap();
    let (mut stream, _) = wait_for(DEADLINE, || listener.accept().ok()).expect("no request");
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut request = Vec::new();
    while !String::from_utf8_lossy(&request).contains("NODE_BLOCKED") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&bytes[..count]);
    }
    assert!(request.starts_with(b"POST /hook "));
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let written = || fs::read_to_string(&output).unwrap_or_default();
    assert!(
        wait_until(DEADLINE, || written().starts_with("blocked: me is blocked (permission)")),
        "{}",
        written()
    );
    notify.expect("me is blocked");
    home.ok(&["server", "stop"]);
    assert_eq!(notify.wait_for_exit(), Some(0));
    assert_eq!(written().lines().count(), 1, "{}", written());
}

#[test]
fn restart_does_not_repeat_open_dialogs() {
    let home = home();
    let output = home.hermetic.work().join("out");
    let command = format!("echo \"$NERVE_NOTIFY_TEXT\" >> {}", output.display());
    let args = ["notify", "--on", "blocked,done", "--min-turn", "0", "--command", &command];
    let mut notify = Tty::with_stderr(home.command(&args), Size::new(100, 10));
    notify.expect("notifying about server 'default'");
    home.nerve(&["send", "me", "PERMIT"]);
    notify.expect("me is blocked");
    home.ok(&["server", "restart"]);
    home.ok(&["wait", "me", "--until", "blocked"]);
    home.ok(&["answer", "me", "1", "--wait"]);
    notify.expect("me is done after");
    let written = || fs::read_to_string(&output).unwrap_or_default();
    assert!(wait_until(DEADLINE, || written().contains("is done")), "{}", written());
    assert_eq!(written().matches("me is blocked").count(), 1, "{}", written());
    home.ok(&["server", "stop"]);
    assert_eq!(notify.wait_for_exit(), Some(0));
}

#[test]
fn equal_dialog_after_an_answer_between_servers_is_notified() {
    let home = home();
    let output = home.hermetic.work().join("out");
    let command = format!("echo \"$NERVE_NOTIFY_TEXT\" >> {}", output.display());
    let args = ["notify", "--on", "blocked", "--command", &command];
    let mut notify = Tty::with_stderr(home.command(&args), Size::new(100, 10));
    notify.expect("notifying about server 'default'");
    home.nerve(&["send", "me", "PERMIT"]);
    notify.expect("me is blocked");
    home.ok(&["server", "stop", "--keep-nodes"]);
    let attach = Tty::new(&home, Size::new(100, 30), &["attach", "me"]);
    attach.expect("Do you want to proceed?");
    attach.send("\r");
    attach.expect("END-OF-TOOL");
    attach.send("PERMIT again");
    attach.expect("PERMIT again");
    attach.send("\r");
    attach.expect("Do you want to proceed?");
    home.ok(&["server", "start"]);
    let written = || fs::read_to_string(&output).unwrap_or_default();
    assert!(wait_until(DEADLINE, || written().matches("me is blocked").count() == 2), "{}", written());
    home.ok(&["server", "stop"]);
    assert_eq!(notify.wait_for_exit(), Some(0));
}

#[test]
fn two_commands_notify_once_on_a_channel() {
    let home = home();
    let path = |name: &str| home.hermetic.work().join(name);
    let command = |name: &str| format!("echo \"$NERVE_NOTIFY_TEXT\" >> {}", path(name).display());
    let (shared, other) = (command("shared"), command("other"));
    let commands = [&shared, &shared, &other].map(|command| {
        let args = ["notify", "--on", "blocked", "--command", command];
        let notify = Tty::with_stderr(home.command(&args), Size::new(100, 10));
        notify.expect("notifying about server 'default'");
        notify
    });
    home.nerve(&["send", "me", "PERMIT"]);
    home.ok(&["answer", "me", "1", "--wait"]);
    home.nerve(&["send", "me", "PERMIT"]);
    home.ok(&["server", "stop"]);
    for mut notify in commands {
        notify.expect("me is blocked");
        assert_eq!(notify.wait_for_exit(), Some(0));
    }
    for name in ["shared", "other"] {
        let written = fs::read_to_string(path(name)).unwrap();
        assert_eq!(written.matches("me is blocked").count(), 2, "{name}: {written}");
    }
}

#[test]
fn failing_channels_are_reported_and_delay_nothing() {
    let home = home();
    let args = [
        "notify",
        "--min-turn",
        "0",
        "--command",
        "test $NERVE_NOTIFY_OCCASION = blocked && sleep 60; exit 3",
    ];
    let mut notify = Tty::with_stderr(home.command(&args), Size::new(100, 20));
    notify.expect("notifying about");
    home.nerve(&["server", "node", "execute", "me", "PERMIT"]);
    notify.expect("me is blocked");
    home.ok(&["server", "node", "answer", "me", "1"]);
    notify.expect("me is done after");
    notify.expect("not notified: the command failed: exit status: 3");
    notify.send("\x03");
    assert_eq!(notify.wait_for_exit(), Some(130));
}

#[test]
fn settings_and_options_select_channels() {
    let home = Home::new();
    home.nerve(&["notify"]).assert_stderr(2, &["--webhook"]);
    home.nerve(&["notify", "--on", "nosuch"]).assert_code(2);
    home.nerve(&["notify", "--test", "--command", "exit 7"]).assert_stderr(1, &["exit status: 7"]);
    home.nerve(&["notify", "--test", "--ntfy", "http://127.0.0.1:9/topic"]).assert_stderr(1, &["ntfy"]);
    let path = home.ok(&["config", "path"]);
    fs::create_dir_all(std::path::Path::new(path.trim()).parent().unwrap()).unwrap();
    fs::write(path.trim(), "[notify]\ncommand = \"cat > sent\"\n").unwrap();
    assert_eq!(home.ok(&["notify", "--test"]), "sent\n");
    assert_eq!(home.nerve(&["notify", "--test", "--json"]).json(), serde_json::json!({ "sent": true }));
    assert!(fs::read_to_string(home.hermetic.work().join("sent")).unwrap().contains("TEST"));
    home.nerve(&["notify"]).assert_stderr(3, &["server 'default'"]);
}

#[test]
fn open_dialogs_are_printed_and_not_notified() {
    let home = home();
    home.nerve(&["send", "me", "PERMIT"]);
    let output = home.hermetic.work().join("out");
    let command = format!("echo \"$NERVE_NOTIFY_TEXT\" >> {}", output.display());
    let args = ["notify", "--on", "blocked,done", "--min-turn", "0", "--command", &command];
    let mut notify = Tty::with_stderr(home.command(&args), Size::new(100, 10));
    notify.expect("me is blocked (permission) since before");
    home.ok(&["answer", "me", "1", "--wait"]);
    let written = || fs::read_to_string(&output).unwrap_or_default();
    assert!(wait_until(DEADLINE, || written().contains("me")), "{}", written());
    assert!(!written().contains("blocked"), "{}", written());
    home.ok(&["server", "stop"]);
    assert_eq!(notify.wait_for_exit(), Some(0));
}
