//! Events over a WebSocket, as pages receive them.

use futures_util::StreamExt;
use nerve_server::web::Role;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::HttpServer;
use super::web::{Browser, logins};
use crate::harness::DEADLINE;

/// A page that receives events.
struct Page(WebSocketStream<TcpStream>);

impl Page {
    async fn connect(
        server: &HttpServer,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Page, Error> {
        let mut request = format!("ws://{}/events{query}", server.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(server.address).await.unwrap();
        Ok(Page(tokio_tungstenite::client_async(request, stream).await?.0))
    }

    /// Connects like a page of the server. Returns the position at which the stream starts.
    async fn open(server: &HttpServer, browser: &Browser<'_>, query: &str) -> (Page, String) {
        let origin = format!("http://{}", server.address);
        let headers = [("cookie", browser.cookie.as_str()), ("origin", origin.as_str())];
        let mut page = Page::connect(server, query, &headers).await.unwrap();
        let start = page.next().await;
        assert_eq!(start["type"], "start", "{start}");
        (page, format!("{}-{}", start["server"].as_str().unwrap(), start["seq"]))
    }

    async fn next(&mut self) -> Value {
        match tokio::time::timeout(DEADLINE, self.0.next()).await.expect("no message") {
            Some(Ok(Message::Text(text))) => serde_json::from_str(text.as_str()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn end(&mut self) -> Option<CloseCode> {
        loop {
            match tokio::time::timeout(DEADLINE, self.0.next()).await.expect("no end") {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

#[tokio::test]
async fn page_receives_events_and_resumes_after_a_break() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::View).await;
    let (mut page, start) = Page::open(&server, &browser, "?types=NODE_CREATED").await;
    server.bash("one").await;
    let event = page.next().await;
    assert_eq!((&event["event_type"], &event["node_id"]), (&json!("NODE_CREATED"), &json!("one")));
    drop(page);
    server.bash("two").await;
    let (id, _) = start.rsplit_once('-').unwrap();
    let since = format!("{id}-{}", event["seq"]);
    let (mut page, resumed) =
        Page::open(&server, &browser, &format!("?types=NODE_CREATED&since={since}")).await;
    assert_eq!(resumed, since);
    assert_eq!(page.next().await["node_id"], "two");
    // An event of an earlier start of the server: all events that there are follow.
    let (mut page, restarted) = Page::open(&server, &browser, "?types=NODE_CREATED&since=other-7").await;
    assert_eq!(restarted, format!("{id}-0"));
    assert_eq!(page.next().await["node_id"], "one");
    server.stop().await;
    assert_eq!(page.end().await, Some(CloseCode::Away));
}

#[tokio::test]
async fn socket_needs_session_and_own_origin() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::Full).await;
    let origin = format!("http://{}", server.address);
    let cookie = ("cookie", browser.cookie.as_str());
    for foreign in [&[cookie][..], &[cookie, ("origin", "http://localhost:1")], &[("origin", &origin)]] {
        match Page::connect(&server, "", foreign).await.map(|_| ()) {
            Err(Error::Http(response)) => assert!([401, 403].contains(&response.status().as_u16())),
            other => panic!("{foreign:?}: {other:?}"),
        }
    }
    let bearer = format!("Bearer {}", server.token);
    match Page::connect(&server, "?since=-", &[("authorization", &bearer)]).await.map(|_| ()) {
        Err(Error::Http(response)) => assert_eq!(response.status(), 400),
        other => panic!("{other:?}"),
    }
    assert!(Page::connect(&server, "", &[("authorization", &bearer)]).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn end_of_the_session_closes_the_socket() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::View).await;
    let (mut page, _) = Page::open(&server, &browser, "").await;
    let session = logins(&server).sessions().remove(0);
    logins(&server).revoke(&session.web_session_id).unwrap();
    assert_eq!(page.end().await, Some(CloseCode::Policy));
    server.stop().await;
}

#[tokio::test]
async fn share_receives_events_of_its_node_only() {
    let server = HttpServer::start();
    server.bash("me").await;
    let visitor = Browser::visitor(&server, "me").await;
    let (mut page, _) = Page::open(&server, &visitor, "?session=default&node=me&since=0").await;
    let event = page.next().await;
    assert_eq!(event["node_id"], "me", "{event}");
    let origin = format!("http://{}", server.address);
    for query in ["", "?session=default", "?session=default&node=other"] {
        let headers = [("cookie", visitor.cookie.as_str()), ("origin", origin.as_str())];
        match Page::connect(&server, query, &headers).await.map(|_| ()) {
            Err(Error::Http(response)) => assert_eq!(response.status(), 403, "{query}"),
            other => panic!("{query}: {other:?}"),
        }
    }
    server.stop().await;
}
