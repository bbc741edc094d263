//! Both implementations pass these tests: `cargo nextest run -p nerve-types --features os,posix-os`.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nerve_testkit::wait_until;

use super::*;

/// Only ends a hang.
const DEADLINE: Duration = Duration::from_secs(60);

fn start(program: &str, args: &[&str]) -> Child {
    Command::new(program).args(args).stdin(Stdio::null()).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("in time")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn feature_selects_the_body() {
    let is_linux = cfg!(target_os = "linux") && !cfg!(feature = "posix-os");
    assert_eq!(IMPLEMENTATION, if is_linux { "linux" } else { "posix" });
    check().unwrap();
}

#[test]
#[cfg(all(target_os = "linux", not(feature = "posix-os")))]
fn batch_scheduling_applies_to_calling_thread_only() {
    /// Field `policy` of proc_pid_stat(5), behind the name in parentheses.
    fn policy() -> String {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(38).unwrap().to_string()
    }
    let batch = std::thread::spawn(|| {
        set_batch_scheduling().unwrap();
        policy()
    });
    assert_eq!(
        (batch.join().unwrap(), policy()),
        (libc::SCHED_BATCH.to_string(), libc::SCHED_OTHER.to_string())
    );
}

#[test]
fn boot_time_does_not_go_back() {
    let times: Vec<Duration> = (0..100).map(|_| boot_time()).collect();
    assert!(times.is_sorted() && times[0] > Duration::ZERO && times[0] < times[99], "{times:?}");
}

#[test]
#[cfg(all(target_os = "linux", not(feature = "posix-os")))]
fn boot_time_is_that_of_the_kernel() {
    /// Reads the first number of proc_uptime(5), in hundredths of a second.
    fn uptime() -> u128 {
        let text = fs::read_to_string("/proc/uptime").unwrap();
        text.split_whitespace().next().unwrap().replace('.', "").parse().unwrap()
    }
    let (before, time, after) = (uptime(), boot_time().as_millis() / 10, uptime());
    assert!(before <= time && time <= after + 1, "{before} {time} {after}");
}

#[test]
fn own_status_is_read() {
    let own = ProcessStatus::of_living(std::process::id()).unwrap();
    assert!(own.started > 0 && matches!(own.state, 'R' | 'S'), "{own:?}");
    assert_eq!(own.parent, rustix::process::getppid().unwrap().as_raw_nonzero().get());
    assert!(is_own_process(std::process::id(), own.started));
    assert!(!is_own_process(std::process::id(), own.started + 1) && !is_own_process(std::process::id(), 0));
    assert!(ProcessStatus::of(i32::MAX).is_none());
    // In a container its session may be 0.
    assert!(ProcessStatus::of(1).is_none_or(|init| init.parent == 0));
}

/// The session of the test itself would not do: in a container it may have begun outside, where its id is 0.
#[test]
fn session_of_a_leader_is_its_process_id() {
    let leader = start("setsid", &["sleep", "60"]);
    let pid = leader.id();
    let leads =
        wait_until(DEADLINE, || ProcessStatus::of(pid).is_some_and(|it| it.session.cast_unsigned() == pid));
    end(leader);
    assert!(leads);
}

#[test]
fn zombie_is_not_living() {
    let mut child = start("true", &[]);
    let pid = child.id();
    assert!(wait_until(DEADLINE, || ProcessStatus::of(pid).is_some_and(|it| it.state == 'Z')));
    assert!(ProcessStatus::of_living(pid).is_none() && start_time(pid).is_none());
    child.wait().unwrap();
    assert!(ProcessStatus::of(pid).is_none());
}

#[test]
fn children_name_and_command_line_are_found() {
    let child = start("sleep", &["61"]);
    let pid = child.id().cast_signed();
    let own = std::process::id().cast_signed();
    assert!(wait_until(DEADLINE, || process_name(pid).as_deref() == Some("sleep")));
    // Linux changes the name of a process that starts a program before its arguments.
    assert!(wait_until(DEADLINE, || command_line(child.id()).is_some_and(|args| args == ["sleep", "61"])));
    assert!(children(own).contains(&pid) && processes().contains(&pid));
    end(child);
}

#[test]
fn folder_and_open_files_of_another_process_are_found() {
    let root = tempfile::tempdir().unwrap();
    // On macOS the temporary folder is a link.
    let folder = root.path().canonicalize().unwrap().join("a b");
    fs::create_dir(&folder).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "cd 'a b' && exec sleep 62 3>file"]).current_dir(root.path()).stdin(Stdio::null());
    let child = command.spawn().unwrap();
    let pid = child.id();
    assert!(wait_until(DEADLINE, || process_name(pid.cast_signed()).as_deref() == Some("sleep")));
    let (dir, files) = (current_dir(pid), open_files(pid.cast_signed()));
    end(child);
    // Other systems may lack lsof.
    if dir.is_some() || IMPLEMENTATION == "linux" {
        assert_eq!(dir, Some(folder.clone()));
        assert!(files.contains(&folder.join("file")), "{files:?}");
    }
}

#[test]
fn names_of_signals_are_those_of_this_system() {
    assert_eq!((signal_name(libc::SIGHUP), signal_name(libc::SIGBUS)), ("SIGHUP".into(), "SIGBUS".into()));
    assert_eq!(signal_name(40), "signal 40");
}

#[test]
fn signal_reaches_only_the_opened_process() {
    let mut child = start("sleep", &["60"]);
    let handle = ProcessHandle::open(child.id()).unwrap();
    handle.signal(rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(handle.signal(rustix::process::Signal::TERM).is_err());
    assert!(ProcessHandle::open(child.id()).is_err());
}

#[test]
fn end_of_process_is_reported() {
    block_on(async {
        let mut child = start("sleep", &["60"]);
        let exit = ProcessHandle::open(child.id()).unwrap().into_exit().unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), exit.wait()).await;
        assert!(early.is_err(), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
        within(exit.wait()).await.unwrap();
        within(exit.wait()).await.unwrap();
    });
}

#[test]
fn changes_in_folders_are_reported() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("a/second"));
        fs::create_dir(&first).unwrap();
        let watcher = FolderWatcher::new().unwrap();
        watcher.watch_folder(&first).unwrap();
        watcher.watch_folder(&second).unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), watcher.changed()).await;
        assert!(early.is_err(), "nothing has changed");
        for size in 1..=3 {
            fs::write(first.join("file"), "x".repeat(size)).unwrap();
            within(watcher.changed()).await.unwrap();
        }
        fs::rename(first.join("file"), first.join("other")).unwrap();
        within(watcher.changed()).await.unwrap();
        fs::create_dir_all(&second).unwrap();
        within(watcher.changed()).await.unwrap();
        watcher.watch_folder(&second).unwrap();
        fs::write(second.join("file"), "x").unwrap();
        within(watcher.changed()).await.unwrap();
        assert!(watcher.watch_folder(&first.join("other")).is_err(), "it is a file");
    });
}

#[test]
fn child_inherits_only_standard_descriptors() {
    use std::os::fd::AsRawFd;
    block_on(async {
        let file = fs::File::open("/dev/null").unwrap();
        // Without the flag, as a library might leave it.
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let number = file.as_raw_fd();
        let script = format!("if [ -e /dev/fd/{number} ]; then echo open; else echo closed; fi");
        for (close, expected) in [(false, "open"), (true, "closed")] {
            let mut command = tokio::process::Command::new("sh");
            command.args(["-c", &script]);
            if close {
                close_descriptors(&mut command);
            }
            let output = within(command.output()).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
        }
    });
}

/// The parent is another run of this test, because only a process can end.
#[test]
fn child_ends_with_its_parent() {
    const ROLE: &str = "NERVE_TEST_PARENT";
    if std::env::var_os(ROLE).is_some() {
        block_on(async {
            let mut command = tokio::process::Command::new("sleep");
            command.arg("300").stdout(Stdio::null());
            kill_with_parent(&mut command).unwrap();
            println!("pid {}", command.spawn().unwrap().id().unwrap());
            std::future::pending::<()>().await;
        });
    }
    use std::io::BufRead;
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "os::tests::child_ends_with_its_parent"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(parent.stdout.take().unwrap()).lines();
    let mut pids =
        lines.map_while(Result::ok).filter_map(|line| line.split_once("pid ")?.1.parse::<u32>().ok());
    let child = pids.next().unwrap();
    assert!(start_time(child).is_some());
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(wait_until(DEADLINE, || start_time(child).is_none()));
}

#[cfg(all(target_os = "linux", not(feature = "posix-os")))]
#[test]
fn updated_program_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("nerve");
    fs::write(&own, "").unwrap();
    assert_eq!(own_program(own.clone()), own);
    let replaced = std::path::PathBuf::from(format!("{} (deleted)", own.display()));
    assert_eq!(own_program(replaced.clone()), own);
    fs::remove_file(&own).unwrap();
    assert!(own_program(replaced).exists(), "a running program can be restarted");
}

#[test]
fn own_resources_are_measured() {
    assert!(resident_bytes().unwrap() > 1 << 20);
    let before = open_descriptors().unwrap();
    assert!(before >= 3);
    assert!(!kernel_release().unwrap().is_empty());
}

#[test]
fn tree_is_synced_or_missing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::write(folder.path().join("inner/file"), "x").unwrap();
    sync_tree(folder.path()).unwrap();
    let missing = sync_tree(&folder.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}
