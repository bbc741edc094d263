//! Hosts with several connections: whose window counts, who is told what, who is cut off.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod harness;
mod many_viewers;

use std::io;

use nerve_core::backend::{Backend, BackendEvent, HostedBackend, Lease};
use nerve_core::host::protocol::{HostEvent, HostRequest, Window};
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use tokio::time::{Duration, Instant};

use self::harness::{Link, SIZE, Stage, soon};

/// Says its size for each line that it reads.
const SAYS_SIZE: &str = "while read line; do stty size; done";

#[tokio::test]
async fn the_smallest_window_counts_and_it_grows_when_its_viewer_leaves() {
    let stage = Stage::new(SAYS_SIZE).await;
    let mut first = stage.viewer(Window::Shares(Size::new(90, 20))).await;
    first.resized(90, 20).await;
    let mut second = stage.viewer(Window::Shares(Size::new(70, 40))).await;
    first.resized(70, 20).await;
    second.resized(70, 20).await;
    first.types("\n").await;
    first.reads("20 70").await;
    second.request(&HostRequest::View(Window::Shares(Size::new(80, 10)))).await;
    first.resized(80, 10).await;
    drop(second);
    first.resized(90, 20).await;
    drop(first);
    // Nobody's window counts: the last size stays, and whoever asks for another has it.
    let mut third = stage.viewer(Window::Keep).await;
    third.resized(90, 20).await;
    third.types("\n").await;
    third.reads("20 90").await;
    third.request(&HostRequest::Resize(Size::new(50, 5))).await;
    third.resized(50, 5).await;
    third.types("\n").await;
    third.reads("5 50").await;
}

#[tokio::test]
async fn one_that_takes_over_counts_alone_and_nobody_resizes_past_viewers() {
    let stage = Stage::new(SAYS_SIZE).await;
    let mut shares = stage.viewer(Window::Shares(Size::new(60, 10))).await;
    shares.resized(60, 10).await;
    let mine = stage.viewer(Window::Sets(Size::new(120, 50))).await;
    shares.resized(120, 50).await;
    shares.request(&HostRequest::Resize(Size::new(33, 3))).await;
    // It is answered with the size there is.
    let told = shares.until(|event| match event {
        HostEvent::Resized(size) => Some(*size),
        _ => None,
    });
    assert_eq!(told.await, Size::new(120, 50));
    drop(mine);
    shares.resized(60, 10).await;
}

#[tokio::test]
async fn a_viewer_that_hangs_holds_up_nobody_and_its_window_counts_no_more() {
    const BYTES: usize = 32 << 20;
    let script = format!("read line; head -c {BYTES} /dev/zero; echo done; read line");
    let stage = Stage::new(&script).await;
    let mut looks = stage.viewer(Window::Shares(Size::new(90, 20))).await;
    looks.resized(90, 20).await;
    let hangs = stage.viewer(Window::Shares(Size::new(20, 5))).await;
    looks.resized(20, 5).await;
    looks.types("\n").await;
    let began = Instant::now();
    let (mut bytes, mut sizes) = (0, Vec::new());
    while bytes < BYTES || sizes.is_empty() {
        looks
            .until(|event| match event {
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
    assert_eq!(sizes, [Size::new(90, 20)], "the one that hangs is cut off");
    assert!(began.elapsed() < Duration::from_secs(20));
    // All of it was there to be read at its leisure: what it was sent, and then the end of the connection.
    drop(hangs);
}

#[tokio::test]
async fn whoever_types_is_told_to_the_others() {
    let stage = Stage::new(SAYS_SIZE).await;
    let (mut types, mut looks) = (stage.link().await, stage.link().await);
    types.types("\n").await;
    let typed = looks.until(|event| match event {
        HostEvent::Typed { origin } => Some(*origin),
        _ => None,
    });
    assert_eq!(typed.await, Origin::User);
    looks.reads("30 100").await;
    types.reads("30 100").await;
    // Answers to the program's questions are nobody's typing.
    types.request(&HostRequest::Input { origin: Origin::Terminal, bytes: b"\n".to_vec() }).await;
    for mut link in [looks, types] {
        // What the last answer has left comes first.
        while !link.has_read("30 100") {
            let typed = link.until(|event| match event {
                HostEvent::Typed { .. } => Some(true),
                HostEvent::Output { .. } => Some(false),
                _ => None,
            });
            assert!(!typed.await, "only what the program says");
        }
    }
}

#[tokio::test]
async fn prompts_wait_while_a_person_types() {
    let stage = Stage::new(SAYS_SIZE).await;
    let mut server = HostedBackend::drive(stage.host.entry.clone(), stage.folder.path().join("registry"));
    let now = TsNs(1_000_000_000);
    while !matches!(soon(server.next()).await, BackendEvent::Resized(_)) {}
    assert_eq!(server.lease(now), Lease::Free);
    let mut person = stage.link().await;
    person.types("\n").await;
    while !matches!(soon(server.next()).await, BackendEvent::Output) {}
    let Lease::Held { by, until } = server.lease(now) else { panic!("nobody types") };
    assert!(by.contains("somebody"), "{by}");
    assert!(until > now && until <= now + Duration::from_secs(2), "{until:?}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(server.lease(now), Lease::Free);
}

#[tokio::test]
async fn connections_are_bounded_and_one_too_many_is_told_why() {
    let stage = Stage::new(SAYS_SIZE).await;
    let mut links = Vec::new();
    let refused = loop {
        match Link::silent(&stage.host).await {
            Ok(link) => links.push(link),
            Err(error) => break error,
        }
    };
    assert_eq!((links.len(), refused.kind()), (64, io::ErrorKind::QuotaExceeded));
    assert!(refused.to_string().contains("64 others"), "{refused}");
    // A viewer says it and is over; the program knows nothing of it.
    let mut hosted = stage.hosted(Window::Keep);
    let BackendEvent::Lost(why) = soon(hosted.next()).await else { panic!("it is let in") };
    assert!(why.contains("takes no more"), "{why}");
    drop(links);
    let back = async {
        loop {
            match Link::silent(&stage.host).await {
                Ok(link) => break link,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded),
            }
        }
    };
    soon(back).await;
}

#[tokio::test]
async fn viewers_leave_room_for_whoever_drives() {
    let stage = Stage::new(SAYS_SIZE).await;
    let mut viewers = Vec::new();
    for _ in 0..60 {
        let mut viewer = stage.viewer(Window::Keep).await;
        // In, and the window is known.
        viewer.request(&HostRequest::Resize(SIZE)).await;
        viewer.resized(SIZE.cols, SIZE.rows).await;
        viewers.push(viewer);
    }
    let mut hosted = stage.hosted(Window::Keep);
    let why = loop {
        if let BackendEvent::Lost(why) = soon(hosted.next()).await {
            break why;
        }
    };
    assert!(why.contains("60 others"), "{why}");
    let mut drives = HostedBackend::adopt(stage.host.entry.clone(), stage.folder.path().join("registry"));
    assert_eq!(soon(drives.next()).await, BackendEvent::CaughtUp);
}

/// What a viewer is told until the program has written this; outputs as text, in one where nothing is between them.
async fn told(viewer: &mut HostedBackend, last: &str) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut output = Vec::new();
    loop {
        match soon(viewer.next()).await {
            BackendEvent::Output => output.extend_from_slice(viewer.output()),
            BackendEvent::CaughtUp => {}
            other => {
                told.extend(text(&mut output));
                told.push(match other {
                    BackendEvent::Resized(Size { cols, rows }) => format!("{cols}x{rows}"),
                    BackendEvent::Snapshot(snapshot) => {
                        format!("snapshot {} at {}", snapshot.id, snapshot.offset)
                    }
                    other => format!("{other:?}"),
                });
            }
        }
        if output.ends_with(last.as_bytes()) {
            told.extend(text(&mut output));
            return told;
        }
    }
}

fn text(output: &mut Vec<u8>) -> Option<String> {
    let text = String::from_utf8(std::mem::take(output)).unwrap();
    (!text.is_empty()).then_some(text)
}

#[tokio::test]
async fn whoever_comes_late_is_told_sizes_and_snapshots_where_they_were() {
    let stage = Stage::new("echo one; read line; echo two; read line; echo three; read line").await;
    let mut early = stage.link().await;
    early.reads("one\r\n").await;
    stage.snapshot(1).await;
    early.types("\n").await;
    early.reads("two\r\n").await;
    early.request(&HostRequest::Resize(Size::new(60, 10))).await;
    early.resized(60, 10).await;
    early.types("\n").await;
    early.reads("three\r\n").await;
    let expected = ["100x30", "one\r\n", "snapshot 1 at 5", "two\r\n", "60x10", "three\r\n"]
        .map(str::to_string)
        .to_vec();
    let mut late = stage.hosted(Window::Keep);
    assert_eq!(told(&mut late, "three\r\n").await, expected);
}

/// Waits for the program's end, and says that it was seen.
async fn sees_the_end(stage: &Stage) {
    let mut link = stage.link().await;
    link.until(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    link.request(&HostRequest::AckExit).await;
}

#[tokio::test]
async fn a_program_that_is_over_at_once_is_seen_by_the_viewer_that_is_on_its_way() {
    let mut stage = Stage::viewed("echo hi; exit 3").await;
    sees_the_end(&stage).await;
    let mut viewer = stage.hosted(Window::Shares(SIZE));
    assert_eq!(told(&mut viewer, "hi\r\n").await, ["100x30", "hi\r\n"]);
    while soon(viewer.next()).await != BackendEvent::Exited(ExitStatus::Code(3)) {}
    assert_eq!(soon(viewer.next()).await, BackendEvent::Closed);
    assert_eq!(soon(stage.host.finished()).await, ExitStatus::Code(3));
}

#[tokio::test]
async fn the_recorders_own_connection_is_not_the_viewer_that_is_on_its_way() {
    let mut stage = Stage::viewed("echo hi; exit 3").await;
    // It says a fixed size, as a recorder does, and sees the end.
    let mut front = Link::of(stage.host.connect().await.unwrap()).await;
    front.request(&HostRequest::View(Window::Sets(SIZE))).await;
    front.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
    front.until(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    front.request(&HostRequest::AckExit).await;
    drop(front);
    let mut viewer = stage.hosted(Window::Shares(SIZE));
    assert_eq!(told(&mut viewer, "hi\r\n").await.last().unwrap(), "hi\r\n");
    assert_eq!(soon(stage.host.finished()).await, ExitStatus::Code(3));
}

#[tokio::test]
async fn a_host_that_was_told_to_stop_waits_for_no_viewer() {
    // Its viewer has never come, or has left while it read what was before.
    for comes in [false, true] {
        let mut stage = Stage::viewed("exec sleep 501").await;
        let mut front = Link::of(stage.host.connect().await.unwrap()).await;
        front.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
        if comes {
            let mut viewer = Link::silent(&stage.host).await.unwrap();
            viewer.request(&HostRequest::View(Window::Shares(Size::new(70, 20)))).await;
            front.resized(70, 20).await;
        }
        let told = Instant::now();
        stage.host.stop().await;
        front.until(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
        front.request(&HostRequest::AckExit).await;
        assert_eq!(soon(stage.host.finished()).await, ExitStatus::Signal(1));
        assert!(told.elapsed() < Duration::from_secs(6), "{:?}", told.elapsed());
    }
}

#[tokio::test]
async fn a_viewer_that_has_left_before_it_listened_is_not_on_its_way() {
    let mut stage = Stage::viewed("read line").await;
    let mut front = Link::of(stage.host.connect().await.unwrap()).await;
    front.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
    let mut viewer = Link::silent(&stage.host).await.unwrap();
    viewer.request(&HostRequest::View(Window::Shares(Size::new(70, 20)))).await;
    front.resized(70, 20).await;
    drop(viewer);
    let began = Instant::now();
    front.types("\n").await;
    front.until(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
    front.request(&HostRequest::AckExit).await;
    soon(stage.host.finished()).await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_viewer_that_reads_what_was_before_is_heard_meanwhile() {
    // More than the host keeps in memory, and than is read ahead.
    const BYTES: usize = 16 << 20;
    let stage =
        Stage::recorded(&format!("head -c {BYTES} /dev/zero; read line; echo got it; read line")).await;
    let (mut looks, mut bytes) = (stage.link().await, 0);
    while bytes < BYTES {
        let output = |event: &HostEvent| {
            if let HostEvent::Output { bytes, .. } = event { Some(bytes.len()) } else { None }
        };
        bytes += looks.until(output).await;
    }
    let mut viewer = stage.hosted(Window::Shares(Size::new(70, 20)));
    while soon(viewer.next()).await != BackendEvent::Output {}
    assert!(viewer.write(TsNs(0), b"\n", Origin::User));
    while viewer.waiting() > 0 {
        assert_ne!(soon(viewer.next()).await, BackendEvent::CaughtUp, "it was not heard");
    }
    looks.resized(70, 20).await;
    looks.reads("got it").await;
}

#[tokio::test]
async fn orders_overtake_what_a_program_does_not_read_and_so_does_the_connections_end() {
    let mut stage = Stage::new("stty raw; echo on; exec sleep 501").await;
    let mut first = stage.viewer(Window::Shares(Size::new(90, 20))).await;
    first.resized(90, 20).await;
    first.reads("on").await;
    let mut second = stage.viewer(Window::Shares(Size::new(80, 10))).await;
    first.resized(80, 10).await;
    for link in [&mut first, &mut second] {
        for _ in 0..24 {
            link.types(&"x".repeat(128 * 1024 - 1)).await;
        }
    }
    first.request(&HostRequest::View(Window::Shares(Size::new(70, 15)))).await;
    second.resized(70, 10).await;
    drop(second);
    first.resized(70, 15).await;
    first.request(&HostRequest::Stop).await;
    assert_eq!(soon(stage.host.finished()).await, ExitStatus::Signal(1));
}

#[tokio::test]
async fn what_was_typed_before_a_connection_ends_comes_to_a_program_that_reads_late() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let late = format!("until [ -e {} ]; do sleep 0.01; done; head -c 3000000 | wc -c", go.display());
    let stage = Stage::new(&format!("stty raw; echo on; {late}")).await;
    let mut looks = stage.link().await;
    looks.reads("on").await;
    let mut types = stage.link().await;
    for _ in 0..30 {
        types.types(&"x".repeat(100_000)).await;
    }
    drop(types);
    std::fs::write(go, "").unwrap();
    looks.reads("3000000").await;
}

#[tokio::test]
async fn of_a_host_that_is_gone_the_recording_tells_how_its_program_ended() {
    let mut stage = Stage::recorded("echo hi; exit 3").await;
    sees_the_end(&stage).await;
    soon(stage.host.finished()).await;
    stage.host.forget();
    let mut entry = stage.host.entry.clone();
    // As that of another process, which is no more.
    entry.start = 1;
    let registry = stage.folder.path().join("registry");
    let mut viewer = HostedBackend::view(entry, registry, Window::Keep);
    assert_eq!(told(&mut viewer, "hi\r\n").await, ["100x30", "hi\r\n"]);
    let rest = [soon(viewer.next()).await, soon(viewer.next()).await, soon(viewer.next()).await];
    assert_eq!(
        rest,
        [BackendEvent::CaughtUp, BackendEvent::Exited(ExitStatus::Code(3)), BackendEvent::Closed]
    );
}

#[tokio::test]
async fn without_a_recording_the_oldest_in_memory_is_shown_and_that_is_said() {
    let stage = Stage::new("head -c 5000000 /dev/zero | tr '\\0' x; echo end; read line").await;
    let mut early = stage.link().await;
    early.reads("end\r\n").await;
    let mut late = stage.hosted(Window::Keep);
    let told = told(&mut late, "end\r\n").await;
    let from = 5_000_005 - (4 << 20);
    assert_eq!(told[0], format!("{}x{}", SIZE.cols, SIZE.rows));
    assert!(
        told[1].contains(&format!("the first {from} bytes of output are not known any more")),
        "{}",
        told[1]
    );
    assert_eq!(told[2], format!("Skipped({from})"));
    assert_eq!(told[3].len(), 4 << 20);
    assert_eq!(told.len(), 4);
}

#[tokio::test]
async fn behind_a_flood_who_wants_the_latest_is_told_that_and_how_much_is_left_out() {
    const WRITTEN: usize = 20_000_000;
    let stage =
        Stage::recorded(&format!("head -c {WRITTEN} /dev/zero | tr '\\0' x; echo end; read line")).await;
    reaches(&stage, WRITTEN + 5).await;
    let mut late = stage.hosted(Window::Keep).latest_only();
    let told = told(&mut late, "end\r\n").await;
    let from = WRITTEN + 5 - (512 << 10);
    assert!(
        told.iter().any(|told| told.contains("19 MB that it wrote before are not shown")),
        "{:?}",
        &told[..3]
    );
    assert!(told.contains(&format!("Skipped({from})")), "{:?}", &told[..3]);
    assert_eq!(told.last().unwrap().len(), 512 << 10);
    // What is not far behind is read, as ever.
    let near = Stage::recorded("head -c 4000000 /dev/zero | tr '\\0' x; echo end; read line").await;
    reaches(&near, 4_000_005).await;
    let told = self::told(&mut near.hosted(Window::Keep).latest_only(), "end\r\n").await;
    let bytes: usize = told.iter().filter(|told| told.starts_with('x')).map(String::len).sum();
    assert_eq!(bytes, 4_000_005);
}

/// Waits until the program has written so much.
async fn reaches(stage: &Stage, bytes: usize) {
    let mut link = stage.link().await;
    let reached = |event: &HostEvent| match event {
        HostEvent::Output { off, bytes: more, .. } => {
            (usize::try_from(*off).unwrap() + more.len() >= bytes).then_some(())
        }
        _ => None,
    };
    link.until(reached).await;
}

#[tokio::test]
async fn a_session_without_a_recording_has_a_place_that_goes_with_it() {
    let stage = Stage::new("echo \"$NERVE_UNRECORDED\"; read line").await;
    let entry = &stage.host.entry;
    let file = entry.unrecorded.clone().unwrap();
    stage.link().await.reads(file.to_str().unwrap()).await;
    let folder = file.parent().unwrap().to_path_buf();
    assert!(folder.is_dir() && !file.exists() && entry.is_of(&file));
    let linked = stage.folder.path().join("link");
    std::os::unix::fs::symlink(&folder, &linked).unwrap();
    assert!(entry.is_of(&linked.join("session.ahr")) && !entry.is_of(&linked.join("other.ahr")));
    stage.host.stop().await;
    stage.host.forget();
    assert!(!folder.exists());
    let recorded = Stage::recorded("echo \"<$NERVE_UNRECORDED>\"; read line").await;
    recorded.link().await.reads("<>").await;
    assert_eq!(recorded.host.entry.unrecorded, None);
}

#[tokio::test]
async fn with_a_recording_a_viewer_that_was_cut_off_misses_nothing() {
    const LINES: usize = 200_000;
    let script = format!(
        "echo up; read line; seq -f 'line %010.0f padded to be longer' {LINES}; read line; echo end; read line"
    );
    let stage = Stage::recorded(&script).await;
    let mut slow = stage.hosted(Window::Shares(Size::new(90, 20)));
    let mut looks = stage.link().await;
    while !matches!(soon(slow.next()).await, BackendEvent::Resized(Size { cols: 90, .. })) {}
    looks.reads("up\r\n").await;
    looks.types("\n").await;
    // It takes nothing meanwhile, so it is cut off; then it is told of by what it has missed.
    looks.reads(&format!("line {LINES:010}")).await;
    stage.snapshot(1).await;
    looks.types("\n").await;
    looks.reads("end\r\n").await;
    let told = told(&mut slow, "end\r\n").await;
    let all: String = told.iter().filter(|told| told.contains('\n')).cloned().collect();
    let lines: Vec<&str> = all.lines().skip_while(|line| !line.starts_with("line ")).collect();
    assert!(lines.len() >= LINES, "{:?}", told.iter().map(String::len).collect::<Vec<_>>());
    assert!(
        lines[..LINES]
            .iter()
            .enumerate()
            .all(|(at, line)| line.starts_with(&format!("line {:010} ", at + 1)))
    );
    let snapshots = told.iter().filter(|told| told.starts_with("snapshot 1 ")).count();
    assert_eq!(snapshots, 1, "told once");
}
