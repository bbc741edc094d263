//! Environments that lack something: the features that work, and the errors of the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nerve_testkit::harness::{CommandOutput, KillOnDrop};
use nerve_testkit::{skip, wait_until};

use crate::harness::{DEADLINE, Home, NERVE};
use crate::network::server_with_few_descriptors;

/// Id of a user that has no files.
const OTHER_USER: u32 = 12_345;

/// Prepares a command with a user namespace and a mount namespace of its own, in which `setup` has run as root. `None`, and the test
/// is skipped, if the system does not allow that.
fn isolated(test: &str, home: &Home, setup: &str, args: &[&str]) -> Option<Command> {
    let allowed = Command::new("unshare").args(["-rm", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        skip(test, "the system allows no namespaces");
        return None;
    }
    let mut command = home.hermetic.command("unshare");
    command.args(["-rm", "sh", "-ec", &format!("{setup}; exec \"$0\" \"$@\""), NERVE]).args(args);
    Some(command)
}

/// Removes the variables that stand for folders of the home.
fn without_folders(command: &mut Command) {
    for name in ["NERVE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
}

#[test]
fn missing_proc_is_explained() {
    let home = Home::new();
    let without_proc = |args: &[&str]| {
        let command = isolated("missing_proc_is_explained", &home, "mount -t tmpfs none /proc", args);
        command.map(|command| home.run(command))
    };
    let Some(start) = without_proc(&["server", "start"]) else { return };
    start.assert_stderr(1, &["/proc"]);
    let doctor = without_proc(&["doctor"]).unwrap();
    doctor.assert_stderr(1, &["essential checks failed: processes"]);
    assert!(doctor.stdout.contains("/proc does not show this process"), "{doctor:?}");
    assert_eq!(without_proc(&["record", "--", "echo", "works"]).unwrap().code, 0);
}

#[test]
fn log_is_followed_without_inotify() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let log = home.hermetic.work().join("log");
    let setup = "echo 0 >/proc/sys/user/max_inotify_instances";
    let follow = ["server", "logs", "--follow"];
    let Some(mut command) = isolated("log_is_followed_without_inotify", &home, setup, &follow) else {
        return;
    };
    command.stdin(Stdio::null()).stdout(fs::File::create(&log).unwrap());
    let _follower = KillOnDrop(command.spawn().unwrap());
    let has = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    assert!(wait_until(DEADLINE, || has("listening")));
    home.ok(&["server", "stop"]);
    assert!(wait_until(DEADLINE, || has("stopping")));
}

#[test]
fn nodes_leave_descriptors_for_clients() {
    let home = Home::new();
    let _server = server_with_few_descriptors(&home);
    let create = |number: usize| home.nerve(&["new", &format!("n{number}"), "-c", "sleep 600"]);
    let refused = (0..64).map(create).find(|created| created.code != 0).expect("64 nodes have more");
    refused.assert_stderr(1, &["64 file descriptors"]);
    assert!(home.ok(&["ls"]).contains("n0"));
    home.ok(&["stop", "n0"]);
    home.ok(&["new", "again", "-c", "sleep 600"]);
    home.ok(&["server", "stop"]);
}

#[test]
fn unknown_locale_keeps_utf_8() {
    let home = Home::new();
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("LC_ALL", "xx_XX.UTF-8");
        home.run(command).success()
    };
    run(&["server", "start"]);
    run(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    assert_eq!(run(&["send", "sh", "echo äöü ✳"]), "äöü ✳\n");
    run(&["server", "stop"]);
}

#[test]
fn long_tmpdir_is_explained_or_avoided() {
    let home = Home::new();
    let long = home.hermetic.root().join("x".repeat(100));
    fs::create_dir(&long).unwrap();
    let run = |args: &[&str], is_default: bool| {
        let mut command = home.command(args);
        command.env("TMPDIR", &long);
        if is_default {
            without_folders(&mut command);
            command.env_remove("XDG_RUNTIME_DIR");
        }
        home.run(command)
    };
    for args in [&["server", "start"][..], &["record", "--", "true"]] {
        run(args, true).assert_stderr(1, &["107", "NERVE_HOME"]);
    }
    run(&["server", "start"], false).success();
    run(&["new", "sh", "-c", "bash"], false).success();
    run(&["server", "stop"], false).success();
    run(&["demo"], true).success();
}

#[test]
fn read_only_home_is_explained() {
    let home = Home::new();
    let setup = "mount -t tmpfs none \"$HOME\"; mount -o remount,ro \"$HOME\"";
    for args in [&["server", "start"][..], &["server", "start", "--foreground"], &["record", "--", "true"]] {
        let Some(mut command) = isolated("read_only_home_is_explained", &home, setup, args) else { return };
        without_folders(&mut command);
        home.run(command).assert_stderr(1, &["Read-only", "NERVE_HOME"]);
    }
}

#[test]
fn unset_home_is_reported_and_replaced() {
    let home = Home::new();
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        without_folders(&mut command);
        command.env_remove("HOME").env_remove("XDG_RUNTIME_DIR");
        home.run(command)
    };
    let started = run(&["server", "start"]);
    let private = home.hermetic.root().join("tmp");
    started.assert_stderr(0, &["HOME is not set", &private.display().to_string()]);
    run(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]).success();
    assert_eq!(run(&["send", "sh", "echo works"]).success(), "works\n");
    run(&["server", "stop"]).success();
}

/// Runs a command of the program at `nerve` as another user, with this folder as home.
fn as_other(
    home: &Home,
    nerve: &Path,
    own: &Path,
    nerve_home: Option<&Path>,
    args: &[&str],
) -> CommandOutput {
    let mut command = home.hermetic.command("setpriv");
    let ids = [format!("--reuid={OTHER_USER}"), format!("--regid={OTHER_USER}")];
    command.args(ids).args(["--clear-groups", "--"]).arg(nerve).args(args).current_dir("/");
    without_folders(&mut command);
    // The runtime folder stays that of the first user, as after su.
    command.env("HOME", own).env("TMPDIR", own).envs(nerve_home.map(|home| ("NERVE_HOME", home)));
    home.run(command)
}

/// Copies the program to where any user can run it.
fn program_for_all(home: &Home) -> PathBuf {
    let copy = home.hermetic.root().join("nerve-program");
    fs::hard_link(NERVE, &copy).or_else(|_| fs::copy(NERVE, &copy).map(drop)).unwrap();
    set_mode(home.hermetic.root(), 0o711);
    copy
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn other_user_cannot_use_the_server() {
    if !rustix::process::geteuid().is_root() {
        return skip("other_user_cannot_use_the_server", "only root can be another user");
    }
    let home = Home::with_shell();
    let nerve = program_for_all(&home);
    let own = home.hermetic.root().join("o");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    set_mode(&own, 0o700);
    // Without settings, the two users have servers of the same name.
    let other = |args: &[&str]| as_other(&home, &nerve, &own, None, args);
    other(&["server", "status"]).assert_stderr(3, &["server 'default'"]);
    other(&["server", "start"]).success();
    assert!(!other(&["ls"]).success().contains("sh"));
    other(&["server", "stop"]).success();
    assert_eq!(home.ok(&["send", "sh", "echo fine"]), "fine\n");
    // With the first user's NERVE_HOME.
    let theirs = home.hermetic.nerve_home();
    let intrude = |args: &[&str]| as_other(&home, &nerve, &own, Some(&theirs), args);
    for args in [&["ls"][..], &["send", "sh", "echo no"]] {
        intrude(args).assert_stderr(1, &["Permission denied"]);
    }
    for args in [&["server", "start"][..], &["server", "stop"], &["record", "--", "true"]] {
        intrude(args).assert_stderr(1, &["Permission denied", "NERVE_HOME"]);
    }
    // With wrong modes, the server still checks the user of a client.
    for part in ["", "run", "run/default.sock"] {
        set_mode(&theirs.join(part), 0o777);
    }
    let refused = intrude(&["ls"]);
    assert!(refused.code == 1 && !refused.stdout.contains("sh"), "{refused:?}");
    assert_eq!(home.ok(&["send", "sh", "echo fine"]), "fine\n");
}
