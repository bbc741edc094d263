//! Recordings that cannot be written: the session continues and the failure is reported once.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nerve_api::request::Subscribe;
use nerve_client::NerveClient;
use nerve_testkit::harness::{SmallDisk, is_alive};
use nerve_testkit::{skip, wait_until};
use nerve_types::Size;

use crate::harness::{DEADLINE, Home, pid_in};
use crate::recording::Recording;
use crate::tty::Tty;

/// Leaves a viewer, as terminals with the kitty keyboard protocol send it.
const DETACH_KEY: &str = "\x1b[93;5ud";

/// A disk of its own that can be frozen, like one behind a dead network.
struct Freezable {
    mount: PathBuf,
    /// Thaws the disk even if the test dies: processes waiting for it cannot be killed.
    watchdog: Child,
}

impl Freezable {
    /// Returns `None` and notes a skip without root or loop devices.
    fn mount(test: &str, home: &Home) -> Option<Freezable> {
        let (image, mount) =
            (home.hermetic.root().join("disk"), home.hermetic.nerve_home().join("recordings"));
        fs::create_dir_all(&mount).unwrap();
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let script = "mkfs.ext4 -q \"$1\" && mount -o loop \"$1\" \"$2\" && chmod 700 \"$2\"";
        let made = Command::new("sh").args(["-c", script, "sh"]).args([&image, &mount]).output().unwrap();
        if !made.status.success() {
            skip(test, &String::from_utf8_lossy(&made.stderr));
            return None;
        }
        let watchdog = Command::new("setsid")
            .args(["sh", "-c", "sleep 150; fsfreeze -u \"$1\"", "sh"])
            .arg(&mount)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Some(Freezable { mount, watchdog: watchdog.unwrap() })
    }

    fn turn(&self, flag: &str) -> bool {
        Command::new("fsfreeze")
            .arg(flag)
            .arg(&self.mount)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

impl Drop for Freezable {
    fn drop(&mut self) {
        self.turn("-u");
        let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }
}

/// Returns the messages of all ERROR events that a server sends after `act`.
fn errors_of(home: &Home, act: impl FnOnce()) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let socket = home.hermetic.nerve_home().join("run/default.sock");
    runtime.block_on(async {
        let client = NerveClient::connect(&socket).await.unwrap();
        let mut events = client.subscribe(&Subscribe::default()).await.unwrap();
        tokio::task::block_in_place(act);
        // This event marks the end: all earlier events have been delivered.
        home.ok(&["server", "node", "create", "last", "-c", "sleep 1000"]);
        let mut errors = Vec::new();
        let all = async {
            while let Some(event) = events.next().await {
                match event.event_type.as_str() {
                    "ERROR" => errors.push(event.data.to_string()),
                    "NODE_CREATED" if event.node_id.as_deref() == Some("last") => return,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, all).await.expect("the events stopped");
        errors
    })
}

/// Opens a viewer of the shell.
fn viewer(home: &Home) -> Tty {
    let tty = Tty::new(home, Size::new(240, 12), &["attach", "sh"]);
    tty.expect("ready");
    tty
}

fn lost_recordings(texts: &[String]) -> usize {
    texts
        .iter()
        .filter(|text| text.contains("nothing is recorded") || text.contains("recording is interrupted"))
        .count()
}

#[test]
fn node_without_recordings_folder_works_and_warns_once() {
    let home = Home::with_server();
    // Permissions do not restrict root, so a file takes the place of the directory.
    fs::write(home.hermetic.nerve_home().join("recordings"), "mine").unwrap();
    let errors = errors_of(&home, || {
        home.shell("sh");
        assert_eq!(home.execute("sh", "echo works"), "works\n");
        assert!(wait_until(DEADLINE, || !home.metadata("sh", "faults").is_empty()));
    });
    let faults = home.metadata("sh", "faults");
    assert_eq!(faults.matches("nothing is recorded").count(), 1, "{faults}");
    assert!(faults.contains("recordings"), "it says where: {faults}");
    assert_eq!(errors.iter().filter(|error| error.contains("recordings")).count(), 1, "{errors:?}");
    assert_eq!(home.metadata("sh", "recording_path"), "", "there is none");
    let mut tty = viewer(&home);
    tty.expect("! nothing is recorded: ");
    tty.expect("not recorded");
    tty.send(DETACH_KEY);
    assert_eq!(tty.wait_for_exit(), Some(0));
    let before = home.read("sh");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert_eq!(home.read("sh"), before, "what its host still has is shown");
    assert_eq!(home.metadata("sh", "faults").matches("nothing is recorded").count(), 1);
    assert_eq!(home.execute("sh", "echo still"), "still\n");
}

#[test]
fn disk_full_from_start_costs_only_the_recording() {
    let home = Home::with_server();
    let test = "disk_full_from_start_costs_only_the_recording";
    let path = home.hermetic.nerve_home().join("recordings");
    let Some(_disk) = SmallDisk::mount(test, &path, "64k") else { return };
    let filled = fs::write(path.join("filler"), vec![1; 1 << 20]);
    assert!(filled.is_err());
    home.shell("sh");
    assert_eq!(home.execute("sh", "echo works"), "works\n");
    assert!(wait_until(DEADLINE, || !home.metadata("sh", "faults").is_empty()), "{:#}", home.info("sh"));
    assert!(home.metadata("sh", "faults").contains("No space left"), "{}", home.metadata("sh", "faults"));
    home.ok(&["server", "node", "stop", "sh"]);
    home.ok(&["server", "stop"]);
}

#[test]
fn disk_filling_up_costs_only_the_rest_of_recording() {
    let home = Home::with_server();
    let test = "disk_filling_up_costs_only_the_rest_of_recording";
    let Some(_disk) = SmallDisk::mount(test, &home.hermetic.nerve_home().join("recordings"), "512k") else {
        return;
    };
    home.shell("sh");
    let recording = home.recording_of("sh");
    let mut tty = viewer(&home);
    tty.expect("● ");
    let errors = errors_of(&home, || {
        home.execute("sh", "echo the $((2-1))st");
        // In its own block, because the block that no longer fits is lost with all its records.
        assert!(wait_until(DEADLINE, || Recording::of(&recording).text().contains("the 1st\r\n")));
        home.execute_cut("sh", "head -c 700000 /dev/urandom | base64 -w 100");
        assert_eq!(home.execute("sh", "echo works"), "works\n");
        assert!(wait_until(DEADLINE, || !home.metadata("sh", "faults").is_empty()), "{:#}", home.info("sh"));
    });
    assert_eq!(lost_recordings(&errors), 1, "{errors:?}");
    // Current and later viewers see the warning; keys still reach the program.
    let mut late = viewer(&home);
    for tty in [&mut tty, &mut late] {
        tty.expect("! the recording is interrupted");
        tty.expect("No space left");
        tty.send("echo se$((1+1))n\r");
        tty.expect("\nse2n");
        tty.send(DETACH_KEY);
        assert_eq!(tty.wait_for_exit(), Some(0));
    }
    let faults = home.metadata("sh", "faults");
    assert_eq!(faults.matches("recording").count(), 1 + faults.matches("recordings/").count(), "{faults}");
    assert!(faults.contains("No space left"), "{faults}");
    let found = Recording::of(&recording);
    assert!(found.text().contains("the 1st\r\n"));
    assert!(found.output.len() > 100_000, "only {} bytes of a disk of 512 KiB", found.output.len());
    assert!(found.lost.iter().all(|lost| lost.tail), "{:?}", found.lost);

    // The next server reads the beginning from the file and the end from the host's memory. It must report a gap between them.
    let before = home.read("sh");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert_eq!(home.execute("sh", "echo still"), "still\n");
    assert!(home.read("sh").starts_with(before.trim_end()), "the terminal is another");
    assert!(home.metadata("sh", "faults").contains("No space left"), "{}", home.metadata("sh", "faults"));
    home.ok(&["server", "node", "stop", "sh"]);
}

#[test]
fn session_that_cannot_be_stored_is_not_created() {
    let home = Home::new();
    let folder = home.hermetic.nerve_home();
    let test = "session_that_cannot_be_stored_is_not_created";
    let Some(_disk) = SmallDisk::mount(test, &folder, "2m") else { return };
    home.ok(&["server", "start"]);
    assert!(fs::write(folder.join("filler"), vec![1; 4 << 20]).is_err());
    home.nerve(&["server", "session", "create", "work"])
        .assert_stderr(1, &["session 'work'", "No space left"]);
    assert!(!home.ok(&["server", "session", "list"]).contains("work"));
    fs::remove_file(folder.join("filler")).unwrap();
    home.ok(&["server", "session", "create", "work"]);
    assert!(home.ok(&["server", "session", "list"]).contains("work"));
    home.ok(&["server", "stop"]);
}

#[test]
fn change_that_cannot_be_stored_warns() {
    let home = Home::new();
    let folder = home.hermetic.nerve_home();
    let Some(_disk) = SmallDisk::mount("change_that_cannot_be_stored_warns", &folder, "2m") else { return };
    home.ok(&["server", "start"]);
    home.ok(&["new", "one", "--backend", "bash"]);
    assert!(fs::write(folder.join("filler"), vec![1; 4 << 20]).is_err());
    home.nerve(&["new", "two", "--backend", "bash"])
        .assert_stderr(0, &["warning: sessions are not persisted", "No space left"]);
    home.nerve(&["stop", "one"]).assert_stderr(0, &["warning: sessions are not persisted", "No space left"]);
    fs::remove_file(folder.join("filler")).unwrap();
    let removed = home.nerve(&["rm", "one"]);
    assert_eq!((removed.code, removed.stderr.as_str()), (0, ""));
    home.ok(&["server", "stop"]);
}

#[test]
fn recording_continues_after_disk_was_full() {
    let home = Home::with_server();
    let test = "recording_continues_after_disk_was_full";
    let path = home.hermetic.nerve_home().join("recordings");
    let Some(_disk) = SmallDisk::mount(test, &path, "256k") else { return };
    home.shell("sh");
    let recording = home.recording_of("sh");
    assert!(fs::write(path.join("filler"), vec![1; 1 << 20]).is_err());
    home.execute("sh", "head -c 60000 /dev/urandom | base64 -w 100");
    let has_fault = |words: &str| home.metadata("sh", "faults").contains(words);
    assert!(wait_until(DEADLINE, || has_fault("interrupted")), "{:#}", home.info("sh"));
    fs::remove_file(path.join("filler")).unwrap();
    assert!(wait_until(DEADLINE, || has_fault("the recording continues")), "{:#}", home.info("sh"));
    home.execute("sh", "echo the $((2-1))st");
    assert!(wait_until(DEADLINE, || Recording::of(&recording).text().contains("the 1st\r\n")));
    assert_eq!(home.nerve(&["inspect", recording.to_str().unwrap()]).code, 0);
    home.ok(&["server", "node", "stop", "sh"]);
}

#[test]
fn hanging_disk_costs_only_the_recording() {
    let home = Home::with_server();
    let test = "hanging_disk_costs_only_the_recording";
    let Some(disk) = Freezable::mount(test, &home) else { return };
    home.shell("sh");
    let host = home.host_of("sh");
    assert!(disk.turn("-f"), "it does not freeze");
    home.execute("sh", "echo little is no trouble");
    // More output than the host buffers for the disk.
    let much = "head -c 6000000 /dev/urandom | base64 -w 100";
    let mut flood = home.command(&["server", "node", "execute", "sh", much, "--timeout", "40"]);
    // This output is discarded. It is longer than an answer can be.
    let code = flood.stdout(Stdio::null()).status().unwrap().code();
    assert_eq!(code, Some(8), "the session hangs with the disk");
    assert_eq!(home.execute("sh", "echo fine"), "fine\n");
    assert!(home.metadata("sh", "faults").contains("does not respond"), "{}", home.metadata("sh", "faults"));
    // A hung node is still taken back and can be stopped.
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh", "--timeout", "20"]);
    home.ok(&["server", "node", "stop", "sh"]);
    assert!(wait_until(DEADLINE, || !is_alive(pid_in(&host["child"]))), "the program lives on");
    assert!(disk.turn("-u"));
    home.wait_for_end(&host);
    let found = Recording::of(host["recording_path"].as_str().unwrap().as_ref());
    assert!(found.lost.iter().all(|lost| lost.tail), "{:?}", found.lost);
}

#[test]
fn home_too_deep_for_host_sockets_is_refused() {
    let home = Home::new();
    // The path of the server's socket still fits into the limit of 107 bytes (unix(7)); that of a host's socket does not.
    let room = 107 - "/run/default.sock".len() - home.hermetic.nerve_home().as_os_str().len() - 1;
    let deep = home.hermetic.nerve_home().join("d".repeat(room));
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("NERVE_HOME", &deep);
        home.run(command)
    };
    let started = run(&["server", "start"]);
    if started.code == 0 {
        let created = run(&["server", "node", "create", "sh", "-c", "bash --norc"]);
        run(&["server", "stop"]);
        if created.code != 0 {
            created.assert_stderr(1, &["path", "NERVE_HOME"]);
        }
    } else {
        started.assert_stderr(1, &["path", "NERVE_HOME"]);
    }
    assert!(!deep.join("run/hosts").exists() || fs::read_dir(deep.join("run/hosts")).unwrap().count() == 0);
    assert!(wait_until(DEADLINE, || run(&["server", "status"]).code == 3));
}
