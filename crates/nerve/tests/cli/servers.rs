//! Servers from start to stop, and what is left of those that ended badly.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use nerve_testkit::harness::{KillOnDrop, freeze, is_alive, signal};
use nerve_testkit::{wait_for, wait_until};
use rustix::process::Signal;

use crate::harness::{DEADLINE, Home, NERVE, pid_in};

#[test]
fn server_starts_answers_and_stops() {
    let home = Home::new();
    let started = home.ok(&["server", "start"]);
    assert!(started.starts_with("server 'default' started, pid "), "{started}");
    let pid = home.pid("default");
    assert!(started.contains(&pid.to_string()));
    assert!(home.ok(&["server", "status"]).contains("running"));
    home.ok(&["server", "start", "work"]);
    let list = home.nerve(&["server", "list", "--json"]).json();
    let names: Vec<&str> =
        list["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "work"]);
    let again = home.ok(&["server", "start"]);
    assert!(again.starts_with(&format!("server 'default' is already running, pid {pid}: ")), "{again}");
    home.nerve(&["server", "start", "--http", "127.0.0.1:0"])
        .assert_stderr(1, &["'default'", "--http", "nerve server stop default"]);
    assert_eq!(home.pid("default"), pid);
    assert_eq!(home.ok(&["server", "stop"]), "server 'default' stopped\n");
    let again = home.nerve(&["server", "stop"]);
    assert_eq!(again.stdout, "");
    again.assert_stderr(0, &["server 'default' is not running"]);
    home.nerve(&["server", "stop", "unknown"]).assert_stderr(3, &["server 'unknown'"]);
    home.nerve(&["server", "status"]).assert_code(3);
    assert_eq!(home.ok(&["server", "stop", "--all"]), "server 'work' stopped\n");
    assert_eq!(home.nerve(&["server", "list", "--json"]).json()["servers"].as_array().unwrap().len(), 0);
}

#[test]
fn started_server_is_printed_as_json() {
    let home = Home::new();
    let started = home.nerve(&["server", "start", "--http", "0", "--json"]).json();
    assert_eq!((&started["server_name"], &started["was_running"]), (&"default".into(), &false.into()));
    assert_eq!(pid_in(&started["pid"]), home.pid("default"));
    let status = home.nerve(&["server", "status", "--json"]).json();
    assert_eq!((&started["socket"], &started["http"]), (&status["socket"], &status["http"]));
    let again = home.nerve(&["server", "start", "--restore", "-j"]).json();
    assert_eq!((&again["pid"], &again["was_running"]), (&started["pid"], &true.into()));
    assert_eq!(again["restored"], serde_json::json!([]));
    let restarted = home.nerve(&["server", "restart", "--json"]).json();
    assert_eq!(pid_in(&restarted["pid"]), home.pid("default"));
    assert_eq!((&restarted["http"], &restarted["was_running"]), (&started["http"], &true.into()));
    home.ok(&["server", "stop"]);
    assert_eq!(home.nerve(&["server", "restart", "--json"]).json()["was_running"], false);
}

#[test]
fn restart_keeps_nodes_and_addresses() {
    let home = Home::new();
    home.ok(&["server", "start", "--http", "0"]);
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    home.ok(&["send", "sh", "kept=yes"]);
    let address = || home.nerve(&["server", "status", "--json"]).json()["http"].clone();
    let (pid, http) = (home.pid("default"), address());
    home.ok(&["new", "shot", "--backend", "bash"]);
    let restarted = home.nerve(&["server", "restart"]);
    assert!(restarted.stdout.contains("server 'default' started, pid "), "{restarted:?}");
    assert!(
        restarted
            .stderr
            .contains("warning: nodes that have no host, or whose programs exited, ended: shot\n"),
        "{restarted:?}"
    );
    assert_ne!(home.pid("default"), pid);
    assert_eq!(address(), http);
    home.ok(&["wait", "sh"]);
    assert_eq!(home.ok(&["send", "sh", "echo $kept"]), "yes\n");
    home.ok(&["server", "stop"]);
    assert!(home.ok(&["server", "restart"]).contains("started"));
}

#[test]
fn foreground_server_is_not_restarted() {
    let home = Home::new();
    let mut server = home.start(&["server", "start", "--foreground"]);
    assert!(wait_until(DEADLINE, || home.nerve(&["server", "status"]).code == 0));
    home.nerve(&["server", "restart"]).assert_stderr(1, &["background"]);
    assert!(server.0.try_wait().unwrap().is_none());
}

#[test]
fn server_log_is_printed_and_followed() {
    let home = Home::new();
    home.nerve(&["server", "logs"]).assert_stderr(3, &["server 'default'"]);
    home.ok(&["server", "start"]);
    let log = home.ok(&["server", "logs"]);
    assert!(log.contains("listening"), "{log}");
    assert_eq!(home.ok(&["server", "logs", "-n", "1"]).lines().count(), 1);
    let last = home.nerve(&["server", "logs", "-n", "1", "--json"]).json();
    assert_eq!((&last["server_name"], last["lines"].as_array().unwrap().len()), (&"default".into(), 1));
    let out = home.hermetic.work().join("followed");
    let mut follow = home.command(&["server", "logs", "-f"]);
    follow.stdout(fs::File::create(&out).unwrap());
    let _follow = KillOnDrop(follow.spawn().unwrap());
    let followed = || fs::read_to_string(&out).unwrap();
    assert!(wait_until(DEADLINE, || followed().contains("listening")));
    home.ok(&["server", "stop"]);
    home.ok(&["server", "start"]);
    assert!(wait_until(DEADLINE, || followed().matches("listening").count() == 2));
}

#[test]
fn environment_variable_names_the_server() {
    let home = Home::new();
    let run = |args: &[&str]| home.command(args).env("NERVE_SERVER", "work").output().unwrap();
    assert!(run(&["server", "start"]).status.success());
    assert!(home.ok(&["server", "status", "work"]).contains("running"));
    assert!(run(&["server", "node", "list"]).status.success());
    assert!(run(&["server", "stop"]).status.success());
}

#[test]
fn daemon_is_detached_and_its_log_private() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let pid = home.pid("default");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!(fields[3], pid.to_string(), "it leads a session of its own");
    let link = |fd: u32| fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
    let log = home.hermetic.nerve_home().join("logs/default.log");
    assert_eq!(link(0).to_str(), Some("/dev/null"));
    assert_eq!([link(1), link(2)], [log.clone(), log.clone()]);
    assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&log).unwrap().contains("listening"));
}

#[test]
fn foreground_server_stops_cleanly_on_signal() {
    let home = Home::new();
    let mut server = home.command(&["server", "start", "--foreground"]);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(wait_until(DEADLINE, || home.nerve(&["server", "status"]).code == 0));
    home.ok(&["server", "node", "create", "sh", "-c", "sleep 1000"]);
    signal(server.id(), Signal::INT);
    let status = wait_for(DEADLINE, || server.try_wait().unwrap()).expect("it did not stop");
    assert_eq!(status.code(), Some(0));
    assert!(!home.hermetic.nerve_home().join("run/default.sock").exists());
}

#[test]
fn killed_server_does_not_block_the_next() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    signal(home.pid("default"), Signal::KILL);
    assert!(wait_until(DEADLINE, || home.nerve(&["server", "status"]).code == 3));
    assert!(home.hermetic.nerve_home().join("run/default.sock").exists());
    home.ok(&["server", "start"]);
    home.ok(&["server", "status"]);
}

#[test]
fn unresponsive_server_is_ended_only_by_force() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let pid = home.pid("default");
    freeze(pid);
    home.nerve(&["server", "stop", "--timeout", "0.3"]).assert_stderr(4, &["0.3 s", "--force"]);
    home.nerve(&["server", "status"]).assert_stderr(1, &["respond"]);
    home.ok(&["server", "stop", "--timeout", "0.3", "--force"]);
    home.ok(&["server", "start"]);
    assert_ne!(home.pid("default"), pid);
}

/// Returns the state of the only server in the list.
fn listed_state(home: &Home) -> String {
    let list = home.nerve(&["server", "list", "--json"]).json();
    let servers = list["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{list:#}");
    servers[0]["state"].as_str().unwrap().to_string()
}

#[test]
fn server_without_socket_is_reported_and_repaired() {
    let home = Home::with_shell();
    let (pid, run) = (home.pid("default"), home.hermetic.nerve_home().join("run"));
    let delete_socket = || fs::remove_file(run.join("default.sock")).unwrap();
    let delete_all = || fs::remove_dir_all(&run).unwrap();
    for delete in [&delete_socket as &dyn Fn(), &delete_all] {
        delete();
        assert_eq!(listed_state(&home), "unreachable");
        home.nerve(&["server", "status"]).assert_stderr(1, &["default.sock", "nerve doctor --fix"]);
        home.nerve(&["server", "node", "list"]).assert_stderr(1, &["nerve doctor --fix"]);
        home.nerve(&["server", "start"]).assert_stderr(1, &[&pid.to_string(), "nerve doctor --fix"]);
        home.nerve(&["doctor"]).assert_stderr(1, &["server files"]);
        let repaired = home.nerve(&["doctor", "--fix"]);
        assert_eq!(repaired.code, 0, "{repaired:?}");
        assert_eq!((listed_state(&home), home.pid("default")), ("running".to_string(), pid));
        assert_eq!(home.ok(&["server", "node", "execute", "sh", "echo still"]), "still\n");
    }
}

#[test]
fn server_without_socket_is_stopped() {
    let home = Home::new();
    let run = home.hermetic.nerve_home().join("run");
    for (stop, is_kept) in
        [(&["server", "stop", "--keep-nodes"] as &[&str], true), (&["server", "stop"], false)]
    {
        home.ok(&["server", "start"]);
        if is_kept {
            home.ok(&["server", "node", "create", "sh", "-c", "bash --norc"]);
        }
        let pid = home.pid("default");
        fs::remove_file(run.join("default.sock")).unwrap();
        assert_eq!(home.ok(stop), "server 'default' stopped\n");
        assert!(wait_until(DEADLINE, || !is_alive(pid)));
        assert_eq!(home.hosts().len(), usize::from(is_kept));
    }
}

#[test]
fn stale_pid_is_never_killed() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["server", "stop"]);
    let mut stranger = home.hermetic.command("sleep").arg("1000").spawn().unwrap();
    let start = fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    let start = start.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().to_string();
    // Even with the right start time: the lock is free.
    let lock = home.hermetic.nerve_home().join("run/default.lock");
    fs::write(lock, format!("{} {start}\n", stranger.id())).unwrap();
    home.nerve(&["server", "stop", "--force"]).assert_stderr(0, &["not running"]);
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn file_at_socket_path_is_left_alone() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["server", "stop"]);
    let path = home.hermetic.nerve_home().join("run/default.sock");
    fs::write(&path, "precious").unwrap();
    home.nerve(&["server", "start"]).assert_stderr(1, &["socket"]);
    assert_eq!(fs::read_to_string(path).unwrap(), "precious");
}

/// The soft and the hard limit of open files of a process.
fn open_files(pid: impl std::fmt::Display) -> (String, String) {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[3].to_string(), words[4].to_string())
}

#[test]
fn raised_file_limit_is_not_inherited() {
    let home = Home::new();
    let (_, hard) = open_files("self");
    let mut start = home.hermetic.command("bash");
    start.args(["-c", "ulimit -Sn 512 && exec \"$@\"", "bash", NERVE, "server", "start", "--tcp", "0"]);
    assert_eq!(home.run(start).code, 0);
    let (soft, same) = open_files(home.pid("default"));
    assert_eq!(same, hard);
    let wanted = hard.parse().unwrap_or(u64::MAX).min(65_536);
    assert_eq!(soft.parse::<u64>().unwrap(), wanted.max(512));
    home.ok(&["server", "node", "create", "one", "--backend", "bash"]);
    assert_eq!(
        home.ok(&["server", "node", "execute", "one", "ulimit -Sn; ulimit -Hn"]),
        format!("512\n{hard}\n")
    );
    home.ok(&["server", "node", "create", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    assert_eq!(open_files(pid_in(&home.host_of("sh")["pid"])), ("512".to_string(), hard.clone()));
    assert_eq!(open_files(home.metadata("sh", "pid")), ("512".to_string(), hard));
}

#[test]
fn server_and_nodes_do_not_inherit_client_token() {
    let home = Home::new();
    let secret = "a-token-for-another-server-0123456789";
    let token_of_node = || home.ok(&["server", "node", "execute", "one", "echo \"[$NERVE_TOKEN]\""]);
    let environment = || {
        String::from_utf8_lossy(&fs::read(format!("/proc/{}/environ", home.pid("default"))).unwrap())
            .into_owned()
    };

    let mut start = home.command(&["server", "start"]);
    start.env("NERVE_TOKEN", secret);
    assert_eq!(home.run(start).code, 0);
    assert!(!environment().contains(secret));
    home.ok(&["server", "node", "create", "one", "--backend", "bash"]);
    assert_eq!(token_of_node(), "[]\n");
    home.ok(&["server", "stop"]);

    let mut server = home.command(&["server", "start", "--foreground"]);
    server.env("NERVE_TOKEN", secret).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    assert!(wait_until(DEADLINE, || home.nerve(&["server", "status"]).code == 0));
    assert_eq!(home.pid("default"), server.id());
    assert!(!environment().contains(secret));
    home.ok(&["server", "node", "create", "one", "--backend", "bash"]);
    assert_eq!(token_of_node(), "[]\n");
    home.ok(&["server", "stop"]);
    assert!(wait_for(DEADLINE, || server.try_wait().unwrap()).expect("it did not stop").success());
}

#[test]
fn file_size_limit_does_not_end_the_server() {
    let home = Home::new();
    let mut limited = home.hermetic.command("sh");
    limited.args(["-c", "ulimit -f 128; exec \"$0\" server start", NERVE]);
    assert_eq!(home.run(limited).code, 0);
    // The file of the sessions outgrows the limit, 64 or 128 KiB.
    let description = "x".repeat(1000);
    let created =
        |name: &str| home.nerve(&["session", "create", name, "--description", &description]).code == 0;
    let count = (0..200).take_while(|n| created(&format!("s{n}"))).count();
    assert!((1..200).contains(&count), "{count}");
    home.ok(&["server", "status"]);
    let list = home.ok(&["session", "list"]);
    assert!(list.contains("s0") && !list.contains(&format!("s{count} ")), "{list}");
    home.ok(&["server", "stop"]);
}
