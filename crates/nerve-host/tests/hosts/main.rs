//! Hosts with several clients: size of the terminal, delivery of events, slow clients.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod harness;
mod many_viewers;

use std::io;
use std::path::Path;

use nerve_host::backend::{Backend, BackendEvent, HostedBackend, Lease, SpawnError};
use nerve_host::process::Host;
use nerve_host::protocol::{HostEvent, HostRequest, Window};
use nerve_record::ahr::{Body, Part, Reader};
use nerve_record::snapshots;
use nerve_record::ssz::snapshot::Response;
use nerve_testkit::harness::SmallDisk;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use tokio::time::{Duration, Instant};

use self::harness::{HostHarness, SIZE, TestClient, within_limit};

/// Time that a host waits for an announced viewer.
const VIEWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Prints the terminal's size for each line of input.
const SAYS_SIZE: &str = "while read line; do stty size; done";

#[tokio::test]
async fn smallest_window_sets_size_until_its_viewer_leaves() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let mut first = harness.viewer(Window::Shares(Size::new(90, 20))).await;
    first.wait_size(90, 20).await;
    let mut second = harness.viewer(Window::Shares(Size::new(70, 40))).await;
    first.wait_size(70, 20).await;
    second.wait_size(70, 20).await;
    first.send_input("\n").await;
    first.wait_output("20 70").await;
    second.request(&HostRequest::View(Window::Shares(Size::new(80, 10)))).await;
    first.wait_size(80, 10).await;
    drop(second);
    first.wait_size(90, 20).await;
    drop(first);
    // Without viewers the terminal has its own size, which anyone can set.
    let mut third = harness.viewer(Window::Keep).await;
    third.wait_size(100, 30).await;
    third.send_input("\n").await;
    third.wait_output("30 100").await;
    third.request(&HostRequest::Resize(Size::new(50, 5))).await;
    third.wait_size(50, 5).await;
    third.send_input("\n").await;
    third.wait_output("5 50").await;
}

#[tokio::test]
async fn exclusive_viewer_sets_size_and_resize_is_refused() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let mut sharing = harness.viewer(Window::Shares(Size::new(60, 10))).await;
    sharing.wait_size(60, 10).await;
    let exclusive = harness.viewer(Window::Sets(Size::new(120, 50))).await;
    sharing.wait_size(120, 50).await;
    sharing.request(&HostRequest::Resize(Size::new(33, 3))).await;
    // The reply is the current size.
    let received = sharing.wait_for(|event| match event {
        HostEvent::Resized(size) => Some(*size),
        _ => None,
    });
    assert_eq!(received.await, Size::new(120, 50));
    drop(exclusive);
    sharing.wait_size(60, 10).await;
}

#[tokio::test]
async fn stalled_viewer_is_disconnected_and_loses_its_window() {
    const BYTES: usize = 32 << 20;
    let script = format!("read line; head -c {BYTES} /dev/zero; echo done; read line");
    let harness = HostHarness::new(&script).await;
    let mut observer = harness.viewer(Window::Shares(Size::new(90, 20))).await;
    observer.wait_size(90, 20).await;
    let stalled = harness.viewer(Window::Shares(Size::new(20, 5))).await;
    observer.wait_size(20, 5).await;
    observer.send_input("\n").await;
    let (mut bytes, mut sizes) = (0, Vec::new());
    while bytes < BYTES || sizes.is_empty() {
        observer
            .wait_for(|event| match event {
                HostEvent::Output { bytes: more, .. } => {
                    bytes += more.len();
                    Some(())
                }
                HostEvent::Resized(size) => {
                    sizes.push(*size);
                    Some(())
                }
                _ => None,
            })
            .await;
    }
    assert_eq!(sizes, [Size::new(90, 20)], "the stalled viewer is disconnected");
    // The data is still there to be read, followed by the end of the connection.
    drop(stalled);
}

#[tokio::test]
async fn input_is_reported_to_other_clients() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let (mut sender, mut observer) = (harness.client().await, harness.client().await);
    sender.send_input("\n").await;
    let typed = observer.wait_for(|event| match event {
        HostEvent::Typed { origin } => Some(*origin),
        _ => None,
    });
    assert_eq!(typed.await, Origin::User);
    observer.wait_output("30 100").await;
    sender.wait_output("30 100").await;
    // Replies to the program's queries are not typed by a person.
    sender.request(&HostRequest::Input { origin: Origin::Terminal, bytes: b"\n".to_vec() }).await;
    for mut client in [observer, sender] {
        // Output of the last reply comes first.
        while !client.take_output("30 100") {
            let typed = client.wait_for(|event| match event {
                HostEvent::Typed { .. } => Some(true),
                HostEvent::Output { .. } => Some(false),
                _ => None,
            });
            assert!(!typed.await, "terminal replies are not reported");
        }
    }
}

#[tokio::test]
async fn lease_is_held_while_a_person_types() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let mut server = HostedBackend::drive(harness.host.entry.clone(), harness.folder.path().join("registry"));
    let now = TsNs(1_000_000_000);
    while !matches!(within_limit(server.next()).await, BackendEvent::Resized(_)) {}
    assert_eq!(server.lease(now), Lease::Free);
    let mut person = harness.client().await;
    person.send_input("\n").await;
    while !matches!(within_limit(server.next()).await, BackendEvent::Output) {}
    let Lease::Held { by, until } = server.lease(now) else { panic!("no one types") };
    assert!(by.contains("a person"), "{by}");
    assert!(until > now && until <= now + Duration::from_secs(2), "{until:?}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(server.lease(now), Lease::Free);
}

#[tokio::test]
async fn excess_connection_is_rejected_with_reason() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let mut links = Vec::new();
    let refused = loop {
        match TestClient::connect(&harness.host).await {
            Ok(client) => links.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!((links.len(), refused.kind()), (64, io::ErrorKind::QuotaExceeded));
    assert!(refused.to_string().contains("64 clients"), "{refused}");
    // A rejected viewer reports the reason.
    let mut hosted = harness.backend(Window::Keep);
    let BackendEvent::Lost(why) = within_limit(hosted.next()).await else {
        panic!("the viewer was not rejected")
    };
    assert!(why.contains("host is full"), "{why}");
    drop(links);
    let back = async {
        loop {
            match TestClient::connect(&harness.host).await {
                Ok(client) => break client,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded),
            }
        }
    };
    within_limit(back).await;
}

#[tokio::test]
async fn viewer_limit_leaves_room_for_driver() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let mut viewers = Vec::new();
    for _ in 0..60 {
        let mut viewer = harness.viewer(Window::Keep).await;
        // The host has processed the window when it answers.
        viewer.request(&HostRequest::Resize(SIZE)).await;
        viewer.wait_size(SIZE.cols, SIZE.rows).await;
        viewers.push(viewer);
    }
    let mut hosted = harness.backend(Window::Keep);
    let why = loop {
        if let BackendEvent::Lost(why) = within_limit(hosted.next()).await {
            break why;
        }
    };
    assert!(why.contains("60 clients"), "{why}");
    let mut drives = HostedBackend::adopt(harness.host.entry.clone(), harness.folder.path().join("registry"));
    assert_eq!(within_limit(drives.next()).await, BackendEvent::CaughtUp);
}

/// Collects what a viewer receives until the program has written `last`. Adjacent output is joined.
async fn received(viewer: &mut HostedBackend, last: &str) -> Vec<String> {
    let mut received: Vec<String> = Vec::new();
    let mut output = Vec::new();
    loop {
        match within_limit(viewer.next()).await {
            BackendEvent::Output => output.extend_from_slice(viewer.output()),
            BackendEvent::CaughtUp => {}
            other => {
                received.extend(text(&mut output));
                received.push(match other {
                    BackendEvent::Resized(Size { cols, rows }) => format!("{cols}x{rows}"),
                    BackendEvent::Snapshot(snapshot) => {
                        format!("snapshot {} at {}", snapshot.id, snapshot.offset)
                    }
                    other => format!("{other:?}"),
                });
            }
        }
        if output.ends_with(last.as_bytes()) {
            received.extend(text(&mut output));
            return received;
        }
    }
}

fn text(output: &mut Vec<u8>) -> Option<String> {
    let text = String::from_utf8(std::mem::take(output)).unwrap();
    (!text.is_empty()).then_some(text)
}

#[tokio::test]
async fn late_viewer_receives_sizes_and_snapshots_in_order() {
    let harness = HostHarness::new("echo one; read line; echo two; read line; echo three; read line").await;
    let mut early = harness.client().await;
    early.wait_output("one\r\n").await;
    harness.snapshot(1).await;
    early.send_input("\n").await;
    early.wait_output("two\r\n").await;
    early.request(&HostRequest::Resize(Size::new(60, 10))).await;
    early.wait_size(60, 10).await;
    early.send_input("\n").await;
    early.wait_output("three\r\n").await;
    let expected = ["100x30", "one\r\n", "snapshot 1 at 5", "two\r\n", "60x10", "three\r\n"]
        .map(str::to_string)
        .to_vec();
    let mut late = harness.backend(Window::Keep);
    assert_eq!(received(&mut late, "three\r\n").await, expected);
}

/// Waits for the program's exit and acknowledges it.
async fn acknowledge_exit(harness: &HostHarness) {
    let mut client = harness.client().await;
    client.wait_for(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    client.request(&HostRequest::AckExit).await;
}

#[tokio::test]
async fn announced_viewer_sees_short_lived_program() {
    let mut harness = HostHarness::with_announced_viewer("echo hi; exit 3").await;
    acknowledge_exit(&harness).await;
    let mut viewer = harness.backend(Window::Shares(SIZE));
    assert_eq!(received(&mut viewer, "hi\r\n").await, ["100x30", "hi\r\n"]);
    while within_limit(viewer.next()).await != BackendEvent::Exited(ExitStatus::Code(3)) {}
    assert_eq!(within_limit(viewer.next()).await, BackendEvent::Closed);
    assert_eq!(within_limit(harness.host.wait()).await, ExitStatus::Code(3));
}

#[tokio::test]
async fn internal_client_is_not_the_announced_viewer() {
    let mut harness = HostHarness::with_announced_viewer("echo hi; exit 3").await;
    // Like the recorder's own client: sets a fixed size and sees the exit.
    let mut internal = TestClient::of(harness.host.connect().await.unwrap()).await;
    internal.request(&HostRequest::View(Window::Sets(SIZE))).await;
    internal.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
    internal.wait_for(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    internal.request(&HostRequest::AckExit).await;
    drop(internal);
    let mut viewer = harness.backend(Window::Shares(SIZE));
    assert_eq!(received(&mut viewer, "hi\r\n").await.last().unwrap(), "hi\r\n");
    assert_eq!(within_limit(harness.host.wait()).await, ExitStatus::Code(3));
}

#[tokio::test]
async fn driver_gets_the_exit_that_another_client_acknowledged() {
    let mut harness = HostHarness::new("echo hi; exit 3").await;
    let mut internal = TestClient::of(harness.host.connect().await.unwrap()).await;
    let mut driver = harness.host.drive().await.unwrap();
    internal.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
    internal.wait_for(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    // The driver reads nothing before.
    internal.request(&HostRequest::AckExit).await;
    while within_limit(driver.next()).await != BackendEvent::Exited(ExitStatus::Code(3)) {}
    assert_eq!(within_limit(harness.host.wait()).await, ExitStatus::Code(3));
}

#[tokio::test]
async fn stopped_host_does_not_wait_for_viewer() {
    // The viewer never connects, or leaves before it subscribes.
    for connects in [false, true] {
        let mut harness = HostHarness::with_announced_viewer("exec sleep 501").await;
        let mut internal = TestClient::of(harness.host.connect().await.unwrap()).await;
        internal.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
        if connects {
            let mut viewer = TestClient::connect(&harness.host).await.unwrap();
            viewer.request(&HostRequest::View(Window::Shares(Size::new(70, 20)))).await;
            internal.wait_size(70, 20).await;
        }
        let stopped_at = Instant::now();
        harness.host.stop().await;
        internal.wait_for(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
        internal.request(&HostRequest::AckExit).await;
        assert_eq!(within_limit(harness.host.wait()).await, ExitStatus::Signal(1));
        assert!(stopped_at.elapsed() < VIEWER_TIMEOUT, "{:?}", stopped_at.elapsed());
    }
}

#[tokio::test]
async fn viewer_that_left_is_no_longer_awaited() {
    let mut harness = HostHarness::with_announced_viewer("read line").await;
    let mut internal = TestClient::of(harness.host.connect().await.unwrap()).await;
    internal.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
    let mut viewer = TestClient::connect(&harness.host).await.unwrap();
    viewer.request(&HostRequest::View(Window::Shares(Size::new(70, 20)))).await;
    internal.wait_size(70, 20).await;
    drop(viewer);
    let began = Instant::now();
    internal.send_input("\n").await;
    internal.wait_for(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    internal.request(&HostRequest::AckExit).await;
    within_limit(harness.host.wait()).await;
    assert!(began.elapsed() < VIEWER_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test]
async fn viewer_sends_input_while_replaying() {
    // Exceeds the host's backlog and the read-ahead.
    const BYTES: u64 = 16 << 20;
    let harness =
        HostHarness::recorded(&format!("head -c {BYTES} /dev/zero; read line; echo got it; read line")).await;
    let mut observer = harness.client().await;
    // The host may have dropped the first bytes before the observer subscribes.
    let is_all_written = |event: &HostEvent| matches!(event, HostEvent::Output { off, bytes, .. } if off + bytes.len() as u64 >= BYTES);
    observer.wait_for(|event| is_all_written(event).then_some(())).await;
    let mut viewer = harness.backend(Window::Shares(Size::new(70, 20)));
    while within_limit(viewer.next()).await != BackendEvent::Output {}
    assert!(viewer.write(TsNs(0), b"\n", Origin::User));
    while viewer.queued_input() > 0 {
        assert_ne!(
            within_limit(viewer.next()).await,
            BackendEvent::CaughtUp,
            "the input was not sent while replaying"
        );
    }
    observer.wait_size(70, 20).await;
    observer.wait_output("got it").await;
}

#[tokio::test]
async fn requests_and_disconnects_overtake_unread_input() {
    let mut harness = HostHarness::new("stty raw; echo on; exec sleep 501").await;
    let mut first = harness.viewer(Window::Shares(Size::new(90, 20))).await;
    first.wait_size(90, 20).await;
    first.wait_output("on").await;
    let mut second = harness.viewer(Window::Shares(Size::new(80, 10))).await;
    first.wait_size(80, 10).await;
    for client in [&mut first, &mut second] {
        for _ in 0..24 {
            client.send_input(&"x".repeat(128 * 1024 - 1)).await;
        }
    }
    first.request(&HostRequest::View(Window::Shares(Size::new(70, 15)))).await;
    second.wait_size(70, 10).await;
    drop(second);
    first.wait_size(70, 15).await;
    first.request(&HostRequest::Stop).await;
    assert_eq!(within_limit(harness.host.wait()).await, ExitStatus::Signal(1));
}

#[tokio::test]
async fn input_before_disconnect_reaches_slow_program() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("go");
    let late = format!("until [ -e {} ]; do sleep 0.01; done; head -c 3000000 | wc -c", gate.display());
    let harness = HostHarness::new(&format!("stty raw; echo on; {late}")).await;
    let mut observer = harness.client().await;
    observer.wait_output("on").await;
    let mut sender = harness.client().await;
    for _ in 0..30 {
        sender.send_input(&"x".repeat(100_000)).await;
    }
    drop(sender);
    std::fs::write(gate, "").unwrap();
    observer.wait_output("3000000").await;
}

#[tokio::test]
async fn recording_of_dead_host_has_exit_status() {
    let mut harness = HostHarness::recorded("echo hi; exit 3").await;
    acknowledge_exit(&harness).await;
    within_limit(harness.host.wait()).await;
    harness.host.forget();
    let mut entry = harness.host.entry.clone();
    // As if it belonged to a process that is gone.
    entry.start = 1;
    let registry = harness.folder.path().join("registry");
    let mut viewer = HostedBackend::view(entry, registry, Window::Keep);
    assert_eq!(received(&mut viewer, "hi\r\n").await, ["100x30", "hi\r\n"]);
    let rest = [
        within_limit(viewer.next()).await,
        within_limit(viewer.next()).await,
        within_limit(viewer.next()).await,
    ];
    assert_eq!(
        rest,
        [BackendEvent::CaughtUp, BackendEvent::Exited(ExitStatus::Code(3)), BackendEvent::Closed]
    );
}

#[tokio::test]
async fn entry_is_written_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    // The folder of the entries is missing, too.
    let spec = harness::spec(folder.path(), vec!["/missing/program".to_string()]);
    let error = Host::start(spec).await.unwrap_err();
    assert!(!matches!(error, SpawnError::NoProgram { .. }), "{error:?}");
    std::fs::create_dir(folder.path().join("registry")).unwrap();
    let spec = harness::spec(folder.path(), vec!["/missing/program".to_string()]);
    let error = Host::start(spec).await.unwrap_err();
    assert!(matches!(error, SpawnError::NoProgram { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("registry")).unwrap().count(), 0, "the entry is left");
}

/// Set in the process with a limit of file sizes.
const HAS_LIMIT: &str = "NERVE_TEST_FILE_SIZE_LIMIT";

#[tokio::test]
async fn file_size_limit_does_not_end_the_program() {
    if std::env::var_os(HAS_LIMIT).is_none() {
        // A process of its own, because the limit holds for all its threads.
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "ulimit -f 200; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
        limited.args(["--exact", "file_size_limit_does_not_end_the_program", "--nocapture"]);
        let status = limited.env(HAS_LIMIT, "1").status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let script = "for i in 1 2 3 4 5; do head -c 300000 /dev/urandom | base64; done; exit 7";
    let mut harness = HostHarness::recorded(script).await;
    acknowledge_exit(&harness).await;
    assert_eq!(within_limit(harness.host.wait()).await, ExitStatus::Code(7));
}

#[tokio::test]
async fn label_of_invalid_bytes_does_not_end_the_recording() {
    let mut harness = HostHarness::recorded("read line; echo later; read line").await;
    let mut client = harness.client().await;
    // Longer than a label may be once each byte is replaced by three.
    let rejected = harness.request_snapshot(1, &[0xff; 30_000]).await;
    assert!(matches!(rejected, Response::Error { .. }), "{rejected:?}");
    harness.snapshot(2).await;
    client.send_input("\n").await;
    client.wait_output("later").await;
    client.send_input("\n").await;
    acknowledge_exit(&harness).await;
    within_limit(harness.host.wait()).await;
    let recording = harness.folder.path().join("session.ahr");
    assert_eq!(recorded_snapshots(&recording), [2]);
    let ids: Vec<u64> = snapshots::read(&recording).unwrap().iter().map(|line| line.id).collect();
    assert_eq!(ids, [2]);
}

#[tokio::test]
async fn confirmed_snapshot_is_recorded_after_full_disk() {
    const BYTES: usize = 20 << 20;
    let test = "confirmed_snapshot_is_recorded_after_full_disk";
    let folder = tempfile::tempdir().unwrap();
    let disk_path = folder.path().join("disk");
    let Some(disk) = SmallDisk::mount(test, &disk_path, "64k") else { return };
    let script = format!("read line; head -c {BYTES} /dev/zero; read line");
    let mut harness = HostHarness::recorded_in(folder, &script, "disk/session.ahr").await;
    let mut client = harness.client().await;
    let filler = disk_path.join("filler");
    // Fails once the disk is full.
    let _ = std::fs::write(&filler, vec![0; 1 << 20]);
    client.send_input("\n").await;
    let mut received = 0;
    while received < BYTES {
        received += client
            .wait_for(|event| match event {
                HostEvent::Output { bytes, .. } => Some(bytes.len()),
                _ => None,
            })
            .await;
    }
    disk.resize("16m");
    std::fs::remove_file(&filler).unwrap();
    // The next attempt to write has not begun, or what waits is not written yet.
    let response = harness.request_snapshot(1, b"mark").await;
    client.send_input("\n").await;
    acknowledge_exit(&harness).await;
    within_limit(harness.host.wait()).await;
    let is_confirmed = matches!(response, Response::Success { .. });
    let is_recorded = recorded_snapshots(&disk_path.join("session.ahr")).contains(&1);
    assert_eq!(is_confirmed, is_recorded, "{response:?}");
}

/// Returns the ids of the snapshots in a recording.
fn recorded_snapshots(recording: &Path) -> Vec<u64> {
    let mut reader = Reader::open(recording).unwrap();
    let mut ids = Vec::new();
    while let Some(part) = reader.next().unwrap() {
        let Part::Block(block) = part else { panic!("the recording is damaged") };
        ids.extend(block.records().filter_map(|record| match record.body {
            Body::Snapshot { id, .. } => Some(id),
            _ => None,
        }));
    }
    ids
}

#[tokio::test]
async fn unrecorded_host_replays_its_backlog_with_warning() {
    let harness = HostHarness::new("head -c 5000000 /dev/zero | tr '\\0' x; echo end; read line").await;
    let mut early = harness.client().await;
    early.wait_output("end\r\n").await;
    let mut late = harness.backend(Window::Keep);
    let received = received(&mut late, "end\r\n").await;
    let from = 5_000_005 - (4 << 20);
    assert_eq!(received[0], format!("{}x{}", SIZE.cols, SIZE.rows));
    assert!(
        received[1].contains(&format!("the first {from} bytes of output are no longer available")),
        "{}",
        received[1]
    );
    assert_eq!(received[2], format!("Skipped({from})"));
    assert_eq!(received[3].len(), 4 << 20);
    assert_eq!(received.len(), 4);
}

#[tokio::test]
async fn latest_only_skips_old_output_with_warning() {
    const WRITTEN: usize = 20_000_000;
    let harness =
        HostHarness::recorded(&format!("head -c {WRITTEN} /dev/zero | tr '\\0' x; echo end; read line"))
            .await;
    wait_written(&harness, WRITTEN + 5).await;
    let mut late = harness.backend(Window::Keep).latest_only();
    let received = received(&mut late, "end\r\n").await;
    let from = WRITTEN + 5 - (512 << 10);
    assert!(
        received.iter().any(|received| received.contains("19 MB of earlier output are not shown")),
        "{:?}",
        &received[..3]
    );
    assert!(received.contains(&format!("Skipped({from})")), "{:?}", &received[..3]);
    assert_eq!(received.last().unwrap().len(), 512 << 10);
    // A short backlog is read as usual.
    let near = HostHarness::recorded("head -c 4000000 /dev/zero | tr '\\0' x; echo end; read line").await;
    wait_written(&near, 4_000_005).await;
    let received = self::received(&mut near.backend(Window::Keep).latest_only(), "end\r\n").await;
    let bytes: usize = received.iter().filter(|received| received.starts_with('x')).map(String::len).sum();
    assert_eq!(bytes, 4_000_005);
}

/// Waits until the program has written this many bytes.
async fn wait_written(harness: &HostHarness, bytes: usize) {
    let mut client = harness.client().await;
    let reached = |event: &HostEvent| match event {
        HostEvent::Output { off, bytes: more, .. } => {
            (usize::try_from(*off).unwrap() + more.len() >= bytes).then_some(())
        }
        _ => None,
    };
    client.wait_for(reached).await;
}

#[tokio::test]
async fn unrecorded_session_has_temporary_stand_in() {
    let harness = HostHarness::new("echo \"$NERVE_UNRECORDED\"; read line").await;
    let entry = &harness.host.entry;
    let file = entry.unrecorded.clone().unwrap();
    harness.client().await.wait_output(file.to_str().unwrap()).await;
    let folder = file.parent().unwrap().to_path_buf();
    assert!(folder.is_dir() && !file.exists() && entry.belongs_to(&file));
    let linked = harness.folder.path().join("link");
    std::os::unix::fs::symlink(&folder, &linked).unwrap();
    assert!(entry.belongs_to(&linked.join("session.ahr")) && !entry.belongs_to(&linked.join("other.ahr")));
    harness.host.stop().await;
    harness.host.forget();
    assert!(!folder.exists());
    let recorded = HostHarness::recorded("echo \"<$NERVE_UNRECORDED>\"; read line").await;
    recorded.client().await.wait_output("<>").await;
    assert_eq!(recorded.host.entry.unrecorded, None);
}

#[tokio::test]
async fn disconnected_viewer_catches_up_from_recording() {
    const LINES: usize = 200_000;
    let script = format!(
        "echo up; read line; seq -f 'line %010.0f padded to be longer' {LINES}; read line; echo end; read line"
    );
    let harness = HostHarness::recorded(&script).await;
    let mut slow = harness.backend(Window::Shares(Size::new(90, 20)));
    let mut observer = harness.client().await;
    while !matches!(within_limit(slow.next()).await, BackendEvent::Resized(Size { cols: 90, .. })) {}
    observer.wait_output("up\r\n").await;
    observer.send_input("\n").await;
    // It is disconnected meanwhile, and reads what it missed later.
    observer.wait_output(&format!("line {LINES:010}")).await;
    harness.snapshot(1).await;
    observer.send_input("\n").await;
    observer.wait_output("end\r\n").await;
    let received = received(&mut slow, "end\r\n").await;
    let all: String = received.iter().filter(|received| received.contains('\n')).cloned().collect();
    let lines: Vec<&str> = all.lines().skip_while(|line| !line.starts_with("line ")).collect();
    assert!(lines.len() >= LINES, "{:?}", received.iter().map(String::len).collect::<Vec<_>>());
    assert!(
        lines[..LINES]
            .iter()
            .enumerate()
            .all(|(at, line)| line.starts_with(&format!("line {:010} ", at + 1)))
    );
    let snapshots = received.iter().filter(|received| received.starts_with("snapshot 1 ")).count();
    assert_eq!(snapshots, 1, "reported once");
}
