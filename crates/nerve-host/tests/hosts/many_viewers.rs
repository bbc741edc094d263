//! Many viewers that connect, disconnect and do not read.

use std::fs;

use nerve_host::protocol::{HostEvent, HostRequest, Window};
use nerve_testkit::{DEADLINE, wait_until_async};
use nerve_types::{Origin, Size};

use super::SAYS_SIZE;
use super::harness::{HostHarness, TestClient, within_limit};

/// Returns the number of open descriptors of this process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until at most this many descriptors are open.
async fn wait_for_descriptors(most: usize) {
    let is_closed = async || descriptors() <= most;
    assert!(wait_until_async(DEADLINE, is_closed).await, "{} are open, {most} were", descriptors());
}

#[tokio::test]
async fn two_hundred_viewers_leave_correct_size_and_no_descriptors() {
    let harness = HostHarness::new(SAYS_SIZE).await;
    let mut permanent = harness.viewer(Window::Shares(Size::new(95, 45))).await;
    permanent.wait_size(95, 45).await;
    let before = descriptors();
    // A deterministic linear congruential generator (Knuth, The Art of Computer Programming, 3.3.4).
    let mut random = 7_u64;
    let mut present: Vec<(TestClient, Size)> = Vec::new();
    for _ in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = |bits: u32, most: u64| (random >> bits) % most;
        let size = Size::new(20 + pick(20, 70) as u16, 5 + pick(30, 35) as u16);
        if let Ok(mut client) = TestClient::connect(&harness.host).await {
            // Some disconnect in the middle of a request.
            if pick(40, 3) > 0 {
                client.request(&HostRequest::Subscribe { off: 0, allow_gap: true }).await;
                client.request(&HostRequest::View(Window::Shares(size))).await;
                if pick(50, 2) > 0 {
                    present.push((client, size));
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
        permanent.wait_size(smallest.cols, smallest.rows).await;
    }
    drop(present);
    // Drain the size events up to the last one.
    loop {
        permanent.send_input("\n").await;
        let mut last_size = Size::new(0, 0);
        permanent
            .wait_for(|event| match event {
                HostEvent::Resized(size) => {
                    last_size = *size;
                    None
                }
                HostEvent::Output { bytes, .. } => Some(bytes.clone()),
                _ => None,
            })
            .await;
        if last_size == Size::new(95, 45) {
            break;
        }
    }
    wait_for_descriptors(before).await;
}

#[tokio::test]
async fn queue_of_a_stalled_viewer_is_dropped() {
    const BYTES: usize = 24 << 20;
    let harness =
        HostHarness::new(&format!("read line; head -c {BYTES} /dev/zero; echo done; read line")).await;
    let mut observer = harness.client().await;
    let mut stalled = harness.viewer(Window::Shares(Size::new(20, 5))).await;
    observer.wait_size(20, 5).await;
    observer.send_input("\n").await;
    let mut written = 0;
    while written < BYTES {
        written += observer
            .wait_for(|event| match event {
                HostEvent::Output { bytes, .. } => Some(bytes.len()),
                _ => None,
            })
            .await;
    }
    // The data in the socket's buffer is still readable, but not the megabytes queued by the host.
    let mut bytes = 0;
    while let Ok(Some(event)) = within_limit(stalled.connection.next()).await {
        if let HostEvent::Output { bytes: more, .. } = event {
            bytes += more.len();
        }
    }
    assert!(bytes < 3 << 20, "{bytes} bytes were kept for it");
    // It is disconnected, but its input still reaches the program.
    stalled.request(&HostRequest::Input { origin: Origin::User, bytes: b"\n".to_vec() }).await;
    observer.wait_for(|event| matches!(event, HostEvent::Exited(_)).then_some(())).await;
}
