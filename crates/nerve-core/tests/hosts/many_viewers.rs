//! Many viewers that come, go, and do not read.

use std::fs;
use std::time::Duration;

use nerve_core::host::protocol::{HostEvent, HostRequest, Window};
use nerve_term::event::{Origin, Size};
use tokio::time::Instant;

use super::SAYS_SIZE;
use super::harness::{Link, Stage, soon};

/// Descriptors of this process, which the host is a part of.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until the descriptors are so many again, or fewer.
async fn back_to(most: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while descriptors() > most {
        assert!(Instant::now() < deadline, "{} descriptors are open, {most} were", descriptors());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn of_two_hundred_that_come_and_go_the_size_is_that_of_those_who_are_there_and_nothing_is_left() {
    let stage = Stage::new(SAYS_SIZE).await;
    let mut stays = stage.viewer(Window::Shares(Size::new(95, 45))).await;
    stays.resized(95, 45).await;
    let before = descriptors();
    // Numbers as good as any (Knuth, The Art of Computer Programming, 3.3.4), the same in each run.
    let mut random = 7_u64;
    let mut present: Vec<(Link, Size)> = Vec::new();
    for _ in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = |bits: u32, most: u64| (random >> bits) % most;
        let size = Size::new(20 + pick(20, 70) as u16, 5 + pick(30, 35) as u16);
        if let Ok(mut link) = Link::silent(&stage.host).await {
            // Some say a part of what they want to say and are gone.
            if pick(40, 3) > 0 {
                link.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
                link.request(&HostRequest::View(Window::Shares(size))).await;
                if pick(50, 2) > 0 {
                    present.push((link, size));
                }
            }
        }
        while present.len() > pick(44, 8) as usize {
            present.swap_remove(0);
        }
    }
    let smallest = present.iter().fold(Size::new(95, 45), |least, (_, size)| {
        Size::new(least.cols.min(size.cols), least.rows.min(size.rows))
    });
    if smallest != Size::new(95, 45) {
        stays.resized(smallest.cols, smallest.rows).await;
    }
    drop(present);
    // The last of all sizes that were told.
    loop {
        stays.types("\n").await;
        let mut told = Size::new(0, 0);
        stays
            .until(|event| match event {
                HostEvent::Resized(size) => {
                    told = *size;
                    None
                }
                HostEvent::Output { bytes, .. } => Some(bytes.clone()),
                _ => None,
            })
            .await;
        if told == Size::new(95, 45) {
            break;
        }
    }
    back_to(before).await;
}

#[tokio::test]
async fn what_waited_for_a_viewer_that_never_reads_is_forgotten_with_it() {
    const BYTES: usize = 24 << 20;
    let stage = Stage::new(&format!("read line; head -c {BYTES} /dev/zero; echo done; read line")).await;
    let mut looks = stage.link().await;
    let mut never = stage.viewer(Window::Shares(Size::new(20, 5))).await;
    looks.resized(20, 5).await;
    looks.types("\n").await;
    let mut written = 0;
    while written < BYTES {
        written += looks
            .until(|event| match event {
                HostEvent::Output { bytes, .. } => Some(bytes.len()),
                _ => None,
            })
            .await;
    }
    // What the system had taken for it, and then the end: not the megabytes that the host held.
    let mut bytes = 0;
    while let Ok(Some(event)) = soon(never.connection.next()).await {
        if let HostEvent::Output { bytes: more, .. } = event {
            bytes += more.len();
        }
    }
    assert!(bytes < 3 << 20, "{bytes} bytes were kept for it");
    // It is cut off but open at its end: what it types is still the program's.
    never.request(&HostRequest::Input { origin: Origin::User, bytes: b"\n".to_vec() }).await;
    looks.until(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
}
