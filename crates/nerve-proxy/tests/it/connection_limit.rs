//! Many connections, including idle ones.

use std::time::Duration;

use hyper::Method;
use nerve_proxy::{Proxy, ProxyConfig, Secret, create_openai_proxy};
use nerve_testkit::{eventually, within_deadline};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::harness::{TestClient, config, exchange, read_reply, wait_closed};

/// Connection slots of a proxy.
const SLOTS: usize = 256;
const GREETING: &str = "HEAD /api/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Answers greetings itself and needs no upstream.
async fn proxy(more: impl FnOnce(ProxyConfig) -> ProxyConfig) -> Proxy {
    create_openai_proxy(more(config("http://127.0.0.1:1"))).await.unwrap()
}

async fn connect(proxy: &Proxy) -> TcpStream {
    within_deadline("a connection", TcpStream::connect(proxy.address())).await.unwrap()
}

async fn is_greeted(stream: &mut TcpStream) -> bool {
    exchange(stream, GREETING).await.starts_with("HTTP/1.1 200 ")
}

#[tokio::test]
async fn idle_connections_are_evicted_first() {
    let proxy = proxy(|config| config).await;
    let mut authenticated = connect(&proxy).await;
    assert!(is_greeted(&mut authenticated).await);
    let mut idle = Vec::new();
    for _ in 0..SLOTS + 44 {
        idle.push(connect(&proxy).await);
    }
    let mut newest = idle.split_off(45);
    for oldest in &mut idle {
        wait_closed(oldest).await;
    }
    // All slots are taken, but a new connection still gets one, and the authenticated one stays.
    assert!(TestClient::new(&proxy).is_answered().await);
    assert!(is_greeted(&mut authenticated).await, "authenticated connection evicted");
    wait_closed(&mut newest[0]).await;
    assert!(is_greeted(&mut newest[SLOTS - 2]).await, "newest connection evicted");
}

#[tokio::test]
async fn connections_without_token_are_evicted() {
    let proxy = proxy(|config| ProxyConfig { client_token: Some(Secret::new("t0ken")), ..config }).await;
    let mut others = Vec::new();
    for _ in 0..SLOTS + 44 {
        let mut other = connect(&proxy).await;
        assert!(exchange(&mut other, GREETING).await.starts_with("HTTP/1.1 401 "));
        others.push(other);
    }
    wait_closed(&mut others[0]).await;
    let client = TestClient::new(&proxy);
    let reply = client.send(Method::HEAD, "/api/hello", &[("x-api-key", "t0ken")], "").await;
    assert_eq!(read_reply(reply).await.unwrap().status, 200);
}

#[tokio::test]
async fn closed_connections_free_their_slots() {
    let proxy = proxy(|config| config).await;
    let mut authenticated_all = Vec::new();
    for _ in 0..SLOTS {
        let mut authenticated = connect(&proxy).await;
        assert!(is_greeted(&mut authenticated).await);
        authenticated_all.push(authenticated);
    }
    let mut late = connect(&proxy).await;
    wait_closed(&mut late).await;
    assert!(is_greeted(&mut authenticated_all[0]).await);
    drop(authenticated_all);
    let client = TestClient::new(&proxy);
    eventually("a free slot", async || client.is_answered().await).await;
}

// Needs no deadline: a paused clock advances only when all tasks are idle.
#[tokio::test(start_paused = true)]
async fn first_head_times_out_after_ten_seconds() {
    let proxy = create_openai_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let started = Instant::now();
    let mut idle = TcpStream::connect(proxy.address()).await.unwrap();
    let read = idle.read(&mut [0; 1]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let elapsed = started.elapsed();
    assert!(elapsed.abs_diff(Duration::from_secs(10)) < Duration::from_secs(1), "{elapsed:?}");
}
