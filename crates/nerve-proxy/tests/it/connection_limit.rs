//! Many connections, and such that say nothing.

use std::time::Duration;

use hyper::Method;
use nerve_proxy::{Proxy, ProxyConfig, Secret, create_openai_proxy};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::harness::{Front, answered, closed, config, soon, whole};

/// Places for connections.
const PLACES: usize = 256;
const HELLO: &str = "HEAD /api/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// It answers greetings by itself: nobody is behind it.
async fn proxy(more: impl FnOnce(ProxyConfig) -> ProxyConfig) -> Proxy {
    create_openai_proxy(more(config("http://127.0.0.1:1"))).await.unwrap()
}

async fn connect(proxy: &Proxy) -> TcpStream {
    soon("a connection", TcpStream::connect(proxy.address())).await.unwrap()
}

async fn is_greeted(stream: &mut TcpStream) -> bool {
    answered(stream, HELLO).await.starts_with("HTTP/1.1 200 ")
}

#[tokio::test]
async fn who_says_nothing_gives_way_to_who_comes_after() {
    let proxy = proxy(|config| config).await;
    let mut guest = connect(&proxy).await;
    assert!(is_greeted(&mut guest).await);
    let mut silent = Vec::new();
    for _ in 0..PLACES + 44 {
        silent.push(connect(&proxy).await);
    }
    let mut left = silent.split_off(45);
    for oldest in &mut silent {
        closed(oldest).await;
    }
    // All places are taken, and still one comes in; who was let in before stays.
    assert!(Front::of(&proxy).is_answered().await);
    assert!(is_greeted(&mut guest).await, "it was let in");
    closed(&mut left[0]).await;
    assert!(is_greeted(&mut left[PLACES - 2]).await, "the last of those that waited");
}

#[tokio::test]
async fn who_lacks_the_token_gives_way_too() {
    let proxy = proxy(|config| ProxyConfig { client_token: Some(Secret::new("t0ken")), ..config }).await;
    let mut others = Vec::new();
    for _ in 0..PLACES + 44 {
        let mut other = connect(&proxy).await;
        assert!(answered(&mut other, HELLO).await.starts_with("HTTP/1.1 401 "));
        others.push(other);
    }
    closed(&mut others[0]).await;
    let front = Front::of(&proxy);
    let reply = front.send(Method::HEAD, "/api/hello", &[("x-api-key", "t0ken")], "").await;
    assert_eq!(whole(reply).await.unwrap().status, 200);
}

#[tokio::test]
async fn places_of_those_who_were_let_in_come_free_when_they_leave() {
    let proxy = proxy(|config| config).await;
    let mut guests = Vec::new();
    for _ in 0..PLACES {
        let mut guest = connect(&proxy).await;
        assert!(is_greeted(&mut guest).await);
        guests.push(guest);
    }
    let mut late = connect(&proxy).await;
    closed(&mut late).await;
    assert!(is_greeted(&mut guests[0]).await);
    drop(guests);
    let front = Front::of(&proxy);
    soon("a free place", async { while !front.is_answered().await {} }).await;
}

// No deadline of its own: the time of a paused clock passes only when nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_first_head_has_ten_seconds() {
    let proxy = create_openai_proxy(config("http://127.0.0.1:1")).await.unwrap();
    let started = Instant::now();
    let mut silent = TcpStream::connect(proxy.address()).await.unwrap();
    let read = silent.read(&mut [0; 1]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let took = started.elapsed();
    assert!(took.abs_diff(Duration::from_secs(10)) < Duration::from_secs(1), "{took:?}");
}
